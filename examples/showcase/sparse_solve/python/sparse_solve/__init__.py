"""Sparse linear systems for JAX, solved by the LU and Cholesky factorisations of faer."""

import importlib.resources
import sys

import jax.numpy as jnp
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, as this system calls it.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}sparse_solve{_suffix}"

# The library may lie elsewhere than this file: in an editable installation, for instance.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def solve(data, indices, indptr, b, *, method="lu"):
    """Solves A x = b for a sparse square A.

    Args:
        data: The entries of A, row by row: an array of shape (nnz,) of float32, float64, complex64 or complex128.
        indices: Their columns, int32 of shape (nnz,), ascending in each row.
        indptr: Where each row begins among them, int32 of shape (n + 1,).
        b: One right-hand side, of shape (n,), or several, of shape (n, k).
        method: "lu" for any square matrix; "cholesky" for Hermitian positive definite ones, of which the lower
            triangle alone is read: that is faster where the factor is large.

    Returns:
        x of b's shape and of the common type of ``data`` and ``b``. Where A is singular (for "cholesky": not positive
        definite) x is NaN, as in ``jax.numpy.linalg``.

    Raises:
        jax.errors.JaxRuntimeError: INVALID_ARGUMENT when the call runs and ``indices`` and ``indptr`` are none of a
            matrix, or repeat an entry (``BCSR.sum_duplicates`` adds them up).

    The symbolic factorisation of a pattern and the numeric one of its values are kept while a compiled program that
    used them last lives, and every other call with the same matrix takes them from there: another solve, and the
    derivatives, in reverse by a solve with the transpose. ``jax.grad``, ``jax.jvp``, ``jax.vmap`` over ``data`` and
    ``b`` and sharded batches work as for other functions of JAX; second derivatives do not.
    """
    data, b = jnp.asarray(data), jnp.asarray(b)
    kind = jnp.promote_types(jnp.result_type(data, b), jnp.float32)
    data, sides = data.astype(kind), b.astype(kind)
    sides = sides[None] if b.ndim == 1 else sides.T
    x = lib.solve(data, indices, indptr, sides, method=method)
    return x[0] if b.ndim == 1 else x.T


def factorisations():
    """How many matrices this process has factorised so far."""
    return int(lib.factorisations())


__all__ = ["factorisations", "lib", "solve"]
__version__ = "0.1.0"
