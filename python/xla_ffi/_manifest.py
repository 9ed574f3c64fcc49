"""Reads manifests, in which libraries describe their handlers. See ``docs/manifest.md`` for the format.

Manifests are written by the SDK's macros and validated by ``xla-ffi doctor``, so their structure is trusted here.
"""

import dataclasses
import json
import struct
from typing import Any, Optional

from . import _file, _image
from ._abi import LEGACY_LIST
from ._errors import ManifestError

_MAGIC = b"XLAFFIMF"
_FORMATS = (1, 2)


@dataclasses.dataclass(frozen=True)
class LegacySpec:
    """A manifest's description of a target of the original custom calls."""

    name: str
    signature: str
    args: Optional[tuple]  # (dtype, dims) of each operand, if declared
    rets: Optional[tuple]
    tuples: Optional[str] = None  # "leaves" or "roots": pointers for tuples, if declared
    structure: Optional[str] = None  # tuples as text, for example "(_, _) -> (_, (_))"


@dataclasses.dataclass(frozen=True)
class Operand:
    """An argument or a result of a handler."""

    name: str
    token: bool
    dtypes: Optional[tuple]  # names as in XLA_FFI_DataType, or None for all types
    rank: Optional[int]
    optional: bool
    variadic: bool
    inout: bool
    layout: Any = "row"  # "row", "column", or the dimensions from the slowest to the fastest
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute."""

    name: str
    type: str
    optional: bool
    default: Any
    inside: Optional[str]  # name of the dictionary that contains the attribute
    doc: str = ""
    narrow: bool = False  # numbers of other types are accepted if they fit
    minimum: Any = None  # inclusive, as is the maximum
    maximum: Any = None


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The handlers of the library that compute derivatives. See ``docs/manifest.md`` for their operands and results."""

    vjp: Optional[str]
    forward: Optional[str]
    jvp: Optional[str]
    transpose: Optional[str]
    linear: bool
    residuals: Optional[tuple]


@dataclasses.dataclass(frozen=True)
class HandlerSpec:
    """A manifest's description of a handler."""

    library: str
    name: str
    platforms: tuple
    stages: dict  # maps each stage to its symbol
    args: tuple
    rets: tuple
    attrs: tuple
    open_attrs: bool
    shape: Optional[str]
    floor: int
    traits: tuple = ()
    gradient: Optional[Gradient] = None
    batch: Any = None  # "leading", "sequential", "none", a tuple with "leading" or "shared" per argument, or {"handler": name}
    described: bool = True
    doc: str = ""
    #: Whether calls must pass default attributes. True if only the caller describes the handler, which then does not
    #: know its defaults.
    states_defaults: bool = False


def read(path):
    """Returns the handlers that the library file at ``path`` describes, by library name."""
    return {name: handlers for name, (handlers, _legacy) in read_all(path).items()}


def read_all(path, data=None, required=True):
    """Returns the handlers and the targets of the original custom calls, by library name.

    The result is empty if the file has no manifest and ``required`` is false.
    """
    data = _file.read(path).data if data is None else data
    section = _image.read(data, path).manifest or b""
    if any(section):
        return parsed(section, path)
    if not required or LEGACY_LIST.encode() in data:
        return {}  # The library has no handlers, or the caller describes them.
    raise ManifestError(
        f"{path}: missing manifest; if the library uses this SDK, add `xla_ffi::library! {{ … }}` (XFFI_LIBRARY in C, "
        "XLA_FFI_LIBRARY in C++); otherwise describe its handlers, as in "
        "xla_ffi.load(path, handlers={'SYMBOL': '(x: f32[n]) -> y: f32[n]'})"
    )


def parsed(section, path):
    """Parses the bytes of a manifest section. Returns a result like that of ``read_all``."""
    try:
        return _libraries([json.loads(payload.decode("utf-8")) for payload in _payloads(section, path)])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError(f"{path}: the manifest cannot be read ({error!r}); run `xla-ffi doctor {path}` for details") from error


def _payloads(data, path):
    """Returns the JSON texts in a section."""
    payloads, at = [], 0
    while at < len(data):
        if not any(data[at : at + 16]):
            at += 16
            continue
        magic, version, length = struct.unpack("<8sII", data[at : at + 16].ljust(16, b"\0"))
        if magic != _MAGIC or at + 16 + length > len(data):
            raise ManifestError(f"{path}: the manifest at byte {at} of its section is truncated or damaged")
        if version not in _FORMATS:
            known = " and ".join(map(str, _FORMATS))
            raise ManifestError(f"{path}: manifest format: expected {known}, got {version}; upgrade xla_ffi")
        payloads.append(data[at + 16 : at + 16 + length])
        at = (at + 16 + length + 15) // 16 * 16
    return payloads


def _libraries(records):
    """Returns the records of a file by library. Records without a library name belong to the only named library."""
    names = list(dict.fromkeys(record["library"] for record in records if record.get("library") is not None))
    if len(names) != 1 and any(record.get("library") is None for record in records):
        raise ValueError(f"a record without a library name, and the other records name {names}")
    libraries = {name: ({}, []) for name in names}
    for record in records:
        library = record.get("library") or names[0]
        handlers, legacy = libraries[library]
        handlers.update({data["name"]: _handler(library, data) for data in record["handlers"]})
        legacy += map(_legacy_target, record.get("legacy") or ())
    return libraries


def _legacy_target(data):
    args, rets = (
        None if data.get(key) is None else tuple((shape["dtypes"][0], tuple(shape["dims"])) for shape in data[key])
        for key in ("args", "rets")
    )
    return LegacySpec(data["name"], data["signature"], args, rets, data.get("tuples"), data.get("structure"))


def _handler(library, data):
    described = data.get("described") is not False
    if described and data.get("rets") is None:
        raise ValueError(f"handler `{data['name']}`: missing 'rets'; in C, write XFFI_RETS() if there are no results")
    args = tuple(map(_operand, data.get("args") or ()))
    gradient = data.get("gradient")
    return HandlerSpec(
        library=library,
        name=data["name"],
        platforms=tuple(data["platforms"]),
        stages={stage: symbol for stage, symbol in data["stages"].items() if symbol is not None},
        args=args,
        rets=tuple(map(_operand, data.get("rets") or ())),
        attrs=_with_dictionaries(list(map(_attribute, data.get("attrs") or ()))),
        open_attrs=data.get("open_attrs") or False,
        shape=data.get("shape"),
        floor=int(data["floor"].removeprefix("r")),
        traits=tuple(data.get("traits") or ()),
        gradient=None if gradient is None else gradient_of(gradient),
        batch=batch_of(data.get("batch"), args),
        described=described,
        doc=data.get("doc") or "",
    )


def gradient_of(data):
    """Parses a handler's gradient. Raises a ValueError unless the data is exactly one of the supported declarations."""
    names = {key: data.get(key) for key in ("vjp", "forward", "jvp", "transpose")}
    linear, residuals = bool(data.get("linear")), data.get("residuals")
    if sum([names["vjp"] is not None, names["jvp"] is not None, linear]) != 1:
        raise ValueError("gradient: expected one of 'vjp', 'jvp' and 'linear'")
    return Gradient(**names, linear=linear, residuals=None if residuals is None else tuple(residuals))


def batch_of(batch, args):
    """Parses the batching of a handler's calls. Raises a ValueError if the batching is unknown."""
    if isinstance(batch, dict):
        return {"handler": batch["handler"]}
    if isinstance(batch, (list, tuple)):
        if len(batch) != len(args) or not set(batch) <= {"leading", "shared"}:
            raise ValueError(f"batch: expected 'leading' or 'shared' for each of {len(args)} arguments, got {batch!r}")
        return tuple(batch)
    if batch not in (None, "leading", "sequential", "none"):
        raise ValueError(f"batch: expected 'leading', 'sequential' or 'none', got {batch!r}")
    return batch


def _operand(data):
    layout = data.get("layout") or "row"
    return Operand(
        name=data["name"],
        token=data["kind"] == "token",
        dtypes=None if data.get("dtypes") is None else tuple(data["dtypes"]),
        rank=data.get("rank"),
        optional=data.get("optional") or False,
        variadic=data.get("variadic") or False,
        inout=data.get("inout") or False,
        layout=tuple(layout) if isinstance(layout, list) else layout,
        doc=data.get("doc") or "",
    )


def _attribute(data):
    return Attribute(
        name=data["name"],
        type=data["type"],
        optional=data.get("optional") or False,
        default=data.get("default"),
        inside=data.get("from"),
        doc=data.get("doc") or "",
        narrow=bool(data.get("narrow")),
        minimum=data.get("min"),
        maximum=data.get("max"),
    )


def _with_dictionaries(attrs):
    """Returns the attributes, with an entry added before the first member of each dictionary that the manifest does not
    list.

    ``XFFI_FIELD_ATTR`` in C does not list dictionaries. An added dictionary is optional if all its members are
    optional.
    """
    listed, found = {attr.name for attr in attrs if attr.inside is None}, []
    for attr in attrs:
        if attr.inside is not None and attr.inside not in listed:
            optional = all(each.optional for each in attrs if each.inside == attr.inside)
            found.append(Attribute(attr.inside, "dict", optional, default=None, inside=None))
            listed.add(attr.inside)
        found.append(attr)
    return tuple(found)
