"""Load XLA custom-call libraries into JAX and TensorFlow.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers with JAX, and returns an
object with one function per handler. ``xla_ffi.tensorflow.load`` does the same for TensorFlow.

JAX is imported only when a name that needs it is first used. Builds that only need the headers, and
TensorFlow programs, may not have JAX.
"""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._check import CheckResult, Report, check
    from ._errors import CompileError, LibraryError, ManifestError, UnsupportedRuntimeError
    from ._export import Model, export, load_exported
    from ._handler import Handler
    from ._inline import load_inline
    from ._installation import include
    from ._library import Library, load
    from ._needs import Need, needs
    from ._record import Recording, record
    from ._user_signature import Signature

__all__ = [
    "CheckResult",
    "CompileError",
    "Handler",
    "Library",
    "LibraryError",
    "ManifestError",
    "Model",
    "Need",
    "Recording",
    "Report",
    "Signature",
    "UnsupportedRuntimeError",
    "check",
    "export",
    "include",
    "load",
    "load_exported",
    "load_inline",
    "needs",
    "record",
]
__version__ = "0.1.0"

# The module of each public name. Type checkers read the imports above instead; a test checks that both have the same
# names.
_MODULES = {
    "_check": ("CheckResult", "Report", "check"),
    "_errors": ("CompileError", "LibraryError", "ManifestError", "UnsupportedRuntimeError"),
    "_export": ("Model", "export", "load_exported"),
    "_handler": ("Handler",),
    "_inline": ("load_inline",),
    "_installation": ("include",),
    "_library": ("Library", "load"),
    "_needs": ("Need", "needs"),
    "_record": ("Recording", "record"),
    "_user_signature": ("Signature",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name):
    if name == "tensorflow":
        return importlib.import_module(".tensorflow", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "jax":
            raise
        raise ImportError(f"xla_ffi.{name} needs jax; install it, or use xla_ffi.tensorflow.load for TensorFlow") from error
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})


if os.environ.get("XLA_FFI_RECORD"):
    importlib.import_module("._record", __name__).from_environment()
