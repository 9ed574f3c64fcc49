"""Finds the targets that a model calls."""

import contextlib
import dataclasses
import hashlib
import json
import os
import struct
import types
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

# Importing _jax registers the effect that jax looks up when it reads a model.
from . import _file, _jax
from ._errors import LibraryError

_PORTABLE = b"ML\xefR"
#: Targets that XLA's compiler replaces, so that no function needs to be registered for them.
_COMPILERS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement", "shape_assertion"}


@dataclasses.dataclass(frozen=True)
class Need:
    """A target that a model calls."""

    target: str
    #: XLA's ``CustomCallApiVersion``. 4 is XLA FFI.
    api_version: int
    #: The attributes of the target's calls: names, and types as in MLIR. Only for API version 4.
    attributes: tuple[tuple[str, str], ...]
    #: Whether jax itself guarantees the stability of the target.
    of_jax: bool = False


def needs(model: Any) -> list[Need]:
    """Returns the targets that a model calls, in the order of their first calls.

    ``model`` is a ``jax.export.Exported``, a :class:`Model`, or a file or its bytes. Files are those of
    :meth:`Model.serialize` or ``jax.export``, including the derivatives in them, or StableHLO as text or as a portable
    artifact. jaxlib parses them. For an ``Exported``, only the function itself is included, because jax creates its
    derivatives on demand.
    """
    if isinstance(getattr(model, "needs", None), tuple):
        return list(model.needs)
    return (of_exported([model]) if hasattr(model, "mlir_module") else opened(*read_model(model)))[0]


def _merged(calls):
    """Returns each target once, with the attributes of all calls of the target."""
    found = {}
    for need in calls:
        before = found.get((need.target, need.api_version))
        attributes = tuple(sorted({*need.attributes, *(before.attributes if before else ())}))
        found[need.target, need.api_version] = dataclasses.replace(need, attributes=attributes)
    return list(found.values())


def opened(data, where):
    """Returns the needs of a model in bytes, including the needs of its derivatives, and the model's platforms or None
    if these are unknown.

    ``where`` is the model's name in errors.
    """
    _head, body = model_parts(data, where)
    if body.startswith(_PORTABLE):
        from jax import export as jax_export

        # jax's method reads the module, because in earlier releases the reader of the bindings is not memory-safe.
        read = lambda: jax_export.Exported.mlir_module(types.SimpleNamespace(mlir_module_serialized=body))
        return _merged(_calls(_stablehlo(types.SimpleNamespace(mlir_module=read), where), where)), None
    try:
        text = body.decode("utf-8")
        if "module" in text or "func" in text:
            return _merged(_calls(text, where)), None
    except UnicodeDecodeError:
        pass
    return of_exported(with_derivatives(deserialized(body, where, f"{where}: neither StableHLO nor a model"), where), where)


def of_exported(exported, where="the model"):
    """Returns the needs of an exported function and its derivatives, and its platforms or None."""
    calls = [call for each in exported for call in _calls(_stablehlo(each, where), where)]
    return _merged(calls), getattr(exported[0], "platforms", None)


def deserialized(body, where, what=None):
    """Returns the ``jax.export.Exported`` in bytes. If the bytes have a different content, the error starts with
    ``what``."""
    from jax import export as jax_export

    with _damage(f"{what or f'{where}: not a model'} that jax.export serialised"):
        return jax_export.deserialize(bytearray(body))


def with_derivatives(exported, where):
    """Returns the exported function, followed by its reverse-mode derivatives of increasing order."""
    found = [exported]
    with _damage(f"{where}: its derivatives are damaged"):
        while found[-1].has_vjp():
            found.append(found[-1].vjp())
    return found


def _stablehlo(exported, where):
    """Returns the text of an exported module."""
    with _damage(f"{where}: not StableHLO that jaxlib {_jax.JAXLIB} can read"):
        return exported.mlir_module()


@contextlib.contextmanager
def _damage(what):
    """Converts errors of jax's readers to a LibraryError, because damaged files raise errors of many types."""
    try:
        yield
    except (ImportError, LibraryError):
        raise
    except Exception as error:
        raise LibraryError(f"{what}: {type(error).__name__}: {str(error).strip()}") from error


def _calls(text, where):
    """Returns the calls in a module, without those that the compiler replaces."""
    with mlir.make_ir_context(), _damage(f"{where}: not StableHLO that jaxlib {_jax.JAXLIB} can read"):
        operations = _operations(ir.Module.parse(text).operation)
        found = [_need(each) for each in operations if each.name in ("stablehlo.custom_call", "mhlo.custom_call")]
    return [need for need in found if need.target not in _COMPILERS]


def _operations(operation):
    """Yields each operation in program order, including nested ones."""
    stack = [operation]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed([each.operation for region in current.regions for block in region for each in block]))


def _need(operation):
    """Returns the :class:`Need` for the target of a custom call."""
    attributes = operation.attributes
    target = ir.StringAttr(attributes["call_target_name"]).value
    # Exported modules keep the attributes of XLA FFI in a dictionary next to an older version of the call.
    version = int(ir.IntegerAttr(attributes["api_version"]).value) if "api_version" in attributes else 1
    config = next((attributes[key] for key in ("mhlo.backend_config", "backend_config") if key in attributes), None)
    if config is None or not _is(config, ir.DictAttr):
        return Need(target, version, (), _of_jax(target))
    dictionary = ir.DictAttr(config)
    members = [dictionary[at] for at in range(len(dictionary))]
    return Need(target, 4, tuple((member.name, _kind(member.attr)) for member in members), _of_jax(target))


def _is(attribute, kind):
    # Later bindings return the attribute's specific class, which has no `isinstance`.
    return kind.isinstance(attribute) if hasattr(kind, "isinstance") else isinstance(attribute, kind)


def _kind(attribute):
    if _is(attribute, ir.StringAttr):
        return "str"
    if _is(attribute, ir.BoolAttr):
        return "bool"
    if _is(attribute, ir.DictAttr):
        return "dict"
    text = str(attribute)
    if text.startswith("array<"):
        return f"[{text[6:].split(':')[0].rstrip('>')}]"
    return text.rsplit(":", 1)[-1].strip()


def _of_jax(target):
    from jax._src.export import _export

    return target in getattr(_export, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", ())


#: The first bytes of models that this package wrote.
_MAGIC = b"XLAFFIMODEL\x00\x01\n"


def read_model(model):
    """Returns the bytes of a model, and its name for errors."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "the model"
    path = os.fspath(model)
    return _file.read(path).data, path


def write_model(head, body):
    """Returns the bytes of a model. ``head`` is stored as JSON, and ``body`` is jax's serialization."""
    text = json.dumps({**head, "digest": _digest(body)}).encode()
    return _MAGIC + struct.pack("<I", len(text)) + text + body


def _digest(body):
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def model_parts(data, where):
    """Returns the head of a model and jax's bytes. The head is empty if this package did not write the model."""
    if not data.startswith(_MAGIC):
        return {}, data
    at = len(_MAGIC) + 4
    try:
        (length,) = struct.unpack_from("<I", data, len(_MAGIC))
        head, body = json.loads(data[at : at + length].decode()), data[at + length :]
        if head["digest"] == _digest(body):
            return head, body
    except (struct.error, ValueError, TypeError, KeyError):
        pass
    raise LibraryError(f"{where}: truncated or damaged; write it again")
