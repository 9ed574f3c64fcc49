"""Load XLA custom-call libraries into JAX.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers, and
returns an object with one function a handler.
"""

from ._errors import LibraryError, ManifestError, UnsupportedRuntimeError
from ._given import Signature
from ._handler import Handler
from ._library import Library, load

__all__ = ["Handler", "Library", "LibraryError", "ManifestError", "Signature", "UnsupportedRuntimeError", "load"]
__version__ = "0.1.0"
