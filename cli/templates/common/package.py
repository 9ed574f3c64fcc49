"""XLA custom calls for JAX."""

import importlib.resources
import sys

import xla_ffi

# The library is libNAME.so on Linux, libNAME.dylib on macOS, and NAME.dll on Windows.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}@NAME@{_suffix}"

# In an editable installation, the library is not next to this file.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)

scale = lib.scale

__all__ = ["lib", "scale"]
__version__ = "0.1.0"
