"""The package in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xla_ffi

import @NAME@


def test_scales():
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    scale = jax.jit(lambda x: @NAME@.scale(x, factor=2.0))
    np.testing.assert_allclose(scale(x), 2 * np.asarray(x))


def test_behaves_as_functions_of_jax_do():
    assert xla_ffi.check(@NAME@.lib.scale, np.ones((2, 3), np.float32), factor=2.0)


def test_refuses_what_it_cannot_take():
    with pytest.raises(TypeError, match="x"):
        @NAME@.scale(np.ones(3, np.int32), factor=2.0)
