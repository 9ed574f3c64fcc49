"""``xla_ffi.check``: whether a handler behaves as JAX's own functions do."""

import dataclasses
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from . import _abi, _attributes, _jax, _mlir, _values
from ._handler import Handler

#: The checks in JAX, in the order in which they run. What they are about stands beside each in ``_checks``.
NAMES = (
    "runs", "jit", "vmap", "shard_map", "export", "gradient", "operands", "repeats", "threads", "NaN",
)  # fmt: skip

#: How many seconds a check may take before one line on standard error names it.
_PATIENCE = 5

_PACKAGE = pathlib.Path(__file__).resolve().parent


def check(fn, *args, attrs=None, skip=(), keep=(), time_limit=60, **more):
    """Checks the handler ``fn`` of a loaded library, called with these operands and attributes; gives a :class:`Report`.

    In JAX: the same results eagerly, under ``jit`` and in ``scan``; ``vmap`` and ``shard_map`` as a loop; the round trip
    through ``jax.export``; a declared gradient by ``jax.test_util.check_grads``; operands as they were; the same results
    again and from many threads at once, unless the manifest says ``nondeterministic``; a NaN in an operand in some
    result. On the embedded runtime, where the command line ``xla-ffi`` is found (in ``XLA_FFI_CLI``, on ``PATH``, or
    in the ``target`` of this checkout): what ``xla-ffi check`` does.

    All of it happens in processes of their own, on CPU: a handler that crashes or hangs fails the line it did so in.
    What the call is given goes to them by ``pickle``: ``shapes`` is a list, or a function of a module that they can import.
    ``skip`` names checks that do not apply, ``keep`` operands (indices, say) that are to have the values given wherever others
    are called with other ones; ``time_limit`` is for all checks of the handler together, in seconds. ``attrs`` is a dict
    for attributes whose names are taken by these keywords; other keywords (``result_shape_dtypes`` …) are the handler's.
    """
    if not isinstance(fn, Handler):
        raise TypeError(f"check takes a handler of a library that xla_ffi.load gave, got {type(fn).__name__}")
    unknown = sorted(set(skip) - set(NAMES) - {"embedded"})
    if unknown:
        raise ValueError(f"no check is called {unknown[0]!r}: there are {', '.join(NAMES)}, embedded")
    unknown = sorted(set(keep) - {arg.name for arg in fn.spec.args})
    if unknown:
        raise ValueError(f"{fn.__qualname__} has no operand {unknown[0]!r} to keep")
    if attrs is not None:
        more["attrs"] = attrs
    values = [arg if arg is None or isinstance(arg, (bool, int, float, complex, list)) else np.asarray(arg) for arg in args]
    names = [name for name in NAMES if name not in skip]
    lines = {name: Line(name, "skipped", "as asked") for name in NAMES if name in skip}
    deadline = time.monotonic() + time_limit
    with tempfile.TemporaryDirectory(prefix="xla_ffi_check.") as folder:
        folder = pathlib.Path(folder)
        while names:
            job = {"handler": fn, "args": values, "more": more, "keep": tuple(keep), "names": names}
            found, at = _process(folder, job, deadline, time_limit)
            lines.update({line.name: line for line in found})
            names = names[names.index(at) + 1 :] if at else []
            if time.monotonic() >= deadline:
                lines.update({name: Line(name, "skipped", _over(time_limit)) for name in names})
                names = []
        ordered = [lines[name] for name in NAMES if name in lines]
        if "embedded" in skip:
            ordered.append(Line("embedded", "skipped", "as asked"))
        elif "runs" in lines and lines["runs"].verdict == "FAIL":
            ordered.append(Line("embedded", "skipped", "the call fails"))
        else:
            ordered += _embedded(folder, fn, values, more, deadline, time_limit)
    return Report(fn.__qualname__, f"jaxlib {_jax.JAXLIB}", ordered)


def _over(time_limit):
    return f"the time limit of {time_limit} s was over before"


def _process(folder, job, deadline, time_limit):
    """Runs checks in a process; what it found, and the check in which it came to an untimely end, or None."""
    import jax

    job_file, told_file = folder / "job", folder / "told"
    job["x64"] = bool(jax.config.jax_enable_x64)
    # Where the modules lie that the rest is of comes first.
    try:
        job_file.write_bytes(pickle.dumps([os.path.abspath(each) for each in sys.path]) + pickle.dumps(job))
    except Exception as error:
        raise TypeError(
            f"{job['handler'].__qualname__}: the checks run in another process, which cannot be given this call: "
            f"{_values.first_line(error)}; shapes= is to be a list, or a function of a module that the process can import"
        ) from error
    told_file.write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XLA_FFI_RECORD")}
    environment["JAX_PLATFORMS"] = "cpu"
    environment["XLA_FLAGS"] = environment.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    path = [os.fspath(_PACKAGE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    command = [sys.executable, "-m", "xla_ffi._checks", os.fspath(job_file), os.fspath(told_file)]
    with open(folder / "said", "w+", encoding="utf-8", errors="replace") as said:
        child = subprocess.Popen(command, env=environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        status = _waited(child, job["handler"], told_file, deadline)
        said.seek(0)
        words = said.read()
    lines, at = [], None
    for entry in told_file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(entry)
        if "begins" in entry:
            at = entry["begins"]
        else:
            lines.append(Line(**entry))
            at = None
    if status == 0:
        return lines, None
    missing = [name for name in job["names"] if name not in [line.name for line in lines]]
    if at is None and status is None:
        # The time was over between two checks, or while the process was starting or ending.
        if not missing:
            return lines, None
        at = missing[0]
    if at is None:
        raise RuntimeError(f"the process of the checks ended with {status}:\n{words[-4000:]}")
    lines.append(Line(at, "FAIL", _end(status, time_limit, words)))
    return lines, at


def _waited(child, handler, told_file, deadline):
    """The exit status of the process, None if it was ended at the deadline. A check that takes long is named meanwhile."""
    last, since = None, time.monotonic()
    while True:
        try:
            return child.wait(min(0.5, max(0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if now >= deadline:
                child.kill()
                child.wait()
                return None
        words = told_file.read_text(encoding="utf-8").splitlines()
        if words[-1:] != last:
            last, since = words[-1:], now
        elif since is not None and now - since >= _PATIENCE and last and "begins" in last[0]:
            name = json.loads(last[0])["begins"]
            print(f"xla_ffi.check: {handler.__qualname__}: {name} is running, {deadline - now:.0f} s are left", file=sys.stderr, flush=True)
            since = None


def _end(status, time_limit, words):
    if status is None:
        return f"it had not returned when the time limit of {time_limit} s was over"
    if status < 0:
        return f"it crashed the process with {signal.Signals(-status).name}"
    return f"it ended the process with status {status}: {words[-400:].strip()}"


# ---- the embedded runtime ------------------------------------------------------------------------


def command_line():
    """The tool ``xla-ffi``, or None."""
    named = os.environ.get("XLA_FFI_CLI")
    if named:
        return named
    built = [_PACKAGE.parent.parent / "target" / profile / "xla-ffi" for profile in ("release", "debug")]
    newest = max((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime, default=None)
    return shutil.which("xla-ffi") if newest is None else os.fspath(newest)


def _embedded(folder, handler, values, more, deadline, time_limit):
    left = int(deadline - time.monotonic())
    if left < 1:
        return [Line("embedded", "skipped", _over(time_limit))]
    tool = command_line()
    if tool is None:
        return [Line("embedded", "skipped", "the command line xla-ffi is not found: name it in XLA_FFI_CLI")]
    own = ("attrs", "result_shape_dtypes", "vmap_method", "input_output_aliases", "has_side_effect", "partition_batch", "shapes")
    attributes = {**(more.get("attrs") or {}), **{name: value for name, value in more.items() if name not in own}}
    command = [tool, "check", handler._path, "--format=json", f"--time-limit={left}", *_named(handler)]
    try:
        arrays, _ = handler._operands(values)
        for index, array in enumerate(arrays):
            command += ["--arg", _spec(folder / f"arg{index}.npy", np.asarray(array))]
        given = more.get("result_shape_dtypes")
        # Where the contract tells the shapes alone, and where there is none.
        several = any(ret.dtypes is None or len(ret.dtypes) > 1 for ret in handler.spec.rets)
        if given is None and (several or handler.spec.states_defaults):
            import jax

            given = jax.eval_shape(lambda *args: handler(*args, **more), *arrays)
        for ret in given if isinstance(given, (list, tuple)) else [] if given is None else [given]:
            command += ["--ret", _type(np.dtype(ret.dtype), ret.shape)]
        cast = _attributes.cast_all(handler.spec, attributes)
        text = _mlir.attribute(cast)
    except TypeError as error:
        return [Line("embedded", "skipped", f"this call cannot be written on a command line: {error}")]
    if cast:
        command += ["--attrs", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left + 5, stdin=subprocess.DEVNULL)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return [Line("embedded", "FAIL", f"xla-ffi check had not ended when the time limit of {time_limit} s was over")]
    except ValueError:
        return [Line("embedded", "FAIL", f"xla-ffi check: {done.stderr.strip()}")]
    (entry,) = report["handlers"]
    return [Line(f"embedded: {line['name']}", line["verdict"], line["text"]) for line in entry["lines"]]


def _named(handler):
    """How the command line is told of a handler: by name, or what its manifest does not say and the caller does."""
    if not handler.spec.states_defaults:
        return ["--handler", handler.spec.name]
    symbols = [f"{stage}={symbol}" for stage, symbol in handler.spec.stages.items()]
    types = [f"--type={name}={symbols.replace(' ', '')}" for name, symbols in handler._given["types"].items()]
    return ["--handler", ",".join(symbols), *types]


def _type(dtype, shape):
    return f"{_abi.dtype_name(dtype).lower()}[{','.join(map(str, shape))}]"


def _spec(path, array):
    """An operand as the command line takes it."""
    plain = array
    if array.dtype.kind not in "biufc":
        plain = array.astype(np.float32) if array.dtype.itemsize > 2 else array.view(f"u{array.dtype.itemsize}")
    np.save(path, np.ascontiguousarray(plain).reshape(array.shape))
    return f"{_type(array.dtype, array.shape)}=@{path}"


@dataclasses.dataclass(frozen=True)
class Line:
    """One check: its name, what was found (``ok``, ``FAIL``, ``told`` or ``skipped``), and in words."""

    name: str
    verdict: str
    text: str


class Report:
    """The checks of one handler. It is true when none failed, and shows itself in words, so that a test is one line::

        assert xla_ffi.check(lib.rms_norm, x, eps=1e-6)
    """

    def __init__(self, handler, host, lines):
        #: The handler's name.
        self.handler = handler
        #: Where it was checked, ``jaxlib 0.12.0`` for instance.
        self.host = host
        #: A :class:`Line` for each check.
        self.lines = tuple(lines)

    @property
    def failures(self):
        """The lines that failed."""
        return tuple(line for line in self.lines if line.verdict == "FAIL")

    def __bool__(self):
        return not self.failures

    def __getitem__(self, name):
        """The line of a check."""
        return {line.name: line for line in self.lines}[name]

    def __repr__(self):
        counts = {verdict: sum(line.verdict == verdict for line in self.lines) for verdict in ("ok", "FAIL", "told", "skipped")}
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        texts = (f"  {line.verdict:<8}{line.name}: {line.text}".replace("\n", "\n          ") for line in self.lines)
        return "\n".join([f"{self.handler} on {self.host}: {words}", *texts])

    def to_json(self):
        """The report as JSON text: ``handler``, ``host``, ``ok``, and ``lines`` with ``name``, ``verdict`` and ``text``."""
        lines = [dataclasses.asdict(line) for line in self.lines]
        return json.dumps({"handler": self.handler, "host": self.host, "ok": bool(self), "lines": lines})
