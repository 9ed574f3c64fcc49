"""Tests first calls from 64 threads at once.

usage: races.py LANGUAGE:EXAMPLE=LIBRARY…
"""

import os
import shutil
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
from cells import Absent, Subject, typed
from checks import built, check, finish, folder

THREADS = 64


def count(subject, number):
    """Calls a handler with state, whose type each library registers in its first call.

    Each program has a separate count.
    """
    call = jax.jit(
        lambda: subject.call("counter", typed(np.int32), has_side_effect=True, start=np.int32(number))
    )
    return [int(call()) for _ in range(3)], [number, number + 1, number + 2]


def double(subject, number):
    """Calls a handler whose futures other threads complete. Every fourth call fails."""
    x = jnp.arange(number, number + 5, dtype=np.float32)
    call = jax.jit(
        lambda x: subject.call("double_later", typed(np.float32, 5), x, delay_ms=np.int64(number % 4 - 1))
    )
    try:
        return list(np.asarray(call(x))), list(2 * np.asarray(x))
    except Exception as error:
        return ["delay_ms" in str(error)], [number % 4 == 0]


RACED = {"counter": count, "futures": double}


def race(example, kind, path):
    """Every thread registers, compiles and calls a handler for the first time. Four threads share each target name."""
    # Use a copy, because an example may already have called this library.
    path = shutil.copy(path, os.path.join(folder(), f"{example}.so"))
    begin, wrong, absent = threading.Barrier(THREADS), [], []

    def work(number):
        begin.wait()
        try:
            got, wanted = RACED[example](Subject(f"race{number // 4}_{kind}", path), number)
            if got != wanted:
                raise AssertionError(f"{got}, expected {wanted}")
        except Absent as error:
            absent.append(str(error))
        except Exception as error:
            lacks = "0.4.33" in str(error)  # This jaxlib does not support state.
            (absent if lacks else wrong).append(f"thread {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            raise AssertionError(f"a thread hangs; of the others: {wrong[:3]}")
    if wrong or len(absent) not in (0, THREADS):
        raise AssertionError(f"{len(wrong)} of {THREADS} threads: {[*wrong, *absent][0]}")


def main():
    for library in built(sys.argv[1:]):
        if library.example not in RACED:
            continue
        kind = {"C++": "cpp"}.get(library.language, library.language)
        check(f"{library.name}: first calls of {THREADS} threads", lambda: race(library.example, kind, library.path))
    finish()


if __name__ == "__main__":
    main()
