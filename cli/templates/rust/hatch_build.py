"""Builds the library and copies it into the package. One wheel supports every Python."""

import importlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The start and the end of file names of shared libraries on this system.
PREFIX = "" if sys.platform == "win32" else "lib"
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

# GLIBC=2.17 builds with cargo-zigbuild, for Linux systems that have at least glibc 2.17.
GLIBC = os.environ.get("GLIBC")


def tag():
    """Returns the wheel's platform tag. Python for macOS may support two architectures; the library supports one."""
    name = os.environ.get("CARGO_BUILD_TARGET", "").partition("-")[0] or platform.machine()
    machine = {"aarch64": "arm64"}.get(name, name)
    system = sysconfig.get_platform()
    if system.startswith("macosx-") and system.endswith("-universal2"):
        version = tuple(map(int, system.split("-")[1].split(".")))
        # macOS 11 is the first version for arm64.
        major, minor = max(version, (11, 0)) if machine == "arm64" else version
        system = f"macosx-{major}.{minor}-{machine}"
    return system.replace("-", "_").replace(".", "_")


def nvcc():
    """Returns the path of nvcc from NVIDIA's wheels, which pyproject.toml of a project for GPUs requires for the build."""
    try:
        path = pathlib.Path(importlib.import_module("nvidia.cu13").__path__[0], "bin", "nvcc")
    except ImportError:
        return None
    return str(path) if path.exists() else None


def built(command, name):
    """Builds the library, and returns its path, which cargo prints because its target folder can be configured."""
    done = subprocess.run([*command, "--message-format=json-render-diagnostics"], check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    files = [pathlib.Path(file) for message in messages for file in message.get("filenames") or ()]
    found = [file for file in files if file.name == name]
    if not found:
        raise FileNotFoundError(f"cargo built no {name}: is 'cdylib' among the crate types of Cargo.toml?")
    return found[-1]


class CustomBuildHook(BuildHookInterface):
    def dependencies(self):
        return ["cargo-zigbuild", "ziglang"] if GLIBC else []

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        command = ["cargo", "build", "--release", "--manifest-path", str(root / "Cargo.toml")]
        if GLIBC:
            triple = f"{os.uname().machine}-unknown-linux-gnu"
            command[1:2] = ["zigbuild", "--target", f"{triple}.{GLIBC}"]
        if nvcc():
            os.environ.setdefault("NVCC", nvcc())
        # The package is the only folder in python/. The library has the same name.
        package = next(root.glob("python/*/__init__.py")).parent
        name = f"{PREFIX}{package.name}{SUFFIX}"
        place = package / name
        # Replaces the file instead of overwriting it, because processes may have loaded the previous library.
        beside = place.with_name(f".{name}.{os.getpid()}")
        try:
            shutil.copyfile(built(command, name), beside)
            os.replace(beside, place)
        finally:
            beside.unlink(missing_ok=True)
        build_data["artifacts"].append(f"python/{package.name}/{name}")
        # The library does not use Python's C API, so the wheel supports every Python 3 on this platform.
        build_data["tag"] = f"py3-none-{tag()}"
        build_data["pure_python"] = False
