"""Tests batching and layouts declared by handlers, and side effects.

usage: batches.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py; `derivatives` is in the folder of the Rust libraries)
"""

import dataclasses
import functools
import os
import sys

# shard_map needs two CPU devices. The variable must be set before jax is imported.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from cells import shard_map  # noqa: E402
from checks import check, finish, folder, raises  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from xla_ffi import _handler, _related_handlers  # noqa: E402

ROWS = jnp.linspace(-1.0, 2.0, 12).reshape(4, 3)
W = jnp.linspace(0.5, 1.5, 3)
Z = jnp.arange(24.0).reshape(2, 3, 4)


def lowered(function, *args):
    return jax.jit(function).lower(*args).as_text()


def calls(function, *args):
    """Returns the operand and result shapes of a function's custom calls, and whether the program has a loop."""
    text = lowered(function, *args)
    return [line[line.rindex(" : ") + 3 :].strip() for line in text.splitlines() if "custom_call @" in line], "while" in text


def expect_calls(wanted, loop, function, *args):
    got = calls(function, *args)
    if got != (wanted, loop):
        raise AssertionError(f"{got}, expected {wanted}, loop {loop}")


def close(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)


def leading(lib):
    close(jax.vmap(lib.cube)(ROWS), 2 * ROWS**3)
    expect_calls(["(tensor<4x3xf64>) -> tensor<4x3xf64>"], False, jax.vmap(lib.cube), ROWS)


def sequential(lib):
    close(jax.vmap(lib.in_turn)(ROWS), jnp.broadcast_to(ROWS.sum(1, keepdims=True), ROWS.shape))
    expect_calls(["(tensor<3xf64>) -> tensor<3xf64>"], True, jax.vmap(lib.in_turn), ROWS)


def none(lib):
    raises(NotImplementedError, lambda: jax.vmap(lib.alone)(ROWS), "alone", 'batch = "none"', "vmap_method=")
    close(jax.vmap(lambda x: lib.alone(x, vmap_method="sequential"))(ROWS), ROWS)


def each_operand(lib):
    """An operand without the batch dimension never gets a batch dimension. A batch becomes one call for all elements,
    or one call per element."""
    both = jnp.stack([W, 2 * W])
    twice = jnp.stack([ROWS, ROWS + 1])
    close(jax.vmap(lib.rows, (0, None))(twice, W), twice * W)
    expect_calls(["(tensor<2x4x3xf64>, tensor<3xf64>) -> tensor<2x4x3xf64>"], False, jax.vmap(lib.rows, (0, None)), twice, W)
    close(jax.vmap(lib.rows, (2, None), 2)(jnp.moveaxis(twice, 0, 2), W), jnp.moveaxis(twice * W, 0, 2))
    for axes, args, wanted in [((None, 0), (ROWS, both), ROWS * both[:, None]), ((0, 0), (twice, both), twice * both[:, None])]:
        close(jax.vmap(lib.rows, axes)(*args), wanted)
        expect_calls(["(tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>"], True, jax.vmap(lib.rows, axes), *args)
    nested = jax.vmap(jax.vmap(lib.rows, (0, None)), (None, 0))
    close(nested(twice, both), twice[None] * both[:, None, None])


def another_handler(lib):
    mean = lambda x: lib.mean(x, times=3.0)
    close(jax.vmap(mean)(ROWS), 3 * ROWS.mean(1))
    expect_calls(["(tensor<4x3xf64>) -> tensor<4xf64>"], False, jax.vmap(mean), ROWS)
    if "means" not in lowered(jax.vmap(mean), ROWS) or "3.0" not in lowered(jax.vmap(mean), ROWS):
        raise AssertionError(lowered(jax.vmap(mean), ROWS))
    # Attributes have the defaults of the handler that the user called. The batching handler may have different
    # defaults.
    spec = lib.mean.spec
    thrice = dataclasses.replace(spec, attrs=tuple(dataclasses.replace(attr, default=3.0) for attr in spec.attrs))
    handler = _handler.Handler(thrice, lib.mean.target, lib.path, None)
    handler.batch = _related_handlers.Other(lib.means, thrice)
    close(jax.vmap(handler)(ROWS), 3 * ROWS.mean(1))
    # The batching handler's contract has no `...`, so a second vmap makes one call per element.
    close(jax.vmap(jax.vmap(lib.mean))(Z), Z.mean(2))
    expect_calls(["(tensor<3x4xf64>) -> tensor<3xf64>"], True, jax.vmap(jax.vmap(lib.mean)), Z)


def side_effects(lib):
    """The caller's has_side_effect also applies to the handlers that compute batches and gradients."""
    mean = lambda x: lib.mean(x, has_side_effect=True)
    exponential = lambda x: lib.exponential(x, has_side_effect=True)
    for name, function, x in [("means", jax.vmap(mean), ROWS), ("exp_forward", lambda x: jax.vjp(exponential, x)[0], W)]:
        # XLA drops calls whose results are unused.
        call = next(line for line in lowered(function, x).splitlines() if f".{name}" in line)
        if "has_side_effect = true" not in call:
            raise AssertionError(call)


NOTES = """
#include <atomic>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static std::atomic<int64_t> notes{0};
static ffi::Error Note(ffi::AnyBuffer) { ++notes; return ffi::Error::Success(); }
static ffi::Error Count(ffi::ResultBufferR0<ffi::S64> y) { *y->typed_data() = notes; return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(note, Note, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind().Ret<ffi::BufferR0<ffi::S64>>());
"""


@functools.cache
def notes():
    os.environ["XLA_FFI_CACHE"] = str(folder())
    return xla_ffi.load_inline(cpp=NOTES, name="notes", handlers={"note": "(x: f64[... n]) -> ()", "count": "() -> y: s64[]"})


def no_results(_lib):
    """A handler without results has side effects by definition, so its calls run even without has_side_effect."""
    lib = notes()

    def ran(wanted, function, *args):
        before = int(lib.count(has_side_effect=True))
        jax.block_until_ready(function(*args))
        jax.effects_barrier()
        times = int(lib.count(has_side_effect=True)) - before
        if times != wanted:
            raise AssertionError(f"it ran {times} times, not {wanted}: {jax.make_jaxpr(function)(*args)}")

    def noted(x):
        if lib.note(x) is not None:
            raise AssertionError("a result")
        return 2 * x

    total = lambda x: jnp.sum(noted(x))
    turns = lambda x: jax.lax.scan(lambda carry, row: (carry + noted(row), None), jnp.zeros(3), x)[0]
    for function in (lib.note, noted, jax.vmap(noted), jax.grad(total), jax.value_and_grad(total), jax.grad(jax.checkpoint(total))):
        ran(1, function, ROWS)
        ran(1, jax.jit(function), ROWS)
    ran(2, jax.jit(lambda x: (noted(x), noted(x))), ROWS)
    ran(4, jax.jit(jax.vmap(lambda x: lib.note(x, vmap_method="sequential"))), ROWS)
    ran(4, jax.jit(turns), ROWS)
    for x, times in ((ROWS, 1), (-ROWS, 0)):
        ran(times, jax.jit(lambda x: jax.lax.cond(x.sum() > 0, noted, lambda x: x, x)), x)
    mesh, rows = Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d")
    x = jax.device_put(ROWS, NamedSharding(mesh, rows))
    apart = shard_map(noted, mesh=mesh, in_specs=rows, out_specs=rows)
    for function in (apart, jax.grad(lambda x: jnp.sum(apart(x)))):
        ran(2, jax.jit(function), x)
    raises(NotImplementedError, lambda: jax.jit(noted)(x), lib.note.target, "without results", "jax.shard_map")


def layouts(lib):
    """Declared layouts match the memory that handlers read, although jax's two APIs count dimensions in opposite
    orders."""
    x = jnp.arange(6.0).reshape(2, 3)
    types = [jax.ShapeDtypeStruct((size,), np.float64) for size in (6, 24)]
    call = lambda x, z: lib.memory(x, z, result_shape_dtypes=types)
    for function in (call, jax.jit(call), lambda x, z: jax.jit(lambda xt: call(xt.T, z))(x.T)):
        of_x, of_z = function(x, Z)
        close(of_x, np.asarray(x).T.reshape(-1))
        close(of_z, np.asarray(Z).transpose(1, 2, 0).reshape(-1))
    # XLA counts from the fastest dimension.
    text = lowered(call, x, Z)
    wanted = "operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 2, 1]> : tensor<3xindex>]"
    if wanted not in text:
        raise AssertionError(f"{wanted} not in {text}")
    types = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((2, 3), (2, 3), (2, 3, 4))]
    row, column, other = jax.jit(lambda: lib.numbered(result_shape_dtypes=types))()
    close(row, np.arange(6.0).reshape(2, 3))
    close(column, np.arange(6.0).reshape(3, 2).T)
    close(other, np.arange(24.0).reshape(3, 4, 2).transpose(2, 0, 1))
    batched = jax.vmap(lambda x, z: lib.memory(x, z, result_shape_dtypes=types_of(6, 24)))
    close(batched(jnp.stack([x, x + 9]), jnp.stack([Z, Z]))[0], np.stack([np.asarray(x).T.reshape(-1)] * 2) + [[0], [9]])


def types_of(*sizes):
    return [jax.ShapeDtypeStruct((size,), np.float64) for size in sizes]


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    lib = xla_ffi.load(os.path.join(os.path.dirname(libraries["Rust:rms_norm"]), "libderivatives.so"))
    for work in (leading, sequential, none, each_operand, another_handler, side_effects, no_results, layouts):
        check(f"batches, {work.__name__}", lambda work=work: work(lib))
    finish()


if __name__ == "__main__":
    main()
