from typing import Literal

import jax
import jax.typing
import xla_ffi

__all__ = ["factorisations", "lib", "solve"]
__version__: str

lib: xla_ffi.Library

def solve(
    data: jax.typing.ArrayLike,
    indices: jax.typing.ArrayLike,
    indptr: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    method: Literal["lu", "cholesky"] = "lu",
) -> jax.Array:
    """Solves A x = b for a sparse square A."""

def factorisations() -> int:
    """Returns the number of matrices that this process has factorised so far."""
