"""Records the calls of handlers, for ``xla-ffi run LIB --replay``.

During a recording, calls are traced to separate targets named ``TARGET@recorded``. For these targets, a function
of ``libxla_ffi_record`` runs before each stage of the handler. The original targets are unchanged, so calls
outside of recordings have no overhead.
"""

import atexit
import contextlib
import contextvars
import ctypes
import os
import pathlib
import tempfile
import threading
import warnings

from . import _image
from ._errors import LibraryError
from ._installation import INSTALL_TOOLS

#: The version of the functions of ``libxla_ffi_record`` that this module calls.
_VERSION = 1
_NAME = _image.file_name("xla_ffi_record")
#: Default number of bytes of operands that a recording keeps.
LIMIT = 1 << 30
_SUFFIX = ".xlacall"

_lock = threading.RLock()
_handlers = {}  # target: (path, handler name, {stage: symbol}, {platform: {stage: address}})
_recorded = set()  # targets that have a recording twin
_current = None
_plain = contextvars.ContextVar("plain", default=False)


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("recorded", "truncated", "failed", "open")]


def record(directory, *, limit=LIMIT):
    """Writes every call of the loaded handlers to a file in ``directory`` while the ``with`` block runs::

        with xla_ffi.record("calls") as recording:
            step(x).block_until_ready()

    A file contains the stage, the operands' shapes and bytes, the attributes, the context, and the results or the
    error. It refers to the call that created the state by number. ``xla-ffi run LIB --replay FILE`` repeats a call on
    the embedded runtime and compares the results. Given a directory, it repeats all calls in order. If a call crashes
    the process, the last file contains that call.

    Only calls on CPU are recorded, because operands elsewhere are in the memory of a device. Handlers on other devices
    run as usual, with one warning per handler. Calls of all threads are recorded. Only one recording can run at a time.

    Both ends of the block call ``jax.clear_caches()``, so functions are compiled again. Calls in functions compiled
    with ``lower().compile()`` are not recorded.

    Environment variables:
        XLA_FFI_RECORD: Records from the import of this package until the process ends, into a new directory
            ``process-PID-…`` in this directory.
        XLA_FFI_RECORD_LIMIT: The ``limit`` of that recording.
        XLA_FFI_RECORDER: The path of ``libxla_ffi_record.so``. By default, it is in the folder ``lib`` of this package,
            as in platform wheels, or in the ``target`` folder of its checkout.

    Args:
        directory: The directory of the files, which is created.
        limit: The maximum number of bytes of operands to keep. Operands over the limit are omitted, and a warning at the
            end of the block reports the number of affected calls.

    Raises:
        LibraryError: At the start of the block, if the directory contains recorded calls, a recording is running, or the
            recorder is missing.
    """
    return Recording(directory, limit)


class Recording:
    """A recording made by :func:`record`.

    After the block, ``calls`` is the number of recorded calls. ``truncated`` counts recorded calls with omitted
    operands, ``failed`` calls whose file could not be written, and ``unfinished`` calls that were running when the
    block ended.
    """

    def __init__(self, directory, limit=LIMIT):
        #: The directory of the files.
        self.directory = pathlib.Path(directory)
        self.limit = limit
        self._running = False
        self._told = set()  # targets for which a warning has been shown
        self.calls = self.truncated = self.failed = self.unfinished = None

    def __enter__(self):
        self._start()
        _clear()
        return self

    def __exit__(self, *_exception):
        try:
            self._end()
        finally:
            _clear()

    def interpose(self, path, handler, symbols, addresses):
        """Returns addresses to register manually with ``jax.ffi``, ``{stage: address}``, whose calls are recorded.

        Use this for handlers that :func:`xla_ffi.load` has not loaded. ``symbols`` are the stages' symbols in the
        library ``path``.
        """
        return _interposed(os.fspath(path), handler, symbols, addresses)

    def _start(self):
        global _current
        from . import _jax

        recorder = _recorder()
        folder = os.fspath(self.directory.resolve())
        os.makedirs(folder, exist_ok=True)
        if any(name.endswith(_SUFFIX) for name in os.listdir(folder)):
            raise LibraryError(f"{folder}: already contains recorded calls; pass a new or an empty directory")
        with _lock:
            host = f"jaxlib {_jax.JAXLIB}"
            refused = recorder.xla_ffi_record_start(os.fsencode(folder), self.limit, _jax.REVISION, host.encode())
            if refused == 2:
                raise LibraryError(f"{_recorder_path()}: does not support {host} (r{_jax.REVISION}); install a newer version")
            if refused:
                raise LibraryError("this process is already recording; end that recording first")
            _current, self._running = self, True

    def _end(self):
        """Waits for pending calls and ends the recording."""
        if not self._running:
            return
        try:
            _settle()
        finally:
            self._stop()

    def _stop(self):
        global _current
        with _lock:
            _current, self._running = None, False
        counts = _recorder().xla_ffi_record_stop(10_000)
        self.calls, self.truncated, self.failed, self.unfinished = counts.recorded, counts.truncated, counts.failed, counts.open
        told = (
            (counts.truncated, f"have operands that were left out, since more than limit={self.limit} bytes came together"),
            (counts.failed, "could not be written"),
            (counts.open, "were not over after ten seconds: how they end is not recorded"),
        )
        for count, what in told:
            if count:
                warnings.warn(f"{self.directory}: {count} calls {what}", RuntimeWarning, stacklevel=4)


def know(target, path, handler, symbols, addresses):
    """Registers a handler for recording. ``addresses`` is ``{platform: {stage: address}}``."""
    with _lock:
        _handlers[target] = (path, handler, symbols, addresses)


@contextlib.contextmanager
def plain():
    """Traces calls in the block to the original targets, so that the result also works in processes without a
    recording."""
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def target_now(target, platforms=("cpu",)):
    """Returns the target for a call that jax is tracing for these platforms: the recorded target during a recording."""
    if _current is None or _plain.get():
        return target
    from . import _jax

    with _lock:
        if _current is None:
            return target
        elsewhere = [platform for platform in platforms if not _jax.is_cpu(platform)]
        if (elsewhere or target not in _handlers) and target not in _current._told:
            _current._told.add(target)
            why = f"it runs on {' and '.join(elsewhere)}" if elsewhere else "xla_ffi.load has not loaded it as a handler of XLA FFI"
            warnings.warn(f"{_current.directory}: calls of {target} are not recorded: {why}", RuntimeWarning, stacklevel=2)
        if target not in _handlers:
            return target
        name = f"{target}@recorded"
        if target not in _recorded:
            path, handler, symbols, platforms = _handlers[target]
            for platform, addresses in platforms.items():
                if _jax.is_cpu(platform):
                    addresses = _interposed(path, handler, symbols, addresses)
                _jax.register(name, addresses, platform)
            _recorded.add(target)
        return name


def _interposed(path, handler, symbols, addresses):
    recorder = _recorder()
    stages = ",".join(f"{stage}={symbol}" for stage, symbol in symbols.items())
    before = {}
    for stage, address in addresses.items():
        function = recorder.xla_ffi_record_interpose(os.fsencode(path), handler.encode(), stages.encode(), address)
        if not function:
            warnings.warn(f"{path}: {handler} is not recorded: as many handlers as can be are already", RuntimeWarning, stacklevel=3)
            return addresses
        before[stage] = function
    return before


def _recorder_path():
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("XLA_FFI_RECORDER")
    if named:
        return pathlib.Path(named)
    built = [here.parent.parent / "target" / profile / _NAME for profile in ("release", "debug")]
    for place in [here / "lib" / _NAME, *sorted((path for path in built if path.exists()), key=lambda path: -path.stat().st_mtime)]:
        if place.exists():
            return place
    raise LibraryError(
        f"{_NAME} is not found in {here / 'lib'}: {INSTALL_TOOLS}. In a checkout, run `cargo build --release -p xla-ffi-record`, "
        "or set XLA_FFI_RECORDER to its path"
    )


_library = None


def _recorder():
    global _library
    with _lock:
        if _library is not None:
            return _library
        path = _recorder_path()
        try:
            library = ctypes.CDLL(os.fspath(path))
            version = library.xla_ffi_record_version()
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{path}: not {_NAME}: {error}") from error
        if version != _VERSION:
            raise LibraryError(f"{path}: expected version {_VERSION}, got {version}; build it again from this package's checkout")
        library.xla_ffi_record_interpose.restype = ctypes.c_void_p
        library.xla_ffi_record_interpose.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        library.xla_ffi_record_start.restype = ctypes.c_uint32
        library.xla_ffi_record_start.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p]
        library.xla_ffi_record_stop.restype = _Counts
        library.xla_ffi_record_stop.argtypes = [ctypes.c_uint64]
        _library = library
        return library


def _clear():
    """Clears jax's caches, because compiled programs refer to the previous targets."""
    import jax

    jax.clear_caches()


def _settle():
    """Waits for running calls on CPU, because jax returns before a call has ended."""
    import jax

    try:
        devices = jax.local_devices(backend="cpu")
    except (RuntimeError, AssertionError):  # jax has no CPU backend (JAX_PLATFORMS=cuda), so nothing ran on CPU.
        return
    for array in jax.live_arrays("cpu"):
        try:
            array.block_until_ready()
        except Exception:  # a handler's error, which is raised where its result is used
            pass
    # Calls whose results were dropped have started when a later computation of the same thread ends.
    for device in devices:
        jax.jit(lambda x: x + 1)(jax.device_put(0, device)).block_until_ready()


def from_environment():
    """Starts the recording that the environment requests, until the process ends."""
    directory = os.environ.get("XLA_FFI_RECORD")
    if not directory:
        return
    limit = os.environ.get("XLA_FFI_RECORD_LIMIT")
    recording = Recording(directory, int(limit) if limit else LIMIT)
    _recorder()
    os.makedirs(recording.directory, exist_ok=True)
    # Process ids repeat in containers, so the folder's name also has a random part.
    recording.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"process-{os.getpid()}-", dir=recording.directory))
    recording._start()
    atexit.register(recording._end)
