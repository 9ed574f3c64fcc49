"""The example libraries under jax.jit, compared to jax.numpy.

usage: examples.py [--table] LANGUAGE:EXAMPLE=LIBRARY…
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish

TOLERANCE = 1e-6


def tiled_add_reference(b, c):
    return jnp.tile(b, -(-c.shape[0] // b.shape[0]))[: c.shape[0]] + c


def rms_norm_reference(x, eps):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def difference(got, wanted):
    """The largest difference, relative where the numbers are large."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        raise AssertionError(f"shape {got.shape}, expected {wanted.shape}")
    return float(np.max(np.abs(got - wanted) / np.maximum(1, np.abs(wanted)), initial=0))


def numbers(*shape):
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.float32)


def tiled_add(lib):
    """Largest difference over several sizes, under jit."""
    call = jax.jit(lib.tiled_add)
    sizes = [(128, 2048), (128, 2000), (1, 7), (5, 3), (3, 0)]
    return max(difference(call(b, c), tiled_add_reference(b, c)) for b, c in ((numbers(m), numbers(n)) for m, n in sizes))


def rms_norm(lib):
    """Largest difference over several shapes, under jit and vmap."""
    call = jax.jit(lambda x: lib.rms_norm(x, eps=1e-6))
    worst = 0.0
    for shape in [(8,), (2, 3), (4, 5, 64), (1, 1), (2, 0, 3)]:
        x = numbers(*shape)
        worst = max(worst, difference(call(x), rms_norm_reference(x, 1e-6)))
    x = numbers(3, 4, 16)
    worst = max(worst, difference(jax.jit(jax.vmap(call))(x), rms_norm_reference(x, 1e-6)))
    # Without the attribute the handler's own default holds.
    return max(worst, difference(jax.jit(lib.rms_norm)(x), rms_norm_reference(x, 1e-5)))


def gradient(lib):
    """The gradient of a custom_vjp around the handler."""

    @jax.custom_vjp
    def norm(x):
        return lib.rms_norm(x, eps=1e-6)

    def backward(x, g):
        return jax.vjp(lambda x: rms_norm_reference(x, 1e-6), x)[1](g)

    norm.defvjp(lambda x: (norm(x), x), backward)
    x = numbers(4, 8)
    return difference(
        jax.grad(lambda x: jnp.sum(norm(x) ** 2 * x))(x),
        jax.grad(lambda x: jnp.sum(rms_norm_reference(x, 1e-6) ** 2 * x))(x),
    )


def error_text(lib):
    """What Python sees when the handler refuses a call that jax let through."""
    handler = lib.rms_norm
    wrong = jax.jit(
        lambda x: xla_ffi._jax.call(
            handler.target, [jax.ShapeDtypeStruct((2, 3), np.float32)], [x], {"eps": np.float32(1), "epz": 1}
        )[0]
    )
    try:
        jax.block_until_ready(wrong(numbers(2, 3)))
    except Exception as error:
        text = str(error)
        # r0 and r1 report every handler error as INTERNAL.
        code = "INVALID_ARGUMENT" if xla_ffi._jax.REVISION > 1 else "INTERNAL"
        if code not in text or "epz" not in text:
            raise AssertionError(f"neither code nor name in {text!r}") from error
        return f"{type(error).__name__}: {' '.join(text.split())}"
    raise AssertionError("no error")


EXAMPLES = {"tiled_add": [tiled_add], "rms_norm": [rms_norm, gradient]}

HOW = {"tiled_add": "jit", "rms_norm": "jit, vmap, grad by custom_vjp"}


def within(value):
    if not value <= TOLERANCE:
        raise AssertionError(f"differs from jax.numpy by {value}, more than {TOLERANCE}")


def main():
    arguments = sys.argv[1:]
    table = "--table" in arguments
    libraries = [argument.partition("=")[::2] for argument in arguments if argument != "--table"]
    for name, path in libraries:
        language, _, example = name.partition(":")
        lib = xla_ffi.load(path, prefix=f"{language}_{example}")
        if table:
            worst = max(work(lib) for work in EXAMPLES[example])
            within(worst)
            print(f"{example:<10}  {language:<5} {HOW[example]:<32}  max difference to jax.numpy {worst:.1e}")
            continue
        for work in EXAMPLES[example]:
            check(f"{name}, {work.__name__} against jax.numpy", lambda: within(work(lib)))
        if example == "rms_norm":
            check(f"{name}, an error reaches Python with code and text", lambda: error_text(lib))
    if table:
        name, path = next((name, path) for name, path in libraries if name.endswith(":rms_norm"))
        text = error_text(xla_ffi.load(path, prefix=name.replace(":", "_")))
        print(f"{'an error':<10}  {name.split(':')[0]:<5} {'jit, an unknown attribute':<32}  {text}")
    finish()


if __name__ == "__main__":
    main()
