"""A model's bytes: what this package writes before those of jax."""

import hashlib
import json
import os
import struct

from . import _file
from ._errors import LibraryError

#: How a model begins that this package wrote.
MAGIC = b"XLAFFIMODEL\x00\x01\n"


def read(model):
    """The bytes of a model, and what it is called."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "the model"
    path = os.fspath(model)
    return _file.read(path).data, path


def written(head, body):
    """The bytes of a model: ``head`` is what JSON has, ``body`` is jax's."""
    text = json.dumps({**head, "digest": _digest(body)}).encode()
    return MAGIC + struct.pack("<I", len(text)) + text + body


def _digest(body):
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def parts(data, where):
    """The head of a model that this package wrote, and jax's bytes; of others the head is empty."""
    if not data.startswith(MAGIC):
        return {}, data
    at = len(MAGIC) + 4
    try:
        (length,) = struct.unpack_from("<I", data, len(MAGIC))
        head, body = json.loads(data[at : at + length].decode()), data[at + length :]
        if head["digest"] == _digest(body):
            return head, body
    except (struct.error, ValueError, TypeError, KeyError):
        pass
    raise LibraryError(f"{where} is cut off or damaged: it is not byte for byte what was written")
