from typing import Literal

import jax
import jax.typing
import xla_ffi

__all__ = ["lib", "nearest", "within"]
__version__: str

lib: xla_ffi.Library

def nearest(points: jax.typing.ArrayLike, queries: jax.typing.ArrayLike, k: int) -> tuple[jax.Array, jax.Array]:
    """Finds the `k` points nearest to each query: (indices, distances)."""

def within(
    points: jax.typing.ArrayLike,
    queries: jax.typing.ArrayLike,
    radius: float,
    capacity: int,
    *,
    overflow: Literal["counted", "error"] = "counted",
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Finds the points within `radius` of each query, at most `capacity`: (indices, distances, counts)."""
