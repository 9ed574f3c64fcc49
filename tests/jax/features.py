"""The features of the support matrix. Each feature is a test that raises an exception if the tested property does not
hold.

A feature is a function of the world: ``world.library`` is the library under test, ``world.twin`` a second library, and
``world.bootstrap`` the handler that calls a registration entry. The first line of its docstring is its name in the
table.
"""

import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
from cells import Absent, Subject, expect, expect_error, f32, not_in, typed
from xla_ffi import _abi, _jax, _primitive

FEATURES = {}

ERROR_CODES = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


def feature(function):
    """Adds a function to the table."""
    name = function.__doc__.splitlines()[0]
    if name in FEATURES:
        raise ValueError(f"two features are called {name!r}")
    FEATURES[name] = function
    return function


def vector(n=5, dtype=np.float32):
    return jnp.arange(1, n + 1, dtype=dtype)


X = np.float32(1)
F = np.float32


@feature
def stateless(world):
    """stateless

    Calls a stateless handler with operands of several ranks.
    """
    for shape in [(), (5,), (2, 3), (2, 1, 2, 1, 2, 1)]:
        x = jnp.arange(np.prod(shape, dtype=int), dtype=F).reshape(shape)
        scale = jax.jit(lambda x: world.library.call("scale", f32(*x.shape), x, factor=F(1.5)))
        expect(scale(x), np.asarray(x) * F(1.5), f"shape {shape}")


@feature
def attribute_bool(world):
    """attribute: bool

    Passes each bool attribute to a handler that returns its value.
    """
    for value in (True, False):
        expect(world.library.call("echo_bool", typed(np.int64), value=value), np.int64(value))


@feature
def attribute_integers(world):
    """attribute: integers

    Passes the limits of every integer type as attributes.
    """
    kinds = {name: np.dtype(_abi.ATTRIBUTE_DTYPES[name]) for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")}
    # jax cannot make attributes above 2^63 - 1.
    for pick in (lambda i: i.min, lambda i: min(i.max, 2**63 - 1), lambda i: 7):
        attrs = {name: kind.type(pick(np.iinfo(kind))) for name, kind in kinds.items()}
        wanted = np.array([int(value) for value in attrs.values()], np.int64)
        expect(world.library.call("echo_ints", typed(np.int64, 8), **attrs), wanted)


@feature
def attribute_floats(world):
    """attribute: floats

    Passes f32 and f64 attributes, including infinity.
    """
    for value in (0.1, -3.5e30, np.inf):
        wanted = np.array([np.float64(F(value)), value])
        expect(world.library.call("echo_floats", typed(np.float64, 2), f32=F(value), f64=float(value)), wanted)


@feature
def attribute_string(world):
    """attribute: string

    Passes texts with non-ASCII characters, quotes and line breaks.
    """
    for text in ("plain", "grüße, 世界", "quote \" and \\ and \n"):
        data = np.frombuffer(text.encode(), np.uint8)
        expect(world.library.call("echo_string", typed(np.uint8, len(data)), text=text), data, repr(text))


def arrays(world, handler, kinds):
    attrs = {name: np.array([1, 2, 100 + i], _abi.ATTRIBUTE_DTYPES[name]) for i, name in enumerate(kinds)}
    wanted = np.concatenate([attrs[name].astype(np.float64) for name in kinds])
    expect(world.library.call(handler, typed(np.float64, wanted.size), **attrs), wanted)


@feature
def attribute_arrays(world):
    """attribute: arrays

    Passes arrays of signed integers and of floats as attributes.
    """
    arrays(world, "echo_arrays", ("i8", "i16", "i32", "i64", "f32", "f64"))


@feature
def attribute_unsigned_arrays(world):
    """attribute: unsigned arrays

    Passes arrays of unsigned integers as attributes.
    """
    arrays(world, "echo_unsigned_arrays", ("u8", "u16", "u32", "u64"))


@feature
def attribute_dictionary(world):
    """attribute: dictionary

    Passes a dictionary with a bool, an integer, a float and a text.
    """
    options = {"flag": True, "n": 3, "x": 0.5, "name": "four"}
    expect(world.library.call("echo_dict", typed(np.float64, 4), options=options), np.array([1, 3, 0.5, 4.0]))


@feature
def attribute_nested(world):
    """attribute: dictionary with dictionary and array

    Passes a dictionary that contains a dictionary and an array.
    """
    options = {"n": 2, "inner": {"x": 0.25}, "list": np.array([1, 2, 3], np.int64)}
    call = lambda: world.library.call("echo_nested", typed(np.float64, 3), options=options)
    try:
        got = call()
    except (TypeError, ValueError, NotImplementedError) as error:
        # jax's lowering refuses the dictionary, before any library is involved.
        raise Absent(f"jax {jax.__version__} passes no such dictionary: {error}") from error
    expect(got, np.array([2, 0.25, 6]))


@feature
def attribute_optional(world):
    """attribute: optional and default

    Omits an optional attribute and an attribute with a default.
    """
    call = lambda **attrs: world.library.call("echo_optional", typed(np.float64, 2), **attrs)
    expect(call(), np.array([7.0, -1.0]))
    expect(call(n=3), np.array([3.0, -1.0]))
    expect(call(n=3, x=0.5), np.array([3.0, 0.5]))


@feature
def tokens(world):
    """tokens

    Orders two calls by a token.
    """

    def ordered(x):
        token = jax.lax.create_token()
        for _ in range(2):
            token, x = world.library.call("add_tokens", [_jax.abstract_token(), f32(3)], token, x)
        return x

    expect(jax.jit(ordered)(vector(3)), np.array([3, 4, 5], F))


@feature
def zero_sized(world):
    """zero-size buffers

    Passes operands and results without elements.
    """
    x = jnp.zeros((2, 0, 3), F)
    got = world.library.call("describe", typed(np.int64, 8), x)
    expect(np.asarray(got)[1:], np.array([3, 0, 0, 2, 0, 3, -1]))
    # A zero-sized result: XLA may call the handler for its side effect, or skip it.
    expect(jax.jit(lambda x: world.library.call("scale", f32(2, 0, 3), x, factor=F(2), has_side_effect=True))(x), x)


def known_dtype(name):
    """Returns the NumPy dtype with this name. Raises Absent if jax does not support arrays of the dtype."""
    try:
        dtype = _abi.numpy_dtype(name)
        jax.dtypes.canonicalize_dtype(dtype)
        jax.eval_shape(lambda: jnp.zeros((1,), dtype))
    except (AttributeError, TypeError) as error:
        raise Absent(f"jax {jax.__version__} has no {name}: {error}") from error
    return dtype


def packed(world, name, low, high):
    """Checks sizes, unpacking and packing of one element type with an odd number of elements."""
    dtype = known_dtype(name)
    bits = 2 if name in ("S2", "U2") else 4
    count = 7
    values = (np.arange(count) % (high - low + 1) + low).astype(np.int8)
    make = values.astype(np.uint8) if name == "F4E2M1FN" else values
    # The values of F4E2M1FN with the bits 0…6.
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4], F)
    # The array is put on the device unchanged, because old compilers support few operations on packed types.
    x = jax.device_put((table if name == "F4E2M1FN" else make).astype(dtype))
    # As a parameter of a jitted function, the array keeps its packed form.
    got = jax.jit(lambda x: world.library.call("unpack", typed(np.int8, count), x))(x)
    expect(got, make.astype(np.int8), f"{name}, unpacked")
    sizes = np.asarray(jax.jit(lambda x: world.library.call("describe", typed(np.int64, 8), x))(x))
    expect(sizes[1:5], np.array([1, count, (count * bits + 7) // 8, count]), f"{name}, sizes")
    back = jax.jit(lambda v: world.library.call("pack", typed(dtype, count), v))(jnp.asarray(make.astype(np.int8)))
    expect(np.asarray(back).astype(F), np.asarray(x).astype(F), f"{name}, packed")


@feature
def sub_byte_declared(world):
    """sub-byte: int4 where the type is declared

    Unpacks int4 elements with a handler that declares the element type.
    """
    values = np.array([-8, 7, -1, 0, 3], np.int8)
    x = jax.device_put(values.astype(known_dtype("S4")))
    got = jax.jit(lambda x: world.library.call("unpack_s4", typed(np.int8, 5), x))(x)
    expect(got, values)


@feature
def sub_byte_4(world):
    """sub-byte: int4, uint4

    Packs and unpacks integers of four bits.
    """
    packed(world, "S4", -8, 7)
    packed(world, "U4", 0, 15)


@feature
def sub_byte_2(world):
    """sub-byte: int2, uint2

    Packs and unpacks integers of two bits.
    """
    packed(world, "S2", -2, 1)
    packed(world, "U2", 0, 3)


@feature
def sub_byte_float(world):
    """sub-byte: float4

    Packs and unpacks floats of four bits.
    """
    packed(world, "F4E2M1FN", 0, 6)


WHOLE_DTYPES = (
    "PRED", "S8", "S16", "S32", "S64", "U8", "U16", "U32", "U64", "F16", "BF16", "F32", "F64", "C64", "C128",
    "F8E4M3FN", "F8E4M3B11FNUZ", "F8E4M3FNUZ", "F8E5M2", "F8E5M2FNUZ",
)  # fmt: skip


def copied(world, name):
    dtype = _abi.numpy_dtype(name)
    x = jax.device_put(np.array([[0, 1, 2], [3, 1, 0]]).astype(dtype))
    got = jax.jit(lambda x: world.library.call("copy", typed(dtype, 2, 3), x))(x)
    expect(np.asarray(got).view(np.uint8), np.asarray(x).view(np.uint8), name)
    sizes = np.asarray(world.library.call("describe", typed(np.int64, 8), x))
    expect(sizes[1:6], np.array([2, 6, 6 * dtype.itemsize, 2, 3]), name)


@feature
def dtypes(world):
    """dtypes of whole bytes

    Copies arrays of every element type of at least one byte that all jaxlibs support.
    """
    for name in WHOLE_DTYPES:
        copied(world, name)


@feature
def dtypes_new(world):
    """dtypes F8E3M4, F8E4M3, F8E8M0FNU

    Copies arrays of the float types that later versions of jax added.
    """
    for name in ("F8E3M4", "F8E4M3", "F8E8M0FNU"):
        known_dtype(name)
        copied(world, name)


@feature
def variadic(world):
    """variadic operands

    Passes 1 to 11 operands to a handler with variadic operands.
    """
    for sizes in [(3,), (1, 2, 3), tuple(range(1, 12))]:
        args = [vector(n) for n in sizes]
        expect(world.library.call("sum_all", f32(), *args), F(sum(n * (n + 1) // 2 for n in sizes)))


@feature
def in_place(world):
    """in-out operands

    Calls a handler that changes an operand in place, with and without donation.
    """
    add = jax.jit(lambda x: world.library.call("increment", f32(5), x, aliases={0: 0}), donate_argnums=0)
    expect(add(vector()), np.arange(2, 7, dtype=F))
    # Without donation, XLA copies the array and leaves the caller's unchanged.
    x = vector()
    expect(jax.jit(lambda x: world.library.call("increment", f32(5), x, aliases={0: 0}))(x), np.arange(2, 7, dtype=F))
    expect(x, np.arange(1, 6, dtype=F))


def codes(world, handler):
    for code, name in enumerate(ERROR_CODES, 1):
        call = lambda: world.library.call(handler, f32(5), vector(), code=np.int32(code), message=f"told by {name}")
        text = expect_error(call, f"told by {name}")
        if _jax.REVISION <= 1 and name != "INTERNAL":
            if "INTERNAL" not in text:
                raise AssertionError(f"{name}: expected INTERNAL on this runtime: {text!r}")
        elif name not in text.split(":")[0]:
            raise AssertionError(f"{name} is not the code of {text!r}")
    if _jax.REVISION <= 1:
        raise Absent("this runtime reports every handler error as INTERNAL; the texts arrived")


@feature
def error_codes(world):
    """error codes

    A handler returns an error with each code, and jax reports the code.
    """
    codes(world, "fail")


@feature
def error_texts(world):
    """error texts

    jax reports error messages completely: long texts, line breaks, non-ASCII characters, NUL.
    """
    call = lambda text: world.library.call("fail", f32(5), vector(), code=np.int32(3), message=text)
    for text in ("line one\nline two", "grüße, 世界", "x" * 5000):
        expect_error(lambda text=text: call(text), text)
    # Text after a NUL must not be lost.
    expect_error(lambda: call("before\0after"), "before", "after")


@feature
def panics(world):
    """a panic is an error

    A handler panics, and jax reports an error with the message of the panic.
    """
    if not world.library.has("panic"):
        raise not_in(world.library.kind, "panic")
    code = ["INTERNAL"] if world.library.has_manifest else []
    for _ in range(3):
        expect_error(lambda: world.library.call("panic", f32(5), vector(), message="at the disco"), "at the disco", *code)
    stateless(world)


@feature
def wrong_calls(world):
    """a wrong call is refused

    Wrong attributes, element types, shapes and operand counts are errors.
    """
    call = lambda x, result, **attrs: lambda: world.library.call("scale", result, x, **attrs)
    expect_error(call(vector(), f32(5)), "factor")
    expect_error(call(vector(), f32(5), factor=1.5), "factor")
    expect_error(call(vector(), f32(5), factor="two"), "factor")
    expect_error(call(vector(), f32(5), factor=F(1), other=1), "other")
    expect_error(call(vector(5, np.int32), f32(5), factor=F(1)), "argument")
    expect_error(call(vector(), typed(np.int32, 5), factor=F(1)), "result")
    expect_error(call(vector(), f32(4), factor=F(1)), "y")
    expect_error(lambda: world.library.call("scale", f32(5), factor=F(1)))
    expect_error(lambda: world.library.call("scale", f32(5), vector(), vector(), factor=F(1)))
    stateless(world)


def register_upstream_type(library, name="upstream_counter"):
    """Registers upstream's state type from Python, if the jaxlib has a function for it."""
    if library.has_manifest or not hasattr(library.image, "counter_type_id"):
        return
    import ctypes

    # A type must be registered before the handlers that use it. Before the backend exists, jaxlib queues types and
    # handlers, and registers the handlers first.
    jax.devices()
    for symbol in ("counter_type_id", "counter_type_info"):
        getattr(library.image, symbol).restype = ctypes.c_void_p
    if hasattr(_jax._ffi, "register_ffi_type"):
        parts = {
            "type_id": _jax.capsule(library.image.counter_type_id()),
            "type_info": _jax.capsule(library.image.counter_type_info()),
        }
        _jax._ffi.register_ffi_type(name, parts, platform="cpu")
    elif hasattr(_jax._ffi, "register_ffi_type_id"):
        _jax._ffi.register_ffi_type_id(name, _jax.capsule(library.image.counter_type_id()), platform="cpu")


def counted(library, start):
    return jax.jit(lambda x: library.call("counter", typed(np.int64), x, start=start, has_side_effect=True))


def stats(library):
    return np.asarray(library.call("counter_stats", typed(np.int64, 2), has_side_effect=True)).tolist()


def own_state(library, start):
    count = counted(library, start)
    for step in range(3):
        expect(count(X), np.int64(start + step), f"call {step}")
    if stats(library) != [1, 0]:
        raise AssertionError(f"one compilation, three calls: [built, dropped] is {stats(library)}, expected [1, 0]")
    other = counted(library, start + 100)
    expect(other(X), np.int64(start + 100), "a second executable")
    expect(count(X), np.int64(start + 3), "the first again")
    del count, other
    jax.clear_caches()
    gc.collect()
    if stats(library) != [2, 2]:
        raise AssertionError(f"both executables are gone: [built, dropped] is {stats(library)}, expected [2, 2]")


@feature
def state(world):
    """state

    A handler counts its executions in its state.
    """
    register_upstream_type(world.library)
    own_state(world.library, 10)


@feature
def state_error(world):
    """an error in instantiate

    The instantiate stage returns an error.
    """
    register_upstream_type(world.library)
    expect_error(lambda: counted(world.library, -1)(X), "start")
    expect(counted(world.library, 0)(X), np.int64(0))


@feature
def state_twins(world):
    """the same state type in two libraries

    Two libraries have state types of the same name but separate objects.
    """
    register_upstream_type(world.library)
    # Each type needs a unique name, so the twin's type has a different name.
    register_upstream_type(world.twin, "upstream_counter_twin")
    first, second = counted(world.library, 10), counted(world.twin, 20)
    for step in range(3):
        expect(first(X), np.int64(10 + step))
        expect(second(X), np.int64(20 + step))
    if stats(world.library) != [1, 0] or stats(world.twin) != [1, 0]:
        raise AssertionError(f"[built, dropped]: {stats(world.library)} and {stats(world.twin)}")


@feature
def futures(world):
    """async: result

    Calls a handler whose result a different thread computes.
    """
    scale = jax.jit(lambda x: world.library.call("async_scale", f32(*x.shape), x, factor=F(3), delay_ms=20))
    expect(scale(vector()), np.arange(3, 18, 3, dtype=F))
    # Several calls run at once, and the result of one call is an operand of the next call.
    chain = jax.jit(lambda x: scale(scale(x)) + scale(x))
    expect(chain(vector()), np.arange(12, 72, 12, dtype=F))
    results = [scale(vector(n)) for n in range(1, 20)]
    for n, result in enumerate(results, 1):
        expect(result, np.arange(3, 3 * n + 3, 3, dtype=F))


@feature
def futures_thread(world):
    """async: completed later by another thread

    The handler returns before a different thread completes the call.
    """
    elsewhere, later = np.asarray(world.library.call("async_probe", typed(np.int64, 2), has_side_effect=True)).tolist()
    if elsewhere != 1:
        raise AssertionError("completed by the calling thread")
    if later != 1 and world.seen < 2:
        raise Absent("this runtime has no futures: the handler completed before the host went on")
    if later != 1:
        raise AssertionError("the handler waited, though this runtime has futures")


@feature
def futures_error(world):
    """async: errors

    A different thread completes the call with an error of each code.
    """
    codes(world, "async_fail")


@feature
def thread_pool(world):
    """thread pool

    Runs tasks on the host's thread pool.
    """
    n = 100_000
    run = jax.jit(lambda x: world.library.call("pool_sum", [f32(), typed(np.int64, 2)], x, tasks=8))
    for _ in range(3):
        total, (ran, elsewhere) = (np.asarray(part) for part in run(jnp.ones(n, F)))
        expect(total, F(n))
        if ran != 8:
            raise AssertionError(f"{ran} of 8 tasks ran")
        if elsewhere == 0:
            raise AssertionError("every task ran on the calling thread: the pool was not used")


@feature
def thread_pool_size(world):
    """thread pool size

    Returns the number of threads in the host's thread pool.
    """
    size = int(world.library.call("pool_threads", typed(np.int64), has_side_effect=True))
    if not 1 <= size <= 4096:
        raise AssertionError(f"a pool of {size} threads")
    if not world.library.has_manifest and world.seen < 3:
        raise AssertionError(f"a size of {size} where the runtime cannot tell one")


@feature
def run_id(world):
    """run id

    Calls in one execution have the same run id, and executions have different ids.
    """
    two = jax.jit(lambda x: [world.library.call("run_id", typed(np.int64), x + i, has_side_effect=True) for i in range(2)])
    seen = set()
    for _ in range(3):
        first, second = (int(value) for value in two(X))
        if first != second:
            raise AssertionError(f"one execution has the run ids {first} and {second}")
        seen.add(first)
    if len(seen) != 3:
        raise AssertionError(f"three executions have the run ids {sorted(seen)}")


@feature
def device_ordinal(world):
    """device ordinal

    A handler returns the index of the device that executes the call.
    """
    call = jax.jit(lambda x: world.library.call("device_ordinal", typed(np.int32), x, has_side_effect=True))
    devices = jax.devices()
    if len(devices) != 2:
        raise AssertionError(f"the driver wants 2 devices, there are {len(devices)}")
    for index, device in enumerate(devices):
        expect(call(jax.device_put(X, device)), np.int32(index))


@feature
def custom_options(world):
    """custom options

    A handler returns the number of custom options of the execution.
    """
    # jax does not support custom options yet, so an execution has none.
    expect(world.library.call("custom_options", typed(np.int64), X, has_side_effect=True), np.int64(0))


@feature
def optional_parts(world):
    """optional context parts

    A handler binds context values as optional, and returns whether the host provides them.
    """
    if not world.library.has("optional_parts"):
        raise not_in(world.library.kind, "optional_parts")
    have = world.library.call("optional_parts", typed(np.int64, 3), X, has_side_effect=True)
    expect(have, np.array([world.seen >= 4, world.seen >= 5, world.seen >= 3], np.int64))


@feature
def two_libraries(world):
    """two libraries at once

    Calls handlers of two libraries with equal names in one program.
    """
    both = jax.jit(lambda x: world.library.call("scale", f32(5), world.twin.call("scale", f32(5), x, factor=F(2)), factor=F(10)))
    expect(both(vector()), np.array([30, 50, 70, 90, 110], F))


@feature
def before_backend(world):
    """registration before the backend exists

    Handlers that are registered before jax creates its backend can be called.
    """
    world.library.register("scale")
    world.library.register("sum_all")
    jax.devices()
    stateless(world)
    variadic(world)


@feature
def after_backend(world):
    """registration after the backend exists

    Handlers that are registered after jax has created its backend can be called.
    """
    jax.block_until_ready(jnp.ones(3) + 1)
    world.library.register("scale")
    world.library.register("sum_all")
    stateless(world)
    variadic(world)


@feature
def self_registration(world):
    """a library that registers itself

    A library's registration function registers all of its handlers.
    """
    library = world.library
    if not hasattr(library.image, "xla_ffi_register"):
        raise not_in(library.kind, "xla_ffi_register")
    entry = library.address("xla_ffi_register")
    beyond = library.beyond(_jax.REVISION) if world.newest is None else []
    register = lambda: jax.jit(lambda x: world.bootstrap.call("bootstrap", f32(), x, entry=entry, has_side_effect=True))(X)
    for _ in range(2):
        # Registration is idempotent, so the library is registered twice.
        if not beyond:
            expect(register(), X)
            continue
        # Handlers that need a newer runtime are reported, one per line, and the others are registered.
        text = expect_error(register, *beyond, refusal=True)
        if f"{len(beyond)} of " not in text:
            raise AssertionError(f"only {beyond} may be refused: {text!r}")
    got = jax.jit(lambda x: _primitive.call(world.self_target("scale"), [f32(5)], [x], {"factor": F(2)})[0])(vector())
    expect(got, np.arange(2, 12, 2, dtype=F))


@feature
def vmap(world):
    """vmap

    Calls a handler under vmap with each method and several batch axes.
    """
    x = jnp.arange(6, dtype=F).reshape(2, 3)
    for method in ("sequential", "broadcast_all", "expand_dims", "legacy_vectorized"):
        scale = lambda x: world.library.call("scale", f32(*x.shape), x, factor=F(2), vmap_method=method)
        expect(jax.vmap(scale)(x), np.asarray(x) * 2, method)
        expect(jax.vmap(scale, in_axes=1, out_axes=1)(x), np.asarray(x) * 2, method)
    # The first operand has the batch dimension; the second does not.
    total = lambda x, y: world.library.call("sum_all", f32(), x, y, vmap_method="sequential")
    expect(jax.vmap(total, in_axes=(0, None))(x, vector(3)), np.asarray(x).sum(1) + 6)


@feature
def gradient(world):
    """gradient by custom_vjp

    Differentiates a call with a gradient that jax.custom_vjp declares.
    """

    @jax.custom_vjp
    def triple(x):
        return world.library.call("scale", f32(*x.shape), x, factor=F(3))

    triple.defvjp(lambda x: (triple(x), None), lambda _, g: (triple(g),))
    expect(jax.grad(lambda x: triple(x).sum())(vector(3)), np.full(3, 3, F))


@feature
def sharded(world):
    """shard_map

    Each of two devices calls the handler on its part of the operand.
    """
    try:
        from jax import shard_map
    except ImportError:
        from jax.experimental.shard_map import shard_map
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    # Each device receives its own half: 4 of 8 elements.
    scale = lambda x: world.library.call("scale", f32(4), x, factor=F(2))
    expect(jax.jit(shard_map(scale, mesh=mesh, in_specs=spec, out_specs=spec))(vector(8)), np.arange(2, 18, 2, dtype=F))
    # The result differs between devices, like its operand, so jax must not treat it as replicated.
    same = shard_map(scale, mesh=mesh, in_specs=spec, out_specs=jax.sharding.PartitionSpec())
    expect_error(lambda: same(vector(8)), "out_specs")


@feature
def threads(world):
    """calls from several threads

    Four threads call the same compiled function.
    """
    scale = jax.jit(lambda x: world.library.call("scale", f32(1000), x, factor=F(2)))
    x, wrong = vector(1000), []

    def work():
        try:
            for _ in range(50):
                expect(scale(x), np.asarray(x) * 2)
        except Exception as error:
            wrong.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if wrong:
        raise wrong[0]


class World:
    """The libraries of one run."""

    def __init__(self, kind, library, twin, bootstrap, original=None):
        self.library = Subject(kind, library)
        self.twin = Subject(f"{kind}_twin", twin)
        self.bootstrap = Subject("helper", bootstrap)
        #: The library of the example of the original custom calls, or None.
        self.original = original
        #: The newest revision that the libraries know, or None without a limit.
        self.newest = None

    @property
    def seen(self):
        """Returns the revision that the libraries assume. Before r5, libraries determine a table's contents only from
        its length."""
        if self.newest is None or _jax.REVISION <= self.newest:
            return _jax.REVISION
        return 1 if 0 < self.newest < 5 else self.newest

    def self_target(self, name):
        """Returns the target name under which a library's registration function registers a handler."""
        return self.library.own_target(name)


