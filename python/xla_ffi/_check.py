"""``xla_ffi.check``: checks that a handler behaves as JAX's own functions do."""

import dataclasses
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

import numpy as np

from . import _abi, _attributes, _jax, _mlir, _values
from ._handler import Handler
from ._installation import INSTALL_TOOLS

#: The checks in JAX, in the order in which they run. The functions of the checks are in ``_checks``.
NAMES = (
    "runs", "jit", "vmap", "shard_map", "export", "gradient", "operands", "repeats", "threads", "nan",
)  # fmt: skip

#: The checks of ``xla-ffi check``, on the embedded runtime.
EMBEDDED = (
    "runs", "written", "operands", "repeats", "threads", "vmap", "revisions", "misaligned", "zero-sizes", "odd-sizes",
    "wrong-types", "wrong-ranks",
)  # fmt: skip

#: Seconds after which a running check is reported on standard error.
_PATIENCE = 5

_PACKAGE = pathlib.Path(__file__).resolve().parent


def check(fn, *args, attrs=None, skip=(), keep=(), time_limit=60, **more):
    """Checks the handler ``fn`` of a loaded library with these operands and attributes. Returns a :class:`Report`.

    The checks in JAX compare eager calls with ``jit`` and ``scan``, and ``vmap`` and ``shard_map`` with a loop. They repeat
    the call, also from several threads and through ``jax.export``, and look for changed operands and lost NaNs. A declared
    gradient is compared with ``jax.test_util.check_grads``. If the command-line tool ``xla-ffi`` is found (in ``XLA_FFI_CLI``,
    this environment, ``PATH`` or this checkout's ``target``), ``xla-ffi check`` runs its checks on the embedded runtime.

    Checks run on CPU in separate processes, so a handler that crashes or hangs fails one check only. The call is passed
    to these processes with ``pickle``, so ``shapes`` must be a list or a function of an importable module.

    Args:
        skip: Names of checks to skip, for example ``["nan"]``; ``"embedded"`` skips all checks on the embedded runtime.
        keep: Names of operands that have the given values in every call, because other values are invalid (indices, …).
        time_limit: Seconds that all checks together may take.
        attrs: Attributes whose names are also names of these parameters. Other keywords are the handler's.
    """
    if not isinstance(fn, Handler):
        raise TypeError(f"check: expected a handler of a library loaded with xla_ffi.load, got {type(fn).__name__}")
    known = [*dict.fromkeys((*NAMES, *EMBEDDED)), "embedded"]
    unknown = sorted(set(skip) - set(known))
    if unknown:
        raise ValueError(f"skip: there is no check {unknown[0]!r}; the checks are {', '.join(known)}")
    unknown = sorted(set(keep) - {arg.name for arg in fn.spec.args})
    if unknown:
        raise ValueError(f"keep: {fn.__qualname__} has no operand {unknown[0]!r}")
    if attrs is not None:
        more["attrs"] = attrs
    values = [arg if arg is None or isinstance(arg, (bool, int, float, complex, list)) else np.asarray(arg) for arg in args]
    names = [name for name in NAMES if name not in skip]
    results = {name: CheckResult(name, "skipped", "by skip=") for name in NAMES if name in skip}
    deadline = time.monotonic() + time_limit
    with tempfile.TemporaryDirectory(prefix="xla_ffi_check.") as folder:
        folder = pathlib.Path(folder)
        while names:
            job = {"handler": fn, "args": values, "more": more, "keep": tuple(keep), "names": names}
            found, at = _process(folder, job, deadline, time_limit)
            results.update({result.name: result for result in found})
            names = names[names.index(at) + 1 :] if at else []
            if time.monotonic() >= deadline:
                results.update({name: CheckResult(name, "skipped", _reached(time_limit)) for name in names})
                names = []
        ordered = [results[name] for name in NAMES if name in results]
        if "embedded" in skip:
            ordered.append(CheckResult("embedded", "skipped", "by skip="))
        elif "runs" in results and results["runs"].status == "failed":
            ordered.append(CheckResult("embedded", "skipped", "the call fails"))
        else:
            options = [f"--skip={name}" for name in skip if name in EMBEDDED] + [f"--keep={name}" for name in keep]
            ordered += _embedded(folder, fn, values, more, options, deadline, time_limit)
    return Report(fn.__qualname__, f"jaxlib {_jax.JAXLIB}", ordered)


def _reached(time_limit):
    return f"the time limit of {time_limit} s was reached"


def _process(folder, job, deadline, time_limit):
    """Runs checks in a separate process.

    Returns the results of the checks, and the check during which the process ended, or None.
    """
    import jax

    job_file, results_file = folder / "job", folder / "results"
    job["x64"] = bool(jax.config.jax_enable_x64)
    # The module search path is pickled first, because unpickling the job imports modules.
    try:
        job_file.write_bytes(pickle.dumps([os.path.abspath(each) for each in sys.path]) + pickle.dumps(job))
    except Exception as error:
        raise TypeError(
            f"{job['handler'].__qualname__}: the call cannot be pickled for the process of the checks: "
            f"{_values.first_line(error)}; pass shapes= as a list or as a function of an importable module"
        ) from error
    results_file.write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XLA_FFI_RECORD")}
    environment["JAX_PLATFORMS"] = "cpu"
    environment["XLA_FLAGS"] = environment.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    path = [os.fspath(_PACKAGE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    command = [sys.executable, "-m", "xla_ffi._checks", os.fspath(job_file), os.fspath(results_file)]
    with open(folder / "output", "w+", encoding="utf-8", errors="replace") as file:
        child = subprocess.Popen(command, env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        exit_status = _wait(child, job["handler"], results_file, deadline)
        file.seek(0)
        output = file.read()
    results, at = [], None
    for entry in results_file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(entry)
        if "starts" in entry:
            at = entry["starts"]
        else:
            results.append(CheckResult(**entry))
            at = None
    if exit_status == 0:
        return results, None
    missing = [name for name in job["names"] if name not in [result.name for result in results]]
    if at is None and exit_status is None:
        # The time limit was reached between two checks, or while the process started or ended.
        if not missing:
            return results, None
        at = missing[0]
    if at is None:
        raise RuntimeError(f"the process of the checks ended with exit status {exit_status}:\n{output[-4000:]}")
    results.append(CheckResult(at, "failed", _end(exit_status, time_limit, output)))
    return results, at


def _wait(child, handler, results_file, deadline):
    """Returns the exit status of the process, or None if it was killed at the deadline.

    While waiting, reports checks that take long.
    """
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
        lines = results_file.read_text(encoding="utf-8").splitlines()
        if lines[-1:] != last:
            last, since = lines[-1:], now
        elif since is not None and now - since >= _PATIENCE and last and "starts" in last[0]:
            name = json.loads(last[0])["starts"]
            print(f"xla_ffi.check: {handler.__qualname__}: {name} is running, {deadline - now:.0f} s left", file=sys.stderr, flush=True)
            since = None


def _end(exit_status, time_limit, output):
    if exit_status is None:
        return f"did not return within the time limit of {time_limit} s"
    if exit_status < 0:
        return f"crashed its process with {signal.Signals(-exit_status).name}"
    return f"ended its process with exit status {exit_status}: {output[-400:].strip()}"


# ---- the embedded runtime ------------------------------------------------------------------------


def command_line():
    """Returns the path of the tool ``xla-ffi``, or None."""
    named = os.environ.get("XLA_FFI_CLI")
    if named:
        return named
    built = [_PACKAGE.parent.parent / "target" / profile / "xla-ffi" for profile in ("release", "debug")]
    newest = max((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime, default=None)
    # The folder of an environment's scripts is not necessarily on PATH.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    return shutil.which("xla-ffi", path=path) if newest is None else os.fspath(newest)


def _embedded(folder, handler, values, more, options, deadline, time_limit):
    left = int(deadline - time.monotonic())
    if left < 1:
        return [CheckResult("embedded", "skipped", _reached(time_limit))]
    tool = command_line()
    if tool is None:
        return [CheckResult("embedded", "skipped", f"the tool xla-ffi is not found: {INSTALL_TOOLS}, or set XLA_FFI_CLI")]
    own = ("attrs", "result_shape_dtypes", "vmap_method", "input_output_aliases", "has_side_effect", "partition_batch", "shapes")
    attributes = {**(more.get("attrs") or {}), **{name: value for name, value in more.items() if name not in own}}
    command = [tool, "check", handler._path, "--format=json", f"--time-limit={left}", *options, *_named(handler)]
    try:
        arrays, _ = handler._operands(values)
        for index, array in enumerate(arrays):
            command += ["--arg", _spec(folder / f"arg{index}.npy", np.asarray(array))]
        given = more.get("result_shape_dtypes")
        # Contracts do not determine element types. Handlers without a manifest have no contract.
        several = any(ret.dtypes is None or len(ret.dtypes) > 1 for ret in handler.spec.rets)
        if given is None and (several or handler.spec.states_defaults):
            import jax

            given = jax.eval_shape(lambda *args: handler(*args, **more), *arrays)
        for ret in given if isinstance(given, (list, tuple)) else [] if given is None else [given]:
            command += ["--ret", _type(np.dtype(ret.dtype), ret.shape)]
        cast = _attributes.cast_all(handler.spec, attributes)
        text = _mlir.attribute(cast)
    except TypeError as error:
        return [CheckResult("embedded", "skipped", f"the call has no form on the command line: {error}")]
    if cast:
        command += ["--attrs", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left + 5, stdin=subprocess.DEVNULL)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return [CheckResult("embedded", "failed", f"xla-ffi check did not end within the time limit of {time_limit} s")]
    except ValueError:
        return [CheckResult("embedded", "failed", f"xla-ffi check: {done.stderr.strip()}")]
    if "handlers" not in report:
        return [CheckResult("embedded", "failed", f"xla-ffi check: {report['error']}")]
    (entry,) = report["handlers"]
    return [CheckResult(f"embedded: {each['name']}", each["status"], each["text"]) for each in entry["checks"]]


def _named(handler):
    """Returns the options that select the handler: its name, or its symbols and types if the manifest does not describe
    the handler."""
    if not handler.spec.states_defaults:
        return ["--handler", handler.spec.name]
    symbols = [f"{stage}={symbol}" for stage, symbol in handler.spec.stages.items()]
    types = [f"--type={name}={symbols.replace(' ', '')}" for name, symbols in handler._given["types"].items()]
    return ["--handler", ",".join(symbols), *types]


def _type(dtype, shape):
    return f"{_abi.dtype_name(dtype).lower()}[{','.join(map(str, shape))}]"


def _spec(path, array):
    """Saves an operand to a file and returns the command-line argument that selects the file."""
    plain = array
    if array.dtype.kind not in "biufc":
        plain = array.astype(np.float32) if array.dtype.itemsize > 2 else array.view(f"u{array.dtype.itemsize}")
    np.save(path, np.ascontiguousarray(plain).reshape(array.shape))
    return f"{_type(array.dtype, array.shape)}=@{path}"


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of one check: its name, its status (``passed``, ``failed``, ``note`` or ``skipped``) and the
    reason."""

    name: str
    status: str
    text: str


class Report:
    """The results of all checks of one handler. A report is true if no check failed, so a test can assert it::

        assert xla_ffi.check(lib.rms_norm, x, eps=1e-6)
    """

    def __init__(self, handler, host, checks):
        #: The handler's name.
        self.handler = handler
        #: The host that ran the checks, for example ``jaxlib 0.12.0``.
        self.host = host
        #: A :class:`CheckResult` per check.
        self.checks = tuple(checks)

    @property
    def failures(self):
        """The checks that failed."""
        return tuple(each for each in self.checks if each.status == "failed")

    def __bool__(self):
        return not self.failures

    def __getitem__(self, name):
        """Returns the result of one check."""
        return {each.name: each for each in self.checks}[name]

    def __repr__(self):
        counts = {status: sum(each.status == status for each in self.checks) for status in ("passed", "failed", "note", "skipped")}
        summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        texts = (f"  {each.status:<8}{each.name}: {each.text}".replace("\n", "\n          ") for each in self.checks)
        return "\n".join([f"{self.handler} on {self.host}: {summary}", *texts])

    def to_json(self):
        """Returns the report as JSON: ``handler``, ``host``, ``passed``, and ``checks`` with ``name``, ``status``, ``text``."""
        checks = [dataclasses.asdict(each) for each in self.checks]
        return json.dumps({"handler": self.handler, "host": self.host, "passed": bool(self), "checks": checks})
