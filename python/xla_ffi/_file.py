"""A library's file: its bytes, whether it is still the same, and private copies of one that changed."""

import contextlib
import ctypes
import dataclasses
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
    stamp: tuple

    @property
    def digest(self):
        """Names the contents."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()


def stamp(path):
    """What changes with a file, as far as one can tell without reading it; None where there is none."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def read(path):
    """The contents of a file."""
    try:
        with open(path, "rb") as file:
            return Contents(path, file.read(), _stamp(os.fstat(file.fileno())))
    except FileNotFoundError as error:
        raise FileMissingError(error.errno, error.strerror, path) from error
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error


def load(contents, private):
    """The library of these contents, loaded. A ``private`` one is loaded beside what this process has of the path."""
    path = contents.path
    if private or _is_replaced(path):
        return _load_copy(contents)
    image = _dlopen(path, path)
    if stamp(path) != contents.stamp:
        raise LibraryError(f"{path} was changed while it was being loaded: load it again")
    return image


def _is_replaced(path):
    """Whether this process has loaded an earlier file of this name, which the loader of the system would hand out again."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            return f"{path} (deleted)\n" in maps.read()
    except OSError:
        return False


def _load_copy(contents):
    """Loads a copy of its own: the loader of the system knows a file by its path and its inode, and would hand out the old one.

    The copy lies beside the original, so that dependencies by ``$ORIGIN`` are found, and is gone once it is loaded.
    """
    path = contents.path
    folder, name = os.path.split(path)
    data = _image.read(contents.data, path).without_unique_symbols()
    names = {"prefix": f".{name[:_LONGEST]}.", "suffix": os.path.splitext(name)[1] or ".so"}
    try:
        try:
            handle, copy = tempfile.mkstemp(dir=folder, **names)
        except OSError:  # elsewhere, then: the loader names dependencies that it does not find from there
            handle, copy = tempfile.mkstemp(**names)
    except OSError as error:
        raise LibraryError(f"{path} has changed since this process loaded it, and its copy cannot be written: {error}") from error
    try:
        with open(handle, "wb") as file:
            file.write(data)
        return _dlopen(copy, path)
    except OSError as error:
        raise LibraryError(f"{path} has changed since this process loaded it, and its copy cannot be written: {error}") from error
    finally:
        # Windows deletes no file that a process has loaded: there the copy stays.
        with contextlib.suppress(PermissionError):
            os.unlink(copy)


def _dlopen(file, path):
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        raise LibraryError(f"{path} cannot be loaded: {str(error).replace(file, path)}") from error


def address(image, path, symbol):
    """Where a function of a loaded library lies."""
    try:
        return ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
    except (AttributeError, ValueError) as error:
        raise LibraryError(f"{path} does not export {symbol!r}, which its manifest or its caller names") from error


def _stamp(status):
    # The inode's own time too: tools that copy a file's time with it leave the others as they were.
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
