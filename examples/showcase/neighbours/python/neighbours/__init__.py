"""Nearest neighbours for JAX, with k-d trees by kiddo that are built once per set of points."""

import importlib.resources
import sys

import jax.numpy as jnp
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, depending on the system.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}neighbours{_suffix}"

# The library may be in a different folder than this file, for example in an editable installation.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def _floats(points, queries):
    points, queries = jnp.asarray(points), jnp.asarray(queries)
    kind = jnp.promote_types(jnp.result_type(points, queries), jnp.float32)
    return points.astype(kind), queries.astype(kind)


def nearest(points, queries, k):
    """Finds the ``k`` points nearest to each query.

    Args:
        points: Shape (n, d), float32 or float64, in 1 to 4 dimensions.
        queries: Shape (q, d).
        k: The number of neighbours, a Python integer.

    Returns:
        (indices, distances), both of shape (q, k), nearest first: int32 and the common type of the operands. If there
        are fewer than ``k`` points, the other entries have index -1 and an infinite distance. If a query or any point
        is not finite, the query's indices are -1 and its distances NaN.

    The tree is kept as long as the compiled program that used it last, and reused by every call with the same points.
    Distances have gradients for ``points`` and ``queries`` (``jax.grad``, ``jax.jvp``); the gradient is 0 at distance
    0. ``jax.vmap`` over queries is one call and can be sharded; over points it runs one call per tree, in sequence.
    """
    return lib.nearest(*_floats(points, queries), k=k)


def within(points, queries, radius, capacity, *, overflow="counted"):
    """Finds the points within ``radius`` of each query, at most ``capacity`` of them.

    Args:
        points: Shape (n, d), float32 or float64, in 1 to 4 dimensions.
        queries: Shape (q, d).
        radius: A Python float. A point at exactly this distance is included.
        capacity: The largest number of neighbours per query, a Python integer.
        overflow: How queries with more neighbours are treated. "counted": the nearest ones are returned, and the
            count is larger than ``capacity``. "error": the call fails.

    Returns:
        (indices, distances, counts): as for ``nearest``, with shape (q, capacity); and int32 of shape (q,), the number
        of points within ``radius``, which may exceed ``capacity``.

    Raises:
        jax.errors.JaxRuntimeError: OUT_OF_RANGE with overflow="error".
    """
    return lib.within(*_floats(points, queries), radius=radius, capacity=capacity, overflow=overflow)


__all__ = ["lib", "nearest", "within"]
__version__ = "0.1.0"
