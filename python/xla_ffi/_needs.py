"""Which targets a model calls."""

import dataclasses
import types
from typing import Any, NamedTuple

import jax
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

from . import _facts, _mlir, _model
from ._errors import LibraryError

_PORTABLE = b"ML\xefR"
#: Calls that the compiler replaces: nothing has to be registered for them.
_COMPILERS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement", "shape_assertion"}
#: Element types by their names in MLIR.
_ELEMENTS = {_mlir.element(name): name for name, (kind, _bits) in _facts.ELEMENT_TYPES.items() if kind != "token"}


@dataclasses.dataclass(frozen=True)
class Need:
    """A target that a model calls."""

    target: str
    #: XLA's ``CustomCallApiVersion``: 4 is XLA FFI.
    api_version: int
    #: The attributes of its calls, by name, as MLIR writes their types; those of 4 only.
    attributes: tuple[tuple[str, str], ...]
    #: Whether jax itself guarantees the target.
    of_jax: bool = False


def needs(model: Any) -> list[Need]:
    """The targets that a model calls, in order of their first calls.

    ``model`` is a ``jax.export.Exported``, a :class:`Model`, a file or its bytes: what :meth:`Model.serialize` or
    ``jax.export`` wrote, StableHLO as text or as a portable artifact. jaxlib's own reader parses it.
    """
    if isinstance(getattr(model, "needs", None), tuple):
        return list(model.needs)
    return merged(calls(model) if hasattr(model, "mlir_module") else calls(*_model.read(model)))


def merged(calls):
    """Each target once, with the attributes of all of its calls."""
    found = {}
    for call in calls:
        need = call.need
        before = found.get((need.target, need.api_version))
        attributes = tuple(sorted({*need.attributes, *(before.attributes if before else ())}))
        found[need.target, need.api_version] = dataclasses.replace(need, attributes=attributes)
    return list(found.values())


class Call(NamedTuple):
    """One call of a target."""

    need: Need
    #: Element type, as the ABI has it, and rank of each operand and result; None where it is no array, or one of unknown rank.
    args: tuple
    rets: tuple


def calls(model, where="the model"):
    """The calls of a model, without those that the compiler replaces; ``where`` is what its bytes are called."""
    if not hasattr(model, "mlir_module"):
        model = _stablehlo(model, where)
    text = model.mlir_module() if hasattr(model, "mlir_module") else model
    found = []
    with mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
        except Exception as error:  # jaxlib's MLIRError, which is no one class in all of its releases
            raise LibraryError(f"{where} is no StableHLO that jaxlib {jax.lib.__version__} reads: {str(error).strip()}") from error
        for operation in _operations(module.operation):
            if operation.name in ("stablehlo.custom_call", "mhlo.custom_call"):
                try:
                    call = Call(_need(operation), *([_array(value.type) for value in side] for side in (operation.operands, operation.results)))
                except (RuntimeError, UnicodeDecodeError) as error:  # as the jaxlib has it
                    raise LibraryError(f"{where} calls a target, or has an attribute, whose name is no text") from error
                if call.need.target not in _COMPILERS:
                    found.append(call)
    return found


def _operations(operation):
    stack = [operation]
    while stack:
        current = stack.pop()
        yield current
        inner = [each.operation for region in current.regions for block in region for each in block]
        stack.extend(reversed(inner))


def _need(operation):
    attributes = operation.attributes
    target = ir.StringAttr(attributes["call_target_name"]).value
    # Exported modules keep the dictionary of XLA FFI beside a call of an older version.
    version = int(ir.IntegerAttr(attributes["api_version"]).value) if "api_version" in attributes else 1
    config = next((attributes[key] for key in ("mhlo.backend_config", "backend_config") if key in attributes), None)
    if config is not None and _is(config, ir.DictAttr):
        config = ir.DictAttr(config)
        return Need(target, 4, tuple((config[at].name, _kind(config[at].attr)) for at in range(len(config))), _of_jax(target))
    return Need(target, version, (), _of_jax(target))


def _array(of):
    """Element type and rank of an array, ``("TOKEN", 0)`` for a token, None for anything else."""
    if str(of) == "!stablehlo.token":
        return "TOKEN", 0
    if not _is(of, ir.RankedTensorType):
        return None
    array = ir.RankedTensorType(of)
    return _ELEMENTS.get(str(array.element_type)), array.rank


def _is(attribute, kind):
    # Later bindings give the attribute's own class.
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


def _stablehlo(data, where):
    """A model as something with ``mlir_module``, or as text."""
    _head, body = _model.parts(data, where)
    if body.startswith(_PORTABLE):
        from jax import export as jax_export

        try:
            # As jax reads it: the bindings' own reader is not safe to call in its earlier releases.
            return jax_export.Exported.mlir_module(types.SimpleNamespace(mlir_module_serialized=body))
        except Exception as error:  # as below
            raise LibraryError(f"{where} is no StableHLO that jaxlib {jax.lib.__version__} reads: {str(error).strip()}") from error
    try:
        text = body.decode("utf-8")
        if "module" in text or "func" in text:
            return text
    except UnicodeDecodeError:
        pass
    from jax import export as jax_export

    try:
        return jax_export.deserialize(bytearray(body))
    except ImportError:
        raise
    except Exception as error:  # the reader of flat buffers has every kind of error for a damaged file
        raise LibraryError(f"{where} is neither StableHLO nor a model that jax.export serialised: {type(error).__name__}: {error}") from error
