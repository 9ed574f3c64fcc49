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
    if len(data) < at:
        raise LibraryError(f"{where} is cut off: it ends before its head")
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    if len(data) < at + length:
        raise LibraryError(f"{where} is cut off: its head has {length} bytes, {len(data) - at} are there")
    try:
        head = json.loads(data[at : at + length].decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise LibraryError(f"{where}: its list of handlers is damaged: {error}") from error
    listed = head.get("libraries", []) if isinstance(head, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise LibraryError(f"{where}: its list of handlers is damaged")
    body = data[at + length :]
    if head.get("digest") != _digest(body):
        raise LibraryError(f"{where} is cut off or damaged: what jax wrote is not there byte for byte")
    return head, body
