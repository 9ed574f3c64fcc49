"""Builds the package ``xla-ffi``: the loader, the headers, and the files for CMake and pkg-config.

The wheel is pure Python. Building the wheel neither downloads nor compiles anything. ``tools/tools_backend.py`` uses
the same code.
"""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent

#: Files that are generated from ``include/cmake/NAME.in``, each with its folder in the package. ``xtask`` also
#: generates these files, and similar files for the embedded runtime.
PACKAGE_FILES = {
    "xla_ffi-config.cmake": "lib/cmake/xla_ffi",
    "xla_ffi-config-version.cmake": "lib/cmake/xla_ffi",
    "xla_ffi.pc": "lib/pkgconfig",
}


def beside(name):
    """Returns the path of a file. In a source distribution, the file is next to this file, and in a checkout in the
    parent folder."""
    return next(path for path in (HERE / name, HERE.parent / name) if path.exists())


class Project:
    """A folder with a ``pyproject.toml`` and a ``README.md``, from which wheels and source distributions are built."""

    def __init__(self, folder):
        self.folder = folder
        self._text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        self.version = self._value("version")
        self.stem = f"{self._value('name').replace('-', '_')}-{self.version}"

    def _value(self, name):
        return re.search(rf'^{name} = "([^"]+)"$', self._text, re.MULTILINE).group(1)

    def _list(self, name):
        found = re.search(rf"^{name} = \[(.+)\]$", self._text, re.MULTILINE)
        return re.findall(r'"([^"]+)"', found.group(1)) if found else []

    def _metadata(self):
        required = "".join(f"Requires-Dist: {each}\n" for each in self._list("dependencies"))
        for each in self._list("tools"):
            required += f"Provides-Extra: tools\nRequires-Dist: {each} ; extra == 'tools'\n"
        urls = re.findall(r'^(\w+) = "(https:[^"]+)"$', self._text, re.MULTILINE)
        urls = "".join(f"Project-URL: {label}, {url}\n" for label, url in urls)
        return (
            "Metadata-Version: 2.4\n"
            f"Name: {self._value('name')}\nVersion: {self.version}\nSummary: {self._value('description')}\n"
            f"Requires-Python: {self._value('requires-python')}\n{required}{urls}"
            "License-Expression: Apache-2.0 OR MIT\n"
            "License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nDescription-Content-Type: text/markdown\n\n"
            + (self.folder / "README.md").read_text(encoding="utf-8")
        ).encode()

    def wheel(self, directory, members, platform="any", entry_points=b""):
        """Writes a wheel and returns its name. ``members`` maps each path to its bytes and mode."""
        info = f"{self.stem}.dist-info"
        members = {**members, f"{info}/METADATA": (self._metadata(), 0o644)}
        for name in ("LICENSE-APACHE", "LICENSE-MIT"):
            members[f"{info}/licenses/{name}"] = beside(name).read_bytes(), 0o644
        pure = str(platform == "any").lower()
        tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
        wheel = f"Wheel-Version: 1.0\nGenerator: xla-ffi\nRoot-Is-Purelib: {pure}\n{tags}"
        members[f"{info}/WHEEL"] = wheel.encode(), 0o644
        if entry_points:
            members[f"{info}/entry_points.txt"] = entry_points, 0o644
        record = ""
        for name, (data, _mode) in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode(), 0o644
        name = f"{self.stem}-py3-none-{platform}.whl"
        with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, (data, mode) in members.items():
                # A fixed date makes builds reproducible.
                entry = zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0))
                entry.external_attr = (0o100000 | mode) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        return name

    def sdist(self, directory, files):
        """Writes a source distribution and returns its name. ``files`` maps each member to the path of its contents."""
        name = f"{self.stem}.tar.gz"
        with tarfile.open(pathlib.Path(directory) / name, "w:gz") as archive:
            contents = {member: path.read_bytes() for member, path in files.items()}
            for member, data in {"PKG-INFO": self._metadata(), **contents}.items():
                info = tarfile.TarInfo(f"{self.stem}/{member}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return name


PROJECT = Project(HERE)


def _sources():
    return [*sorted((HERE / "xla_ffi").glob("*.py")), HERE / "xla_ffi/py.typed"]


def _headers():
    root = beside("include")
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.h"))}


def members():
    """Returns the files of the wheel, except for the metadata."""
    found = {f"xla_ffi/{path.name}": path.read_bytes() for path in _sources()}
    found |= {f"xla_ffi/include/{name}": path.read_bytes() for name, path in _headers().items()}
    for name, folder in PACKAGE_FILES.items():
        text = beside(f"include/cmake/{name}.in").read_text(encoding="utf-8")
        found[f"xla_ffi/{folder}/{name}"] = text.replace("@VERSION@", PROJECT.version).encode()
    return {name: (data, 0o644) for name, data in found.items()}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    # scikit-build-core adds the folder of this entry point to CMAKE_PREFIX_PATH.
    return PROJECT.wheel(wheel_directory, members(), entry_points=b"[cmake.prefix]\nxla_ffi = xla_ffi\n")


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return PROJECT.wheel(wheel_directory, {"xla_ffi_checkout.pth": (f"{HERE}\n".encode(), 0o644)})


def build_sdist(sdist_directory, config_settings=None):
    names = ("pyproject.toml", "README.md", "CMakeLists.txt", "build_backend.py")
    paths = [*(HERE / name for name in names), *_sources()]
    files = {path.relative_to(HERE).as_posix(): path for path in paths}
    files |= {f"include/{name}": path for name, path in _headers().items()}
    for name in [*(f"include/cmake/{name}.in" for name in PACKAGE_FILES), "LICENSE-APACHE", "LICENSE-MIT"]:
        files[name] = beside(name)
    return PROJECT.sdist(sdist_directory, files)
