"""Tests sharded operands: calls that contracts allow to split, on eight devices and in two processes.

usage: sharding.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py; `derivatives` is in the folder of the Rust libraries)
"""

import dataclasses
import os
import socket
import subprocess
import sys

#: In a run with several processes: the process's index, the number of processes, and the coordinator's address.
#: Otherwise empty.
PROCESS = os.environ.get("XLA_FFI_TEST_PROCESS", "").split()
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={2 if PROCESS else 8}"

import jax

jax.config.update("jax_enable_x64", True)
if PROCESS:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(PROCESS[2], int(PROCESS[1]), int(PROCESS[0]))

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from checks import check, finish, raises, skip  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from xla_ffi import _handler  # noqa: E402

MOVES = ("all-gather", "all-to-all", "collective-permute", "all-reduce")
WHOLE = np.linspace(-1.0, 2.0, 8 * 2 * 4).reshape(8, 2, 4)
W = np.linspace(0.5, 1.5, 4)


def mesh():
    devices = np.array(jax.devices())
    return Mesh(devices.reshape(-1, 2), ("d", "e"))


def put(value, *spec):
    """Returns an array that is sharded over the devices of all processes."""
    sharding = NamedSharding(mesh(), PartitionSpec(*spec))
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def compiled(function, *args, **options):
    return jax.jit(function, **options).lower(*args).compile()


def moves(program):
    text = program.as_text()
    return [word for word in MOVES if f" {word}(" in text or f" {word}-start(" in text]


def apart(function, wanted, *args, spec=None, allowed=()):
    """Fails if the compiled function moves data between devices, or if its results are wrong."""
    program = compiled(function, *args)
    if set(moves(program)) - set(allowed):
        raise AssertionError(f"{moves(program)} in {program.as_text()}")
    results = jax.jit(function)(*args)
    for result, whole in zip(jax.tree_util.tree_leaves(results), jax.tree_util.tree_leaves(wanted)):
        right(result, whole)
        if spec is not None:
            lead = NamedSharding(mesh(), PartitionSpec(*spec))
            if not result.sharding.is_equivalent_to(lead, result.ndim):
                raise AssertionError(f"{result.sharding}, expected {lead}")


def right(result, whole):
    """Fails unless the shards on this process's devices equal the corresponding parts of the whole array."""
    for shard in result.addressable_shards:
        np.testing.assert_allclose(np.asarray(shard.data), np.asarray(whole)[shard.index], rtol=1e-5, atol=1e-6)


def norm_of(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def batch_dimensions(norm, lib, product):
    x = WHOLE.astype(np.float32)
    for spec in (("d",), (("d", "e"),), ("d", "e"), (None, "e")):
        apart(norm.rms_norm, norm_of(x), put(x, *spec), spec=spec)
    power = np.full(WHOLE.shape, 3, np.int32)
    args = put(WHOLE, "d"), put(power, "d"), put(WHOLE, "d")
    apart(lib.mixed, (WHOLE**3 * WHOLE, power + 1, WHOLE**2), *args, spec=("d",))
    # The same holds for a handler with a fixed rank, for which vmap makes one call per element.
    one = lambda operands: tuple(dataclasses.replace(operand, rank=3) for operand in operands)
    spec = dataclasses.replace(lib.cube.spec, args=one(lib.cube.spec.args), rets=one(lib.cube.spec.rets))
    cube = _handler.Handler(spec, lib.cube.target, lib.path, None)
    apart(cube, 2 * WHOLE**3, put(WHOLE, "d"), spec=("d",))
    # The dimension that vmap adds is a leading dimension.
    apart(jax.vmap(lib.cube), 2 * WHOLE**3, put(WHOLE, "d"), spec=("d",))


def replicated(norm, lib, product):
    """An operand without the leading dimensions is whole on every device."""
    apart(lib.rows, WHOLE * W, put(WHOLE, "d"), put(W), spec=("d",))
    apart(jax.vmap(lib.rows, (0, None)), WHOLE * W, put(WHOLE, "d", "e"), put(W), spec=("d", "e"))
    # If the operand is sharded, it is gathered, and the batch stays sharded.
    program = compiled(lib.rows, put(WHOLE, "d"), put(W, "e"))
    part = f"f64[{8 // (len(jax.devices()) // 2)},2,4]"
    if part not in program.as_text() or "f64[8,2,4]" in program.as_text():
        raise AssertionError(program.as_text())
    if not PROCESS:  # In jaxlib 0.4.31, gloo hangs when two devices of one process gather.
        right(jax.jit(lib.rows)(put(WHOLE, "d"), put(W, "e")), WHOLE * W)


def contracted(norm, lib, product):
    """Only dimensions that are not batch dimensions are gathered."""
    x = WHOLE.astype(np.float32)
    for spec in ((None, None, "d"), ("d", None, "e")):
        program = compiled(norm.rms_norm, put(x, *spec))
        if not moves(program):
            raise AssertionError(program.as_text())
        right(jax.jit(norm.rms_norm)(put(x, *spec)), norm_of(x))
    if "f32[8,2,4]" in program.as_text():
        raise AssertionError(program.as_text())


def in_shard_map(norm, lib, product):
    """Under shard_map, gradients of an operand that all devices share are summed over the devices."""
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    split, shared = PartitionSpec("d"), PartitionSpec()
    rows = shard_map(lib.rows, mesh=mesh(), in_specs=(split, shared), out_specs=split)
    loss = lambda f: lambda x, w: jnp.sum(jnp.sin(f(x, w)))
    args = put(WHOLE, "d"), put(W)
    wanted = jax.grad(loss(jnp.multiply), (0, 1))(WHOLE, W)
    for transform in (lambda f: f, jax.jit):
        for got, whole in zip(transform(jax.grad(loss(rows), (0, 1)))(*args), wanted):
            right(got, whole)
    inside = lambda f: shard_map(jax.grad(lambda x: jnp.sum(f(x))), mesh=mesh(), in_specs=split, out_specs=split)
    try:
        inside(jnp.sin)(put(WHOLE, "d"))
    except ValueError:  # jax 0.6.0 also refuses its own functions in this case
        pass
    else:
        apart(inside(lib.sine), np.cos(WHOLE), put(WHOLE, "d"))
    sine = shard_map(lib.sine, mesh=mesh(), in_specs=split, out_specs=split)
    right(jax.jvp(sine, args[:1], args[:1])[1], np.cos(WHOLE) * WHOLE)


def gradients(norm, lib, product):
    x = WHOLE.astype(np.float32)
    loss = lambda x: jnp.sum(jnp.sin(norm.rms_norm(x)))
    reference = lambda x: jnp.sum(jnp.sin(x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)))
    apart(jax.grad(loss), np.asarray(jax.grad(reference)(x)), put(x, "d"), spec=("d",))
    slope = jax.grad(lambda x: jnp.sum(lib.sine(x)))
    apart(slope, np.cos(WHOLE), put(WHOLE, "d", "e"), spec=("d", "e"))


def as_declared(norm, lib, product):
    """If the handler or the call declares that elements of a batch depend on each other, all elements are gathered."""
    x = put(WHOLE, "d")
    right(jax.jit(lib.in_turn)(x), np.full(WHOLE.shape, WHOLE.sum()))
    if "all-gather" not in moves(compiled(lib.in_turn, x)):
        raise AssertionError("nothing was gathered")
    cube = lambda x: lib.cube(x, partition_batch=False)
    if "all-gather" not in moves(compiled(cube, x, out_shardings=x.sharding)):
        raise AssertionError("nothing was gathered")
    apart(lambda x: lib.alone(x, partition_batch=True), WHOLE, x, spec=("d",))
    raises(TypeError, lambda: lib.mean(jnp.ones(4), partition_batch=True), "partition_batch", "`...`")


def side_effects(norm, lib, product):
    """XLA refuses side effects in a program that it partitions, with an internal error, but each device may make its
    own call."""
    loud = lambda x: lib.cube(x, has_side_effect=True)
    for x in put(WHOLE, "d"), put(WHOLE):
        raises(NotImplementedError, lambda x=x: jax.jit(loud)(x), "derivatives.cube", "side effects", "jax.shard_map")
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    split = PartitionSpec("d")
    right(jax.jit(shard_map(loud, mesh=mesh(), in_specs=split, out_specs=split))(put(WHOLE, "d")), 2 * WHOLE**3)
    right(jax.jit(loud)(jnp.asarray(WHOLE)), 2 * WHOLE**3)


def _shard_map(function, names, spec):
    """Calls shard_map with only these axes manual."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh(), in_specs=spec, out_specs=spec, axis_names=set(names))
    from jax.experimental.shard_map import shard_map

    return shard_map(function, mesh=mesh(), in_specs=spec, out_specs=spec, auto=frozenset({"d", "e"} - set(names)), check_rep=False)


def partly_manual(norm, lib, product):
    """Tests a shard_map that leaves some axes to XLA.

    In such a shard_map, GSPMD crashes the process, and XLA refuses side effects.
    """
    loud = lambda x: lib.cube(x, has_side_effect=True)
    x = put(WHOLE, "d")
    for function, right_here in (loud, False), (lib.cube, bool(getattr(jax.config, "jax_use_shardy_partitioner", False))):
        run = lambda function=function: jax.jit(_shard_map(function, "d", PartitionSpec("d")))(x)
        if right_here:
            right(run(), 2 * WHOLE**3)
        else:
            raises(NotImplementedError, run, "derivatives.cube", "make e manual too", "axis_names=")
        right(jax.jit(_shard_map(function, "de", PartitionSpec("d", "e")))(put(WHOLE, "d", "e")), 2 * WHOLE**3)


def forward_mode(norm, lib, product):
    """A tangent is split in the same way as its call, even if the results of the call are unused."""
    for spec in (("d",), ("d", "e")):
        x = put(WHOLE, *spec)
        apart(lambda x: jax.jvp(lib.cosine, (x,), (x,))[1], -np.sin(WHOLE) * WHOLE, x, spec=spec)
        apart(lambda x: jax.linearize(lib.sine, x)[1](x), np.cos(WHOLE) * WHOLE, x, spec=spec)
        apart(lambda x: jax.vmap(lambda x: jax.jvp(lib.sine, (x,), (x,))[1])(x), np.cos(WHOLE) * WHOLE, x, spec=spec)
        apart(lambda x: jax.jvp(jax.grad(lambda x: jnp.sum(lib.sine(x))), (x,), (x,))[1], -np.sin(WHOLE) * WHOLE, x, spec=spec)


# ---- meshes with Explicit axes, where types contain the division of a value ------------------------------------


def set_mesh():
    """Sets a mesh with Explicit axes, the default of the newest ``jax.make_mesh``.

    Skips the check if jax has no such types.
    """
    if not hasattr(jax.sharding, "reshard"):
        skip("this jax has no Explicit axes that all of it knows")
    devices = np.array(jax.devices()).reshape(-1, 2)
    return jax.set_mesh(Mesh(devices, ("d", "e"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))


def laid(value, *spec):
    return jax.sharding.reshard(value, PartitionSpec(*spec))


def spec_of(value):
    return tuple(jax.typeof(value).sharding.spec)


def as_jax(transform, function, reference, *args, typed=True):
    """Fails unless the transformed handler and the transformed reference return the same results, divided in the same
    way."""
    got, wanted = (jax.tree_util.tree_leaves(jax.jit(transform(each))(*args)) for each in (function, reference))
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
        if typed and spec_of(a) != spec_of(b):
            raise AssertionError(f"{spec_of(a)}, expected {spec_of(b)}")
    if len(got) != len(wanted):
        raise AssertionError(f"{len(got)} results, expected {len(wanted)}")


def slopes(function):
    """Returns the gradient with respect to all operands."""
    return lambda *args: jax.grad(lambda *args: jnp.sum(jnp.sin(function(*args))), tuple(range(len(args))))(*args)


def over_rows(function):
    return lambda x, *more: jax.vmap(function, tuple(0 if each.ndim == x.ndim else None for each in (x, *more)))(x, *more)


def looped(function):
    return lambda x, *more: jax.lax.scan(lambda x, _: (function(x, *more) * 0.5, None), x, None, length=2)[0]


def apart_by_type(function):
    where = lambda args: tuple(PartitionSpec(*spec_of(arg)) for arg in args)
    return lambda *args: jax.shard_map(function, in_specs=where(args), out_specs=where(args)[0])(*args)


def explicit(norm, lib, product):
    """The batch stays divided, in types and in the compiled program, under all of jax's transformations."""
    with set_mesh():
        power = np.full(WHOLE.shape, 3, np.int32)
        mixed = lambda x: lib.mixed(x, power, x)[0]
        for spec in ("d",), (("d", "e"),), ("d", "e"), (None, "e"):
            x = laid(WHOLE, *spec)
            for function, wanted in ((lib.cube, 2 * WHOLE**3), (lib.sine, np.sin(WHOLE)), (mixed, WHOLE**4)):
                for out in (function(x), jax.jit(function)(x)):
                    right(out, wanted)
                    if spec_of(out) != spec_of(x):
                        raise AssertionError(f"{spec_of(out)}, expected {spec_of(x)}")
            for function in (lib.cube, jax.grad(lambda x: jnp.sum(lib.sine(x))), jax.vmap(lib.cube)):
                if moves(compiled(function, x)):
                    raise AssertionError(compiled(function, x).as_text())
        x, w = laid(WHOLE, "d"), laid(W)
        cases = [(lib.cube, lambda x: 2 * x**3, (x,)), (lib.rows, jnp.multiply, (x, w)), (lib.sum, jnp.add, (laid(WHOLE, "d", "e"),) * 2)]
        twice = lambda f: over_rows(over_rows(f))
        of = lambda outer, inner: lambda f: outer(inner(f))
        transforms = (slopes, over_rows, of(over_rows, slopes), of(slopes, over_rows), of(slopes, twice), looped, of(slopes, looped),
                      apart_by_type, of(slopes, apart_by_type))  # fmt: skip
        for function, reference, args in cases:
            for transform in transforms:
                as_jax(transform, function, reference, *args)
            right(slopes(function)(*args)[0], slopes(reference)(*args)[0])
        along = lambda f: lambda x: jax.jvp(f, (x,), (x * x,))
        for transform in (along, of(along, over_rows), of(over_rows, along), of(along, slopes), of(along, of(slopes, over_rows))):
            as_jax(transform, lib.sine, jnp.sin, x)
    # Without `set_mesh`, values on the mesh keep their division, and other values stay on their device.
    right(jax.vmap(lib.sum, (0, None))(x, WHOLE[0]), WHOLE + WHOLE[0])
    right(jax.vmap(jax.vmap(lib.rows, (0, None)), (0, None))(x, W), WHOLE * W)
    for transform in (slopes, of(over_rows, slopes), of(slopes, over_rows)):
        as_jax(transform, lib.cube, lambda x: 2 * x**3, x)
        as_jax(transform, lib.rows, jnp.multiply, x, w)
    as_jax(of(slopes, looped), lib.sum, jnp.add, x, x)


def processes():
    """Runs this file in two processes with two devices each, connected by gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, *sys.argv]
    children = [
        subprocess.Popen(
            command,
            env={**os.environ, "XLA_FFI_TEST_PROCESS": f"{i} 2 {place}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    texts = []
    try:
        for child in children:
            texts.append(child.communicate(timeout=180)[0])
    finally:
        for child in children:
            child.kill()
    for child, text in zip(children, texts):
        oks = [line for line in text.splitlines() if line.startswith("ok ")]
        if child.returncode != 0 or len(oks) != len(IN_PROCESSES):
            raise AssertionError(f"a process ended with {child.returncode}: {text}")


IN_PROCESSES = (batch_dimensions, replicated, gradients)


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    norm = xla_ffi.load(libraries["Rust:rms_norm"], prefix="Rust_rms_norm")
    product = xla_ffi.load(libraries["Rust:matmul"], prefix="Rust_matmul").matmul
    lib = xla_ffi.load(os.path.join(os.path.dirname(norm.path), "libderivatives.so"))
    if PROCESS and (len(jax.devices()), len(jax.local_devices())) != (4, 2):
        sys.exit(f"{jax.devices()}")
    alone = (contracted, in_shard_map, as_declared, side_effects, partly_manual, forward_mode, explicit)
    everywhere = IN_PROCESSES if PROCESS else (*IN_PROCESSES, *alone)
    for work in everywhere:
        check(f"sharding, {work.__name__}", lambda work=work: work(norm, lib, product))
    if not PROCESS:
        check("sharding, two processes of two devices each", processes)
    finish()


if __name__ == "__main__":
    main()
