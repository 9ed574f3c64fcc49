"""XLA custom calls for JAX."""

import importlib.resources
import sys

import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, as this system calls it.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}@NAME@{_suffix}"

# The library may lie elsewhere than this file: in an editable installation, for instance.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)

scale = lib.scale

__all__ = ["lib", "scale"]
__version__ = "0.1.0"
