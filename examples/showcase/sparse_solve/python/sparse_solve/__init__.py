"""Sparse linear systems for JAX, solved with the LU and Cholesky factorisations of faer."""

import importlib.resources
import sys

import jax.numpy as jnp
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, depending on the system.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}sparse_solve{_suffix}"

# The library may be in a different folder than this file, for example in an editable installation.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def solve(data, indices, indptr, b, *, method="lu"):
    """Solves A x = b for a sparse square A.

    Args:
        data: The entries of A, row by row: an array of shape (nnz,) of float32, float64, complex64 or complex128.
        indices: Their columns, int32 of shape (nnz,), ascending in each row.
        indptr: The start of each row in ``data`` and ``indices``, int32 of shape (n + 1,).
        b: One right-hand side, of shape (n,), or several, of shape (n, k).
        method: "lu" for any square matrix; "cholesky" for Hermitian positive definite matrices, which is faster if the
            factor is large. "cholesky" only reads the lower triangle.

    Returns:
        x with b's shape and the common type of ``data`` and ``b``. If A is singular (for "cholesky": not positive
        definite), x is NaN, as in ``jax.numpy.linalg``.

    Raises:
        jax.errors.JaxRuntimeError: INVALID_ARGUMENT, when the call runs, if ``indices`` and ``indptr`` are not valid
            for a matrix, or repeat an entry (``BCSR.sum_duplicates`` combines duplicates).

    The symbolic factorisation of a pattern and the numeric factorisation of its values are kept as long as the compiled
    program that used them last. Every call with the same matrix reuses them, including the derivatives; reverse mode
    solves with the transpose. ``jax.grad``, ``jax.jvp``, ``jax.vmap`` over ``data`` and ``b`` and sharded batches work
    as for other JAX functions; second derivatives do not.
    """
    data, b = jnp.asarray(data), jnp.asarray(b)
    kind = jnp.promote_types(jnp.result_type(data, b), jnp.float32)
    data, sides = data.astype(kind), b.astype(kind)
    sides = sides[None] if b.ndim == 1 else sides.T
    x = lib.solve(data, indices, indptr, sides, method=method)
    return x[0] if b.ndim == 1 else x.T


def factorisations():
    """Returns the number of matrices that this process has factorised so far."""
    return int(lib.factorisations())


__all__ = ["factorisations", "lib", "solve"]
__version__ = "0.1.0"
