"""Runs the rows of the hosts table for each library in this process's TensorFlow.

usage: tf_matrix.py ROWS KIND=LIBRARY… --twin KIND=LIBRARY… --legacy KIND=LIBRARY… [--row NAME]…

Prints one line of JSON per cell, in the format of matrix.py. TensorFlow is imported once. Each row of a library runs in
a child process that is forked before TensorFlow creates anything.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from checks import forked
from xla_ffi import _abi, _facts, _mlir, _tf_host

CODES = {
    tf.errors.CancelledError: "CANCELLED", tf.errors.UnknownError: "UNKNOWN", tf.errors.InvalidArgumentError: "INVALID_ARGUMENT",
    tf.errors.DeadlineExceededError: "DEADLINE_EXCEEDED", tf.errors.NotFoundError: "NOT_FOUND",
    tf.errors.AlreadyExistsError: "ALREADY_EXISTS", tf.errors.PermissionDeniedError: "PERMISSION_DENIED",
    tf.errors.ResourceExhaustedError: "RESOURCE_EXHAUSTED", tf.errors.FailedPreconditionError: "FAILED_PRECONDITION",
    tf.errors.AbortedError: "ABORTED", tf.errors.OutOfRangeError: "OUT_OF_RANGE", tf.errors.UnimplementedError: "UNIMPLEMENTED",
    tf.errors.InternalError: "INTERNAL", tf.errors.UnavailableError: "UNAVAILABLE", tf.errors.DataLossError: "DATA_LOSS",
    tf.errors.UnauthenticatedError: "UNAUTHENTICATED",
}  # fmt: skip


class Absent(Exception):
    """The host does not have the feature. The text is the host's error, or the reason."""


class Moot(Exception):
    """The row does not apply to the library."""


class _Register(ctypes.Structure):
    """Arguments of the function that registers a handler. Every host accepts this form."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("name_size", ctypes.c_size_t),
        ("platform", ctypes.c_char_p), ("platform_size", ctypes.c_size_t),
        ("instantiate", ctypes.c_void_p), ("prepare", ctypes.c_void_p), ("initialize", ctypes.c_void_p), ("execute", ctypes.c_void_p),
        ("traits", ctypes.c_uint32),
    ]  # fmt: skip


class Library:
    """A library whose handlers are registered as `KIND.NAME` when they are first called."""

    def __init__(self, host, kind, path):
        self.host, self.kind, self.path = host, kind, path
        self.image = ctypes.CDLL(path)
        self.known = set()

    def address(self, symbol):
        return ctypes.cast(getattr(self.image, symbol), ctypes.c_void_p).value if hasattr(self.image, symbol) else None

    def register(self, name):
        target = f"{self.kind}.{name}"
        if name in self.known:
            return target
        execute = self.address(name)
        if execute is None:
            if (self.kind, name) != ("c", "panic"):
                raise AssertionError(f"the library {self.kind!r} has no {name}, and nothing says why it could not")
            raise Moot("the language has no panics")
        args = _Register(
            struct_size=_Register.traits.offset + 4, name=target.encode(), name_size=len(target), platform=b"Host",
            platform_size=4, instantiate=self.address(f"{name}_instantiate"), execute=execute,
        )  # fmt: skip
        # The function is in slot 3 of the table, after the header of 48 bytes.
        register = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(ctypes.c_void_p.from_address(self.host.address + 48 + 3 * 8).value)
        error = register(ctypes.addressof(args))
        if error:
            raise RuntimeError(self.host.told(error))
        self.known.add(name)
        return target

    def call(self, name, rets, attrs="{}", aliases=(), has_side_effect=True, target=None):
        """Returns a compiled call as a function of its operands. `rets` are SPECs."""
        target = target or self.register(name)
        results = [shape_of(ret) for ret in rets]

        def run(*args):
            from tensorflow.compiler.tf2xla.ops import gen_xla_ops

            kinds = [(tuple(arg.shape.as_list()), np.dtype(arg.dtype.as_numpy_dtype)) for arg in args]
            rows = ["row"] * len(kinds), ["row"] * len(results)
            module = _mlir.call(target, kinds, results, {}, rows, aliases, has_side_effect)
            return gen_xla_ops.xla_call_module(
                list(args),
                version=9,
                module=module.replace("backend_config = {}", f"backend_config = {attrs}"),
                Sout=[list(shape) for shape, _ in results],
                Tout=[tf.as_dtype(dtype) for _, dtype in results],
                platforms=["CPU"],
                disabled_checks=[f"custom_call:{target}"],
            )

        return tf.function(run, jit_compile=True, autograph=False)


def shape_of(spec):
    """Returns the shape and NumPy dtype of a SPEC, with or without values."""
    if spec.startswith("token"):
        raise Absent("TensorFlow has no tokens: they are no tensors of a function")
    name, dims = re.fullmatch(r"(\w+)\[([\d,]*)\](?:=.*)?", spec).groups()
    dtype = _abi.numpy_dtype(name.upper())
    if _facts.ELEMENT_TYPES[name.upper()][1] in (2, 4):
        raise Absent(f"TensorFlow keeps {name} one element a byte, XLA's calls take them packed: the elements would be others")
    try:
        tf.as_dtype(dtype)
    except TypeError as error:
        raise Absent(f"TensorFlow has no {name}: {error}") from error
    return tuple(int(dim) for dim in dims.split(",") if dim), dtype


def array(spec):
    """Returns the array of a SPEC with values."""
    shape, dtype = shape_of(spec)
    values = [item for item in spec.split("=", 1)[1].split(",") if item]
    if dtype == np.bool_:
        return np.array([item == "true" for item in values]).reshape(shape)
    plain = np.array([float(item) for item in values]) if dtype.kind not in "iu" else np.array([int(item) for item in values], dtype)
    return plain.astype(dtype).reshape(shape)


def expect(got, wanted, what):
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape or got.tobytes() != wanted.tobytes():
        raise AssertionError(f"{what}: expected {wanted.dtype}{list(wanted.shape)} {wanted.tolist()}, got {got.dtype}{list(got.shape)} {got.tolist()}")


def one(library, call):
    """Makes one call from the file of rows and checks its result."""
    what = f"{call['handler']} {call['attrs']}"
    args = [tf.constant(array(arg)) for arg in call["args"]]
    run = library.call(call["handler"], call.get("rets", call.get("want")), call["attrs"], [(0, out) for out in call.get("aliases", ())])
    if "want" in call:
        for got, wanted in zip(run(*args), call["want"]):
            expect(got, array(wanted), what)
        return
    try:
        run(*args)
    except tf.errors.OpError as error:
        code, text = CODES.get(type(error), type(error).__name__), error.message
        # TensorFlow reserves UNAVAILABLE for its networking.
        code = "UNAVAILABLE" if "originally returned UnavailableError" in text else code
        missing = [part for part in call["texts"] if part not in text]
        if missing or code != call["code"]:
            raise AssertionError(f"{what}: expected {call['code']} with {call['texts']}, got {code}: {text}") from error
        return
    raise AssertionError(f"{what}: no error")


def scalar(library, name, *args, attrs="{}", rets=("s64[]",)):
    return [np.asarray(part).tolist() for part in library.call(name, rets, attrs)(*args)]


ONE = tf.constant  # called in the child process only


def state(world):
    library = world.library
    first, second = (library.call("counter", ["s64[]"], f"{{start = {start} : i64}}") for start in (10, 110))
    x = ONE(np.float32(1))
    got = [int(first(x)[0]) for _ in range(3)] + [int(second(x)[0]), int(first(x)[0])]
    if got != [10, 11, 12, 110, 13]:
        raise AssertionError(f"expected 10, 11, 12, 110, 13, got {got}")
    built, dropped = scalar(library, "counter_stats", rets=["s64[2]"])[0]
    if built < 2 or dropped > built - 2:
        raise AssertionError(f"two executables are alive: [built, dropped] is {[built, dropped]}")


def twins(world):
    x = ONE(np.float32(1))
    first, second = (each.call("counter", ["s64[]"], f"{{start = {start} : i64}}") for each, start in ((world.library, 10), (world.twin, 20)))
    got = [int(each(x)[0]) for _ in range(3) for each in (first, second)]
    if got != [10, 20, 11, 21, 12, 22]:
        raise AssertionError(got)


def two_libraries(world):
    scale = lambda library, factor: library.call("scale", ["f32[2]"], f"{{factor = {factor} : f32}}")
    x = ONE(np.array([1, 2], np.float32))
    both = tf.function(lambda x: scale(world.library, 10.0)(scale(world.twin, 2.0)(x)[0])[0], jit_compile=True, autograph=False)
    # The twin's handler adds 1.
    expect(both(x), np.array([30, 50], np.float32), "one behind the other")


def later(world):
    elsewhere, waited = scalar(world.library, "async_probe", rets=["s64[2]"])[0]
    if elsewhere != 1 or waited != 1:
        raise AssertionError(f"[elsewhere, later] is {[elsewhere, waited]}")


def pool_size(world):
    size = scalar(world.library, "pool_threads")[0]
    if not 1 <= size <= 4096:
        raise AssertionError(f"a pool of {size} threads")


def run_id(world):
    x = ONE(np.float32(1))
    ask = world.library.call("run_id", ["s64[]"])
    both = tf.function(lambda x: (ask(x)[0], ask(x + 1)[0]), jit_compile=True, autograph=False)
    seen = [tuple(int(part) for part in both(x)) for _ in range(3)]
    if seen == [(0, 0)] * 3:
        raise Absent("TensorFlow gives its executions no number: the run id is 0 in all of them")
    if any(first != second for first, second in seen) or len(set(seen)) != 3:
        raise AssertionError(f"three executions of two calls have the run ids {seen}")


def device_ordinal(world):
    if scalar(world.library, "device_ordinal", ONE(np.float32(1)), rets=["s32[]"]) != [0]:
        raise AssertionError("the only device is 0")


def custom_options(world):
    if scalar(world.library, "custom_options", ONE(np.float32(1))) != [0]:
        raise AssertionError("an execution has no options")


def optional_parts(world):
    found = scalar(world.library, "optional_parts", ONE(np.float32(1)), rets=["s64[3]"])[0]
    if found not in ([0, 0, 0], [1, 1, 1]):
        raise AssertionError(found)


def user_data(world):
    raise Absent("TensorFlow gives an execution no user data")


def itself(world):
    library = world.library
    for _ in range(2):
        said = world.host.enroll(library.image.xla_ffi_register) or ""
        if said and ("custom_options: " not in said or "1 of " not in said):
            raise AssertionError(said)
    # The C library and its C++ twin have a handwritten registration function, which puts the library's name before the
    # handler's name.
    target = "scale" if hasattr(library.image, "xla_ffi_manifest") else "conformance_c.scale"
    scale = library.call("scale", ["f32[2]"], "{factor = 2.0 : f32}", target=target)
    expect(scale(ONE(np.array([1, 2], np.float32)))[0], np.array([2, 4], np.float32), "registered by itself")


def threads(world):
    scale = world.library.call("scale", ["f32[1000]"], "{factor = 2.0 : f32}")
    x, wrong = tf.range(1000, dtype=tf.float32), []

    def work():
        try:
            for _ in range(50):
                expect(scale(x)[0], x.numpy() * 2, "a thread")
        except Exception as error:
            wrong.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    if wrong:
        raise wrong[0]


B = np.arange(1, 129, dtype=np.float32)
C = np.arange(2048, dtype=np.float32) / 2
A = B[np.arange(2048) % 128] + C


def adapted(world):
    library = world.legacy
    for name in ("tiled_add_cpu_ffi", "tiled_add_status_ffi", "tiled_add_checked_ffi"):
        expect(library.call(name, ["f32[2048]"])(ONE(B), ONE(C))[0], A, name)
    expect(library.call("tiled_add_unified_ffi", ["f32[2048]"], '{opaque = "12"}')(ONE(B), ONE(C))[0], A + 12, "opaque")
    first, second = library.call("tiled_add_tuples_ffi", ["f32[2048]"] * 2)(ONE(B), ONE(C))
    expect(first, A, "first")
    expect(second, A + 1, "second")


def adapted_failure(world):
    try:
        world.legacy.call("tiled_add_status_ffi", ["f32[2048]"])(ONE(-B), ONE(C))
    except tf.errors.OpError as error:
        if "B[0] is negative" not in error.message:
            raise
    else:
        raise AssertionError("no error")


def original(world):
    raise Absent("TensorFlow's libraries export no C function by which a target of the original custom calls could be registered")


def of_plugins(world):
    raise Moot("it is asked of PJRT plugins")


OWN = {
    "state": state, "the same state type in two libraries": twins, "two libraries at once": two_libraries,
    "async: completed later by another thread": later, "thread pool size": pool_size, "run id": run_id,
    "device ordinal": device_ordinal, "custom options": custom_options, "optional context parts": optional_parts,
    "user data": user_data, "a library that registers itself": itself, "calls from several threads": threads,
    "original custom calls": original, "adapted custom calls: results": adapted,
    "adapted custom calls: a failure reaches the caller": adapted_failure,
}  # fmt: skip

# These rows are the same for all libraries, so they run for only one kind of library.
OF_PLUGINS = {"plugin: user data without a context": of_plugins, "plugin: a refused handler is reported": of_plugins}


class Host(_tf_host.Host):
    """The host under test."""

    def told(self, error):
        """Returns the text of an error and destroys the error."""
        return self._told(error)


class World:
    """The libraries of one run."""

    def __init__(self, kind, paths, twins, originals):
        self.host = Host()
        self.library = Library(self.host, kind, paths[kind])
        self.twin = Library(self.host, f"{kind}_twin", twins[kind])
        self.legacy = Library(self.host, f"{kind}_legacy", originals[kind])


def verdict(error):
    """Returns the cell for an exception, and the cell's message."""
    text = " ".join(str(error).split())
    if isinstance(error, Absent):
        return "absent", text
    if isinstance(error, Moot):
        return "moot", text
    # Clear errors name the missing feature: the library's own error, a registration refused for its version, or an
    # attribute that the host cannot parse.
    if any(sign in text for sign in ("first jaxlib that has it is", "incompatible with the framework's API version", "Unsupported attribute type")):
        return "absent", text
    return "FAIL", f"{type(error).__name__}: {text}"


def child(rows, kind, given, row):
    try:
        world = World(kind, *given)
        own = OWN.get(row) or OF_PLUGINS.get(row)
        if own:
            own(world)
        else:
            for call in rows[row]:
                one(world.library, call)
        gc.collect()
        cell, message = "ok", ""
    except BaseException as error:  # An exception of any type determines the cell.
        cell, message = verdict(error)
    return {"cell": cell, "message": message[:2000]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("libraries", nargs="+", metavar="KIND=LIBRARY")
    parser.add_argument("--twin", action="append", required=True)
    parser.add_argument("--legacy", action="append", required=True)
    parser.add_argument("--row", action="append")
    options = parser.parse_args()
    with open(options.rows, encoding="utf-8") as file:
        rows = {row["row"]: row["calls"] for row in json.load(file)}
    given = [dict(item.split("=", 1) for item in items) for items in (options.libraries, options.twin, options.legacy)]
    for kind in given[0]:
        for row in options.row or [*rows, *OWN, *(OF_PLUGINS if kind == "rust" else ())]:
            start = time.monotonic()
            result, end = forked(lambda: child(rows, kind, given, row))  # noqa: B023
            result = result or {"cell": "FAIL", "message": end}
            seconds = round(time.monotonic() - start, 2)
            print(json.dumps({"library": kind, "feature": row, **result, "seconds": seconds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
