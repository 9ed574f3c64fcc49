"""Recorded calls: every example recorded in JAX and replayed by `xla-ffi run --replay`, equal bit for bit.

usage: record.py [LANGUAGE:EXAMPLE=LIBRARY…]

Needs the command line (`XLA_FFI_CLI`, or `target/debug/xla-ffi`) and `libxla_ffi_record.so` (`XLA_FFI_RECORDER`, or in
`target`). Libraries in C and C++ are interposed by hand, as one does with libraries that `xla_ffi.load` does not load;
one is built here with the headers that jaxlib brings.
"""

import dataclasses
import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax

jax.config.update("jax_enable_x64", True)  # the examples have f64 too

import examples  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from built import built  # noqa: E402
from cells import as_far_as_it_goes  # noqa: E402
from checks import Skip, check, finish, folder, raises  # noqa: E402
from xla_ffi._checks import plain  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = os.environ.get("XLA_FFI_CLI") or os.fspath(ROOT / "target/debug/xla-ffi")


def replay(library, source, *options, code=0):
    """What the command line says of a recording."""
    done = subprocess.run([CLI, "run", library, "--replay", source, *options], capture_output=True, text=True)
    if code is not None and done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def files(directory):
    return sorted(pathlib.Path(directory).glob("*.xlacall"))


def recorded(work, **options):
    """A directory with the calls that ``work`` makes, and the recording."""
    directory = os.fspath(folder())
    with xla_ffi.record(directory, **options) as recording:
        work(recording)
    return directory, recording


class Interposed(examples.Symbols):
    """A library whose handlers are registered by hand, through a recording."""

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
    """Records all that examples.py does with a library; replays it."""

    def work(recording):
        prefix = f"{language}_{example}"
        if language == "Rust":
            library = examples.Loaded(path, prefix)
        else:
            library = Interposed(path, prefix, recording)
        if language == "Rust":
            # Under the targets that jax.ffi is told by name, too.
            plain = library.target
            library.target = lambda name, stages: xla_ffi._record.target_now(plain(name, stages))
        for call in filter(examples.there, calls):
            examples.listed_call(library, call)
        if example in examples.USES and example != "11_legacy":
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
    """Compiled before, recorded within, not after; a single file replays."""
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


def dropped():
    """A call whose result nobody keeps is recorded, though it may begin after the block's last line."""
    lib = xla_ffi.load(conformance())
    much = jnp.ones((1500, 1500), jnp.float32)
    step = jax.jit(lambda x: lib.scale(x + 0 * jnp.sum(much @ much), factor=2.0))
    _, recording = recorded(lambda _: [step(jnp.ones(3, jnp.float32)), None][1])
    if recording.calls != 1:
        raise AssertionError(f"{recording.calls} calls")


def states():
    """Each call gets the state of its own instantiation; one call alone replays with those before it."""
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
    told = replay(path, files(directory)[0], "--handler", "scale", code=1)
    if "DIFFERS, handler 'counter' has no stage instantiate" not in told:
        raise AssertionError(told)
    # What changed its state between is lost, or damaged: a difference says nothing.
    lost = files(directory)[4]
    whole = lost.read_bytes()
    for damaged in [whole[:-20] + bytes(20), None]:
        lost.unlink() if damaged is None else lost.write_bytes(damaged)
        told = replay(path, directory, code=None)
        if "DIFFERS" in told or "which may have left or changed its state" not in told:
            raise AssertionError(told)
    lost.write_bytes(whole)
    for file in files(directory)[:2]:
        file.unlink()
    if "whose file is not beside it" not in replay(path, files(directory)[-1], code=1):
        raise AssertionError("no state, and nothing said")


def elsewhere():
    """What runs on a device, and targets of the original custom calls, are named by a warning, each once."""
    path, read = conformance(), xla_ffi._manifest.read_all

    def both(*arguments, **keywords):
        libraries = read(*arguments, **keywords)
        for handlers, _legacy in libraries.values():
            for name, spec in handlers.items():
                handlers[name] = dataclasses.replace(spec, platforms=("cpu", "cuda"))
        return libraries

    xla_ffi._manifest.read_all = both
    try:
        lib = xla_ffi.load(path, prefix="elsewhere")
    finally:
        xla_ffi._manifest.read_all = read
    x = jnp.arange(3, dtype=jnp.float32)
    twice = jax.jit(lambda x: lib.scale(lib.scale(x, factor=2.0), factor=3.0))

    def work(_):
        for platform in ("cpu", "cuda", "cuda"):
            twice.trace(x).lower(lowering_platforms=(platform,))
            jax.clear_caches()
        xla_ffi._record.target_now("some_target")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        recorded(work)
    told = [str(each.message) for each in told if "not recorded" in str(each.message)]
    wanted = ("elsewhere.scale are not recorded: it runs on cuda", "some_target are not recorded: xla_ffi.load has not")
    if len(told) != 2 or not all(want in text for want, text in zip(wanted, told)):
        raise AssertionError(told)


def later():
    """Results of asynchronous handlers are read when they are complete; errors too."""
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
    """A handler's error, code and text; a wrong one differs."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.zeros(1, jnp.float32)
    fail = lambda: jax.block_until_ready(lib.fail(x, code=9, message="out of luck", result_shape_dtypes=examples.like(x)))
    directory, _ = recorded(lambda _: raises(Exception, fail, "out of luck"))
    if "the same error" not in replay(path, directory):
        raise AssertionError("the error is not the same")


def differences():
    """A library that computes something else is told, by element, with both values."""
    lib = xla_ffi.load(conformance())
    x = jnp.arange(3, dtype=jnp.float32)
    directory, _ = recorded(lambda _: lib.scale(x, factor=2.0).block_until_ready())
    twin = conformance("conformance_twin")
    told = replay(twin, files(directory)[0], "--handler", "scale", code=1)
    if "3 of 3 elements, first element 0, which is 1 and was 0" not in told:
        raise AssertionError(told)


def threads():
    """Calls of many threads at once have files of their own."""
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.arange(512, dtype=jnp.float32)

    def work(_):
        scale = jax.jit(lambda x, i: lib.scale(x + i, factor=2.0))
        sums = jax.jit(lambda x: lib.pool_sum(x, tasks=3, result_shape_dtypes=[
            jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((2,), np.int64)])[0])  # fmt: skip

        def some(i):
            for step in range(10):
                scale(x, i + step).block_until_ready()
            sums(x).block_until_ready()

        running = [threading.Thread(target=some, args=(i,)) for i in range(6)]
        [thread.start() for thread in running]
        [thread.join() for thread in running]

    directory, recording = recorded(work)
    if recording.calls != 66:
        raise AssertionError(f"{recording.calls} calls")
    # How many tasks ran where is chance: the second result of pool_sum may differ.
    told = replay(path, directory, code=None)
    if told.count("scale (execute): equal") != 60 or "result 0" in told:
        raise AssertionError(told)


def exported():
    """A model that is exported within a recording calls the handlers themselves."""
    # What jax.export of earlier releases wants.
    sys.path.append(os.environ.get("XLA_FFI_EXPORT_PACKAGES", ""))
    lib = xla_ffi.load(conformance())
    work = jax.jit(lambda x: lib.scale(x, factor=2.0))
    x = jnp.ones(3, jnp.float32)
    models = []

    def both(_):
        work(x).block_until_ready()
        models.append(xla_ffi.export(work, x))
        work(x + 1).block_until_ready()

    _, recording = recorded(both)
    (need,) = models[0].needs
    if (recording.calls, need.target) != (2, "conformance.scale"):
        raise AssertionError((recording.calls, need))


def many():
    """More calls than fit what a replaying process may leave unread; the time limit is of each of them."""
    path = conformance()
    lib = xla_ffi.load(path)
    step = lambda _, x: lib.scale(x, factor=1.0)
    work = jax.jit(lambda x: jax.lax.fori_loop(0, 1500, step, x))
    directory, _ = recorded(lambda _: work(jnp.ones(3, jnp.float32)).block_until_ready())
    told = replay(path, directory, "--time-limit", "2")
    if "1500 equal, 0 differ" not in told:
        raise AssertionError(told[-200:])


def limit():
    """What is beyond the limit is left out and told."""
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
    if "2 calls: 1 equal, 0 differ, 1 not compared" not in said or "had reached its limit" not in said:
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
    """A call that ends the process leaves the last file, which says so."""
    path, directory = conformance(), os.fspath(folder())
    done = subprocess.run([sys.executable, "-c", CRASHES, path, directory], capture_output=True, text=True)
    if done.returncode >= 0:
        raise AssertionError(f"it ended with {done.returncode}: {done.stderr}")
    if len(files(directory)) != 2:
        raise AssertionError(f"{files(directory)}")
    said = replay(path, files(directory)[1], code=1)
    if "never ended" not in said:
        raise AssertionError(said)
    if "equal" not in replay(path, files(directory)[0]):
        raise AssertionError("the call before is not there")


BY_ENVIRONMENT = """
import sys, jax, jax.numpy as jnp, xla_ffi
lib = xla_ffi.load(sys.argv[1])
jax.jit(lambda x: lib.scale(x, factor=2.0))(jnp.arange(3, dtype=jnp.float32))
"""


def environment():
    """XLA_FFI_RECORD records a process from its beginning to its end."""
    path, directory = conformance(), os.fspath(folder())
    variables = {**os.environ, "XLA_FFI_RECORD": directory}
    subprocess.run([sys.executable, "-c", BY_ENVIRONMENT, path], env=variables, check=True)
    (process,) = pathlib.Path(directory).iterdir()
    if "its folders are process-" not in replay(path, directory, code=1):
        raise AssertionError("the folders are not told")
    if "1 calls: 1 equal" not in replay(path, process):
        raise AssertionError("the call is not equal")


def without_cpu():
    """Where JAX has no CPU backend there is nothing to wait for: what the block raised is what comes out."""
    body = "import sys, xla_ffi\nwith xla_ffi.record(sys.argv[1]):\n    raise KeyError('of the block')\n"
    environment = {**os.environ, "JAX_PLATFORMS": "cuda"}
    command = [sys.executable, "-c", body, os.fspath(folder())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not done.stderr.endswith("KeyError: 'of the block'\n"):
        raise AssertionError(done.stderr)


def refusals():
    """What cannot be recorded, or replayed, is told."""
    for limit in ("x", None, 10.5, True):
        raises(TypeError, lambda limit=limit: xla_ffi.record(folder(), limit=limit), "limit= is to be an int, a number of bytes, got", repr(limit))
    raises(ValueError, lambda: xla_ffi.record(folder(), limit=-1), "not negative")
    if xla_ffi.record(folder(), limit=np.int64(7)).limit != 7:
        raise AssertionError("NumPy's integers")
    path = conformance()
    lib = xla_ffi.load(path)
    x = jnp.zeros(1, jnp.float32)
    directory, _ = recorded(lambda _: lib.scale(x, factor=1.0).block_until_ready())
    raises(xla_ffi.LibraryError, lambda: xla_ffi.record(directory).__enter__(), "holds recorded calls already")
    with xla_ffi.record(folder()):
        raises(xla_ffi.LibraryError, lambda: xla_ffi.record(folder()).__enter__(), "is under way")
    (file,) = files(directory)
    file.write_bytes(file.read_bytes()[:-30])
    said = replay(path, file, code=1)
    if "never ended" not in said:
        raise AssertionError(said)
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    said = replay(path, directory, code=1)
    if "damaged at byte 12: the checksum of CALL is wrong" not in said or file.name not in said:
        raise AssertionError(said)
    if "no recorded call" not in replay(path, __file__, code=1):
        raise AssertionError("a Python file is taken for a recording")
    directory, _ = recorded(lambda _: [lib.scale(x + step, factor=2.0).block_until_ready() for step in range(3)])
    damaged, cut, whole = files(directory)
    damaged.write_bytes(data)
    cut.write_bytes(cut.read_bytes()[:20])
    said = replay(path, directory, code=1)
    if "3 calls: 1 equal, 0 differ, 0 not compared, 2 not replayed" not in said or f"{damaged}: damaged" not in said:
        raise AssertionError(said)
    if "1 calls: 1 equal" not in replay(path, whole):
        raise AssertionError("a file is not replayed for the sake of others")


UPSTREAM = r"""
#include <thread>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using Vector = ffi::Buffer<ffi::F32>;
static ffi::Error Scale(Vector x, ffi::ResultBuffer<ffi::F32> y, float factor) {
  if (factor == 0) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "factor is 0");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, ffi::Ffi::Bind().Arg<Vector>().Ret<Vector>().Attr<float>("factor"));
static ffi::Future Later(Vector x, ffi::ResultBuffer<ffi::F32> y) {
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  // The call frame that the buffers point to ends with the call; their memory does not.
  std::thread([in = x.typed_data(), out = y->typed_data(), count = x.element_count(), promise]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (size_t i = 0; i < count; ++i) out[i] = 1 + in[i];
    promise->SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<Vector>().Ret<Vector>());
"""


def upstream():
    """A library built with the headers that jaxlib brings, asynchronous handlers and errors too."""
    try:
        from jax import ffi
    except ImportError:
        from jax.extend import ffi
    if xla_ffi._jax.REVISION < 2:
        raise Skip("the headers of this jaxlib have other names for buffers")
    source = folder() / "upstream.cc"
    source.write_text(UPSTREAM)
    library = os.fspath(source.with_name("libupstream.so"))
    command = ["c++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{ffi.include_dir()}", "-pthread"]
    try:
        subprocess.run([*command, source, "-o", library], check=True)
    except FileNotFoundError as error:
        raise Skip("no C++ compiler") from error
    x = jnp.arange(100, dtype=jnp.float32)

    def work(recording):
        calls = Interposed(library, "upstream", recording)

        def call(name, **attrs):
            target = calls.target(name, ())
            return jax.jit(lambda x: plain(target, [examples.like(x)], [x], attrs)[0])(x).block_until_ready()

        call("scale", factor=np.float32(3))
        raises(Exception, lambda: call("scale", factor=np.float32(0)), "factor is 0")
        call("later")

    directory, recording = recorded(work)
    told = replay(library, directory)
    if "3 calls: 3 equal" not in told:
        raise AssertionError(told)


def main():
    for work in (only_within_the_block, dropped, states, elsewhere, later, errors, differences, threads, exported, many, limit, crash, environment, without_cpu, refusals, upstream):
        check(f"recording: {work.__doc__}", work)
    for library in built(sys.argv[1:]):
        if library.example == "11_legacy":
            continue  # no XLA FFI: there are no call frames
        work = lambda: every_call(library.language, library.example, library.path, library.calls)
        check(f"{library.name} recorded and replayed", work)
    finish()


if __name__ == "__main__":
    main()
