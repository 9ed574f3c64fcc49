"""Memory stays flat however often the examples are called in JAX.

usage: leaks.py CALLS LANGUAGE:EXAMPLE=LIBRARY…

Every call of the table that works is compiled once and executed in turn, until each example has been
called CALLS times, after a fifth as many for a warm-up. Grown is the heap that malloc has given out, and
the process as the system counts it.
"""

import ctypes
import gc
import sys

import jax
import jax.numpy as jnp
from built import built
from checks import Skip, check, finish
from examples import Loaded, Symbols, attributes, parsed, result_type

# What may be added: less than a byte a call where there are 100,000.
HEAP, RESIDENT = 96 << 10, 8 << 20


class Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def memory():
    """Bytes that the heap has given out, and that the process takes."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo
    heap = mallinfo2()
    with open("/proc/self/statm", encoding="ascii") as file:
        return heap.uordblks + heap.hblkhd, 4096 * int(file.read().split()[1])


def compiled(library, call):
    """The call as a function that executes it."""
    attrs = attributes(call.get("attrs", "{}").replace("delay_ms = 20", "delay_ms = 0"))
    options = {"effect": call.get("effect", False), "aliases": dict(call.get("aliases", []))}
    args = [jnp.asarray(parsed(arg)) for arg in call.get("args", [])]
    types = [result_type(expected) for expected in call["expect"]]
    results = types if len(types) > 1 else types[0]
    stages = tuple(call.get("stages", []))
    run = jax.jit(lambda *args: library(call["handler"], results, *args, stages=stages, **options, **attrs))
    return lambda: jax.block_until_ready(run(*args))


def flat(name, library, calls, times):
    works = [compiled(library, call) for call in calls if "error" not in call]
    if not works:
        raise Skip("it has no calls that work")

    def execute(times):
        for time in range(times):
            works[time % len(works)]()

    execute(max(times // 5, 20 * len(works)))
    before = memory()
    execute(times)
    after = memory()
    heap, resident = (b - a for a, b in zip(before, after))
    print(f"{name}: {times} calls, heap {heap:+} bytes, process {resident:+} bytes", flush=True)
    if heap > HEAP or resident > RESIDENT:
        raise AssertionError("memory grows")


def main():
    times, arguments = int(sys.argv[1]), sys.argv[2:]
    for library in built(arguments):

        def work():
            make = Loaded if library.language == "Rust" else Symbols
            made = make(library.path, library.name.replace(":", "_").replace("+", "p"))
            flat(library.name, made, library.calls, times)

        check(f"{library.name}: flat in JAX", work)
    finish()


if __name__ == "__main__":
    main()
