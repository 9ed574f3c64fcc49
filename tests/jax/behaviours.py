"""Tests the behaviours that custom calls need in JAX, one check per behaviour. See the table in tests/README.md.

usage: behaviours.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py; `conformance` is in the same folder)
"""

import importlib
import os
import sys
import warnings

# Sharding needs four CPU devices. The variable must be set before jax is imported.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from cells import as_far_as_it_goes, enable_x64, expect, f32, ffi_call, typed  # noqa: E402
from checks import check, finish, raises  # noqa: E402
from xla_ffi import _handler, _manifest  # noqa: E402

X = jnp.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def plain(handler, results, **options):
    """Returns a call through jax.ffi, without the loader."""
    return ffi_call(handler.target, results, **options)


def lowered(function, *args):
    """Returns the StableHLO text of a function."""
    return jax.jit(function).lower(*args).as_text()


def compiled(function, *args, **options):
    """Returns the optimized HLO text of a function."""
    return jax.jit(function, **options).lower(*args).compile().as_text()


def has(text, *parts):
    missing = [part for part in parts if part not in text]
    if missing:
        raise AssertionError(f"{missing} not in {text}")


def has_not(text, *parts):
    there = [part for part in parts if part in text]
    if there:
        raise AssertionError(f"{there} in {text}")


def norm_of(x, eps=1e-5):
    x = np.asarray(x, np.float64)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)).astype(np.float32)


def close(got, wanted):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)


# ---- attributes --------------------------------------------------------------------------------


def attributes_as_declared(lib):
    """The loader converts Python values to the types that the handler declares."""
    integers = dict(i8=-8, i16=16, i32=32, i64=64, u8=8, u16=16, u32=32, u64=2**63 - 1)
    call = lambda: lib.echo_ints(**integers, result_shape_dtypes=typed(np.int64, 8))
    expect(call(), np.array(list(integers.values()), np.int64))
    has(lowered(call), "i8 = -8 : i8", "u16 = 16 : ui16", "u64 = 9223372036854775807 : ui64")
    # These values exceed the range of jax's own functions. The handler reads them as the int64 with the same bits.
    for high in (2**63, 2**64 - 1):
        call = lambda: lib.echo_ints(**{**integers, "u64": high}, result_shape_dtypes=typed(np.int64, 8))
        expect(call()[-1], np.int64(high - 2**64))
        has(lowered(call), f"u64 = {high} : ui64")
    call = lambda: lib.echo_floats(f32=0.1, f64=1, result_shape_dtypes=typed(np.float64, 2))
    expect(call(), np.array([np.float64(np.float32(0.1)), 1.0]))
    arrays = dict(i8=[1], i16=(2, 3), i32=[], i64=np.array([[4], [5]]), f32=[0.5], f64=jnp.array([6.0]))
    call = lambda: lib.echo_arrays(**arrays, result_shape_dtypes=typed(np.float64, 7))
    expect(call(), np.array([1, 2, 3, 4, 5, 0.5, 6.0]))
    for value in (True, np.bool_(False)):
        expect(lib.echo_bool(value=value), np.int64(value))
    options = {"flag": True, "n": 3, "x": 2, "name": "four"}
    expect(lib.echo_dict(options=options, result_shape_dtypes=typed(np.float64, 4)), np.array([1, 3, 2, 4.0]))
    nested = {"n": 2, "inner": {"x": 0.25}, "list": np.array([1, 2, 3])}
    expect(lib.echo_nested(options=nested, result_shape_dtypes=typed(np.float64, 3)), np.array([2, 0.25, 6]))


# ---- tokens, effects, layouts, calls -----------------------------------------------------------


def tokens(lib):
    def twice(x):
        token = jax.lax.create_token()
        token, x = lib.add_tokens(token, x)
        token, x = lib.add_tokens(token, x)
        return x

    expect(jax.jit(twice)(jnp.zeros(3, np.float32)), np.full(3, 2, np.float32))
    lines = [line for line in lowered(twice, X).splitlines() if "add_tokens(" in line]
    if len(lines) != 2:
        raise AssertionError(lines)
    has(lines[0], "(!stablehlo.token, tensor<2x3x4xf32>) -> (!stablehlo.token, tensor<2x3x4xf32>)")
    # The second call uses the first call's token, so it cannot run earlier.
    first = lines[0].split("=")[0].strip().split(":")[0]
    has(lines[1].split("add_tokens(")[1], f"{first}#0")
    raises(TypeError, lambda: lib.add_tokens(X, X), "token")
    raises(TypeError, lambda: lib.scale(jax.lax.create_token(), factor=1.0), "got a token")


def effects(counter):
    """A call whose result is unused runs only if it has side effects."""
    scalar = typed(np.int32)
    count = lambda effect: counter.counter(start=1, has_side_effect=effect, result_shape_dtypes=scalar)

    def ignored(effect):
        def run(x):
            count(effect)
            return x

        return run

    has(lowered(ignored(True), X), "has_side_effect = true")
    has(compiled(ignored(True), X), "custom-call")
    has_not(compiled(ignored(False), X), "custom-call")
    # Equal calls without side effects may be merged. With side effects, both run.
    two = jax.jit(lambda: (count(True), count(True)))
    for step in range(3):
        if [int(value) for value in two()] != [1 + step, 1 + step]:
            raise AssertionError("each call site has a state of its own")
    if compiled(lambda: (count(True), count(True))).count("custom-call(") != 2:
        raise AssertionError("two calls with effects are one")
    # Control flow may have effects. A call site in a loop has a single state, and the handler runs once per iteration.
    loop = jax.jit(lambda: jax.lax.fori_loop(0, 5, lambda _, last: count(True), jnp.int32(0)))
    for wanted in (5, 10):
        expect(loop(), np.int32(wanted))
    branch = jax.jit(lambda yes: jax.lax.cond(yes, lambda: count(True), lambda: jnp.int32(-1)))
    if [int(branch(yes)) for yes in (True, False, True)] != [1, -1, 2]:
        raise AssertionError("cond")
    remat = jax.jit(jax.checkpoint(lambda x: x * lib_value(count(True), x)))
    close(remat(jnp.float32(3)), np.float32(3))


def lib_value(count, x):
    return count.astype(x.dtype)


def layouts(lib):
    """Handlers get row-major arrays, independently of layouts in the program. jax.ffi can request other layouts."""
    x = jnp.arange(6, dtype=np.float32).reshape(2, 3)
    expect(jax.jit(lambda x: lib.copy(x.T))(x), np.asarray(x).T)
    expect(jax.jit(lambda x: lib.copy(x.T) + lib.copy(x).T)(x), 2 * np.asarray(x).T)
    has(lowered(lambda x: lib.copy(x.T), x), "operand_layouts = [dense<[1, 0]>", "result_layouts = [dense<[1, 0]>")
    # `ffi_call` counts dimensions from the slowest; XLA's text and `ffi_lowering` count from the fastest.
    columns = lambda x: plain(lib.copy, typed(np.float32, 2, 3), input_layouts=[(1, 0)], output_layouts=(1, 0))(x)
    expect(jax.jit(columns)(x), x)
    has(lowered(columns, x), "operand_layouts = [dense<[0, 1]>", "result_layouts = [dense<[0, 1]>")
    mixed = lambda x: plain(lib.copy, typed(np.float32, 2, 3), input_layouts=[(1, 0)])(x)
    expect(jax.jit(mixed)(x), np.asarray(x).T.reshape(2, 3))
    raises(ValueError, lambda: plain(lib.copy, f32(2, 3), input_layouts=[(1, 0), (1, 0)])(x), "layouts")


def call(lib, norm):
    """Calls work eagerly and under jit, with one result or several results, as tuple and list."""
    x = jnp.arange(3, dtype=np.float32)
    expect(lib.scale(x, factor=2), 2 * np.arange(3, dtype=np.float32))
    expect(jax.jit(lib.scale, static_argnames="factor")(x, factor=2.0), 2 * np.arange(3, dtype=np.float32))
    types = [f32(), typed(np.int64, 2)]
    total, ran = lib.pool_sum(x, tasks=2, result_shape_dtypes=types)
    expect(total, np.float32(3))
    for kind in (list, tuple):
        out = jax.jit(lambda x: plain(lib.pool_sum, kind(types))(x, tasks=2))(x)
        if type(out) is not kind or len(out) != 2:
            raise AssertionError(out)
    if jax.eval_shape(norm.rms_norm, X).shape != X.shape:
        raise AssertionError("eval_shape")
    for bad in (None, (f32(3), ())):
        raises(ValueError, lambda bad=bad: plain(lib.scale, bad)(x), "result_shape_dtypes")
    raises(ValueError, lambda: jax.jvp(lambda x: lib.scale(x, factor=1.0), (x,), (x,)), "with_vjp")


# ---- transformations ---------------------------------------------------------------------------


def batching(lib, norm, variadic):
    """vmap works with every method, along any axis, nested, and with operands that have no batch dimension."""
    wanted = norm_of(X)
    methods = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
    for method in methods:
        function = lambda x: norm.rms_norm(x, vmap_method=method)
        close(jax.vmap(function)(X), wanted)
        close(jax.vmap(jax.vmap(function))(X), wanted)
        close(jax.jit(jax.vmap(function, in_axes=1, out_axes=1))(X), wanted)
    text = lambda method: lowered(jax.vmap(lambda x: norm.rms_norm(x, vmap_method=method)), X)
    for method in methods[2:]:
        # These methods make a single call on the whole array.
        has(text(method), "(tensor<2x3x4xf32>) -> tensor<2x3x4xf32>")
        has_not(text(method), "while")
    has(text("sequential"), "while", "(tensor<3x4xf32>) -> tensor<3x4xf32>")
    unrolled = text("sequential_unrolled")
    # If jax turns each call into a function, the text has one function that is called twice.
    if max(unrolled.count(word) for word in ("stablehlo.custom_call", " call @", "func.call @")) != 2:
        raise AssertionError(unrolled)
    raises(NotImplementedError, lambda: jax.vmap(lambda x: norm.rms_norm(x, vmap_method=None))(X), "rms_norm.rms_norm: ", "vmap_method='sequential'")
    raises(ValueError, lambda: jax.vmap(lambda x: norm.rms_norm(x, vmap_method="all"))(X), "vmap_method")
    # An operand without a batch dimension is copied per element, gets a dimension of size 1, or stays unchanged.
    one = X[0]
    both = lambda method: lambda x, y: variadic.weighted_sum(x, y, weights=[1, 10], vmap_method=method)
    for method in ("broadcast_all", "sequential", "sequential_unrolled"):
        close(jax.vmap(both(method), in_axes=(0, None))(X, one), np.asarray(X) + 10 * np.asarray(one))
    shapes = lambda method: lowered(jax.vmap(both(method), in_axes=(0, None)), X, one)
    has(shapes("broadcast_all"), "(tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>")
    has(shapes("expand_dims"), "(tensor<2x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x3x4xf32>")
    has(shapes("legacy_vectorized"), "(tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>")
    # A handler that does not support these methods raises an error that names the operand.
    for method in ("expand_dims", "legacy_vectorized"):
        raises(Exception, lambda: jax.vmap(both(method), in_axes=(0, None))(X, one).block_until_ready(), "xs")
    # By default, the loader makes a single call if the contract allows it, and one call per element otherwise.
    has_not(lowered(jax.vmap(norm.rms_norm), X), "while")
    has(lowered(jax.vmap(lambda x: lib.describe(x, result_shape_dtypes=typed(np.int64, 8))), X), "while")


# ---- aliases -----------------------------------------------------------------------------------


def aliases(lib, alias):
    """XLA knows the aliases that a handler declares, without any option of the caller."""
    x, y = jnp.ones(5, np.float32), jnp.arange(5, dtype=np.float32)
    axpy = lambda x, y: alias.axpy(x, y, a=2)
    expect(jax.jit(axpy)(x, y), np.arange(5, dtype=np.float32) + 2)
    expect(y, np.arange(5, dtype=np.float32), "an array that was not donated")
    has(lowered(axpy, x, y), "output_operand_aliases", "operand_index = 1")
    donated = jax.jit(axpy, donate_argnums=1)
    place = y.unsafe_buffer_pointer()
    if donated(x, y).unsafe_buffer_pointer() != place or not y.is_deleted():
        raise AssertionError("the donated array was not written in place")
    has_not(compiled(axpy, x, x + 1, donate_argnums=1), "copy(")
    # If only the caller declares the alias, the handler refuses the call, because it would read overwritten elements.
    overlap = lambda x: plain(lib.scale, f32(5), input_output_aliases={0: 0})(x, factor=np.float32(2))
    raises(Exception, lambda: jax.jit(overlap)(x).block_until_ready(), "overlaps", "in-out operand")


def wrong_aliases(alias):
    x = jnp.ones(5, np.float32)
    for pairs in ({2: 0}, {0: 1}):
        call = lambda: alias.axpy(x, x, a=1, input_output_aliases=pairs)
        raises(ValueError, call, "input_output_aliases")


# ---- legacy targets, types ---------------------------------------------------------------------


def x64(lib, matmul):
    """64-bit operands and results need jax_enable_x64. The loader's errors mention this setting."""
    echo = lambda: lib.echo_bool(value=True)
    for value in (echo(), jax.jit(echo)()):
        expect(value, np.int64(1))
    has(lowered(echo), "tensor<i64>")
    with enable_x64(False):
        for call in (echo, jax.jit(lambda: echo()), lambda: lib.echo_floats(f32=1, f64=2, result_shape_dtypes=typed(np.float64, 2))):
            raises(TypeError, call, "result 0", "jax_enable_x64")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jax warns that it converts the array to f32
            double = np.ones((1, 1, 1))
            expect(matmul.matmul(double, double), np.ones((1, 1, 1), np.float32))
        wide = np.array([[[2.0**200]]])
        raises(TypeError, lambda: matmul.matmul(wide, double), "argument `x`", "float32", "jax_enable_x64")
        only = _handler.Handler._operand
        spec = _manifest.Operand("x", False, ("F64",), None, False, False, False)
        raises(TypeError, lambda: only(spec, "x", jnp.ones(3)), "float64", "float32[3]", "jax_enable_x64")
    expect(matmul.matmul(double, double), np.ones((1, 1, 1)))


def extended_dtypes(lib):
    """Arrays of random keys are passed as the numbers that represent them."""
    key = jax.random.key(7)
    data = np.asarray(jax.random.key_data(key))
    told = lib.describe(key, result_shape_dtypes=typed(np.int64, 8))
    expect(np.asarray(told)[1:5], np.array([1, 2, 8, 2]))
    expect(jax.jit(lambda key: lib.copy(key))(key), data)
    keys = jax.random.split(key, 3)
    expect(jax.jit(jax.vmap(lambda key: lib.copy(key)))(keys), jax.random.key_data(keys))
    raises(TypeError, lambda: lib.scale(key, factor=1.0), "argument `x`", "uint32[2]")


# ---- devices -----------------------------------------------------------------------------------


def several_devices(norm, lib):
    for device in jax.devices():
        y = norm.rms_norm(jax.device_put(X, device))
        close(y, norm_of(X))
        if y.devices() != {device}:
            raise AssertionError(y.devices())
        expect(lib.device_ordinal(jax.device_put(np.float32(1), device), has_side_effect=True), np.int32(device.id))


# ---- the library as an object ------------------------------------------------------------------


def loaded_twice(norm):
    path = norm.path
    if xla_ffi.load(path, prefix="Rust_rms_norm") is not norm:
        raise AssertionError("the same file and prefix are two libraries")
    other = xla_ffi.load(path, prefix="again")
    close(jax.jit(lambda x: other.rms_norm(norm.rms_norm(x)))(X), norm_of(norm_of(X)))
    # A module that is imported again has no record of registered targets. Registering the targets again is allowed.
    module = importlib.reload(sys.modules["xla_ffi._library"])
    once_more = module.load(path, prefix="again")
    if once_more is other:
        raise AssertionError("nothing was reloaded")
    close(once_more.rms_norm(X), norm_of(X))


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    load = lambda name: xla_ffi.load(libraries[f"Rust:{name}"], prefix=f"Rust_{name}")
    norm, counter, alias = load("rms_norm"), load("counter"), load("aliasing")
    variadic, matmul = load("variadic"), load("matmul")
    lib = xla_ffi.load(os.path.join(os.path.dirname(norm.path), "libconformance.so"))
    for work, args in [
        (attributes_as_declared, [lib]),
        (tokens, [lib]), (effects, [counter]), (layouts, [lib]), (call, [lib, norm]),
        (batching, [lib, norm, variadic]), (aliases, [lib, alias]), (wrong_aliases, [alias]),
        (x64, [lib, matmul]), (extended_dtypes, [lib]),
        
        (several_devices, [norm, lib]), (loaded_twice, [norm]),
    ]:  # fmt: skip
        check(f"behaviour {work.__name__}", lambda work=work, args=args: as_far_as_it_goes(work, *args))
    finish()


if __name__ == "__main__":
    main()
