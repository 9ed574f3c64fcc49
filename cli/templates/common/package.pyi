# `xla-ffi stubs` prints the signatures of the handlers: update this file when they change.
import jax
import xla_ffi
from xla_ffi import typing as t

__all__ = ["lib", "scale"]
__version__: str

lib: xla_ffi.Library

def scale(x: t.Operand, /, *, factor: t.Float) -> jax.Array:
    """y = factor x, element by element."""
