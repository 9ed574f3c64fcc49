"""Tests the package in JAX, on a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import @NAME@

on_gpu = pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX finds no GPU here")


@on_gpu
def test_scales():
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    scale = jax.jit(lambda x: @NAME@.scale(x, factor=2.0))
    np.testing.assert_allclose(scale(x), 2 * np.asarray(x))


def test_rejects_integers():
    with pytest.raises(TypeError, match="x"):
        @NAME@.scale(np.ones(3, np.int32), factor=2.0)
