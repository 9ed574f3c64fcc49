"""Tests recorded calls: every example is recorded in JAX and replayed by `xla-ffi run --replay`, with equal bits.

usage: record.py [LANGUAGE:EXAMPLE=LIBRARY…]

Needs the command line (`XLA_FFI_CLI`, or `target/debug/xla-ffi`) and `libxla_ffi_record.so` (`XLA_FFI_RECORDER`, or in
`target`). Libraries in C and C++ are interposed manually, as users do without `xla_ffi.load`.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax

jax.config.update("jax_enable_x64", True)  # some examples use f64

import examples  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import xla_ffi  # noqa: E402
from cells import as_far_as_it_goes  # noqa: E402
from checks import Skip, built, check, finish, folder, raises  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = os.environ.get("XLA_FFI_CLI") or os.fspath(ROOT / "target/debug/xla-ffi")


def replay(library, source, *options, code=0):
    """Replays a recording and returns the command line's output."""
    done = subprocess.run([CLI, "run", library, "--replay", source, *options], capture_output=True, text=True)
    if code is not None and done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def files(directory):
    return sorted(pathlib.Path(directory).glob("*.xlacall"))


def recorded(work, **options):
    """Records the calls that ``work`` makes. Returns the directory and the recording."""
    directory = os.fspath(folder())
    with xla_ffi.record(directory, **options) as recording:
        work(recording)
    return directory, recording


class Interposed(examples.Symbols):
    """A library whose handlers are registered manually, with the addresses of a recording."""

    def __init__(self, path, prefix, recording):
        super().__init__(path, prefix)
        self.path, self.recording = path, recording

    def target(self, name, stages):
        target = f"{self.prefix}.{name}"
        if target not in self.known:
            import ctypes

            symbols = {"execute": name, **{stage: f"{name}_{stage}" for stage in stages}}
            address = lambda symbol: ctypes.cast(getattr(self.image, symbol), ctypes.c_void_p).value
            addresses = {stage: address(symbol) for stage, symbol in symbols.items()}
            addresses = self.recording.interpose(self.path, name, symbols, addresses)
            xla_ffi._jax.register(target, addresses, "cpu")
            self.known.add(target)
        return target


def every_call(language, example, path, calls):
    """Records all calls that examples.py makes with a library, and replays them."""

    def work(recording):
        prefix = f"{language}_{example}"
        if language == "Rust":
            library = examples.Loaded(path, prefix)
        else:
            library = Interposed(path, prefix, recording)
        if language == "Rust":
            # Calls by target name through jax.ffi are also recorded.
            plain = library.target
            library.target = lambda name, stages: xla_ffi._record.target_now(plain(name, stages))
        for call in filter(examples.there, calls):
            examples.listed_call(library, call)
        if example in examples.USES and example != "legacy":
            with contextlib.suppress(Skip):
                as_far_as_it_goes(examples.USES[example], library)

    if not examples.there(examples.table()[example]):
        raise Skip(f"this jaxlib lacks it: it takes {examples.table()[example]['since']}")
    directory, recording = recorded(work)
    if not calls or all(call.get("languages") == [] for call in calls):
        raise AssertionError("nothing was called")
    executions = len(files(directory))
    if recording.calls != executions or recording.truncated or recording.failed or recording.unfinished:
        raise AssertionError(f"{vars(recording)}, {executions} files")
    told = replay(path, directory)
    if f"{executions} calls: {executions} equal, 0 differ, 0 not compared" not in told:
        raise AssertionError(told)


# ---- more than the examples do ------------------------------------------------------------------


def conformance(name="conformance"):
    path = ROOT / f"target/release/examples/lib{name}.so"
    if not path.exists():
        raise Skip(f"{path} is not built")
    return os.fspath(path)


def only_within_the_block():
    """A function that was compiled before the block is recorded in the block but not after it. A single file can be
    replayed."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.arange(3, dtype=jnp.float32)
    scale = jax.jit(lambda x: lib.scale(x, factor=2.0))
    scale(x)
    directory, recording = recorded(lambda _: scale(x).block_until_ready())
    scale(x).block_until_ready()
    if recording.calls != 1 or len(files(directory)) != 1:
        raise AssertionError(f"{recording.calls} calls")
    if "@recorded" in scale.lower(x).as_text():
        raise AssertionError("after the block calls still go through the recorder")
    told = replay(path, files(directory)[0])
    if "call 1, scale (execute): equal, 1 result, 12 bytes" not in told:
        raise AssertionError(told)


def states():
    """Each call uses the state of its own instantiation.

    The replay of a single call includes earlier calls with the same state.
    """
    if xla_ffi._jax.REVISION < 1:
        raise Skip("no state in this jaxlib")
    path = conformance()
    lib = xla_ffi.load(path)
    count = lambda start: lib.counter(jnp.float32(0), start=start, has_side_effect=True)

    def work(_):
        both = jax.jit(lambda: (count(10), count(100)))
        for step in range(3):
            got = [int(value) for value in both()]
            if got != [10 + step, 100 + step]:
                raise AssertionError(got)

    directory, recording = recorded(work)
    told = replay(path, directory)
    if recording.calls != 8 or "8 calls: 8 equal" not in told:
        raise AssertionError(told)
    told = replay(path, files(directory)[-1])
    if "call 8, counter (execute): equal" not in told or "1 calls: 1 equal" not in told:
        raise AssertionError(told)


def later():
    """Results and errors of asynchronous handlers are recorded when they complete."""
    if xla_ffi._jax.REVISION < 2:
        raise Skip("no futures in this jaxlib")
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.arange(1000, dtype=jnp.float32)

    def work(_):
        for delay in (0, 30):
            lib.async_scale(x, factor=3.0, delay_ms=delay).block_until_ready()
        fail = lambda: lib.async_fail(x, code=5, message="no such thing", result_shape_dtypes=examples.like(x))
        raises(Exception, lambda: jax.block_until_ready(fail()), "no such thing")

    directory, recording = recorded(work)
    told = replay(path, directory)
    if (recording.calls, recording.unfinished) != (3, 0) or "3 calls: 3 equal" not in told or "the same error" not in told:
        raise AssertionError(told)


def errors():
    """The code and text of a handler's error are compared."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.zeros(1, jnp.float32)
    fail = lambda: jax.block_until_ready(lib.fail(x, code=9, message="out of luck", result_shape_dtypes=examples.like(x)))
    directory, _ = recorded(lambda _: raises(Exception, fail, "out of luck"))
    if "the same error" not in replay(path, directory):
        raise AssertionError("the error is not the same")


def differences():
    """Different results are reported by element, with both values."""
    lib = xla_ffi.load(conformance())
    x = jnp.arange(3, dtype=jnp.float32)
    directory, _ = recorded(lambda _: lib.scale(x, factor=2.0).block_until_ready())
    twin = conformance("conformance_twin")
    told = replay(twin, files(directory)[0], "--handler", "scale", code=1)
    if "3 of 3 elements differ, the first at 0: expected 0, got 1" not in told:
        raise AssertionError(told)


def limit():
    """Operands over the limit are omitted, and a warning reports this."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.arange(1000, dtype=jnp.float32)

    def work(_):
        for factor in (1.0, 2.0):
            lib.scale(x, factor=factor).block_until_ready()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        directory, recording = recorded(work, limit=8000)
    told = [warning for warning in told if "limit=8000" in str(warning.message)]
    if recording.truncated != 1 or [warning.filename for warning in told] != [__file__]:
        raise AssertionError(f"{vars(recording)}, {told}")
    said = replay(path, directory)
    if "2 calls: 1 equal, 0 differ, 1 not compared" not in said or "reached its size limit" not in said:
        raise AssertionError(said)


CRASHES = """
import sys, jax.numpy as jnp, xla_ffi, ctypes
lib = xla_ffi.load(sys.argv[1])
x = jnp.arange(3, dtype=jnp.float32)
lib.scale(x, factor=2.0).block_until_ready()
with xla_ffi.record(sys.argv[2]) as recording:
    lib.scale(x, factor=3.0).block_until_ready()
    abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    before = recording.interpose(sys.argv[1], "abort", {"execute": "scale"}, {"execute": abort})
    xla_ffi._jax.register("abort", before, "cpu") if xla_ffi._jax.REVISION == 0 else None
    frame = (ctypes.c_size_t * 32)()
    frame[0], frame[4], frame[5], frame[10], frame[15] = 168, 3, 40, 40, 48
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(before["execute"])(ctypes.addressof(frame))
"""


def crash():
    """If a call crashes the process, the last file contains that call without its end."""
    path, directory = conformance(), os.fspath(folder())
    done = subprocess.run([sys.executable, "-c", CRASHES, path, directory], capture_output=True, text=True)
    if done.returncode >= 0:
        raise AssertionError(f"it ended with {done.returncode}: {done.stderr}")
    if len(files(directory)) != 2:
        raise AssertionError(f"{files(directory)}")
    said = replay(path, files(directory)[1], code=1)
    if "no end of the call" not in said:
        raise AssertionError(said)
    if "equal" not in replay(path, files(directory)[0]):
        raise AssertionError("the call before is not there")


BY_ENVIRONMENT = """
import sys, jax, jax.numpy as jnp, xla_ffi
lib = xla_ffi.load(sys.argv[1])
jax.jit(lambda x: lib.scale(x, factor=2.0))(jnp.arange(3, dtype=jnp.float32))
"""


def environment():
    """XLA_FFI_RECORD records a process from start to end."""
    path, directory = conformance(), os.fspath(folder())
    variables = {**os.environ, "XLA_FFI_RECORD": directory}
    subprocess.run([sys.executable, "-c", BY_ENVIRONMENT, path], env=variables, check=True)
    (process,) = pathlib.Path(directory).iterdir()
    if "1 calls: 1 equal" not in replay(path, process):
        raise AssertionError("the call is not equal")


def refusals():
    """Recordings that cannot be made or replayed are reported."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.zeros(1, jnp.float32)
    directory, _ = recorded(lambda _: lib.scale(x, factor=1.0).block_until_ready())
    raises(xla_ffi.LibraryError, lambda: xla_ffi.record(directory).__enter__(), str(directory))
    with xla_ffi.record(folder()):
        raises(xla_ffi.LibraryError, lambda: xla_ffi.record(folder()).__enter__(), "already recording")
    (file,) = files(directory)
    file.write_bytes(file.read_bytes()[:-30])
    said = replay(path, file, code=1)
    if "no end of the call" not in said:
        raise AssertionError(said)
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    said = replay(path, directory, code=1)
    if "damaged at byte 12: the checksum of CALL is wrong" not in said or file.name not in said:
        raise AssertionError(said)


def main():
    for work in (only_within_the_block, states, later, errors, differences, limit, crash, environment, refusals):
        check(f"recording: {work.__doc__}", work)
    for library in built(sys.argv[1:]):
        if library.example == "legacy":
            continue  # These targets do not use XLA FFI, so they have no call frames.
        work = lambda: every_call(library.language, library.example, library.path, library.calls)
        check(f"{library.name} recorded and replayed", work)
    finish()


if __name__ == "__main__":
    main()
