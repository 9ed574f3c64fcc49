"""Exported models that keep their handlers: which targets a model calls, and a file that says where they are."""

import dataclasses
import json
import os
import struct
import types
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

import jax
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

from . import _file, _given, _library, _manifest, _signature
from ._errors import LibraryError

_MAGIC = b"XLAFFIMODEL\x00\x01\n"
_PORTABLE = b"ML\xefR"
#: Calls that the compiler replaces: nothing has to be registered for them.
_COMPILERS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement", "shape_assertion"}


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


class Model:
    """An exported function and the handlers that it calls."""

    def __init__(self, exported: Any, needs: Sequence[Need], libraries: Sequence[dict[str, Any]]):
        #: What ``jax.export`` made.
        self.exported = exported
        #: The targets that it calls, as :class:`Need`.
        self.needs = tuple(needs)
        self._libraries = tuple(libraries)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, under ``jax.jit`` and in other functions, too."""
        return self.exported.call(*args, **kwargs)

    def serialize(self) -> bytes:
        """The model and its list of handlers, for :func:`load_exported`."""
        head = {"libraries": list(self._libraries), "needs": [dataclasses.asdict(need) for need in self.needs]}
        text = json.dumps(head).encode()
        return _MAGIC + struct.pack("<I", len(text)) + text + bytes(self.exported.serialize())

    def __repr__(self) -> str:
        return f"<model {self.exported.fun_name} for {', '.join(self.exported.platforms)}: {', '.join(need.target for need in self.needs) or 'no handlers'}>"


def export(function: Any, *args: Any, platforms: Optional[Sequence[str]] = None, **kwargs: Any) -> Model:
    """Exports ``function``, as ``jax.export.export`` does, with the handlers of loaded libraries that it calls.

    ``args`` and ``kwargs`` are arrays or ``jax.ShapeDtypeStruct``. jax refuses custom calls that nobody vouches for: the
    libraries that this process has loaded are vouched for, others are refused as ever.
    """
    from jax import export as jax_export

    loaded = {}
    for library in _library.loaded():
        for handler in library.handlers.values():
            loaded[handler.target] = library
        for target in library.legacy.values():
            loaded[target.target] = library
    checks = [jax_export.DisabledSafetyCheck.custom_call(target) for target in loaded]
    made = jax_export.export(function if hasattr(function, "trace") or hasattr(function, "lower") else jax.jit(function), platforms=platforms, disabled_checks=checks)
    exported = made(*args, **kwargs)
    found = needs(exported)
    own = [loaded[need.target] for need in found if need.target in loaded]
    libraries = [
        {"file": library.path, "prefix": library.prefix, "digest": library.digest, **_given.written(library._given)} for library in dict.fromkeys(own)
    ]
    return Model(exported, found, libraries)


def load_exported(model: Union[str, "os.PathLike[str]", bytes], libraries: Iterable[Any] = ()) -> Model:
    """Reads what :meth:`Model.serialize` wrote, or jax's own serialised form, and loads the handlers that it calls.

    ``model`` is a file or its bytes; ``libraries`` are paths or loaded libraries, for those that lie elsewhere than where
    they were exported: a library that calls itself as that one takes its place. A library that is not, byte for byte,
    the one that the model was exported with is a ``RuntimeWarning``. Raises :class:`LibraryError` when a
    target that the model calls is not there, before anything is called.
    """
    from jax import export as jax_export

    if isinstance(libraries, (str, bytes, os.PathLike)):
        raise LibraryError(f"libraries={libraries!r} is one path: give a list of them")
    data, where = _bytes(model)
    head, body = _parts(data, where)
    libraries = list(libraries)
    given = [each for each in libraries if isinstance(each, _library.Library)]
    elsewhere = [os.path.realpath(os.fsdecode(each)) for each in libraries if not isinstance(each, _library.Library)]
    listed = [_listed(about, where) for about in head.get("libraries", [])]
    names = {os.path.basename(each.file) for each in listed}
    given += [_library.load(path) for path in elsewhere if os.path.basename(path) not in names]
    for file, prefix, _digest, signatures in listed:
        same = lambda path, file=file: os.path.basename(path) == os.path.basename(file)
        # Under the names that the model calls.
        replaced = [
            library if library.prefix == prefix else _library.load(library.path, prefix, **library._given)
            for library in given
            if same(library.path)
        ]
        replaced += [_library.load(path, prefix, **signatures) for path in elsewhere if same(path)]
        if not replaced and os.path.exists(file):
            replaced = [_library.load(file, prefix, **signatures)]
    try:
        exported = jax_export.deserialize(bytearray(body))
    except Exception as error:  # the reader of flat buffers has every kind of error for a damaged file
        if isinstance(error, ImportError):
            raise
        raise LibraryError(f"{where} is no model that jax.export serialised: {type(error).__name__}: {error}") from error
    found = needs(exported)
    there = _targets()
    missing = [need.target for need in found if not need.of_jax and need.target not in there]
    if missing:
        files = ", ".join(about["file"] for about in head.get("libraries", []))
        hint = f"it was exported with {files}" if files else "say which libraries have them with libraries="
        raise LibraryError(f"{where} calls {', '.join(missing)}, which no loaded library has: {hint}")
    _warn_of_other_builds(found, listed, where)
    return Model(exported, found, head.get("libraries", []))


def _warn_of_other_builds(found, listed, where):
    """Warns of handlers that the model calls and that are not, byte for byte, those it was exported with.

    What counts is what is registered: a process that has an earlier build of a file calls that by the file's names.
    """
    digests = {os.path.basename(each.file): each.digest for each in listed}
    called = {need.target for need in found}
    others = {path for path, digest in _library.owners(called) if digests.get(os.path.basename(path)) not in (None, digest)}
    if others:
        warnings.warn(f"{where} was exported with another build of {' and '.join(sorted(others))}: its results may differ", RuntimeWarning, stacklevel=3)


class _Listed(NamedTuple):
    """A library of a model's list: ``signatures`` are what its caller said of it, keywords of ``load``."""

    file: str
    prefix: Optional[str]
    digest: Optional[str]
    signatures: dict[str, Any]


def _listed(about, where):
    file, prefix, digest = about.get("file"), about.get("prefix"), about.get("digest")
    signatures = _given.read_back(about)
    if not isinstance(file, str) or not all(each is None or isinstance(each, str) for each in (prefix, digest)) or signatures is None:
        raise LibraryError(f"{where}: its list of libraries is damaged")
    return _Listed(file, prefix, digest, signatures)


def _targets():
    found = set()
    for library in _library.loaded():
        found |= {handler.target for handler in library.handlers.values() if not handler.refused}
        found |= {target.target for target in library.legacy.values()}
    return found


def needs(model: Any) -> list[Need]:
    """The targets that a model calls, in order of their first calls.

    ``model`` is a ``jax.export.Exported``, a :class:`Model`, a file or its bytes: what :meth:`Model.serialize` or
    ``jax.export`` wrote, StableHLO as text or as a portable artifact. jaxlib's own reader parses it.
    """
    if isinstance(model, Model):
        return list(model.needs)
    where = "the model"
    if not hasattr(model, "mlir_module"):
        data, where = _bytes(model)
        model = _stablehlo(data, where)
    text = model.mlir_module() if hasattr(model, "mlir_module") else model
    found = {}
    with mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
        except Exception as error:  # jaxlib's MLIRError, which is no one class in all of its releases
            raise LibraryError(f"{where} is no StableHLO that jaxlib {jax.lib.__version__} reads: {str(error).strip()}") from error
        for operation in _operations(module.operation):
            if operation.name in ("stablehlo.custom_call", "mhlo.custom_call"):
                try:
                    need = _need(operation)
                except (RuntimeError, UnicodeDecodeError) as error:  # as the jaxlib has it
                    raise LibraryError(f"{where} calls a target, or has an attribute, whose name is no text") from error
                if need.target in _COMPILERS:
                    continue
                before = found.get((need.target, need.api_version))
                attributes = tuple(sorted({*need.attributes, *(before.attributes if before else ())}))
                found[need.target, need.api_version] = dataclasses.replace(need, attributes=attributes)
    return list(found.values())


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


def _bytes(model):
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "the model"
    path = os.fspath(model)
    return _file.read(path).data, path


def _parts(data, where):
    """The head of a model that this package wrote, and jax's bytes; of others the head is empty."""
    if not data.startswith(_MAGIC):
        return {}, data
    at = len(_MAGIC) + 4
    length = struct.unpack_from("<I", data.ljust(at, b"\0"), len(_MAGIC))[0]
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
    _head, body = _parts(data, where)
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


def report(found, paths):
    """``(text, whether all are there)``: a line for each need, and which of the libraries satisfies it."""
    offers = {}
    for path in paths:
        for name, (handlers, legacy) in _manifest.read_all(os.path.realpath(path)).items():
            offers.update({f"{name}.{spec.name}": (path, spec) for spec in handlers.values()})
            offers.update({spec.name: (path, None) for spec in legacy})
    lines, good = [], True
    for need in found:
        attributes = ", ".join(f"{name}: {kind}" for name, kind in need.attributes)
        path, spec = offers.get(need.target, (None, None))
        by = "jax" if need.of_jax else path
        unknown = [] if spec is None or spec.open_attrs else [name for name, _ in need.attributes if name not in {attr.name for attr in spec.attrs}]
        lacking = [] if spec is None else [attr.name for attr in spec.attrs if not attr.optional and attr.inside is None and attr.name not in dict(need.attributes)]
        wrong = [f"it has no attribute {', '.join(unknown)}"] * bool(unknown) + [f"it wants the attribute {', '.join(lacking)}"] * bool(lacking)
        said = f"in {by}" + (f", but {' and '.join(wrong)}" if wrong else "") if by else "in none of the libraries" if paths else "?"
        good = good and bool(by) and not wrong
        # What a model says is one line, and no command for a terminal.
        lines.append(_signature.printable(f"{need.target}  API version {need.api_version}  {{{attributes}}}  {said}").replace("\n", "\\n"))
    return "\n".join(lines) + "\n" if lines else "it calls no handlers\n", good or not paths
