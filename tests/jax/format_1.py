"""The reader of manifests as it was before format 2, its imports aside; skew.py asks it about the libraries of today.

Not to be changed: it stands for what is installed somewhere.
"""

import dataclasses
import json
import re
import struct
from typing import Any, Optional

from . import _dtypes, _facts, _file
from ._elf import Elf
from ._errors import ManifestError
from ._legacy_list import LEGACY_LIST, LegacySpec

_MAGIC = b"XLAFFIMF"
_SECTION = ".xla_ffi_manifest"
_ATTRIBUTE = re.compile(r"\[?(bool|[iu](8|16|32|64)|f32|f64|c64|c128)\]?|str|dict|any")


@dataclasses.dataclass(frozen=True)
class Operand:
    """An argument or a result."""

    name: str
    token: bool
    dtypes: Optional[tuple]  # names as in XLA_FFI_DataType; None: all
    rank: Optional[int]
    optional: bool
    variadic: bool
    inout: bool


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute."""

    name: str
    type: str
    optional: bool
    default: Any
    inside: Optional[str]  # the dictionary that it belongs to


@dataclasses.dataclass(frozen=True)
class HandlerSpec:
    """A handler."""

    library: str
    name: str
    platforms: tuple
    stages: dict  # stage: symbol
    args: tuple
    rets: tuple
    attrs: tuple
    open_attrs: bool
    shape: Optional[str]
    floor: int


def read(path):
    """The handlers that the library file at ``path`` describes, by library name."""
    return {name: handlers for name, (handlers, _legacy) in read_all(path).items()}


def read_all(path, data=None):
    """The handlers and the targets of the original custom calls, by library name."""
    elf = Elf(_file.read(path).data if data is None else data, path)
    section = elf.section(_SECTION)
    if section is not None:
        payloads = _payloads(section, path)
    else:
        # The alias and the named symbol hold the same bytes.
        symbols = elf.symbols(lambda name: name.endswith("xla_ffi_manifest"))
        payloads = [payload for data in dict.fromkeys(symbols.values()) for payload in _payloads(data, path)]
    if not payloads:
        if elf.symbols(lambda name: name == LEGACY_LIST):
            return {}  # it has targets of the original custom calls alone
        raise ManifestError(
            f"{path} has no manifest: it was not made with this SDK's `library!`; "
            "register its symbols with jax.ffi.register_ffi_target"
        )
    libraries = {}
    for payload in payloads:
        name, handlers = _library(payload, path)
        if name in libraries:
            raise ManifestError(f"{path}: two manifests describe the library {name!r}")
        libraries[name] = handlers
    return libraries


def _payloads(data, path):
    payloads, at = [], 0
    while at < len(data):
        if not any(data[at : at + 16]):
            at += 16
            continue
        head = data[at : at + 16]
        if len(head) < 16 or head[:8] != _MAGIC:
            raise ManifestError(f"{path}: byte {at} of the manifest section is no manifest: {bytes(head[:8])!r}")
        version, length = struct.unpack_from("<II", head, 8)
        if version != 1:
            raise ManifestError(f"{path}: manifest format {version}; this xla_ffi reads format 1: update it")
        if at + 16 + length > len(data):
            raise ManifestError(f"{path}: the manifest claims {length} bytes, {len(data) - at - 16} are there")
        payloads.append(data[at + 16 : at + 16 + length])
        at = (at + 16 + length + 15) // 16 * 16
    return payloads


def _library(payload, path):
    try:
        root = json.loads(payload.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: the manifest is no JSON: {error}") from error
    reader = _Reader(path)
    root = reader.typed(root, dict, "the manifest")
    library = reader.get(root, "library", str, "the manifest")
    handlers = {}
    for handler in reader.get(root, "handlers", list, "the manifest"):
        spec = _handler(reader, library, handler)
        if spec.name in handlers:
            raise reader.error(f"handler {spec.name!r} is described twice")
        handlers[spec.name] = spec
    legacy = [_legacy_target(reader, data) for data in reader.get(root, "legacy", list, "the manifest", [])]
    return library, (handlers, legacy)


def _legacy_target(reader, data):
    reader.typed(data, dict, "a legacy target")
    name = reader.get(data, "name", str, "a legacy target")
    where = f"legacy target {name!r}"

    def shapes(key):
        if data.get(key) is None:
            return None
        found = []
        for shape in reader.get(data, key, list, where):
            reader.typed(shape, dict, f"{where}, {key}")
            dtypes = reader.get(shape, "dtypes", list, f"{where}, {key}")
            dims = reader.get(shape, "dims", list, f"{where}, {key}")
            if len(dtypes) != 1 or dtypes[0] not in _dtypes.NAMES:
                raise reader.error(f"{where}, {key}: {dtypes!r} is no dtype")
            if not all(type(dim) is int and dim >= 0 for dim in dims):
                raise reader.error(f"{where}, {key}: {dims!r} are no dimensions")
            found.append((dtypes[0], tuple(dims)))
        return tuple(found)

    signature = reader.get(data, "signature", str, where)
    return LegacySpec(name, signature, shapes("args"), shapes("rets"))


def _handler(reader, library, data):
    reader.typed(data, dict, "a handler")
    name = reader.get(data, "name", str, "a handler")
    where = f"handler {name!r}"
    stages = reader.get(data, "stages", dict, where)
    for stage, symbol in stages.items():
        if stage not in _facts.STAGES:
            raise reader.error(f"{where} has an unknown stage {stage!r}")
        reader.typed(symbol, str, f"{where}, stage {stage}")
    if "execute" not in stages:
        raise reader.error(f"{where} has no execute stage")
    floor = reader.get(data, "floor", str, where)
    if not re.fullmatch(r"r\d{1,3}", floor):
        raise reader.error(f"{where}: floor {floor!r} is no revision")
    platforms = reader.get(data, "platforms", list, where)
    return HandlerSpec(
        library=library,
        name=name,
        platforms=tuple(reader.typed(platform, str, f"{where}, a platform") for platform in platforms),
        stages=dict(stages),
        args=tuple(_operand(reader, where, arg) for arg in reader.get(data, "args", list, where)),
        rets=tuple(_operand(reader, where, ret) for ret in reader.get(data, "rets", list, where)),
        attrs=tuple(_attribute(reader, where, attr) for attr in reader.get(data, "attrs", list, where)),
        open_attrs=reader.get(data, "open_attrs", bool, where, False),
        shape=reader.get(data, "shape", str, where, None),
        floor=int(floor[1:]),
    )


def _operand(reader, handler, data):
    reader.typed(data, dict, f"{handler}, an operand")
    name = reader.get(data, "name", str, f"{handler}, an operand")
    where = f"{handler}, operand {name!r}"
    kind = reader.get(data, "kind", str, where)
    if kind not in ("buffer", "token"):
        raise reader.error(f"{where} is of the unknown kind {kind!r}")
    dtypes = reader.get(data, "dtypes", list, where, None)
    for dtype in dtypes or ():
        if dtype not in _dtypes.NAMES:
            raise reader.error(f"{where} has the unknown dtype {dtype!r}")
    rank = reader.get(data, "rank", int, where, None)
    if isinstance(rank, bool) or (rank is not None and rank < 0):
        raise reader.error(f"{where} has the rank {rank!r}")
    return Operand(
        name=name,
        token=kind == "token",
        dtypes=None if dtypes is None else tuple(dtypes),
        rank=rank,
        optional=reader.get(data, "optional", bool, where, False),
        variadic=reader.get(data, "variadic", bool, where, False),
        inout=reader.get(data, "inout", bool, where, False),
    )


def _attribute(reader, handler, data):
    reader.typed(data, dict, f"{handler}, an attribute")
    name = reader.get(data, "name", str, f"{handler}, an attribute")
    where = f"{handler}, attribute {name!r}"
    kind = reader.get(data, "type", str, where)
    if not _ATTRIBUTE.fullmatch(kind) or kind.startswith("[") != kind.endswith("]"):
        raise reader.error(f"{where} has the unknown type {kind!r}")
    return Attribute(
        name=name,
        type=kind,
        optional=reader.get(data, "optional", bool, where, False),
        default=data.get("default"),
        inside=reader.get(data, "from", str, where, None),
    )


class _Reader:
    """Takes typed values out of foreign JSON; every complaint names the file and the place."""

    def __init__(self, path):
        self._path = path

    def error(self, why):
        return ManifestError(f"{self._path}: {why}")

    def typed(self, value, kind, where):
        if not isinstance(value, kind):
            raise self.error(f"{where}: expected {kind.__name__}, got {type(value).__name__}")
        return value

    _REQUIRED = object()

    def get(self, data, key, kind, where, default=_REQUIRED):
        value = data.get(key)
        if value is None:
            if default is self._REQUIRED:
                raise self.error(f"{where} has no {key!r}")
            return default
        return self.typed(value, kind, f"{where}, {key!r}")
