"""Tests the package in JAX."""

import os

# Must be set before JAX creates its devices.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import xla_ffi
from jax import export
from jax.test_util import check_grads

import sparse_solve

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

jax.config.update("jax_enable_x64", True)
# jaxlib 0.4.33 reports every code as INTERNAL.
REFUSED = "(INVALID_ARGUMENT|INTERNAL)"
KINDS = ("float32", "float64", "complex64", "complex128")


def matrix(n, seed=0, kind="float64", positive=False):
    """Returns a well-conditioned matrix with about five entries per row."""
    rng = np.random.default_rng(seed)
    a = scipy.sparse.random(n, n, 4 / n, random_state=rng, dtype=np.float64)
    if "complex" in kind:
        a = a + 1j * scipy.sparse.random(n, n, 4 / n, random_state=rng, dtype=np.float64)
    a = a + a.conj().T if positive else a
    return scipy.sparse.csr_array(a + 8 * scipy.sparse.eye_array(n)).astype(kind)


def csr(a):
    a.sort_indices()
    return jnp.asarray(a.data), jnp.asarray(a.indices, jnp.int32), jnp.asarray(a.indptr, jnp.int32)


def residual(a, x, b):
    return np.linalg.norm(a @ np.asarray(x) - b) / np.linalg.norm(b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["lu", "cholesky"])
def test_solves(kind, method):
    a = matrix(300, kind=kind, positive=method == "cholesky")
    b = np.random.default_rng(1).normal(size=(300, 7)).astype(kind)
    solve = jax.jit(lambda b: sparse_solve.solve(*csr(a), b, method=method))
    x = solve(b)
    assert x.dtype == kind and residual(a, x, b) < (1e-10 if kind in ("float64", "complex128") else 1e-4)
    np.testing.assert_allclose(solve(b[:, 0]), x[:, 0], rtol=1e-4)


def test_factors_once():
    a = matrix(200)
    data, indices, indptr = csr(a)
    solve = jax.jit(lambda data, b: sparse_solve.solve(data, indices, indptr, b))
    loss = jax.jit(jax.grad(lambda data, b: (sparse_solve.solve(data, indices, indptr, b) ** 2).sum(), (0, 1)))
    before = sparse_solve.factorisations()
    solve(data, np.ones(200))
    solve(data, np.arange(200.0))
    loss(data, np.ones(200))
    loss(data, np.arange(200.0))
    jax.vmap(lambda b: solve(data, b))(np.eye(200)[:50])
    assert sparse_solve.factorisations() == before + 1
    x = solve(2 * data, np.ones(200))
    assert sparse_solve.factorisations() == before + 2
    assert residual(2 * a, x, np.ones(200)) < 1e-10


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_gradient(kind):
    data, indices, indptr = csr(matrix(12, kind=kind))
    b = np.random.default_rng(2).normal(size=(12, 2)).astype(kind)
    check_grads(lambda data, b: sparse_solve.solve(data, indices, indptr, b), (data, b), order=1)
    one = jax.grad(lambda data: abs(sparse_solve.solve(data, indices, indptr, b)).sum())
    dense = lambda data: abs(jnp.linalg.solve(jnp.zeros((12, 12), kind).at[rows, indices].set(data), b)).sum()
    rows = np.repeat(np.arange(12), np.diff(indptr))
    np.testing.assert_allclose(one(data), jax.grad(dense)(data), rtol=1e-8, atol=1e-12)


def test_gradient_of_cholesky():
    data, indices, indptr = csr(matrix(12, positive=True))
    lower = np.repeat(np.arange(12), np.diff(indptr)) >= indices
    mirror = {(r, c): i for i, (r, c) in enumerate(zip(np.repeat(np.arange(12), np.diff(indptr)), np.asarray(indices)))}
    mirrored = np.array([i if low else mirror[c, r] for ((r, c), i), low in zip(mirror.items(), lower)])
    solve = lambda data, b: sparse_solve.solve(data[mirrored], indices, indptr, b, method="cholesky")
    check_grads(solve, (data, np.arange(12.0)), order=1)


def test_vmap():
    data, indices, indptr = csr(matrix(40))
    values = data * jnp.arange(1, 6.0)[:, None]
    sides = np.random.default_rng(3).normal(size=(5, 40))
    solve = lambda data, b: sparse_solve.solve(data, indices, indptr, b)
    for axes, given in (((0, 0), (values, sides)), ((None, 0), (data, sides)), ((0, None), (values, sides[0]))):
        together = jax.jit(jax.vmap(solve, axes))(*given)
        row = lambda i: [x[i] if axis == 0 else x for x, axis in zip(given, axes)]
        np.testing.assert_allclose(together, [solve(*row(i)) for i in range(5)], rtol=1e-10)
    slope = lambda data, b: jax.jvp(solve, (data, b), (data, b))[1]
    np.testing.assert_allclose(jax.vmap(slope)(values, sides), 0 * sides, atol=1e-12)
    both = jax.vmap(jax.grad(lambda data, b: solve(data, b).sum()), (0, 0))(values, sides)
    np.testing.assert_allclose(both[3], jax.grad(lambda data: solve(data, sides[3]).sum())(values[3]), rtol=1e-10)


def test_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    data, indices, indptr = csr(matrix(40))
    values, sides = data * jnp.arange(1, 5.0)[:, None], np.ones((4, 40))
    solve = jax.vmap(lambda data, b: sparse_solve.solve(data, indices, indptr, b))
    apart = jax.jit(shard_map(solve, mesh=mesh, in_specs=(spec, spec), out_specs=spec))
    np.testing.assert_allclose(apart(values, sides), solve(values, sides), rtol=1e-12)


def test_export():
    data, indices, indptr = csr(matrix(40))
    solve = jax.jit(lambda data, b: sparse_solve.solve(data, indices, indptr, b))
    allowed = [export.DisabledSafetyCheck.custom_call(sparse_solve.lib.solve.target)]
    text = export.export(solve, disabled_checks=allowed)(data, jnp.ones(40)).serialize()
    np.testing.assert_array_equal(export.deserialize(text).call(data, jnp.ones(40)), solve(data, jnp.ones(40)))


def test_singular_is_nan():
    data, indices, indptr = jnp.array([1.0, 0.0]), np.array([0, 1], np.int32), np.array([0, 1, 2], np.int32)
    assert np.isnan(sparse_solve.solve(data, indices, indptr, np.ones(2))).all()
    assert np.isnan(sparse_solve.solve(data, indices, indptr, np.ones(2), method="cholesky")).all()
    # The second row has no entries, so no matrix with this pattern can be solved.
    assert np.isnan(sparse_solve.solve(data[:1], indices[:1], np.array([0, 1, 1], np.int32), np.ones(2))).all()
    # Only the singular matrices of a batch give NaN.
    x = jax.vmap(lambda data: sparse_solve.solve(data, indices, indptr, np.ones(2)))(jnp.array([[1.0, 0], [1, 2]]))
    assert np.isnan(x[0]).all() and np.isfinite(x[1]).all()


@pytest.mark.parametrize(
    ("indices", "indptr", "told"),
    [
        ([0, 2], [0, 1, 2], "columns of row 1"),
        ([-1, 1], [0, 1, 2], "columns of row 0"),
        ([1, 0], [0, 2, 2], "columns of row 0"),
        ([0, 1], [0, 1, 3], "from 0 to 2"),
        ([0, 1], [0, 3, 2], "columns of row 0"),
    ],
)
def test_refuses_what_is_no_matrix(indices, indptr, told):
    with pytest.raises(Exception, match=f"{REFUSED}: .*{told}"):
        jax.block_until_ready(sparse_solve.solve(np.ones(2), np.array(indices, np.int32), np.array(indptr, np.int32), np.ones(2)))


def test_behaves_as_functions_of_jax_do():
    data, indices, indptr = csr(matrix(6))
    report = xla_ffi.check(sparse_solve.lib.solve, data, indices, indptr, np.ones((2, 6)), keep=("columns", "starts"))
    assert report, report
