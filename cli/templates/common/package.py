"""XLA custom calls for JAX."""

import importlib.resources

import xla_ffi

# The library may lie elsewhere than this file: in an editable installation, for instance.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath("lib@NAME@.so")) as _path:
    lib = xla_ffi.load(_path)

scale = lib.scale

__all__ = ["lib", "scale"]
__version__ = "0.1.0"
