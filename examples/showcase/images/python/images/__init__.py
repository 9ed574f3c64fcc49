"""JPEG and PNG for JAX: decodes bytes to arrays while the program continues."""

import importlib.resources
import sys

import numpy as np
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, depending on the system.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}images{_suffix}"

# The library may be in a different folder than this file, for example in an editable installation.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def pack(files):
    """Packs files, a sequence of ``bytes``, into one array.

    Returns:
        (bytes, lengths): uint8 of shape (count, longest file), padded with zeros, and int32 of shape (count,).
    """
    lengths = np.array([len(file) for file in files], np.int32)
    packed = np.zeros((len(files), max(lengths, default=0)), np.uint8)
    for row, file in zip(packed, files):
        row[: len(file)] = np.frombuffer(file, np.uint8)
    return packed, lengths


def decode(packed, lengths, *, height, width, channels=3, fit="exact"):
    """Decodes JPEG and PNG images.

    Args:
        packed: The files' bytes, uint8 of shape (..., n), as returned by ``pack``.
        lengths: The number of bytes in each file, int32 of shape (...).
        height, width: The size of the results in pixels.
        channels: 1 for grey, 3 for RGB, 4 for RGB and alpha; images are converted.
        fit: "exact" refuses images of any other size; "resize" scales them, with linear interpolation.

    Returns:
        uint8 of shape (..., height, width, channels).

    Raises:
        jax.errors.JaxRuntimeError: When the call runs, with the index of the image in the batch: DATA_LOSS if a file
            is truncated or damaged, INVALID_ARGUMENT if it is neither JPEG nor PNG or has the wrong size,
            RESOURCE_EXHAUSTED if it would need more than 512 MiB.

    Images are decoded on the library's own threads, one per processor. A batch is distributed over the threads, and
    independent calls run at the same time.
    """
    return lib.decode(packed, lengths, height=height, width=width, channels=channels, fit=fit)


def sizes(packed, lengths):
    """Reads the height, width and channels of each image: int32 of shape (..., 3). Errors are as for ``decode``."""
    return lib.sizes(packed, lengths)


__all__ = ["decode", "lib", "pack", "sizes"]
__version__ = "0.1.0"
