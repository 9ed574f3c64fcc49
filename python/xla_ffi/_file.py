"""A library's file: its bytes, whether it is still the same, and private copies of one that changed."""

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import stat
import tempfile

from . import _image
from ._errors import FileMissingError, LibraryError, ManifestError

# Opening a pipe would wait for a writer. Windows has neither word, and changes line ends unless told not to.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

#: How much of a library's name, in bytes, is in that of its copy.
_LONGEST = 64

#: What an x86-64 library can address, twice: more is no library but a mistake.
_LARGEST = 4 << 30


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a file held at one moment."""

    path: str
    data: bytes = dataclasses.field(repr=False)
    stamp: tuple

    @property
    def digest(self):
        """Names the contents."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()


def real(path):
    """A path without links. What this process has open (``/proc/self/fd/N``) may have no other: of a file in memory, or of
    one that is deleted, the link is a text that names no file, or another."""
    found, given = os.path.realpath(path), stamp(path)
    return found if given is None or given == stamp(found) else os.path.abspath(path)


def stamp(path):
    """What changes with a file, as far as one can tell without reading it; None where there is none."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def read(path, wanted="a shared library"):
    """The contents of a regular file, which is to be what is ``wanted``; a pipe or a device would never end."""
    try:
        with open(os.open(path, _READ), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise ManifestError(f"{path} is {_kind(before.st_mode)}, expected {wanted}")
            if before.st_size > _LARGEST:
                raise ManifestError(f"{path} has {before.st_size} bytes, more than any library")
            data = file.read(_LARGEST)
            if _stamp(os.fstat(file.fileno())) != _stamp(before):
                raise LibraryError(f"{path} is being written: load it when that is done")
    except FileNotFoundError as error:
        raise FileMissingError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error
    return Contents(path, data, _stamp(before))


def load(contents, private):
    """The library of these contents, loaded. A ``private`` one is loaded beside what this process has of the path."""
    path = contents.path
    if private:
        return _load_copy(contents)
    image = _dlopen(path, path)
    if stamp(path) != contents.stamp:
        raise LibraryError(f"{path} was changed while it was being loaded: load it again")
    return image if _is_of(image, contents) else _load_copy(contents)


def _load_copy(contents):
    """Loads a copy of its own: the loader of the system knows a file by its path and its inode, and would hand out the old one.

    The copy lies beside the original, so that dependencies by ``$ORIGIN`` are found, and is gone once it is loaded.
    """
    path = contents.path
    folder, name = os.path.split(path)
    image = _image.read(contents.data, path)
    data = image.without_unique_symbols()
    suffix = os.path.splitext(name)[1] or ".so"
    # A name may be as long as names may be: with what is added to it, it would be none.
    name, suffix = os.fsdecode(os.fsencode(name)[:_LONGEST]), suffix if len(os.fsencode(suffix)) < _LONGEST else ".so"
    try:
        handle, copy = tempfile.mkstemp(prefix=f".{name}.", suffix=suffix, dir=folder)
    except OSError as error:
        needs = image.origin_paths()
        if needs:
            raise LibraryError(
                f"{path} has changed since this process loaded it, and a copy of the new one cannot be written to {folder} "
                f"({error.strerror}), where its dependencies are looked for ({', '.join(needs)}): make the folder writable, "
                "or start a new process"
            ) from error
        try:
            handle, copy = tempfile.mkstemp(prefix=f"{name}.", suffix=suffix)
        except OSError as second:
            raise LibraryError(f"{path} has changed since this process loaded it, and its copy cannot be written: {second}") from second
    try:
        with open(handle, "wb") as file:
            file.write(data)
        return _dlopen(copy, path)
    except OSError as error:
        raise LibraryError(f"{path} has changed since this process loaded it, and its copy cannot be written: {error}") from error
    finally:
        # Windows deletes no file that a process has loaded: there the copy stays.
        with contextlib.suppress(PermissionError):
            os.unlink(copy)


def _dlopen(file, path):
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        raise LibraryError(f"{path} cannot be loaded: {str(error).replace(file, path)}") from error


def address(image, path, symbol):
    """Where a function of a loaded library lies."""
    try:
        return ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
    except (AttributeError, ValueError) as error:
        raise LibraryError(f"{path} does not export {symbol!r}, which its manifest or its caller names") from error


class _LinkMap(ctypes.Structure):
    """What the system's loader tells of an image (``link.h``): as much as is asked for."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_void_p))


def _is_of(image, contents):
    """Whether a loaded library is the file that was read. The loader knows an image by the name under which it was first
    opened, by whomever: that file may be gone or lie elsewhere since, and another in its place. One without a name never
    is: a copy of it is loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            # First and last address, rights, offset, device, inode, and the file as it is called now, if it is one.
            lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
        place = _LinkMap.from_address(_link_map(image)).dynamic
    except (OSError, AttributeError):
        return True
    for addresses, *_, name in (line for line in lines if len(line) == 6):
        start, end = (int(each, 16) for each in addresses.split("-"))
        if start <= place < end:
            found = stamp(name.replace("\\012", "\n"))
            return found is not None and found[:2] == contents.stamp[:2]
    return True


def _link_map(image):
    found = ctypes.c_void_p()
    if ctypes.CDLL(None).dlinfo(ctypes.c_void_p(image._handle), 2, ctypes.byref(found)) != 0:  # RTLD_DI_LINKMAP
        raise OSError("the loader does not tell")
    return found.value


def _stamp(status):
    # The inode's own time too: tools that copy a file's time with it leave the others as they were.
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _kind(mode):
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe (FIFO)"), (stat.S_ISSOCK, "a socket"))
    return next((kind for test, kind in kinds if test(mode)), "a device")
