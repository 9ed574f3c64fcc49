"""Library files: their contents, and private copies of files that changed after they were loaded."""

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import os
import tempfile

from . import _image
from ._errors import FileMissingError, LibraryError, ManifestError

#: Number of characters of a library's name that the name of its copy keeps.
_LONGEST = 64


@dataclasses.dataclass(frozen=True)
class Contents:
    """The contents of a library file, as read at one time."""

    path: str
    data: bytes = dataclasses.field(repr=False)

    @functools.cached_property
    def digest(self):
        """A hash that identifies the contents."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()


def read(path):
    """Reads a library file. Raises :class:`ManifestError` if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return Contents(path, file.read())
    except FileNotFoundError as error:
        raise FileMissingError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error


def load(contents, private):
    """Loads the library with these contents.

    If ``private``, loads a separate copy in addition to the version that this process has loaded from the path.
    """
    path = contents.path
    return _load_copy(contents) if private else _dlopen(path, path)


def _load_copy(contents):
    """Loads a new copy of the file, because the system's loader identifies files by path and inode and would return the
    old library.

    The copy is in the folder of the original, so that dependencies relative to ``$ORIGIN`` are found. The copy is
    deleted after loading.
    """
    path = contents.path
    folder, name = os.path.split(path)
    data = _image.read(contents.data, path).without_unique_symbols()
    names = {"prefix": f".{name[:_LONGEST]}.", "suffix": os.path.splitext(name)[1] or ".so"}
    try:
        handle, copy = tempfile.mkstemp(dir=folder, **names)
    except OSError:  # The folder is read-only. From a different folder, the loader's error names dependencies that are not found.
        handle, copy = tempfile.mkstemp(**names)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        return _dlopen(copy, path)
    finally:
        # Windows cannot delete a file that a process has loaded, so the copy stays there.
        with contextlib.suppress(PermissionError):
            os.unlink(copy)


def _dlopen(file, path):
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        raise LibraryError(f"{path}: cannot be loaded: {str(error).replace(file, path)}") from error


def address(image, path, symbol):
    """Returns the address of a function in a loaded library.

    Raises :class:`LibraryError` if the symbol is not exported.
    """
    try:
        return ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
    except (AttributeError, ValueError) as error:
        raise LibraryError(f"{path}: symbol `{symbol}` is not exported; check the manifest, or the names passed to load") from error
