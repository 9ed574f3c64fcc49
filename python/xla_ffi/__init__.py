"""Load XLA custom-call libraries into JAX.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers, and
returns an object with one function a handler.
"""

from ._check import check
from ._errors import CompileError, LibraryError, ManifestError, UnsupportedRuntimeError
from ._export import Model, Need, export, load_exported, needs
from ._given import Signature
from ._handler import Handler
from ._inline import include, load_inline
from ._library import Library, load
from ._record import Recording, from_environment, record
from ._report import Line, Report

__all__ = [
    "CompileError",
    "Handler",
    "Library",
    "LibraryError",
    "Line",
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

from_environment()
del from_environment
