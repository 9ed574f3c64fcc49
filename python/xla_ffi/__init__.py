"""Load XLA custom-call libraries into JAX.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers, and
returns an object with one function a handler.
"""

from ._check import check
from ._errors import LibraryError, ManifestError, UnsupportedRuntimeError
from ._handler import Handler
from ._library import Library, load
from ._record import Recording, from_environment, record
from ._report import Line, Report

__all__ = [
    "Handler", "Library", "LibraryError", "Line", "ManifestError", "Recording", "Report", "UnsupportedRuntimeError", "check",
    "load", "record",
]  # fmt: skip
__version__ = "0.1.0"

from_environment()
del from_environment
