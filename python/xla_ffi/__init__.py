"""Load XLA custom-call libraries into JAX.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers, and
returns an object with one function a handler.
"""

from ._errors import CompileError, LibraryError, ManifestError, UnsupportedRuntimeError
from ._export import Model, Need, export, load_exported, needs
from ._given import Signature
from ._handler import Handler
from ._inline import include, load_inline
from ._library import Library, load

__all__ = [
    "CompileError",
    "Handler",
    "Library",
    "LibraryError",
    "ManifestError",
    "Model",
    "Need",
    "Signature",
    "UnsupportedRuntimeError",
    "export",
    "include",
    "load",
    "load_exported",
    "load_inline",
    "needs",
]
__version__ = "0.1.0"
