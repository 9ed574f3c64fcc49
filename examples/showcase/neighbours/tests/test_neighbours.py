"""Tests the package in JAX."""

import os

# Must be set before JAX creates its devices.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xla_ffi
from jax import export
from jax.test_util import check_grads

import neighbours

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

jax.config.update("jax_enable_x64", True)


def cloud(n, d, seed=0, kind="float64"):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, d)), kind)


def table(points, queries):
    """Returns all distances, by brute force."""
    return np.sqrt(((np.asarray(queries)[:, None].astype("f8") - np.asarray(points).astype("f8")) ** 2).sum(-1))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_nearest(d, kind):
    points, queries = cloud(2000, d, kind=kind), cloud(300, d, 1, kind)
    indices, distances = jax.jit(lambda p, q: neighbours.nearest(p, q, 9))(points, queries)
    brute = table(points, queries)
    assert distances.dtype == kind and indices.dtype == "int32"
    np.testing.assert_allclose(distances, np.sort(brute)[:, :9], rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(brute, np.asarray(indices), 1), distances, rtol=1e-6)


def test_points_that_are_equal():
    """Equal points may be returned in any order, so sets are compared."""
    points = jnp.asarray(np.repeat(np.arange(5.0), 100)[:, None] * np.ones(2))
    indices, distances = neighbours.nearest(points, points[250:251], 120)
    assert len(set(np.asarray(indices[0]).tolist())) == 120
    np.testing.assert_allclose(distances, np.sort(table(points, points[250:251]))[:, :120], rtol=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_within(d):
    points, queries = cloud(2000, d), cloud(300, d, 1)
    capacity = 128 // 2**d
    indices, distances, counts = jax.jit(lambda p, q: neighbours.within(p, q, 0.4, capacity))(points, queries)
    brute = table(points, queries)
    np.testing.assert_array_equal(counts, (brute <= 0.4).sum(1))
    assert counts.max() > capacity > counts.min()
    nearest = np.where(np.sort(brute) <= 0.4, np.sort(brute), np.inf)[:, :capacity]
    np.testing.assert_allclose(distances, nearest, rtol=1e-6)
    np.testing.assert_array_equal(indices >= 0, np.isfinite(nearest))


def test_overflow():
    # jaxlib 0.4.33 reports every code as INTERNAL.
    points = cloud(100, 2)
    few = neighbours.within(points, points, 10.0, 4)
    np.testing.assert_array_equal(few[2], 100)
    np.testing.assert_array_equal(few[0][:, 0], np.arange(100))
    with pytest.raises(Exception, match="(OUT_OF_RANGE|INTERNAL): .*a query has 100 neighbours, `capacity` is 4"):
        jax.block_until_ready(neighbours.within(points, points, 10.0, 4, overflow="error"))


def test_no_points():
    indices, distances = neighbours.nearest(jnp.zeros((0, 2)), cloud(3, 2), 2)
    assert (indices == -1).all() and np.isinf(distances).all()


def test_what_is_no_number():
    points, queries = cloud(10, 2), cloud(3, 2).at[1, 0].set(jnp.nan)
    indices, distances = neighbours.nearest(points, queries, 2)
    np.testing.assert_array_equal(np.isnan(distances), [[False] * 2, [True] * 2, [False] * 2])
    assert (indices[1] == -1).all()
    assert np.isnan(neighbours.nearest(points.at[3, 1].set(jnp.inf), queries, 2)[1]).all()


def test_gradient():
    points, queries = cloud(30, 3), cloud(7, 3, 1)
    for distances in (
        lambda p, q: neighbours.nearest(p, q, 4)[1],
        lambda p, q: jnp.where(neighbours.within(p, q, 1.0, 9)[0] >= 0, neighbours.within(p, q, 1.0, 9)[1], 0.0),
    ):
        check_grads(distances, (points, queries), order=1)
    own = jax.grad(lambda p: neighbours.nearest(p, p, 2)[1].sum())(points)
    brute = lambda p: jnp.sort(jnp.sqrt(((p[:, None] - p) ** 2).sum(-1) + 1e6 * jnp.eye(30)))[:, 0].sum()
    np.testing.assert_allclose(own, jax.grad(brute)(points), rtol=1e-10)


def test_vmap():
    points, queries = cloud(50, 2).reshape(1, 50, 2) * jnp.arange(1.0, 4)[:, None, None], cloud(12, 2, 1).reshape(3, 4, 2)
    near = lambda p, q: neighbours.nearest(p, q, 3)
    for axes, given in (((0, 0), (points, queries)), ((None, 0), (points[0], queries)), ((0, None), (points, queries[0]))):
        together = jax.jit(jax.vmap(near, axes))(*given)
        row = lambda i: [x[i] if axis == 0 else x for x, axis in zip(given, axes)]
        for i in range(3):
            for got, wanted in zip(together, near(*row(i))):
                np.testing.assert_array_equal(got[i], wanted)
    loss = jax.grad(lambda p, q: near(p, q)[1].sum())
    got = jax.vmap(loss, (None, 0))(points[0], queries)
    np.testing.assert_allclose(got, [loss(points[0], q) for q in queries], rtol=1e-12)


def test_shards():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
    spec = jax.sharding.PartitionSpec
    points, queries = cloud(500, 3), cloud(80, 3, 1)
    near = lambda p, q: neighbours.nearest(p, q, 5)
    apart = shard_map(near, mesh=mesh, in_specs=(spec(), spec("i")), out_specs=(spec("i"), spec("i")))
    for got, wanted in zip(jax.jit(apart)(points, queries), near(points, queries)):
        np.testing.assert_array_equal(got, wanted)


def test_export():
    points, queries = cloud(50, 2), cloud(4, 2, 1)
    near = jax.jit(lambda p, q: neighbours.nearest(p, q, 3))
    allowed = [export.DisabledSafetyCheck.custom_call(neighbours.lib.nearest.target)]
    text = export.export(near, disabled_checks=allowed)(points, queries).serialize()
    for got, wanted in zip(export.deserialize(text).call(points, queries), near(points, queries)):
        np.testing.assert_array_equal(got, wanted)


def test_refuses_what_it_cannot_take():
    with pytest.raises(Exception, match="points have 5 coordinates"):
        jax.block_until_ready(neighbours.nearest(cloud(9, 5), cloud(2, 5), 1))
    with pytest.raises(TypeError, match="`k`"):
        neighbours.nearest(cloud(9, 2), cloud(2, 2), -1)
    with pytest.raises(Exception, match="(INVALID_ARGUMENT|INTERNAL): .*`radius` -1"):
        jax.block_until_ready(neighbours.within(cloud(9, 2), cloud(2, 2), -1.0, 1))


@pytest.mark.parametrize(("name", "attributes"), [("nearest", {"k": 3}), ("within", {"radius": 1.0, "capacity": 5})])
def test_behaves_as_functions_of_jax_do(name, attributes):
    report = xla_ffi.check(neighbours.lib[name], cloud(20, 3), cloud(6, 3, 1), **attributes)
    assert report, report
