"""A build backend for this one package: a wheel is a zip file with three generated texts."""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def _field(name):
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf'^{name} = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pyproject.toml has no plain text {name}")
    return found.group(1)


def _metadata():
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {_field('name')}\nVersion: {_field('version')}\nSummary: {_field('description')}\n"
        f"Requires-Python: {_field('requires-python')}\nRequires-Dist: numpy\n"
        "License: Apache-2.0 OR MIT\nDescription-Content-Type: text/markdown\n\n"
        + (HERE / "README.md").read_text(encoding="utf-8")
    )


def _stem():
    return f"{_field('name').replace('-', '_')}-{_field('version')}"


def _sources():
    return [*sorted((HERE / "xla_ffi").glob("*.py")), HERE / "xla_ffi/py.typed"]


def _headers():
    """The C and C++ headers: beside the package in a source distribution, beside its folder in a checkout."""
    root = next(root for root in (HERE / "include", HERE.parent / "include") if root.is_dir())
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.h"))}


def _wheel(directory, modules):
    stem = _stem()
    members = dict(modules)
    members[f"{stem}.dist-info/METADATA"] = _metadata().encode()
    members[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: xla-ffi\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = ""
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{stem}.dist-info/RECORD,,\n"
    members[f"{stem}.dist-info/RECORD"] = record.encode()
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            # A fixed date makes equal sources equal wheels.
            archive.writestr(zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0)), data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    modules = {f"xla_ffi/{path.name}": path.read_bytes() for path in _sources()}
    headers = {f"xla_ffi/include/{name}": path.read_bytes() for name, path in _headers().items()}
    return _wheel(wheel_directory, {**modules, **headers})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"xla_ffi_checkout.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    name = f"{_stem()}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz") as archive:
        def add(member, data):
            info = tarfile.TarInfo(f"{_stem()}/{member}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

        add("PKG-INFO", _metadata().encode())
        for path in [HERE / "pyproject.toml", HERE / "README.md", HERE / "build_backend.py", *_sources()]:
            add(path.relative_to(HERE).as_posix(), path.read_bytes())
        for header, path in _headers().items():
            add(f"include/{header}", path.read_bytes())
    return name
