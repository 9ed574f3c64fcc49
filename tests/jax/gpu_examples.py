"""Tests the GPU examples under JAX against jax.numpy.

usage: gpu_examples.py [--quick] [--command-buffers] LANGUAGE:EXAMPLE=LIBRARY…

With ``--command-buffers``, XLA_FLAGS must enable command buffers for custom calls, and the probe must be captured. See
gpu.py for ``--platform cpu``.
"""

import functools
import inspect
import threading

import gpu
import jax
import jax.numpy as jnp
import numpy as np
from checks import Skip, check, finish, raises

F32 = 1e-5
# Half a unit in the last place of bf16, plus the rounding of the reference.
BF16 = 1 / 128


def tiled_add(world, language):
    """several sizes under jit"""
    call = jax.jit(gpu.tiled_add(language))
    sizes = [(128, 2048), (128, 2000), (1, 7), (5, 3)]
    if not world.quick:
        sizes.append((128, 1 << 24))
    for m, n in sizes:
        b, c = gpu.numbers((m,)), gpu.numbers((n,), seed=1)
        gpu.close(call(b, c), gpu.tiled_add_reference(b, c), 0)


def rms_shapes(world):
    shapes = [(8,), (2, 3), (4, 5, 64), (3, 1028), (2, 4096)]
    return shapes if world.quick else [*shapes, (1, 1), (7, 8192), (3, 16384), (2, 32768), (3, 40000), (5, 1001), (4096, 4096)]


def rms_norm(world, language):
    """f32 and bf16 under jit and vmap"""
    call = jax.jit(gpu.rms_norm(language))
    for shape in rms_shapes(world):
        for dtype, tolerance in [(jnp.float32, F32), (jnp.bfloat16, BF16)]:
            x = gpu.numbers(shape, dtype)
            gpu.close(call(x), gpu.rms_norm_reference(x), tolerance)
    x = gpu.numbers((3, 4, 64))
    gpu.close(jax.jit(jax.vmap(call))(x), gpu.rms_norm_reference(x), F32)


def rms_norm_grad(world, language):
    """gradients against those of jax.numpy"""
    norm = gpu.rms_norm(language)
    for shape in rms_shapes(world):
        for dtype, tolerance in [(jnp.float32, 1e-4), (jnp.bfloat16, 4 * BF16)]:
            x, weight = gpu.numbers(shape, dtype), gpu.numbers(shape, dtype, seed=1)
            loss = lambda f: lambda x: jnp.sum((f(x) * weight).astype(jnp.float32))
            got = jax.jit(jax.grad(loss(norm)))(x)
            gpu.close(got, jax.grad(loss(gpu.rms_norm_reference))(x), tolerance)


def polynomial(world, language):
    """two states of one handler at once; a state that cannot be created"""
    x = gpu.numbers((1000,))
    ones, others = (1.0, 0.5, 2.0), (0.0, -1.0)
    both = jax.jit(lambda x: (gpu.polynomial(language, ones)(x), gpu.polynomial(language, others)(x)))
    for _ in range(3):
        got = both(x)
        gpu.close(got[0], gpu.polynomial_reference(x, ones), F32)
        gpu.close(got[1], gpu.polynomial_reference(x, others), F32)
    raises(Exception, lambda: jax.block_until_ready(jax.jit(gpu.polynomial(language, [1.0] * 9))(x)), "coefficients")


def total(world, language):
    """scratch memory, also in calls that run at the same time"""
    call = jax.jit(gpu.total(language))
    for count in [1, 255, 257, 5000] if world.quick else [1, 255, 257, 5000, 1 << 24]:
        x = jnp.round(gpu.numbers((count,)))
        gpu.close(call(x), jnp.sum(x), F32)
    xs = [jnp.round(gpu.numbers((3000,), seed=seed)) for seed in range(8)]
    for got, x in zip([call(x) for x in xs], xs):
        gpu.close(got, jnp.sum(x), F32)
    # The scratch memory is returned to XLA, so memory in use does not grow.
    if world.on_gpu:
        allocated = lambda: world.device.memory_stats()["bytes_in_use"]
        jax.block_until_ready(call(xs[0]))
        before = allocated()
        for _ in range(1000):
            jax.block_until_ready(call(xs[0]))
        assert allocated() - before < 1000 * 256, (before, allocated())


def axpy(world, language):
    """jit, and a donated operand"""
    x, y = gpu.numbers((5000,)), gpu.numbers((5000,), seed=1)
    wanted = np.asarray(3 * x + y)
    call = functools.partial(gpu.axpy(language), 3.0)
    gpu.close(jax.jit(call)(x, y), wanted, F32)
    aliased = jax.jit(
        lambda x, y: jax.ffi.ffi_call(
            f"{language}.axpy", jax.ShapeDtypeStruct(y.shape, y.dtype), input_output_aliases={1: 0}
        )(x, y, a=np.float32(3)),
        donate_argnums=1,
    )
    gpu.close(aliased(x, y), wanted, F32)


def tuples(world, language):
    """an adapted target of the original custom calls, also in a loop"""
    both = gpu.sum_and_difference(language)
    for count in [1, 257, 5000]:
        x, y = gpu.numbers((count,)), gpu.numbers((count,), seed=1)
        got = jax.jit(both)(x, y)
        gpu.close(got[0], x + y, 0)
        gpu.close(got[1], x - y, 0)
    # A second application doubles both arrays. The roots' host memory is reused in each iteration.
    back = jax.jit(lambda x, y: jax.lax.fori_loop(0, 40, lambda _, xy: both(*(0.5 * v for v in both(*xy))), (x, y)))
    for got, wanted in zip(back(x, y), (x, y)):
        gpu.close(got, wanted, 1e-4)


def together(world, language):
    """all handlers in one program, several times"""
    norm, add, poly = gpu.rms_norm(language), gpu.tiled_add(language), gpu.polynomial(language, (0.0, 2.0))

    @jax.jit
    def program(x, b):
        y = norm(x)
        z = add(b, y.reshape(-1))
        return gpu.axpy(language)(0.5, poly(z), z), gpu.total(language)(z)

    def reference(x, b):
        z = gpu.tiled_add_reference(b, gpu.rms_norm_reference(x).reshape(-1))
        return 0.5 * (2 * z) + z, jnp.sum(z)

    b = gpu.numbers((128,), seed=1)
    for seed in range(5):
        x = gpu.numbers((6, 256), seed=seed)
        got, wanted = program(x, b), reference(x, b)
        gpu.close(got[0], wanted[0], 1e-4)
        gpu.close(got[1], wanted[1], 1e-3)


def scan(world, language):
    """handlers inside lax.scan and lax.fori_loop"""
    norm, step = gpu.rms_norm(language), gpu.axpy(language)

    def loop(norm, step):
        def body(carry, x):
            carry = norm(step(0.5, carry, x))
            return carry, jnp.sum(carry)

        return jax.jit(lambda start, xs: jax.lax.scan(body, start, xs))

    reference = loop(gpu.rms_norm_reference, lambda a, x, y: a * x + y)
    start, xs = gpu.numbers((4, 64)), gpu.numbers((10, 4, 64), seed=1)
    got, wanted = loop(norm, step)(start, xs), reference(start, xs)
    gpu.close(got[0], wanted[0], 1e-4)
    gpu.close(got[1], wanted[1], 1e-3)
    times = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: step(0.1, x, x), x))
    gpu.close(times(start), start * np.float32(1.1) ** 20, 1e-4)


def threads(world, language):
    """several Python threads at once"""
    call = jax.jit(gpu.rms_norm(language))
    failures = []

    def work(seed):
        try:
            for i in range(3 if world.quick else 20):
                x = gpu.numbers((8, 256), seed=10 * seed + i)
                gpu.close(call(x), gpu.rms_norm_reference(x), F32)
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


def streams(world):
    """operations on separate streams in one program"""
    if not world.on_gpu:
        raise Skip("a CPU has no streams")
    from jax.experimental.compute_on import compute_on

    # The handlers are not jitted separately, because a call within a call would be annotated twice.
    norm, probe = gpu.rms_norm("rust"), gpu.probe()

    def on(stream, work):
        kind = f"gpu_stream:{stream}"
        if "out_memory_spaces" in inspect.signature(compute_on).parameters:
            return compute_on(work, compute_type=kind, out_memory_spaces=jax.memory.Space.Device)
        return compute_on(kind)(jax.jit(work))

    @jax.jit
    def program(x, y):
        one = on(1, lambda x: probe(norm(x)))(x)
        two = on(2, lambda y: probe(norm(y)))(y)
        return one + two, probe(norm(x + y))

    before = world.count("streams")
    for seed in range(5):
        x, y = gpu.numbers((64, 1024), seed=seed), gpu.numbers((64, 1024), seed=seed + 100)
        got = program(x, y)
        gpu.close(got[0], gpu.rms_norm_reference(x) + gpu.rms_norm_reference(y), F32)
        gpu.close(got[1], gpu.rms_norm_reference(x + y), F32)
    seen = world.count("streams")
    if max(seen, before) < 2:
        raise Skip("the numbers are right, but XLA ran everything on one stream")


def devices(world):
    """every device of the machine"""
    if len(jax.devices()) < 2:
        raise Skip("this machine has one device")
    for device in jax.devices():
        with jax.default_device(device):
            x = gpu.numbers((4, 256))
            for language in world.languages.get("rms_norm", []):
                gpu.close(jax.jit(gpu.rms_norm(language))(x), gpu.rms_norm_reference(x), F32)


def captures(world, asked):
    """a compatible handler is captured into a command buffer and replayed"""
    if not asked:
        raise Skip("command buffers are another run's")
    if not world.on_gpu:
        raise Skip("a CPU has no command buffers")
    probe = gpu.probe()
    programs = []
    for language in world.languages.get("axpy", []):
        step = gpu.axpy(language)
        programs.append(jax.jit(lambda x, y, step=step: step(2.0, probe(step(1.0, x, y)), y)))
    before, calls = world.count("captured"), world.count("calls")
    rounds = 20
    for seed in range(rounds):
        x, y = gpu.numbers((3000,), seed=seed), gpu.numbers((3000,), seed=seed + 100)
        for program in programs:
            gpu.close(program(x, y), 2 * (x + y) + y, F32)
    captured, calls = world.count("captured") - before, world.count("calls") - calls
    print(f"note: {rounds * len(programs)} executions, {calls} calls of the handler, {captured} of them captured")
    if captured == 0:
        raise AssertionError("no call was captured: is --xla_gpu_enable_command_buffer on for CUSTOM_CALL?")


def wrong_operands(world, language):
    """an error in a call reaches Python with its message"""
    x = jnp.ones((4,), jnp.int32)
    wrong = jax.jit(lambda x: gpu.call(f"{language}.rms_norm", x, x, eps=np.float32(1)))
    raises(Exception, lambda: jax.block_until_ready(wrong(x)), "neither f32 nor bf16")


def host_handler(world):
    """a host handler that was registered for CUDA refuses its first call and reports the remedy"""
    path = world.paths.get(("rust", "host_rms_norm"))
    if path is None:
        raise Skip("the library of a host handler was not given")
    x = gpu.numbers((4, 8))
    wrong = jax.jit(lambda x: gpu.call("rust.host_rms_norm", x, x, eps=np.float32(1e-5)))
    raises(Exception, lambda: jax.block_until_ready(wrong(x)), "device stream")


def loader(world):
    """the Python loader reads platform and stages from the manifest"""
    if not world.on_gpu:
        raise Skip("the manifest names platform CUDA alone")
    import xla_ffi

    lib = xla_ffi.load(str(world.paths["rust", "kernels"]), prefix="loaded")
    b, c = gpu.numbers((128,)), gpu.numbers((2048,), seed=1)
    gpu.close(jax.jit(lib.tiled_add)(b, c), gpu.tiled_add_reference(b, c), 0)


EXAMPLES = {
    "tiled_add": [tiled_add],
    "rms_norm": [rms_norm, rms_norm_grad, threads, wrong_operands],
    "polynomial": [polynomial],
    "sum": [total],
    "axpy": [axpy],
    "sum_and_difference": [tuples],
}


def main():
    parser = gpu.arguments(__doc__)
    parser.add_argument("--command-buffers", action="store_true")
    options = parser.parse_args()
    world = gpu.World(options)
    print(f"note: jax {jax.__version__} on {world.device.device_kind}")

    def registered():
        if world.refused:
            raise AssertionError("; ".join(f"{name}: {error}" for name, error in world.refused))

    check("every library is registered", registered)
    for example, works in EXAMPLES.items():
        for language in world.languages.get(example, []):
            for work in works:
                check(f"{language} {work.__name__}: {work.__doc__}", lambda: work(world, language))
    for language in world.languages.get("axpy", []):
        check(f"{language} together: {together.__doc__}", lambda: together(world, language))
        check(f"{language} scan: {scan.__doc__}", lambda: scan(world, language))
    for work in [streams, devices, host_handler, loader]:
        check(f"{work.__name__}: {work.__doc__}", lambda: work(world))
    check(f"captures: {captures.__doc__}", lambda: captures(world, options.command_buffers))
    finish()


if __name__ == "__main__":
    main()
