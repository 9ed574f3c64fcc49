"""What a library says about itself; ``docs/manifest.md`` describes the format."""

import dataclasses
import json
import math
import re
import struct
from typing import Any, Optional

from . import _dtypes, _facts, _file, _image, _names
from ._errors import ManifestError
from ._legacy_list import API_VERSIONS, LEGACY_LIST, LegacySpec

_MAGIC = b"XLAFFIMF"
_FORMATS = (1, 2)
_TRANSFORMS = ("vjp", "forward", "jvp", "transpose")
_ATTRIBUTE = re.compile(r"\[?(bool|[iu](8|16|32|64)|f32|f64|c64|c128)\]?|str|dict|any")

#: More dimensions than any array has.
_MOST_DIMENSIONS = 1024
_SYMBOL = re.compile(r"[A-Za-z0-9_$.]{1,4095}")


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
    layout: Any = "row"  # "row", "column", or the dimensions from the slowest to the fastest
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute."""

    name: str
    type: str
    optional: bool
    default: Any
    inside: Optional[str]  # the dictionary that it belongs to
    doc: str = ""
    narrow: bool = False  # numbers of other types are taken where they fit
    minimum: Any = None  # inclusive, as is the maximum
    maximum: Any = None


@dataclasses.dataclass(frozen=True)
class Gradient:
    """Which handlers of the library compute derivatives; ``docs/manifest.md`` says what they take and give."""

    vjp: Optional[str]
    forward: Optional[str]
    jvp: Optional[str]
    transpose: Optional[str]
    linear: bool
    residuals: Optional[tuple]


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
    traits: tuple = ()
    gradient: Optional[Gradient] = None
    batch: Any = None  # "leading", "sequential", "none", a tuple with a word for each argument, {"handler": name}
    described: bool = True
    doc: str = ""
    #: Whether calls state the defaults of attributes: a handler that its caller describes does not know them.
    states_defaults: bool = False


def read(path):
    """The handlers that the library file at ``path`` describes, by library name."""
    return {name: handlers for name, (handlers, _legacy) in read_all(path).items()}


def read_all(path, data=None, required=True):
    """The handlers and the targets of the original custom calls, by library name; none where none is ``required``."""
    image = _image.read(_file.read(path).data if data is None else data, path)
    section = image.section(image.manifest_section)
    if section is not None:
        payloads = _payloads(section, path)
    else:
        # The alias and the named symbol hold the same bytes.
        symbols = image.symbols(lambda name: name.endswith("xla_ffi_manifest"))
        payloads = [payload for data in dict.fromkeys(symbols.values()) for payload in _payloads(data, path)]
    if not payloads:
        if not required or image.symbols(lambda name: name == LEGACY_LIST):
            return {}  # it has targets of the original custom calls alone, or the caller says what it has
        raise ManifestError(
            f"{path} has no manifest: was it made with this SDK, then `xla_ffi::library! {{ … }}` is missing "
            "(XFFI_LIBRARY in C, XLA_FFI_LIBRARY in C++); of another library say what it has, as in "
            "xla_ffi.load(path, handlers={'SYMBOL': '(x: f32[n]) -> y: f32[n]'})"
        )
    return _joined([_record(version, payload, path) for version, payload in payloads], path)


def _joined(records, path):
    """The records of a file, by library."""
    names = list(dict.fromkeys(record.library for record in records if record.library is not None))
    libraries = {name: ({}, []) for name in names}
    for record in records:
        if record.library is None and len(names) != 1:
            several = f"the file has {', '.join(map(repr, names))}" if names else "no other record of the file names one"
            raise ManifestError(f"{path}: a record of the manifest names no library, and {several}")
        library = names[0] if record.library is None else record.library
        handlers, legacy = libraries[library]
        for spec in record.handlers:
            if spec.name in handlers:
                raise ManifestError(f"{path}: handler {spec.name!r} of the library {library!r} is described twice")
            handlers[spec.name] = dataclasses.replace(spec, library=library)
        for target in record.legacy:
            if target.name in (known.name for known in legacy):
                raise ManifestError(f"{path}: legacy target {target.name!r} of the library {library!r} is described twice")
            legacy.append(target)
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
        if version not in _FORMATS:
            known = " and ".join(map(str, _FORMATS))
            raise ManifestError(f"{path}: manifest format {version}; this xla_ffi reads the formats {known}: update it")
        if at + 16 + length > len(data):
            raise ManifestError(f"{path}: the manifest claims {length} bytes, {len(data) - at - 16} are there")
        payloads.append((version, data[at + 16 : at + 16 + length]))
        end, at = at + 16 + length, (at + 16 + length + 15) // 16 * 16
        if any(data[end:at]):
            raise ManifestError(f"{path}: byte {end} of the manifest section is behind a manifest and no padding")
    return payloads


@dataclasses.dataclass(frozen=True)
class _Record:
    library: Optional[str]
    handlers: list
    legacy: list


def _once(pairs):
    """An object of the JSON; of a key that is written twice, one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} is there twice in one description")
    return found


def _no_number(text):
    raise ValueError(f"{text} is no number of JSON")


def _finite(text):
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond every number")
    return number


def _record(version, payload, path):
    try:
        root = json.loads(payload.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
        if b"\\u" in payload:
            json.dumps(root, ensure_ascii=False).encode()  # halves of characters, which Python takes
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: the manifest is no JSON: {error}") from error
    reader = _Reader(path)
    root = reader.typed(root, dict, "the manifest")
    wrong = _names.fault(root)
    if wrong is not None:
        raise reader.error(wrong)
    where = "the manifest"
    library = reader.get(root, "library", str, where, None) if version > 1 else reader.get(root, "library", str, where)
    handlers = [_handler(reader, library, handler) for handler in reader.get(root, "handlers", list, where)]
    legacy = [_legacy_target(reader, data) for data in reader.get(root, "legacy", list, where, [])]
    reader.get(root, "sdk", str, where, None)
    reader.symbol(reader.get(root, "register", str, where, None), where)
    return _Record(library, handlers, legacy)


def _legacy_target(reader, data):
    reader.typed(data, dict, "a legacy target")
    name = reader.get(data, "name", str, "a legacy target")
    where = f"legacy target {name!r}"
    if not name:
        raise reader.error("a legacy target has an empty name")

    def shapes(key):
        if data.get(key) is None:
            return None
        found = []
        for shape in reader.get(data, key, list, where):
            reader.typed(shape, dict, f"{where}, {key}")
            dtypes = reader.get(shape, "dtypes", list, f"{where}, {key}")
            dims = reader.get(shape, "dims", list, f"{where}, {key}")
            if len(dtypes) != 1 or not isinstance(dtypes[0], str) or dtypes[0] not in _dtypes.NAMES:
                raise reader.error(f"{where}, {key}: {dtypes!r} is no dtype")
            if not all(type(dim) is int and dim >= 0 for dim in dims):
                raise reader.error(f"{where}, {key}: {dims!r} are no dimensions")
            found.append((dtypes[0], tuple(dims)))
        return tuple(found)

    reader.texts(data, "platforms", where)
    reader.symbol(reader.get(data, "symbol", str, where), where)
    signature, version = reader.get(data, "signature", str, where), reader.get(data, "api_version", int, where)
    if API_VERSIONS.get(signature) != version:
        raise reader.error(f"{where}: the signature {signature!r} under the API version {version!r}")
    tuples, structure = (reader.get(data, key, str, where, None) for key in ("tuples", "structure"))
    if (tuples is None) != (structure is None) or tuples not in (None, "leaves", "roots"):
        raise reader.error(f"{where}: tuples {tuples!r} with structure {structure!r}")
    args, rets = shapes("args"), shapes("rets")
    sides = (structure or "").split("->", 1)
    if structure is not None and len(sides) != 2:
        raise reader.error(f"{where}: the structure {structure!r} has no arrow")
    for side, operands in zip(sides, (args, rets)):
        if structure is not None and operands is not None and side.count("_") != len(operands):
            raise reader.error(f"{where}: the structure {structure!r} is not for {len(operands)} operands and as many results")
    return LegacySpec(name, signature, args, rets, tuples, structure)


def _handler(reader, library, data):
    reader.typed(data, dict, "a handler")
    name = reader.get(data, "name", str, "a handler")
    where = f"handler {name!r}"
    if not name:
        raise reader.error("a handler has an empty name")
    # What only tools read is to be right, too: they and the loader are to say the same of a library.
    reader.get(data, "async", bool, where, None)
    reader.texts(data, "context", where, [])
    state = reader.get(data, "state", dict, where, None)
    if state is not None:
        reader.get(state, "type", str, f"{where}, its state")
    stages = {stage: symbol for stage, symbol in reader.get(data, "stages", dict, where).items() if symbol is not None}
    for stage, symbol in stages.items():
        if stage not in _facts.STAGES:
            raise reader.error(f"{where} has an unknown stage {stage!r}")
        reader.symbol(reader.typed(symbol, str, f"{where}, stage {stage}"), f"{where}, stage {stage}")
    if "execute" not in stages:
        raise reader.error(f"{where} has no execute stage")
    floor = reader.get(data, "floor", str, where)
    if not re.fullmatch(r"r\d{1,3}", floor):
        raise reader.error(f"{where}: floor {floor!r} is no revision")
    platforms = reader.texts(data, "platforms", where)
    described = reader.get(data, "described", bool, where, True)

    def operands(key):
        if described and data.get(key) is None:
            raise reader.error(f"{where} has no {key!r}; in C, write XFFI_{key.upper()}() where it has none")
        return reader.get(data, key, list, where, [])

    args = tuple(_operand(reader, where, arg) for arg in operands("args"))
    rets = tuple(_operand(reader, where, ret) for ret in operands("rets"))
    attrs = tuple(_attribute(reader, where, attr) for attr in operands("attrs"))
    wrong = fault(args, rets, attrs)
    if wrong is not None:
        raise reader.error(f"{where}: {wrong}")
    attrs = _with_dictionaries(attrs)
    return HandlerSpec(
        library=library,
        name=name,
        platforms=platforms,
        stages=stages,
        args=args,
        rets=rets,
        attrs=attrs,
        open_attrs=reader.get(data, "open_attrs", bool, where, False),
        shape=reader.get(data, "shape", str, where, None),
        floor=int(floor[1:]),
        traits=reader.texts(data, "traits", where, []),
        gradient=_gradient(reader, where, data),
        batch=_batch(reader, where, data, args),
        described=described,
        doc=reader.get(data, "doc", str, where, ""),
    )


def fault(args, rets, attrs):
    """What operands and attributes of a handler cannot say together, in words, or None; a manifest and a caller who describes
    a handler are judged alike."""
    for side in (args, rets):
        for operand in side[:-1]:
            if operand.variadic:
                return f"{operand.name!r} takes all operands that are left, and one stands behind it"
    for ret in rets:
        if ret.inout and not any(arg.name == ret.name for arg in args):
            return f"the result {ret.name!r} is an argument's memory, and no argument is called so"
    known, listed = set(), {attr.name: attr.type for attr in attrs if attr.inside is None}
    for attr in attrs:
        if attr.inside is not None and listed.get(attr.inside, "dict") != "dict":
            return f"the attribute {attr.name!r} is in {attr.inside!r}, which is of type {listed[attr.inside]} and no dictionary"
        if (attr.inside, attr.name) in known:
            place = f" of {attr.inside!r}" if attr.inside is not None else ""
            return f"the attribute {attr.name!r}{place} is described twice"
        known.add((attr.inside, attr.name))
    return None


def _with_dictionaries(attrs):
    """The attributes, and before its first member each dictionary that a manifest does not list itself (``XFFI_FIELD_ATTR`` in
    C needs no more): a call may leave it out where it may leave out every member."""
    listed, found = {attr.name for attr in attrs if attr.inside is None}, []
    for attr in attrs:
        if attr.inside is not None and attr.inside not in listed:
            optional = all(each.optional for each in attrs if each.inside == attr.inside)
            found.append(Attribute(attr.inside, "dict", optional, default=None, inside=None))
            listed.add(attr.inside)
        found.append(attr)
    return tuple(found)


def _gradient(reader, handler, data):
    gradient = reader.get(data, "gradient", dict, handler, None)
    outside = [key for key in (*_TRANSFORMS, "linear", "residuals") if key in data]
    if outside:
        raise reader.error(f"{handler} has {outside[0]!r} outside its gradient, where nobody reads it: in C it stands in XFFI_GRADIENT(…)")
    if gradient is None:
        return None
    where = f"{handler}, its gradient"
    names = {key: reader.get(gradient, key, str, where, None) for key in _TRANSFORMS}
    linear = reader.get(gradient, "linear", bool, where, False)
    residuals = reader.texts(gradient, "residuals", where, None)
    if sum([names["vjp"] is not None, names["jvp"] is not None, linear]) != 1:
        raise reader.error(f"{where} has to have one of 'vjp', 'jvp' and 'linear'")
    if names["vjp"] is not None and names["transpose"] is not None:
        raise reader.error(f"{where}: a 'transpose' belongs to 'jvp' or 'linear', not to 'vjp'")
    if names["forward"] is not None and names["vjp"] is None:
        raise reader.error(f"{where}: a 'forward' belongs to 'vjp'")
    return Gradient(**names, linear=linear, residuals=residuals)


def _batch(reader, handler, data, args):
    batch = data.get("batch")
    if isinstance(batch, dict):
        return {"handler": reader.get(batch, "handler", str, f"{handler}, its batching")}
    if isinstance(batch, list):
        if len(batch) != len(args) or not all(word in ("leading", "shared") for word in batch):
            raise reader.error(f"{handler}: its batching {batch!r} has no 'leading' or 'shared' for each of {len(args)} arguments")
        return tuple(batch)
    if batch not in (None, "leading", "sequential", "none"):
        raise reader.error(f"{handler} has the unknown batching {batch!r}")
    return batch


def _layout(reader, where, data, rank):
    layout = "row" if data.get("layout") is None else data["layout"]
    if isinstance(layout, list) and all(type(axis) is int for axis in layout):
        if rank in (None, len(layout)) and sorted(layout) == list(range(len(layout))):
            return tuple(layout)
    elif layout in ("row", "column"):
        return layout
    raise reader.error(f"{where} has the layout {layout!r}")


def _operand(reader, handler, data):
    reader.typed(data, dict, f"{handler}, an operand")
    name = reader.get(data, "name", str, f"{handler}, an operand")
    where = f"{handler}, operand {name!r}"
    kind = reader.get(data, "kind", str, where)
    if kind not in ("buffer", "token"):
        raise reader.error(f"{where} is of the unknown kind {kind!r}")
    dtypes = reader.texts(data, "dtypes", where, None)
    for dtype in dtypes or ():
        if dtype not in _dtypes.NAMES:
            raise reader.error(f"{where} has the unknown dtype {dtype!r}")
    rank = reader.get(data, "rank", int, where, None)
    if rank is not None and not 0 <= rank <= _MOST_DIMENSIONS:
        raise reader.error(f"{where} has the rank {rank!r}")
    return Operand(
        name=name,
        token=kind == "token",
        dtypes=dtypes,
        rank=rank,
        optional=reader.get(data, "optional", bool, where, False),
        variadic=reader.get(data, "variadic", bool, where, False),
        inout=reader.get(data, "inout", bool, where, False),
        layout=_layout(reader, where, data, rank),
        doc=reader.get(data, "doc", str, where, ""),
    )


def _attribute(reader, handler, data):
    reader.typed(data, dict, f"{handler}, an attribute")
    name = reader.get(data, "name", str, f"{handler}, an attribute")
    where = f"{handler}, attribute {name!r}"
    kind = reader.get(data, "type", str, where)
    if not _ATTRIBUTE.fullmatch(kind) or kind.startswith("[") != kind.endswith("]"):
        raise reader.error(f"{where} has the unknown type {kind!r}")
    default = data.get("default")
    if default is not None and not is_of_type(kind, default):
        raise reader.error(f"{where} is of type {kind}, and its default is {default!r}")
    return Attribute(
        name=name,
        type=kind,
        optional=reader.get(data, "optional", bool, where, False),
        default=default,
        inside=reader.get(data, "from", str, where, None),
        doc=reader.get(data, "doc", str, where, ""),
        narrow=bool(reader.get(data, "narrow", bool, where, None)),
        minimum=reader.get(data, "min", (int, float), where, None),
        maximum=reader.get(data, "max", (int, float), where, None),
    )


#: From here on numbers are none of the type: they would be rounded to infinity.
_BEYOND = {"f32": 2**128 - 2**103, "f64": 2**1024 - 2**970}


def is_of_type(kind, value):
    """Whether a value of JSON, or one that Python writes so, is a value of an attribute's type."""
    if kind == "any":
        return True
    if kind.startswith("["):
        return isinstance(value, list) and all(is_of_type(kind[1:-1], item) for item in value)
    if kind in ("bool", "str", "dict"):
        return isinstance(value, {"bool": bool, "str": str, "dict": dict}[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind.startswith(("i", "u")):
        bits, signed = int(kind[1:]), kind.startswith("i")
        return isinstance(value, int) and -(2 ** (bits - 1)) * signed <= value < 2 ** (bits - signed)
    beyond = _BEYOND.get(kind, math.inf)
    return abs(value) < beyond or (isinstance(value, float) and not math.isfinite(value))


class _Reader:
    """Takes typed values out of foreign JSON; every complaint names the file and the place."""

    def __init__(self, path):
        self._path = path

    def error(self, why):
        return ManifestError(f"{self._path}: {why}")

    def typed(self, value, kind, where):
        if not isinstance(value, kind) or (kind in (int, (int, float)) and isinstance(value, bool)):
            expected = kind.__name__ if isinstance(kind, type) else "a number"
            raise self.error(f"{where}: expected {expected}, got {type(value).__name__}")
        return value

    _REQUIRED = object()

    def get(self, data, key, kind, where, default=_REQUIRED):
        value = data.get(key)
        if value is None:
            if default is self._REQUIRED:
                raise self.error(f"{where} has no {key!r}")
            return default
        return self.typed(value, kind, f"{where}, {key!r}")

    def texts(self, data, key, where, default=_REQUIRED):
        """A list of texts, as a tuple; None where that is the ``default``."""
        found = self.get(data, key, list, where, default)
        return found if found is None else tuple(self.typed(text, str, f"{where}, of {key!r}") for text in found)

    def symbol(self, name, where):
        """A name that linkers write; what they do not is a mistake or a trap."""
        if name is not None and not _SYMBOL.fullmatch(name):
            raise self.error(f"{where} names no symbol: {name!r}")
