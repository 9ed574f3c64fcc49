"""Builds the package ``xla-ffi-tools``: the command-line tool ``xla-ffi``, the embedded runtime, and the recorder.

The package installs its files into the folder of the package ``xla_ffi``. By default, cargo builds them. With
``--config-settings prefix=DIR``, they are copied from a folder that ``cargo xtask install --prefix DIR --tools``
created. ``--config-settings platform=TAG`` sets the platform tag of the wheel.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
#: The root of the checkout or of the source distribution, which have the same files.
ROOT = next(folder for folder in (HERE, *HERE.parents) if (folder / "Cargo.toml").exists())
sys.path.insert(0, str(ROOT / "python"))

import build_backend  # noqa: E402

PROJECT = build_backend.Project(HERE)


def _members(prefix):
    """Returns the files of the wheel, except for the metadata."""
    members = {}
    files = sorted(path for path in (prefix / "lib").rglob("*") if not path.is_dir())
    links = {path: path.resolve() for path in files if path.is_symlink()}
    for path in files:
        if path not in links and path in links.values():
            continue  # Loaders search for the name of the link, so only the link is packaged.
        # Wheels cannot contain links. For linkers, a linker script replaces a link.
        is_for_linkers = path in links and path.suffix == ".so"
        data = f"INPUT({os.readlink(path)})\n".encode() if is_for_linkers else path.read_bytes()
        members[f"xla_ffi/{path.relative_to(prefix).as_posix()}"] = data, 0o644
    for name in build_backend.members():
        members.pop(name, None)
    for path in sorted((prefix / "bin").iterdir()):
        members[f"{PROJECT.stem}.data/scripts/{path.name}"] = path.read_bytes(), 0o755
    return members


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    platform = settings.get("platform", sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    if "prefix" in settings:
        return PROJECT.wheel(wheel_directory, _members(pathlib.Path(settings["prefix"]).resolve()), platform)
    with tempfile.TemporaryDirectory() as prefix:
        install = ["cargo", "run", "--package", "xtask", "--", "install", "--tools", "--prefix", prefix]
        subprocess.run(install, cwd=ROOT, check=True)
        return PROJECT.wheel(wheel_directory, _members(pathlib.Path(prefix).resolve()), platform)


def build_sdist(sdist_directory, config_settings=None):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    files = {name: ROOT / name for name in listed.stdout.split("\0") if name}
    files |= {path.name: path for path in HERE.iterdir() if path.is_file()}
    return PROJECT.sdist(sdist_directory, files)
