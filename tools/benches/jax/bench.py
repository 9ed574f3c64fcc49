"""Measures the cost of a call in a real XLA, compared with alternatives; `cargo xtask bench --jax` runs this script.

    bench.py OUT RUST C OURS UPSTREAM TVM EMBEDDED

writes JSON to OUT. All libraries have `copy_1` and `copy_8`. RUST also has `rms_norm`, `softmax`, and the loops `scale`
and `newton` on one thread, on the host's pool and on rayon's. C and OURS, which is C++ with our headers, have these loops
on the host's pool. EMBEDDED is a program that calls RUST's copies on the embedded runtime and prints nanoseconds.

In a compiled loop, each iteration consumes the previous results, and the loop's length is an argument. The cost of an
iteration is the difference between a long and a short loop; for large arrays, it is the mean of a long loop. A dispatch is
one call of a jitted function, including the wait for its result. The minimum of many measurements counts, and the
alternatives are measured alternately.
"""

import ctypes
import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

OUT, RUST, C, OURS, UPSTREAM, TVM, EMBEDDED = sys.argv[1:]
SIZES = {16: 2000, 1 << 20: 40}
ROUNDS = 15


def library(path, prefix):
    loaded = ctypes.CDLL(path)
    for name in ("copy_1", "copy_8"):
        jax.ffi.register_ffi_target(f"{prefix}_{name}", jax.ffi.pycapsule(getattr(loaded, name)), platform="cpu")
    return lambda name, shapes: jax.ffi.ffi_call(f"{prefix}_{name}", shapes)


def tvm():
    import jax_tvm_ffi
    import tvm_ffi

    module = tvm_ffi.load_module(TVM)
    for name in ("copy_1", "copy_8"):
        jax_tvm_ffi.register_ffi_target(f"tvm_{name}", module[name], platform="cpu")
    return lambda name, shapes: jax.ffi.ffi_call(f"tvm_{name}", shapes)


def numba():
    """Returns calls of the legacy custom-call API, void(void* out, void** in), compiled by numba."""
    from numba import carray, cfunc, types

    kept = []

    def target(name, count, size):
        single = count == 1

        def copy_all(out, ins):
            for k in range(count):
                x = carray(ins[k], size)
                y = carray(out[k], size)
                y[:] = x

        def copy_one(out, ins):
            x = carray(ins[0], size)
            y = carray(out, size)
            y[:] = x

        pointer = types.CPointer(types.float32)
        signature = types.void(pointer if single else types.CPointer(pointer), types.CPointer(pointer))
        compiled = cfunc(signature)(copy_one if single else copy_all)
        kept.append(compiled)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = new(compiled.address, b"xla._CUSTOM_CALL_TARGET", None)
        jax.ffi.register_ffi_target(name, capsule, platform="cpu", api_version=0)

    def call(name, shapes):
        size = shapes[0].shape[0]
        unique = f"numba_{name}_{size}"
        if unique not in seen:
            seen.add(unique)
            target(unique, len(shapes), size)
        return jax.ffi.ffi_call(unique, shapes, custom_call_api_version=2)

    seen = set()
    return call


def callback():
    def copies(*xs):
        return tuple(np.array(x) for x in xs)

    return lambda name, shapes: lambda *xs: jax.pure_callback(copies, tuple(shapes), *xs)


def least(work, rounds=ROUNDS):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def loop_of(call, count):
    """Returns a compiled function that makes a given number of calls in a loop."""

    @jax.jit
    def loop(times, xs):
        return lax.fori_loop(0, times, lambda _, xs: tuple(call(*xs)), xs)

    return loop


def newton(x):
    root = x
    for _ in range(16):
        root = np.float32(0.5) * (root + x / root)
    return root


def threads():
    """Measures a loop limited by memory and a loop limited by computation, on one thread and on thread pools."""
    ways = {
        "one thread": (RUST, "one"),
        "for_each_chunk": (RUST, "host"),
        "xffi_for_each_range": (C, "host"),
        "ForEachRange": (OURS, "host"),
        "rayon": (RUST, "rayon"),
    }
    formulas = {"scale": lambda x: 2 * x + 1, "newton": newton}
    rows = []
    for body, formula in formulas.items():
        for way, (path, name) in ways.items():
            function = getattr(ctypes.CDLL(path), f"{body}_{name}")
            jax.ffi.register_ffi_target(f"{body} {way}", jax.ffi.pycapsule(function), platform="cpu")
        for elements in (1 << 16, 1 << 22 if body == "scale" else 1 << 20):
            x = jnp.asarray(np.random.default_rng(1).uniform(1, 4, elements).astype(np.float32))
            work = {
                way: jax.jit(lambda x, name=f"{body} {way}": jax.ffi.ffi_call(name, jax.typeof(x))(x))
                for way in ways
            }
            work["XLA:CPU"] = jax.jit(formula)
            for way, run in work.items():
                np.testing.assert_allclose(run(x), work["XLA:CPU"](x), rtol=2e-6, err_msg=way)
            wall, cpu = dict.fromkeys(work, float("inf")), dict.fromkeys(work, float("inf"))
            for _ in range(4 * ROUNDS):
                for way, run in work.items():
                    spent = time.process_time()
                    wall[way] = min(wall[way], least(lambda: jax.block_until_ready(run(x)), 10))
                    cpu[way] = min(cpu[way], (time.process_time() - spent) / 10)
            row = {"body": body, "elements": elements}
            row["us"] = {way: seconds * 1e6 for way, seconds in wall.items()}
            # Unlike elapsed time, the CPU time of all threads is independent of other work on the machine.
            row["processor_us"] = {way: seconds * 1e6 for way, seconds in cpu.items()}
            rows.append(row)
    return rows


def main():
    ways, absent = {}, {}
    makers = {
        "Rust": lambda: library(RUST, "rust"),
        "our C": lambda: library(C, "c"),
        "our C++": lambda: library(OURS, "ours"),
        "upstream's C++": lambda: library(UPSTREAM, "upstream"),
        "jax-tvm-ffi": tvm,
        "numba cfunc": numba,
        "pure_callback": callback,
    }
    for name, make in makers.items():
        try:
            ways[name] = make()
        except Exception as error:  # alternatives that cannot be loaded are reported
            absent[name] = f"{type(error).__name__}: {error}"
    rows = []
    # Callbacks are so slow that a few measurements are enough.
    slow = "pure_callback"
    for operands in (1, 8):
        for size, times in SIZES.items():
            xs = tuple(jnp.full((size,), float(k), jnp.float32) for k in range(operands))
            shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs]
            loops, singles = {}, {}
            for way, make in ways.items():
                few = 20 if way == slow else times
                try:
                    call = make(f"copy_{operands}", shapes)
                    loop, single = loop_of(call, operands), jax.jit(lambda *xs, call=call: tuple(call(*xs)))
                    for result, x in zip(jax.block_until_ready(loop(3, xs)), xs):
                        assert (np.asarray(result) == np.asarray(x)).all(), f"{way} copies something else"
                    jax.block_until_ready(single(*xs))
                    loops[way], singles[way] = (loop, few), single
                except Exception as error:
                    absent[f"{way}, {operands} + {operands}"] = f"{type(error).__name__}: {str(error)[:200]}"
            short, long = dict.fromkeys(loops, float("inf")), dict.fromkeys(loops, float("inf"))
            dispatch = dict.fromkeys(loops, float("inf"))
            for turn in range(ROUNDS):
                for way, (loop, few) in loops.items():
                    if way == slow and turn > 2:
                        continue
                    short[way] = min(short[way], least(lambda: jax.block_until_ready(loop(few // 10, xs)), 1))
                    long[way] = min(long[way], least(lambda: jax.block_until_ready(loop(few, xs)), 1))
                    single = singles[way]
                    dispatch[way] = min(dispatch[way], least(lambda: jax.block_until_ready(single(*xs)), 20))
            row = {"operands": operands, "elements": size, "loop_ns": {}, "dispatch_ns": {}}
            for way, (_, few) in loops.items():
                if size > 1000:  # a long loop is exact; a difference of two loops would be mostly noise
                    row["loop_ns"][way] = long[way] / few * 1e9
                else:
                    row["loop_ns"][way] = (long[way] - short[way]) / (few - few // 10) * 1e9
                row["dispatch_ns"][way] = dispatch[way] * 1e9
            rows.append(row)
    embedded = json.loads(subprocess.run([EMBEDDED, RUST], check=True, capture_output=True, text=True).stdout)
    for row in rows:
        row["loop_ns"]["embedded runtime"] = embedded[f"copy_{row['operands']}, {row['elements']}"]

    loaded = ctypes.CDLL(RUST)
    for name in ("rms_norm", "softmax"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(loaded, name)), platform="cpu")
    functions = {
        "rms_norm": lambda np, x: x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(1e-5)),
        "softmax": lambda np, x: (e := np.exp(x - np.max(x, -1, keepdims=True))) / np.sum(e, -1, keepdims=True),
    }
    bandwidth = []
    for name, formula in functions.items():
        for shape in ((1024, 1024), (64, 16384)):
            given = np.random.default_rng(1).standard_normal(shape, np.float32)
            x = jnp.asarray(given)
            ours = jax.jit(lambda x, name=name: jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
            fused = jax.jit(lambda x, formula=formula: formula(jnp, x))
            np.testing.assert_allclose(ours(x), fused(x), rtol=2e-5, atol=1e-7)
            work = {
                "Rust, thread pool": lambda: jax.block_until_ready(ours(x)),
                "XLA:CPU": lambda: jax.block_until_ready(fused(x)),
                "numpy": lambda: formula(np, given),
            }
            best = dict.fromkeys(work, float("inf"))
            for _ in range(ROUNDS):
                for way, run in work.items():
                    best[way] = min(best[way], least(run, 5))
            # The call reads each element once and writes each element once.
            gigabytes = 2 * given.nbytes / 1e9
            bandwidth.append(
                {
                    "function": name,
                    "shape": shape,
                    "us": {way: time * 1e6 for way, time in best.items()},
                    "gb_per_s": {way: gigabytes / time for way, time in best.items()},
                }
            )
    report = {
        "jax": jax.__version__,
        "calls": rows,
        "bandwidth": bandwidth,
        "threads": threads(),
        "absent": absent,
    }
    with open(OUT, "w") as out:
        json.dump(report, out, indent=1)
        out.write("\n")


main()
