"""A library's file: its bytes, whether it is still the same, and private copies of one that changed."""

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import os
import tempfile

from . import _image
from ._errors import FileMissingError, LibraryError, ManifestError

#: How much of a library's name is in that of its copy.
_LONGEST = 64


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a file held at one moment."""

    path: str
    data: bytes = dataclasses.field(repr=False)

    @functools.cached_property
    def digest(self):
        """Names the contents."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()


def read(path):
    """The contents of a file."""
    try:
        with open(path, "rb") as file:
            return Contents(path, file.read())
    except FileNotFoundError as error:
        raise FileMissingError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error


def load(contents, private):
    """The library of these contents, loaded. A ``private`` one is loaded beside what this process has of the path."""
    path = contents.path
    return _load_copy(contents) if private else _dlopen(path, path)


def _load_copy(contents):
    """Loads a copy of its own: the loader of the system knows a file by its path and its inode, and would hand out the old one.

    The copy lies beside the original, so that dependencies by ``$ORIGIN`` are found, and is gone once it is loaded.
    """
    path = contents.path
    folder, name = os.path.split(path)
    data = _image.read(contents.data, path).without_unique_symbols()
    names = {"prefix": f".{name[:_LONGEST]}.", "suffix": os.path.splitext(name)[1] or ".so"}
    try:
        handle, copy = tempfile.mkstemp(dir=folder, **names)
    except OSError:  # elsewhere, then: the loader names dependencies that it does not find from there
        handle, copy = tempfile.mkstemp(**names)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        return _dlopen(copy, path)
    finally:
        # Windows deletes no file that a process has loaded: there the copy stays.
        with contextlib.suppress(PermissionError):
            os.unlink(copy)


def _dlopen(file, path):
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        raise LibraryError(f"{path}: cannot be loaded: {str(error).replace(file, path)}") from error


def address(image, path, symbol):
    """Where a function of a loaded library lies."""
    try:
        return ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
    except (AttributeError, ValueError) as error:
        raise LibraryError(f"{path}: symbol `{symbol}` is not exported; check the manifest, or the names passed to load") from error
