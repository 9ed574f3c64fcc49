"""Recording the calls of handlers, for ``xla-ffi run LIB --replay``.

While a recording is under way calls are traced to targets of their own, ``TARGET@recorded``: there a function of
``libxla_ffi_record`` stands before each stage of the handler. The targets of the rest stay as they are, so that a
handler costs nothing more when nothing is recorded.
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
#: Bytes of operands that a recording keeps unless it is told otherwise.
LIMIT = 1 << 30
_SUFFIX = ".xlacall"

_lock = threading.RLock()
_handlers = {}  # target: (path, handler name, {stage: symbol}, {platform: {stage: address}})
_recorded = set()  # the targets that have a twin that records
_current = None
_plain = contextvars.ContextVar("plain", default=False)


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("recorded", "truncated", "failed", "open")]


def record(directory, *, limit=LIMIT):
    """Writes every call of the loaded handlers into ``directory``, one file a call, as long as the ``with`` block runs.

    A file holds the stage, the operands' shapes and bytes, the attributes, what the context says, and the results or
    the error; which call left the state that a call uses is told by its number. ``xla-ffi run LIB --replay FILE`` makes
    a call again on the embedded runtime, a whole directory in order, and compares what comes of it. A call that ends
    the process leaves a file, too: the last one.

    ``limit`` is the number of bytes of operands that are kept at most; what is beyond is left out, and a warning at the
    end of the block counts such calls. The directory is made; one with recorded calls in it is refused. Functions that
    jax has compiled are compiled anew, at both ends of the block (``jax.clear_caches()``), except those compiled by
    hand with ``lower().compile()``, whose calls are not recorded. Only calls on CPU are: elsewhere operands lie in the
    device's memory; handlers run there as they are, and a warning names each once. One recording at a time; calls of all threads are recorded.

    The environment variable ``XLA_FFI_RECORD=DIR`` records from the import of this package on, into a new directory
    ``process-PID-…`` in ``DIR``; ``XLA_FFI_RECORD_LIMIT`` is its limit. ``XLA_FFI_RECORDER`` names ``libxla_ffi_record.so``
    where it lies neither in the ``lib`` of this package (as in wheels for a platform) nor in the ``target`` of its checkout.
    """
    return Recording(directory, limit)


class Recording:
    """What :func:`record` gives. After the block ``calls``, ``truncated``, ``failed`` and ``unfinished`` count the calls
    that were recorded, those of which operands were left out, those whose file could not be written, and those that
    were not over when the block was."""

    def __init__(self, directory, limit=LIMIT):
        #: Where the files are.
        self.directory = pathlib.Path(directory)
        self.limit = limit
        self._running = False
        self._told = set()  # the targets of which a warning said that they are not recorded
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
        """Addresses to register with ``jax.ffi`` by hand, ``{stage: address}``, whose calls are recorded: for handlers
        that :func:`xla_ffi.load` has not loaded. ``symbols`` are the stages' symbols in the library ``path``."""
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
        """Ends the recording when all that it is to have has come."""
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
    """Notes a handler that is registered: ``addresses`` is ``{platform: {stage: address}}``."""
    with _lock:
        _handlers[target] = (path, handler, symbols, addresses)


@contextlib.contextmanager
def plain():
    """What is traced within calls the targets themselves: it is to work elsewhere, where nothing is recorded."""
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def target_now(target, platforms=("cpu",)):
    """The target that a call which is traced now, for these platforms, is to name."""
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
    """Lets jax forget what it compiled: the programs name the targets of before."""
    import jax

    jax.clear_caches()


def _settle():
    """Waits for what runs on the CPU: jax returns from a call before it is over."""
    import jax

    try:
        devices = jax.local_devices(backend="cpu")
    except (RuntimeError, AssertionError):  # JAX has no such backend (JAX_PLATFORMS=cuda), or none at all: nothing ran there
        return
    for array in jax.live_arrays("cpu"):
        try:
            array.block_until_ready()
        except Exception:  # a handler's error, which its own caller is told
            pass
    # Calls whose results nobody has kept have begun by the time that a later computation of the same thread is over.
    for device in devices:
        jax.jit(lambda x: x + 1)(jax.device_put(0, device)).block_until_ready()


def from_environment():
    """Begins the recording that the environment asks for, until the process ends."""
    directory = os.environ.get("XLA_FFI_RECORD")
    if not directory:
        return
    limit = os.environ.get("XLA_FFI_RECORD_LIMIT")
    recording = Recording(directory, int(limit) if limit else LIMIT)
    _recorder()
    os.makedirs(recording.directory, exist_ok=True)
    # In containers the numbers of processes come again.
    recording.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"process-{os.getpid()}-", dir=recording.directory))
    recording._start()
    atexit.register(recording._end)
