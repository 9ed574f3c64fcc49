"""Tests the example libraries in JAX: the calls of examples/examples.json, and a typical use of each library.

usage: examples.py [--table] LANGUAGE:EXAMPLE=LIBRARY…

Rust libraries are loaded with ``xla_ffi.load``. C and C++ libraries are registered by symbol, with ``jax.ffi`` only.
Examples without a library are skipped, because there is no compiler for their language.
"""

import ctypes
import json
import os
import sys

# Suppresses XLA:CPU's warning about each untyped target.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax

jax.config.update("jax_enable_x64", True)  # some examples use f64

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from cells import as_far_as_it_goes, ffi, ffi_call  # noqa: E402
from checks import built, check, finish, skip, table  # noqa: E402
from jax.interpreters import mlir  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402
from xla_ffi import _abi, _jax  # noqa: E402

TOLERANCE = 1e-6
# Examples whose f32 results are less accurate, with the reason.
LOOSER = {
    # The gradient subtracts a sum of 64 products from a term of similar size.
    "rms_norm": 2e-6,
}


# ---- how a library is called -------------------------------------------------------------------


def plain(target, results, *args, aliases=None, effect=False, vmap_method=None, **attrs):
    """Makes a call with ``jax.ffi`` only. Returns one result."""
    aliases = dict(aliases or {}) or None
    function = ffi_call(
        target, results, has_side_effect=effect, vmap_method=vmap_method, input_output_aliases=aliases
    )
    return function(*args, **attrs)


class Loaded:
    """A library with a manifest, which determines result types, aliases and vmap."""

    def __init__(self, path, prefix):
        self.library, self.prefix = xla_ffi.load(path, prefix=prefix), prefix
        self.image = ctypes.CDLL(path)

    def target(self, name, _stages):
        return self.library[name].target

    def __call__(self, name, results, *args, aliases=None, effect=False, vmap_method="default", stages=(), **attrs):
        handler = self.library[name]
        # The types are needed only if the manifest does not determine them.
        given = results if any(ret.variadic for ret in handler.spec.rets) else None
        return handler(*args, result_shape_dtypes=given, has_side_effect=effect, vmap_method=vmap_method, **attrs)


class Symbols:
    """A library whose handlers are found by symbol: NAME for execute and NAME_STAGE for other stages."""

    def __init__(self, path, prefix):
        self.image, self.prefix, self.known = ctypes.CDLL(path), prefix, set()

    def target(self, name, stages):
        target = f"{self.prefix}.{name}"
        if target not in self.known:
            symbols = {"execute": name, **{stage: f"{name}_{stage}" for stage in stages}}
            capsules = {stage: ffi.pycapsule(getattr(self.image, symbol)) for stage, symbol in symbols.items()}
            ffi.register_ffi_target(target, capsules if stages else capsules["execute"], platform="cpu")
            self.known.add(target)
        return target

    def __call__(self, name, results, *args, stages=(), **options):
        return plain(self.target(name, stages), results, *args, **options)


# ---- the table's calls -------------------------------------------------------------------------


def parsed(spec):
    """Returns the array of a SPEC such as ``f32[2]=1,2``."""
    head, _, value = spec.partition("=")
    name, _, dims = head.rstrip("]").partition("[")
    dtype = _abi.numpy_dtype(name.upper())
    shape = tuple(int(dim) for dim in dims.split(",")) if dims else ()
    if value in ("iota", "ones", "zeros"):
        size = int(np.prod(shape))
        numbers = {"iota": np.arange(size), "ones": np.ones(size), "zeros": np.zeros(size)}[value]
    else:
        numbers = np.array([float(word) for word in value.split(",") if word])
    return numbers.reshape(shape).astype(dtype)


def result_type(spec):
    array = parsed(spec.partition("=")[0] + "=zeros")
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def attributes(text):
    """Returns the Python values of an MLIR dictionary, as jax accepts them."""

    def value(attr):
        if isinstance(attr, ir.DictAttr):
            return {named.name: value(named.attr) for named in attr}
        if isinstance(attr, (ir.FloatAttr, ir.IntegerAttr)):
            kinds = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
            return kinds[str(attr.type)](attr.value)
        if isinstance(attr, ir.StringAttr):
            return attr.value
        if isinstance(attr, ir.DenseF32ArrayAttr):
            return np.array(list(attr), np.float32)
        raise TypeError(f"{attr}: the examples have no such attribute so far")

    with mlir.make_ir_context():
        return value(ir.Attribute.parse(text))


def difference(got, wanted):
    """Returns the largest difference. For numbers over 1, the difference is relative."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise AssertionError(f"{got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}")
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    return float(np.max(np.abs(got - wanted) / np.maximum(1, np.abs(wanted)), initial=0))


def listed_call(library, call):
    """Makes a call of `examples/examples.json` and returns the largest difference from the expected results."""
    args = [jnp.asarray(parsed(arg)) for arg in call.get("args", [])]
    attrs = attributes(call.get("attrs", "{}"))
    options = {"effect": call.get("effect", False), "aliases": dict(call.get("aliases", []))}
    stages = tuple(call.get("stages", []))
    if "error" in call:
        # Bypass the loader, which refuses most of these calls before XLA compiles them.
        target, results = library.target(call["handler"], stages), [result_type(ret) for ret in call["rets"]]
        try:
            jax.block_until_ready(jax.jit(lambda *args: plain(target, results, *args, **options, **attrs))(*args))
        except Exception as error:
            # The first two revisions drop the error code.
            wanted = call["error"][_jax.REVISION < 2 :]
            missing = [part for part in wanted if part not in str(error)]
            if missing:
                raise AssertionError(f"{missing} not in {error}") from error
            return 0.0
        raise AssertionError("no error")
    types = [result_type(expected) for expected in call["expect"]]
    results = types if len(types) > 1 else types[0]
    run = jax.jit(lambda *args: library(call["handler"], results, *args, stages=stages, **options, **attrs))
    worst = 0.0
    for wanted in [call["expect"], *call.get("then", [])]:
        got = run(*args)
        got = got if isinstance(got, (list, tuple)) else [got]
        worst = max([worst, *(difference(a, parsed(b)) for a, b in zip(got, wanted, strict=True))])
    return worst


# ---- what each example is used for -------------------------------------------------------------


def numbers(*shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def tiled_add(library):
    """under jit"""

    def reference(b, c):
        return jnp.tile(b, -(-c.shape[0] // b.shape[0]))[: c.shape[0]] + c

    call = jax.jit(lambda b, c: library("tiled_add", like(c), b, c))
    sizes = [(128, 2048), (128, 2000), (1, 7), (5, 3), (3, 0)]
    return max(difference(call(b, c), reference(b, c)) for b, c in ((numbers(m), numbers(n)) for m, n in sizes))


def rms_norm(library):
    """under jit and vmap, with a gradient by custom_vjp"""
    eps = np.float32(1e-6)

    def reference(x):
        return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)

    @jax.custom_vjp
    def norm(x):
        return library("rms_norm", like(x), x, eps=eps, vmap_method="broadcast_all")

    def backward(x, g):
        return (library("rms_norm_backward", like(x), x, g, eps=eps, vmap_method="broadcast_all"),)

    norm.defvjp(lambda x: (norm(x), x), backward)

    def loss(function):
        return lambda x: jnp.sum(function(x) ** 2 * jnp.linspace(0, 1, x.shape[-1], dtype=x.dtype))

    # The reference uses f64, so that differences are due to the handlers only.
    exact = lambda function, x: function(x.astype(np.float64)).astype(np.float32)
    worst = 0.0
    for shape in [(8,), (2, 3), (4, 5, 64), (1, 1), (2, 0, 3)]:
        x = numbers(*shape)
        worst = max(worst, difference(jax.jit(norm)(x), exact(reference, x)))
        worst = max(worst, difference(jax.jit(jax.grad(loss(norm)))(x), exact(jax.grad(loss(reference)), x)))
    x = numbers(3, 4, 16)
    worst = max(worst, difference(jax.jit(jax.vmap(norm))(x), exact(reference, x)))
    rows = lambda function: jax.vmap(jax.vmap(jax.grad(loss(function))))
    return max(worst, difference(rows(norm)(x), exact(rows(reference), x)))


def attributes_example(library):
    """under jit: array, enumeration, dictionary, defaults"""
    x, weights = numbers(50), np.random.default_rng(1).standard_normal(7).astype(np.float32)
    worst = 0.0
    for edge, mode in enumerate(("constant", "edge", "wrap")):
        wanted = 2 * jnp.correlate(jnp.pad(x, 3, mode=mode), weights, mode="valid") - 1
        scale = {"gain": np.float32(2), "offset": np.float32(-1)}
        call = jax.jit(lambda x: library("filter", like(x), x, weights=weights, edge=np.int32(edge), scale=scale))
        worst = max(worst, difference(call(x), wanted))
    plainly = jax.jit(lambda x: library("filter", like(x), x, weights=weights))(x)
    worst = max(worst, difference(plainly, jnp.correlate(jnp.pad(x, 3), weights, mode="valid")))
    for degree in (0, 5):
        result = jax.ShapeDtypeStruct((50, degree + 1), np.float32)
        powers = jax.jit(lambda x: library("powers", result, x, degree=degree))(x)  # noqa: B023
        worst = max(worst, difference(powers, jnp.vander(x, degree + 1, increasing=True)))
    return worst


def counter(library):
    """under jit; each call site has a separate count"""
    count = lambda start: library(
        "counter", jax.ShapeDtypeStruct((), np.int32), start=np.int32(start), effect=True, stages=("instantiate",)
    )
    both = jax.jit(lambda: (count(1), count(100)))
    for step in range(3):
        got = tuple(int(value) for value in both())
        if got != (1 + step, 100 + step):
            raise AssertionError(f"execution {step}: {got}")
    again = jax.jit(lambda: count(1))
    if int(again()) != 1 or int(both()[0]) != 4:
        raise AssertionError("a new program begins anew, and leaves the old one as it is")
    return 0.0


def futures(library):
    """under jit: chained calls and concurrent calls"""
    x = numbers(100)
    double = jax.jit(lambda x: library("double_later", like(x), x, delay_ms=20))
    worst = difference(jax.jit(lambda x: double(double(x)) + double(x))(x), 6 * x)
    flying = [double(x + i) for i in range(10)]
    return max([worst, *(difference(y, 2 * (x + i)) for i, y in enumerate(flying))])


def aliasing(library):
    """under jit with donation, which avoids a copy"""
    x, a = numbers(1000), np.float32(3)
    axpy = lambda x, y: library("axpy", like(y), x, y, a=a, aliases={1: 0})
    y = numbers(1000) + 1
    # Without donation, XLA copies the array and leaves the caller's unchanged.
    before = np.array(y)
    worst = difference(jax.jit(axpy)(x, y), a * x + before)
    worst = max(worst, difference(y, before))
    place = y.unsafe_buffer_pointer()
    z = jax.jit(axpy, donate_argnums=1)(x, y)
    if z.unsafe_buffer_pointer() != place:
        raise AssertionError("the result is not where the donated argument was")
    return max(worst, difference(z, a * x + before))


def threads(library):
    """under jit and vmap, with one task per row"""
    softmax = jax.jit(lambda x: library("softmax", like(x), x, vmap_method="broadcast_all"))
    worst = 0.0
    for shape in [(1000, 64), (3,), (2, 3, 5), (16, 1), (0, 4)]:
        x = numbers(*shape)
        worst = max(worst, difference(softmax(x), jax.nn.softmax(x)))
    x = numbers(4, 5, 6)
    return max(worst, difference(jax.vmap(softmax, in_axes=1, out_axes=1)(x), jax.nn.softmax(x)))


def variadic(library):
    """under jit and vmap, with 1 to 12 operands"""
    worst = 0.0
    for count in range(1, 13):
        xs, weights = numbers(count, 3, 4), np.arange(1, count + 1, dtype=np.float32)
        call = jax.jit(lambda *xs: library("weighted_sum", like(xs[0]), *xs, weights=weights, vmap_method="sequential"))
        wanted = np.tensordot(weights.astype(np.float64), np.asarray(xs), 1).astype(np.float32)
        worst = max(worst, difference(call(*xs), wanted), difference(jax.vmap(call)(*xs), wanted))
    return worst


def matmul(library):
    """under jit, f32 and f64, with a gradient by custom_vjp"""

    @jax.custom_vjp
    def product(x, y):
        result = jax.ShapeDtypeStruct((*x.shape[:2], y.shape[2]), x.dtype)
        return library("matmul", result, x, y)

    def backward(kept, g):
        x, y = kept
        return product(g, y.swapaxes(1, 2)), product(x.swapaxes(1, 2), g)

    product.defvjp(lambda x, y: (product(x, y), (x, y)), backward)
    loss = lambda function: lambda x, y: jnp.sum(jnp.sin(function(x, y)))
    worst = 0.0
    for dtype in (np.float32, np.float64):
        x, y = numbers(3, 4, 5, dtype=dtype), numbers(3, 5, 6, dtype=dtype)
        # The references use f64, so that differences are due to the handlers only.
        wide = x.astype(np.float64), y.astype(np.float64)
        worst = max(worst, difference(jax.jit(product)(x, y), jnp.matmul(*wide).astype(dtype)))
        slopes, wanted = jax.grad(loss(product), (0, 1))(x, y), jax.grad(loss(jnp.matmul), (0, 1))(*wide)
        worst = max([worst, *(difference(a, b.astype(dtype)) for a, b in zip(slopes, wanted))])
    return worst


def int4(library):
    """under jit, with two values per byte in operand and result"""
    worst = 0.0
    for shape in [(4, 6), (3, 5), (1, 1), (0, 3)]:
        # The array is put on the device unchanged. As a parameter, the array keeps its packed form.
        values = np.random.default_rng(2).integers(-8, 8, shape)
        q, scale = jax.device_put(values.astype(jnp.int4.dtype)), numbers(shape[0])
        result = jax.ShapeDtypeStruct(shape, np.float32)
        call = jax.jit(lambda q, scale: library("dequantize", result, q, scale))
        worst = max(worst, difference(call(q, scale), values.astype(np.float32) * np.asarray(scale)[:, None]))
    return worst


def legacy(library):
    """under jit: targets of the original custom calls"""
    b, c = numbers(128), numbers(2048)
    worst = 0.0
    for version, symbol in ((1, "tiled_add_cpu"), (2, "tiled_add_status")):
        # The loader has already registered the names in the library's list.
        target = f"{library.prefix}.{symbol}.symbol"
        address = ffi.pycapsule(getattr(library.image, symbol))
        ffi.register_ffi_target(target, address, platform="cpu", api_version=0)
        old = ffi_call(target, like(c), custom_call_api_version=version, legacy_backend_config="")
        worst = max(worst, difference(jax.jit(old)(jnp.abs(b), c), jnp.tile(jnp.abs(b), 16) + c))
    return worst


USES = {
    "tiled_add": tiled_add,
    "rms_norm": rms_norm,
    "attributes": attributes_example,
    "counter": counter,
    "futures": futures,
    "aliasing": aliasing,
    "threads": threads,
    "variadic": variadic,
    "matmul": matmul,
    "int4": int4,
    "legacy": legacy,
}


# ---- the driver --------------------------------------------------------------------------------


def within(value, tolerance=TOLERANCE):
    if not value <= tolerance:
        raise AssertionError(f"differs by {value}, more than {tolerance}")
    return value


def there(entry):
    """Returns true if this jaxlib's revision supports an example or a call."""
    return _jax.REVISION >= int(entry.get("since", "r0")[1:])


def used(library, example, calls):
    """Checks one example in one language and returns the largest difference."""
    for call in (call for call in calls if there(call)):
        try:
            within(listed_call(library, call))
        except Exception as error:
            raise AssertionError(f"{json.dumps(call)}: {error}") from error
    return within(USES[example](library), LOOSER.get(example, TOLERANCE)) if example in USES else 0.0


def main():
    arguments = sys.argv[1:]
    shown = "--table" in arguments
    rows = {}
    for library in built(argument for argument in arguments if argument != "--table"):
        language, example, calls = library.language, library.example, library.calls

        def work():
            if not there(table()[example]):
                skip(f"this jaxlib lacks it: it takes {table()[example]['since']}")
            make = Loaded if language == "Rust" else Symbols
            worst = as_far_as_it_goes(used, make(library.path, f"{language}_{example}"), example, calls)
            row = rows.setdefault(example, [[], 0.0, 0])
            row[:] = [row[0] + [language], max(row[1], worst), row[2] + len(calls)]

        check(f"{library.name} in JAX, {len(calls)} calls and what it is used for", work, quiet=shown)
    for example, (languages, worst, calls) in rows.items() if shown else ():
        how = USES[example].__doc__ if example in USES else "jit"
        print(f"{example:<14}{how:<58}{', '.join(languages):<14}{calls} calls right, max difference {worst:.1e}")
    finish()


if __name__ == "__main__":
    main()
