"""Load XLA custom-call libraries into JAX.

``lib = xla_ffi.load("libfoo.so")`` reads the manifest of the library, registers its handlers, and
returns an object with one function a handler.
"""

from ._errors import LibraryError, ManifestError, UnsupportedRuntimeError
from ._handler import Handler
from ._library import Library, load
from ._record import Recording, from_environment, record

__all__ = ["Handler", "Library", "LibraryError", "ManifestError", "Recording", "UnsupportedRuntimeError", "load", "record"]
__version__ = "0.1.0"

from_environment()
del from_environment
