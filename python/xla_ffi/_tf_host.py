"""The XLA in this process's TensorFlow: its function table, its revision, and registration of handlers."""

import ctypes
import os

import tensorflow as tf

from . import _abi
from ._errors import UnsupportedRuntimeError

#: The mangled name of `xla::ffi::GetXlaFfiApi()`.
GETTER = "_ZN3xla3ffi12GetXlaFfiApiEv"

_LIBRARY = "libtensorflow_cc.so.2"

# Size in bytes of the first revision's function table, whose last function is Stream_Get. Smaller tables have no
# version.
_FIRST = 88


class _Version(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Api(ctypes.Structure):
    """The part of the function table that this module reads, which is the same in every revision."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("error_create", ctypes.c_void_p),
        ("error_text", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
        ("error_destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("handler_register", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
    ]


class _Register(ctypes.Structure):
    """Arguments of the function that registers a handler without a record stage. Every host accepts these arguments."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("platform", ctypes.c_char_p),
        ("platform_size", ctypes.c_size_t),
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
        ("traits", ctypes.c_uint32),
    ]


class _Text(ctypes.Structure):
    """Arguments of the function that returns an error's text, in the longest form. Older hosts read only a prefix of
    the struct."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


class _Destroy(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("error", ctypes.c_void_p)]


class Host:
    """The function table of the TensorFlow in this process."""

    def __init__(self):
        self.name = f"TensorFlow {tf.__version__}"
        path = os.path.join(tf.sysconfig.get_lib(), _LIBRARY)
        try:
            getter = ctypes.CDLL(path)[GETTER]
        except (OSError, AttributeError) as error:
            raise UnsupportedRuntimeError(f"{self.name}: {path} does not contain XLA FFI ({error}); upgrade to TensorFlow 2.18 or newer") from error
        getter.restype = ctypes.c_void_p
        self.address = getter()
        size = ctypes.c_size_t.from_address(self.address).value
        if size < _FIRST:
            raise UnsupportedRuntimeError(f"{self.name}: its XLA FFI is too old (a table of {size} bytes); upgrade to TensorFlow 2.18 or newer")
        self.minor = _Api.from_address(self.address).version.minor

    def refusal(self, spec):
        """Returns the reason why the XLA in TensorFlow cannot use a handler, or None, by the rule in
        `_handler.refusal`."""
        if _abi.minor_version(spec.floor) <= max(1, self.minor):
            return None
        needs = f"an XLA as in jaxlib {_abi.first_jaxlib(spec.floor)} or newer"
        return f"{spec.library}.{spec.name}: needs {needs} (r{spec.floor}), got {self.name} with XLA FFI 0.{self.minor}; upgrade TensorFlow"

    def register(self, name, stages):
        """Registers ``{stage: address}`` for the CPU. Returns the text of the host's error, or None."""
        target = name.encode()
        args = _Register(_Register.traits.offset + 4, None, target, len(target), b"Host", 4, **stages)
        error = _Api.from_address(self.address).handler_register(ctypes.addressof(args))
        return self._told(error) if error else None

    def enroll(self, register):
        """Calls a library's own registration function.

        Returns the text of the function's error, with a line per handler, or None.
        """
        register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        error = register(self.address, b"Host")
        return self._told(error) if error else None

    def _told(self, error):
        """Returns the text of an error and destroys the error."""
        api = _Api.from_address(self.address)
        text = _Text(struct_size=ctypes.sizeof(_Text) if self.minor >= 4 else _Text.code.offset, error=error)
        api.error_text(ctypes.addressof(text))
        said = (text.message or b"").decode("utf-8", "replace")
        destroy = _Destroy(struct_size=ctypes.sizeof(_Destroy), error=error)
        api.error_destroy(ctypes.addressof(destroy))
        return said
