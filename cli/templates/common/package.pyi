# `xla-ffi stubs` writes what the library says of itself; keep this file in step with it.
import jax
import xla_ffi
from xla_ffi import typing as t

__all__ = ["lib", "scale"]
__version__: str

lib: xla_ffi.Library

def scale(x: t.Operand, /, *, factor: t.Float) -> jax.Array:
    """y = factor x, element by element."""
