"""What is wrong with a call is said at the call, before anything is compiled, with what to write instead.

usage: errors.py LANGUAGE:EXAMPLE=LIBRARY… (the libraries of examples.py)
"""

import contextlib
import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish, raises
from xla_ffi import _manifest

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


@contextlib.contextmanager
def described(**changes):
    """Libraries whose handlers say something else of themselves."""
    read = _manifest.read_all

    def changed(*arguments, **keywords):
        libraries = read(*arguments, **keywords)
        return {
            name: ({key: dataclasses.replace(spec, **{"gradient": None, **changes}) for key, spec in handlers.items()}, legacy)
            for name, (handlers, legacy) in libraries.items()
        }

    _manifest.read_all = changed
    try:
        yield
    finally:
        _manifest.read_all = read


def operands(norm):
    raises(TypeError, lambda: norm(X, 1e-5), "takes 1 operand, got 2", "attributes are keywords: eps=")
    raises(TypeError, lambda: norm(), "takes 1 operand, got 0")
    raises(TypeError, lambda: norm(x=X), "'x' is an operand", "by position")
    raises(TypeError, lambda: norm(X.astype(jnp.int32)), "x is to be F32", "S32", "x.astype('float32')")
    raises(TypeError, lambda: jax.jit(norm)(X.astype(jnp.float16)), "x is to be F32", "F16")
    raises(TypeError, lambda: norm(X, epsilon=1.0), "no attribute 'epsilon'", "did you mean 'eps'")
    raises(TypeError, lambda: norm(X, 1e-5, epsilon=1.0), "takes 1 operand, got 2", "keywords: eps=")


def ranks(path):
    args = (_manifest.Operand("x", False, ("F32",), 3, False, False, False),)
    with described(args=args, shape=None):
        norm = xla_ffi.load(path, prefix="ranks").rms_norm
    raises(TypeError, lambda: norm(X), "x is to have 3 dimensions, got shape [2, 3]", "x[None, ...]")
    raises(TypeError, lambda: norm(X[None, None]), "x is to have 3 dimensions", "jax.vmap")


def options(norm):
    raises(TypeError, lambda: norm(X, attrs=[1]), "rms_norm: attrs= is to be a dict, got list [1]")
    raises(TypeError, lambda: norm(X, input_output_aliases={"x": 0}))
    raises(TypeError, lambda: norm(X, has_side_effect="no"), "rms_norm: has_side_effect= is to be True or False, got")




def platforms(path):
    """A library for other devices says so, while programs for those can still be written."""
    with described(platforms=("cuda", "rocm")):
        norm = xla_ffi.load(path, prefix="devices").rms_norm

    raises(Exception, lambda: jax.block_until_ready(norm(X)), "devices.rms_norm")
    if jax.eval_shape(norm, X).shape != (2, 3):
        raise AssertionError("tracing is free")
    here = xla_ffi.load(path).rms_norm
    either = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=here, cuda=norm))
    if not np.allclose(either(X), here(X)):
        raise AssertionError("a choice by platform")


def newer(path):
    with described(floor=11):
        norm = xla_ffi.load(path, prefix="newer").rms_norm
    raises(xla_ffi.UnsupportedRuntimeError, lambda: norm(X), "handler rms_norm.rms_norm needs a newer jaxlib")


def main():
    path = dict(argument.split("=", 1) for argument in sys.argv[1:])["Rust:rms_norm"]
    norm = xla_ffi.load(path).rms_norm
    check("operands and attributes", lambda: operands(norm))
    check("ranks", lambda: ranks(path))
    check("options", lambda: options(norm))
    check("other platforms", lambda: platforms(path))
    check("handlers of a newer revision", lambda: newer(path))
    finish()


if __name__ == "__main__":
    main()
