"""A build backend for this one package: a wheel is a zip file with four generated texts.

From a checkout a wheel has the loader and the headers and runs everywhere (``py3-none-any``). With
``--config-settings prefix=DIR``, a folder as ``cargo xtask dist`` makes it, the wheel has what was built too: the
program ``xla-ffi``, the runtime, and what CMake and pkg-config read; ``platform=TAG`` names where it runs.
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def _field(name):
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf'^{name} = "([^"]+)"$', text, re.MULTILINE)
    return found.group(1)


def _metadata():
    return (
        "Metadata-Version: 2.4\n"
        f"Name: {_field('name')}\nVersion: {_field('version')}\nSummary: {_field('description')}\n"
        f"Requires-Python: {_field('requires-python')}\nRequires-Dist: numpy\n"
        "License-Expression: Apache-2.0 OR MIT\n"
        "License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nDescription-Content-Type: text/markdown\n\n"
        + (HERE / "README.md").read_text(encoding="utf-8")
    )


def _stem():
    return f"{_field('name').replace('-', '_')}-{_field('version')}"


def _sources():
    return [*sorted((HERE / "xla_ffi").glob("*.py")), HERE / "xla_ffi/py.typed"]


def _beside(name):
    """A file or folder that lies beside the package in a source distribution, beside its folder in a checkout."""
    return next(path for path in (HERE / name, HERE.parent / name) if path.exists())


def _headers():
    root = _beside("include")
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.h"))}


def _licences():
    return {name: _beside(name).read_bytes() for name in ("LICENSE-APACHE", "LICENSE-MIT")}


def _built(prefix):
    """The members of a wheel that lie below a folder with ``bin`` and ``lib``, each with its mode."""
    prefix, members = pathlib.Path(prefix), {}
    files = sorted(path for path in (prefix / "lib").rglob("*") if not path.is_dir())
    links = {path: path.resolve() for path in files if path.is_symlink()}
    for path in files:
        member = f"xla_ffi/{path.relative_to(prefix).as_posix()}"
        if path not in links and path in links.values():
            continue  # it stands under its name for loaders
        if path in links and path.suffix == ".so":
            # Wheels have no links: this text means the same to linkers.
            members[member] = (f"INPUT({os.readlink(path)})\n".encode(), 0o644)
        else:
            members[member] = (path.read_bytes(), 0o644)
    for path in sorted((prefix / "bin").iterdir()):
        members[f"{_stem()}.data/scripts/{path.name}"] = (path.read_bytes(), 0o755)
    return members


def _wheel(directory, modules, platform="any"):
    stem = _stem()
    members = dict(modules)
    members[f"{stem}.dist-info/METADATA"] = _metadata().encode(), 0o644
    pure = str(platform == "any").lower()
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    members[f"{stem}.dist-info/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: xla-ffi\nRoot-Is-Purelib: {pure}\n{tags}".encode(), 0o644
    )
    # Where scikit-build-core looks for what find_package finds.
    members[f"{stem}.dist-info/entry_points.txt"] = b"[cmake.prefix]\nxla_ffi = xla_ffi\n", 0o644
    record = ""
    for name, (data, _mode) in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{stem}.dist-info/RECORD,,\n"
    members[f"{stem}.dist-info/RECORD"] = record.encode(), 0o644
    name = f"{stem}-py3-none-{platform}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, (data, mode) in members.items():
            # A fixed date makes equal sources equal wheels.
            entry = zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    modules = {f"xla_ffi/{path.name}": (path.read_bytes(), 0o644) for path in _sources()}
    headers = {f"xla_ffi/include/{name}": (path.read_bytes(), 0o644) for name, path in _headers().items()}
    licences = {f"{_stem()}.dist-info/licenses/{name}": (data, 0o644) for name, data in _licences().items()}
    members = {**modules, **headers, **licences}
    if "prefix" not in settings:
        return _wheel(wheel_directory, members)
    if "platform" not in settings:
        raise ValueError("prefix= needs platform=, for which its files were built: --config-settings platform=manylinux_2_17_x86_64")
    return _wheel(wheel_directory, {**members, **_built(settings["prefix"])}, settings["platform"])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"xla_ffi_checkout.pth": (f"{HERE}\n".encode(), 0o644)})


def build_sdist(sdist_directory, config_settings=None):
    archive_name = f"{_stem()}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / archive_name, "w:gz") as archive:
        def add(member, data):
            info = tarfile.TarInfo(f"{_stem()}/{member}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

        add("PKG-INFO", _metadata().encode())
        for path in [HERE / "pyproject.toml", HERE / "README.md", HERE / "build_backend.py", *_sources()]:
            add(path.relative_to(HERE).as_posix(), path.read_bytes())
        for header, path in _headers().items():
            add(f"include/{header}", path.read_bytes())
        for name, data in _licences().items():
            add(name, data)
    return archive_name
