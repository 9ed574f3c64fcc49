"""Which targets a model calls, and whether libraries have them as they are called."""

import dataclasses
import json
import os
import re
import struct
import types
from typing import Any, NamedTuple

import jax
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

from . import _dtypes, _facts, _file, _manifest, _mlir, _signature
from ._errors import LibraryError

#: How a model begins that this package wrote.
MAGIC = b"XLAFFIMODEL\x00\x01\n"
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
    return _merged(_calls(model) if hasattr(model, "mlir_module") else _calls(*read(model)))


def _merged(calls):
    """Each target once, with the attributes of all of its calls."""
    found = {}
    for call in calls:
        need = call.need
        before = found.get((need.target, need.api_version))
        attributes = tuple(sorted({*need.attributes, *(before.attributes if before else ())}))
        found[need.target, need.api_version] = dataclasses.replace(need, attributes=attributes)
    return list(found.values())


class _Call(NamedTuple):
    """One call of a target."""

    need: Need
    #: Element type, as the ABI has it, and rank of each operand and result; None where it is no array, or one of unknown rank.
    args: tuple
    rets: tuple


def _calls(model, where="the model"):
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
                    call = _Call(_need(operation), *([_array(value.type) for value in side] for side in (operation.operands, operation.results)))
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


def _declared_kind(kind):
    """The type of an attribute as a manifest has it; None for one that no manifest has."""
    kind = re.sub(r"^tensor<(?:\d+x)+(\w+)>$", r"[\1]", kind)
    bare = kind.strip("[]")
    plain = bare.replace("ui", "u", 1) if bare.startswith("ui") else bare
    kind = kind.replace(bare, plain) if bare else kind
    return kind if plain in (*_dtypes.ATTRIBUTES, "str", "dict") else None


def _of_jax(target):
    from jax._src.export import _export

    return target in getattr(_export, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", ())


def read(model):
    """The bytes of a model, and what it is called."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "the model"
    path = os.fspath(model)
    return _file.read(path).data, path


def parts(data, where):
    """The head of a model that this package wrote, and jax's bytes; of others the head is empty."""
    if not data.startswith(MAGIC):
        return {}, data
    at = len(MAGIC) + 4
    length = struct.unpack_from("<I", data.ljust(at, b"\0"), len(MAGIC))[0]
    if len(data) < at + length:
        raise LibraryError(f"{where} is cut off: its head has {length} bytes, {max(0, len(data) - at)} are there")
    try:
        head = json.loads(data[at : at + length].decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise LibraryError(f"{where}: its list of handlers is damaged: {error}") from error
    listed = head.get("libraries", []) if isinstance(head, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise LibraryError(f"{where}: its list of handlers is damaged")
    return head, data[at + length :]


def _stablehlo(data, where):
    """A model as something with ``mlir_module``, or as text."""
    _head, body = parts(data, where)
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


def report(model, paths):
    """``(text, whether all are there)``: a line for each target that a model calls, and which of the libraries has it as it is called."""
    data, where = read(model)
    listed = parts(data, where)[0].get("libraries", [])
    calls = _calls(data, where)
    offers = {}
    for path in paths:
        prefixes = _prefixes(listed, path)
        for name, (handlers, legacy) in _manifest.read_all(os.path.realpath(path)).items():
            for prefix in (name, *prefixes):
                offers.update({f"{prefix}.{spec.name}": (path, spec) for spec in handlers.values()})
            offers.update({spec.name: (path, None) for spec in legacy})
            offers.update({f"{prefix}.{spec.name}": (path, None) for prefix in prefixes for spec in legacy})
    wrong = {}
    for call in calls:
        _path, spec = offers.get(call.need.target, (None, None))
        known = wrong.setdefault((call.need.target, call.need.api_version), {})
        if call.need.target in offers:
            known.update(dict.fromkeys(_misfits(call, spec)))
    lines, good = [], True
    for need in _merged(calls):
        attributes = ", ".join(f"{name}: {kind}" for name, kind in need.attributes)
        path, _spec = offers.get(need.target, (None, None))
        by = "jax" if need.of_jax else path
        misfits = [] if need.of_jax else list(wrong[need.target, need.api_version])
        said = f"in {by}" + (f", but {' and '.join(misfits)}" if misfits else "") if by else "in none of the libraries" if paths else "?"
        good = good and bool(by) and not misfits
        # What a model says is one line, and no command for a terminal.
        lines.append(_signature.printable(f"{need.target}  API version {need.api_version}  {{{attributes}}}  {said}").replace("\n", "\\n"))
    return "\n".join(lines) + "\n" if lines else "it calls no handlers\n", good or not paths


def _prefixes(listed, path):
    """The prefixes under which a model's own list has a library of this name."""
    same = [about for about in listed if os.path.basename(str(about.get("file"))) == os.path.basename(path)]
    return [about["prefix"] for about in same if isinstance(about.get("prefix"), str)]


def _misfits(call, spec):
    """Why a library does not take a call, in words; ``spec`` is None for a target of the original custom calls."""
    if (spec is None) != (call.need.api_version < 4):
        is_handler = "a handler of XLA FFI" if spec else "a target of the original custom calls"
        return [f"it is {is_handler}, and not for API version {call.need.api_version}"]
    if spec is None or not spec.described:
        return []
    given = dict(call.need.attributes)
    declared = {attr.name: attr for attr in spec.attrs if attr.inside is None}
    unknown = [] if spec.open_attrs else [name for name in given if name not in declared]
    lacking = [name for name, attr in declared.items() if not attr.optional and name not in given]
    wrong = [f"it has no attribute {', '.join(unknown)}"] * bool(unknown) + [f"it wants the attribute {', '.join(lacking)}"] * bool(lacking)
    for name, attr in declared.items():
        kind = _declared_kind(given[name]) if name in given else None
        if kind is not None and attr.type not in ("any", kind):
            wrong.append(f"its attribute {name} is of type {attr.type}, not {given[name]}")
    for what, operands, arrays in (("argument", spec.args, call.args), ("result", spec.rets, call.rets)):
        wrong += _misfit_arrays(what, operands, arrays)
    return wrong


def _misfit_arrays(what, declared, have):
    least = sum(not (operand.optional or operand.variadic) for operand in declared)
    variadic = any(operand.variadic for operand in declared)
    if len(have) < least or (len(have) > len(declared) and not variadic):
        more = " or more" if variadic or len(declared) > least else ""
        return [f"it has {least}{more} {what}{'s' if more or least != 1 else ''}, not {len(have)}"]
    wrong = []
    for at, array in enumerate(have):
        operand = declared[min(at, len(declared) - 1)]
        if array is None:
            continue
        dtype, rank = array
        if operand.dtypes is not None and dtype is not None and dtype not in operand.dtypes and not (operand.token and dtype == "TOKEN"):
            wrong.append(f"its {what} {operand.name} is no {dtype}")
        elif operand.rank is not None and rank != operand.rank:
            wrong.append(f"its {what} {operand.name} has {operand.rank} dimensions, not {rank}")
    return wrong
