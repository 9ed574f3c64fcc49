"""A library's file in the form of whichever system it is for."""

import platform
import sys

from ._elf import Elf
from ._errors import LibraryError, ManifestError
from ._mach_o import MachO
from ._pe import Pe

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def file_name(name):
    """What this system calls the file of a library: ``libNAME.so``, ``libNAME.dylib``, ``NAME.dll``."""
    prefix = "" if sys.platform == "win32" else "lib"
    return prefix + name + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def read(data, path):
    """What ``data`` is by its first bytes."""
    if data[:4] == b"\x7fELF":
        return Elf(data, path)
    if bytes(data[:4]) in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"):
        return MachO(data, path)
    if data[:2] == b"MZ":
        return Pe(data, path)
    raise ManifestError(f"{path}: it is no ELF, Mach-O or PE library")


def refuse_foreign(data, path):
    """Raises where a library is for another system or processor than this one, before anything else is said of it."""
    image = read(data, path)
    system = _SYSTEMS.get(sys.platform, sys.platform)
    processor = _PROCESSORS.get(platform.machine().lower(), platform.machine())
    if image.system != system or processor not in image.processors:
        built = " and ".join(image.processors)
        raise LibraryError(f"{path} is built for {image.system} on {built}; this is {system} on {processor}: nothing of it runs here")
