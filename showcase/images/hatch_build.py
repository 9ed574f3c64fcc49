"""Builds the library and puts it into the package: one wheel for every Python."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What cargo calls a library on this system.
PREFIX = "" if sys.platform == "win32" else "lib"
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
NAME = f"{PREFIX}images{SUFFIX}"


# GLIBC=2.17 builds for Linux as old as that, with cargo-zigbuild.
GLIBC = os.environ.get("GLIBC")


class CustomBuildHook(BuildHookInterface):
    def dependencies(self):
        return ["cargo-zigbuild", "ziglang"] if GLIBC else []

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
        command = ["cargo", "build", "--release", "--manifest-path", str(root / "Cargo.toml")]
        if GLIBC:
            triple = f"{os.uname().machine}-unknown-linux-gnu"
            command[1:2] = ["zigbuild", "--target", f"{triple}.{GLIBC}"]
            target /= triple
        subprocess.run(command, check=True)
        shutil.copyfile(target / "release" / NAME, root / "python/images" / NAME)
        build_data["artifacts"].append(f"python/images/{NAME}")
        # It knows nothing of the interpreter: any Python 3 on this platform.
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
