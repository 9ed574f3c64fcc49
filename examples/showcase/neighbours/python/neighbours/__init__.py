"""Nearest neighbours for JAX: k-d trees by kiddo, built once."""

import importlib.resources
import sys

import jax.numpy as jnp
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, as this system calls it.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}neighbours{_suffix}"

# The library may lie elsewhere than this file: in an editable installation, for instance.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def _floats(points, queries):
    points, queries = jnp.asarray(points), jnp.asarray(queries)
    kind = jnp.promote_types(jnp.result_type(points, queries), jnp.float32)
    return points.astype(kind), queries.astype(kind)


def nearest(points, queries, k):
    """The ``k`` points nearest to each query.

    Args:
        points: Shape (n, d), float32 or float64, in 1 to 4 dimensions.
        queries: Shape (q, d).
        k: How many neighbours, a Python integer.

    Returns:
        (indices, distances), both of shape (q, k), the nearest first: int32 and the common type of the operands. Where
        there are fewer than ``k`` points the rest is -1 and infinitely far. A query that is not finite, and every
        query where a point is not finite, has the indices -1 and the distances NaN.

    The tree is kept while a compiled program that used it last lives, and any call with the same points takes it from
    there. Distances have gradients for ``points`` and ``queries`` (``jax.grad``, ``jax.jvp``; 0 where they are 0).
    ``jax.vmap`` over queries is one call and shards; over points it is one call, and one tree, after the other.
    """
    return lib.nearest(*_floats(points, queries), k=k)


def within(points, queries, radius, capacity, *, overflow="counted"):
    """The points within ``radius`` of each query, at most ``capacity`` of them.

    Args:
        points: Shape (n, d), float32 or float64, in 1 to 4 dimensions.
        queries: Shape (q, d).
        radius: A Python float. A point at this very distance is within.
        capacity: How many neighbours there is room for, a Python integer.
        overflow: What a query with more of them does: "counted", the nearest are given and the count tells; or
            "error", the call fails.

    Returns:
        (indices, distances, counts): as for ``nearest`` with shape (q, capacity), and int32 of shape (q,), how many
        points are within, also where that is more than ``capacity``.

    Raises:
        jax.errors.JaxRuntimeError: OUT_OF_RANGE with overflow="error".
    """
    return lib.within(*_floats(points, queries), radius=radius, capacity=capacity, overflow=overflow)


__all__ = ["lib", "nearest", "within"]
__version__ = "0.1.0"
