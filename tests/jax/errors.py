"""Tests that mistakes in a call are reported before anything is compiled, with a remedy.

usage: errors.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
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
    """Within the block, handlers are loaded with these changes to their descriptions."""
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


def newcomers(norm, attributes, operands, conformance):
    """Common mistakes. Each row has a call, and the texts that its error must contain after the handler's name."""
    powers, V, options = attributes.powers, X[0], {"flag": True, "n": 1, "name": "a", "x": 1.0}
    for work, *names in [
        (lambda: jax.jit(lambda e: norm(X, eps=e))(1.0), "attribute `eps`", "jit with static_argnames"),
        (lambda: powers(V, degree=2.0), "attribute `degree`", "int64", "float 2.0; pass int(degree)"),
        (lambda: powers(V, degree=jnp.float32(2.5)), "attribute `degree`", "int(degree) if"),
        (lambda: norm(X, eps=True), "attribute `eps`", "float(eps)"), (lambda: norm(X, eps="small"), "attribute `eps`", "str 'small'"),
        (lambda: norm(X, eps=[1.0, 2.0]), "attribute `eps`", "list"), (lambda: conformance.echo_bool(value=1), "`value`", "True or False"),
        (lambda: conformance.echo_arrays(i8=[300], i16=[1], i32=[1.0], i64=np.ones(1), f32=[1], f64=[True]), "4 problems", "\n  attribute `i8`",
         "300", "\n  attribute `i32`", "np.asarray(i32, np.int32)", "\n  attribute `i64`", "i64.astype(np.int64)", "\n  attribute `f64`"),
        (lambda: conformance.echo_dict(options={**options, "n": 1.0}), "attribute `options`: entry `n`", "int(options['n'])"),
        (lambda: conformance.echo_dict(options={}), "missing entry `flag`"), (lambda: conformance.echo_dict(options={**options, "z": 1}), "unknown entry `z`"),
        (lambda: conformance.scale(X, factr=1.0), "2 problems", "missing attribute `factor`", "unknown attribute `factr`", "`factor`?"),
        (lambda: norm(X, axis=1), "unknown attribute `axis`; remove it"), (lambda: norm(x=X), "argument `x`", "by position"),
        (lambda: norm(X, 1e-5), "1 argument (`x`), got 2", "eps="), (lambda: operands.tiled_add(V, V, V), "2 arguments (`b`, `c`), got 3"),
        (operands.tiled_add, "missing argument `b`", "missing argument `c`"), (lambda: norm(X.astype(jnp.int32)), "argument `x`: expected float32, got int32[2, 3]", "x.astype(np.float32)"),
        (lambda: jax.jit(norm)(X.astype(jnp.float16)), "float16[2, 3]", "x.astype(np.float32)"), (lambda: norm(np.arange(3)), "int32[3]", "x.astype("),
        (lambda: operands.matmul([[[1]]], X[None]), "argument `x`", "float32[?, ?, ?] or float64[?, ?, ?]", "np.asarray(x, np.float32)"),
        (lambda: norm([jnp.int32(1)]), "int32[]", "jnp.asarray(x, np.float32)"), (lambda: norm(["a"]), "argument `x`", "str 'a'"),
        (lambda: norm(np.ma.array([1.0], mask=[True])), "argument `x`", ".filled("), (lambda: norm(None), "argument `x`", "got None"),
        (lambda: conformance.pool_sum(3.0, tasks=1), "argument `x`: expected float32[?], got float32[]", "np.asarray(x)[None, ...]"),
        (lambda: norm(jnp.float32(1)), "argument `x`: expected float32[..., n], got float32[]", "`... n -> ... n`"),
        (lambda: operands.axpy(V, X[:, 0], a=1.0), "argument `y`: expected float32[n]", "n = 3 from argument `x`", "float32[2]"),
        (lambda: conformance.describe(X), "result `y`", "shapes="), (lambda: conformance.pack(np.ones(3, np.int8)), "`y`", "result_shape_dtypes="),
    ]:  # fmt: skip
        raises(TypeError, work, ": ", *names)
    # Errors do not recommend casts that lose data.
    for value in X.astype(jnp.complex64), [1j], np.array([1j]):
        try:
            norm(value)
        except TypeError as error:
            if "argument `x`: expected float32, got " not in str(error) or ";" in str(error):
                raise AssertionError(error) from error
    raises(ValueError, lambda: jax.grad(lambda x: conformance.scale(x, factor=1.0).sum())(X), "conformance.scale: ", "with_vjp")


def ranks(path):
    args = (_manifest.Operand("x", False, ("F32",), 3, False, False, False),)
    with described(args=args, shape=None):
        norm = xla_ffi.load(path, prefix="ranks").rms_norm
    raises(TypeError, lambda: norm(X), "argument `x`: expected float32[?, ?, ?], got float32[2, 3]", "x[None, ...]")
    raises(TypeError, lambda: norm(X[None, None]), "float32[1, 1, 2, 3]", "jax.vmap")
    for contract, names in ("... n, m -> n", "2 arguments, the call has 1"), ("... n -> n, n", "2 results, the handler has 1 result (`y`)"):
        with described(shape=contract):
            norm = xla_ffi.load(path, prefix=contract).rms_norm
        raises(TypeError, lambda norm=norm: norm(X), f"the contract `{contract}` has", names)


def options(norm):
    raises(TypeError, lambda: norm(X, attrs=[1]), "rms_norm: attrs=", "list [1]")
    raises(TypeError, lambda: norm(X, input_output_aliases={"x": 0}))
    raises(TypeError, lambda: norm(X, has_side_effect="no"), "rms_norm: has_side_effect=", "str 'no'")


def platforms(path):
    """A library for other devices raises an error on this device, but programs for the other devices can still be
    traced."""
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
    raises(xla_ffi.UnsupportedRuntimeError, lambda: norm(X), "rms_norm.rms_norm: ", "a newer jaxlib")


def main():
    path = dict(argument.split("=", 1) for argument in sys.argv[1:])["Rust:rms_norm"]
    norm = xla_ffi.load(path).rms_norm
    others = [xla_ffi.load(path.replace("rms_norm", name)) for name in ("attributes", "operands", "conformance")]
    check("newcomers' mistakes", lambda: newcomers(norm, *others))
    check("ranks", lambda: ranks(path))
    check("options", lambda: options(norm))
    check("other platforms", lambda: platforms(path))
    check("handlers of a newer revision", lambda: newer(path))
    finish()


if __name__ == "__main__":
    main()
