"""First calls of 64 threads at once; interpreters that end while handlers run.

usage: races.py [--ends] LANGUAGE:EXAMPLE=LIBRARY…

``--ends`` adds the interpreters.
"""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
from built import built
from cells import Absent, Subject, typed
from checks import check, finish

THREADS = 64


def count(subject, number):
    """State, whose type each library registers with its first call: every program counts for itself."""
    call = jax.jit(
        lambda: subject.call("counter", typed(np.int32), has_side_effect=True, start=np.int32(number))
    )
    return [int(call()) for _ in range(3)], [number, number + 1, number + 2]


def double(subject, number):
    """Futures, which other threads complete; every fourth call fails."""
    x = jnp.arange(number, number + 5, dtype=np.float32)
    call = jax.jit(
        lambda x: subject.call("double_later", typed(np.float32, 5), x, delay_ms=np.int64(number % 4 - 1))
    )
    try:
        return list(np.asarray(call(x))), list(2 * np.asarray(x))
    except Exception as error:
        return ["delay_ms" in str(error)], [number % 4 == 0]


RACED = {"04_counter": count, "05_futures": double}


def race(example, kind, path):
    """Every thread registers (four share their targets' names), compiles and calls, all for the first time."""
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
            lacks = "0.4.33" in str(error)  # which has state
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


def slow(kind, path):
    """A compiled call that takes a while, after one that did not."""
    subject, x = Subject(kind, path), jnp.arange(4, dtype=np.float32)

    def call(delay):
        like = typed(np.float32, 4)
        return jax.jit(lambda: subject.call("double_later", like, x, delay_ms=np.int64(delay)))

    call(0)().block_until_ready()
    return call(500)


def ends_in_flight(kind, path):
    """In a process of its own: the interpreter ends while calls are under way."""
    call = slow(kind, path)
    kept = [call() for _ in range(4)]
    print("dispatched", len(kept), flush=True)


def ends_under_daemons(kind, path):
    """In a process of its own: the interpreter ends while calls of daemon threads are under way.

    Daemon threads that are inside jaxlib at the end abort the process in its own code, whatever they
    call there: these have left it.
    """
    call, dispatched = slow(kind, path), threading.Semaphore(0)

    def dispatch():
        kept = call()
        dispatched.release()
        threading.Event().wait()
        del kept

    for _ in range(4):
        threading.Thread(target=dispatch, daemon=True).start()
    for _ in range(4):
        dispatched.acquire()
    print("dispatched 4", flush=True)


ENDS = {"in flight": ends_in_flight, "under daemon threads": ends_under_daemons}


def ends(how, path):
    """Runs one of ``ENDS`` in a process, which ends well and soon."""
    command = [sys.executable, os.path.abspath(__file__), "--end", how, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or "dispatched" not in done.stdout:
        raise AssertionError(f"status {done.returncode}: {done.stdout[-200:]} {done.stderr[-1500:]}")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--end"]:
        return ENDS[arguments[1]]("ends", arguments[2])
    too = arguments[:1] == ["--ends"]
    for library in built(arguments[too:]):
        if library.example not in RACED:
            continue
        kind = {"C++": "cpp"}.get(library.language, library.language)
        check(f"{library.name}: first calls of {THREADS} threads", lambda: race(library.example, kind, library.path))
        for how in ENDS if too and library.example == "05_futures" else ():
            check(f"{library.name}: the interpreter ends {how}", lambda: ends(how, library.path))
    finish()


if __name__ == "__main__":
    main()
