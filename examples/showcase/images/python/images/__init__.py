"""JPEG and PNG for JAX: bytes to arrays, decoded while the program goes on."""

import importlib.resources
import sys

import numpy as np
import xla_ffi

# libNAME.so, libNAME.dylib or NAME.dll, as this system calls it.
_prefix = "" if sys.platform == "win32" else "lib"
_suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_file = f"{_prefix}images{_suffix}"

# The library may lie elsewhere than this file: in an editable installation, for instance.
with importlib.resources.as_file(importlib.resources.files(__name__).joinpath(_file)) as _path:
    lib = xla_ffi.load(_path)


def pack(files):
    """Files as one array: ``files`` is a sequence of ``bytes``.

    Returns:
        (bytes, lengths): uint8 of shape (count, the longest) padded with zeros, and int32 of shape (count,).
    """
    lengths = np.array([len(file) for file in files], np.int32)
    packed = np.zeros((len(files), max(lengths, default=0)), np.uint8)
    for row, file in zip(packed, files):
        row[: len(file)] = np.frombuffer(file, np.uint8)
    return packed, lengths


def decode(packed, lengths, *, height, width, channels=3, fit="exact"):
    """The pixels of JPEG and PNG images.

    Args:
        packed: The files' bytes, uint8 of shape (..., n), as ``pack`` gives them.
        lengths: How many bytes each file has, int32 of shape (...).
        height, width: Of the results, in pixels.
        channels: 1 for grey, 3 for RGB, 4 for RGB and alpha; images are converted.
        fit: "exact" takes images of this height and width alone; "resize" scales others, linearly.

    Returns:
        uint8 of shape (..., height, width, channels).

    Raises:
        jax.errors.JaxRuntimeError: When the call runs, with the place of the image in the batch: DATA_LOSS where a file
            is truncated or broken, INVALID_ARGUMENT where it is neither JPEG nor PNG or has another size,
            RESOURCE_EXHAUSTED where it would take more than 512 MiB.

    A call ends when its images are decoded, on threads of the library's own, as many as there are processors: calls
    that do not need each other's results are under way together, and a batch is spread over the threads.
    """
    return lib.decode(packed, lengths, height=height, width=width, channels=channels, fit=fit)


def sizes(packed, lengths):
    """Height, width and channels of each image: int32 of shape (..., 3). Errors are those of ``decode``."""
    return lib.sizes(packed, lengths)


__all__ = ["decode", "lib", "pack", "sizes"]
__version__ = "0.1.0"
