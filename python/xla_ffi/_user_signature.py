"""Signatures written in Python, which ``load`` accepts as ``handlers=`` for handlers that their library does not
describe.

The syntax is that of ``help``: ``"(x: f32[... n], *, eps: f32 = 1e-05) -> y: f32[... n]"``.
"""

import ast
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _facts, _manifest, _signature, _values
from ._abi import LEGACY_API_VERSIONS
from ._errors import LibraryError

_KIND = re.compile(r"\[?(bool|[iu](8|16|32|64)|f32|f64|c64|c128)\]?|str|dict|any")
_OPERAND = re.compile(r"(?P<kind>[\w|]+)\s*(\[(?P<dims>[^\]]*)\])?\s*(?P<layout>row|column|layout\([\d ]+\))?")
_NAME = re.compile(r"(?P<stars>\*{0,2})(?P<inout>inout\s+)?(?P<name>[^\s:*]+)\s*(:(?P<rest>.*))?", re.DOTALL)
_RANGE = re.compile(r"(?P<kind>[^{\s]+)(\s+min\s+(?P<min>\S+))?(\s+max\s+(?P<max>\S+))?")
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_OPEN, _CLOSE = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Signature:
    """The operands, results and attributes of a handler that its library does not describe, and its other properties.

    ``text`` has the syntax of ``help``. ``stages`` maps stages to exported symbols. By default, the handler's name is
    the symbol of its execute stage. ``platforms`` defaults to ``cpu``. ``batch``, ``gradient`` and ``traits`` are as in
    the manifest (``docs/manifest.md``). For a handler that a manifest lists without describing it, stages and platforms
    default to those in the manifest.
    """

    text: str
    stages: Optional[Mapping[str, str]] = None
    platforms: Optional[tuple[str, ...]] = None
    batch: Any = None
    gradient: Optional[Mapping[str, Any]] = None
    traits: tuple[str, ...] = ()
    doc: str = ""


Given = Mapping[str, Union[str, Signature]]


def named(**said):
    """Returns the optional arguments of ``load`` as a hashable key."""
    for keyword, each in said.items():
        if not isinstance(each or {}, Mapping):
            raise TypeError(f"{keyword}=: expected a dict, got {_values.shown(each)}")
    return tuple(repr(sorted((each or {}).items())) for each in said.values())


def complete(path, libraries, handlers, legacy):
    """Returns the libraries of a file with the caller's descriptions added, in the form of ``_manifest.read_all``."""
    libraries = {name: (dict(specs), list(targets)) for name, (specs, targets) in libraries.items()}
    if not libraries:
        libraries[_stem(path)] = ({}, [])
    for key, given in (handlers or {}).items():
        given = Signature(given) if isinstance(given, str) else given
        if not isinstance(given, Signature):
            raise TypeError(f"handlers[{key!r}]: expected a str or an xla_ffi.Signature, got {_values.shown(given)}")
        owners = [name for name, (specs, _) in libraries.items() if key in specs] or [next(iter(libraries))]
        specs = libraries[owners[0]][0]
        known = specs.get(key)
        if known is not None and known.described:
            raise LibraryError(f"{path}: handler `{key}`: its library describes it as {_signature.text(known)}; remove it from handlers=")
        try:
            specs[key] = _spec(owners[0], key, given, known)
        except ValueError as error:
            raise LibraryError(f"{path}: handlers[{key!r}], {given.text!r}: {error}") from error
    for key, text in (legacy or {}).items():
        try:
            libraries[next(iter(libraries))][1].append(_legacy(key, text))
        except ValueError as error:
            raise LibraryError(f"{path}: legacy[{key!r}], {text!r}: {error}") from error
    return libraries


def written(said):
    """Returns the optional arguments of ``load`` in a form that JSON supports. Empty arguments are omitted."""
    fields = lambda each: {name: value for name, value in dataclasses.asdict(each).items() if value}
    plain = lambda each: each if isinstance(each, str) else fields(each)
    return {key: {name: plain(each) for name, each in value.items()} for key, value in said.items() if value}


def read_back(about):
    """Returns the keywords of ``load`` from a dictionary that ``written`` made."""
    said = {key: about.get(key) or {} for key in ("handlers", "legacy", "types")}
    return {**said, "handlers": {key: each if isinstance(each, str) else _read_back(each) for key, each in said["handlers"].items()}}


def _read_back(fields):
    return Signature(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})


def _stem(path):
    name = re.split(r"[/\\]", path)[-1].split(".")[0]
    return name.removeprefix("lib") or name


def _spec(library, name, given, known):
    args, attrs, open_attrs, rets, shape = parse(given.text)
    stages = given.stages or (known.stages if known else {"execute": name})
    if "execute" not in stages or not set(stages) <= set(_facts.STAGES):
        raise ValueError(f"stages: expected 'execute' and any of {', '.join(_facts.STAGES)}, got {', '.join(stages)}")
    return _manifest.HandlerSpec(
        library=library,
        name=name,
        platforms=tuple(given.platforms or (known.platforms if known else ("cpu",))),
        stages=dict(stages),
        args=args,
        rets=rets,
        attrs=attrs,
        open_attrs=open_attrs,
        shape=shape,
        floor=known.floor if known else 0,
        traits=tuple(given.traits or ()) or (known.traits if known else ()),
        gradient=_manifest.gradient_of(given.gradient) if given.gradient else None,
        batch=_manifest.batch_of(given.batch, args),
        doc=given.doc or (known.doc if known else ""),
        states_defaults=True,
    )


def parse(text):
    """Parses a signature to ``(arguments, attributes, open_attrs, results, contract)``. Raises ValueError."""
    head, arrow, tail = _split_arrow(text.strip())
    if not arrow or not head.startswith("(") or not head.endswith(")"):
        raise ValueError("expected '(ARGUMENTS) -> RESULTS'")
    args, attrs, open_attrs, keywords = [], [], False, False
    for item in _items(head[1:-1]):
        if item == "*":
            keywords = True
            continue
        found = _NAME.fullmatch(item)
        if found is None:
            raise ValueError(f"expected 'NAME: TYPE', got {item!r}")
        if found["stars"] == "**":
            open_attrs = True
        elif keywords:
            attrs += _attribute(found, None)
        else:
            args.append(_operand(found))
            keywords = found["stars"] == "*"
    tail = tail.strip()
    whole = tail.startswith("(") and tail.endswith(")")
    rets = [_operand(_NAME.fullmatch(item)) for item in _items(tail[1:-1] if whole else tail)]
    for side in ([arg.name for arg, _ in args], [ret.name for ret, _ in rets], [(attr.inside, attr.name) for attr in attrs]):
        twice = [name for name in side if side.count(name) > 1]
        if twice:
            raise ValueError(f"`{twice[0]}` occurs twice")
    # Without an argument of the same name, the result's memory would be uninitialized.
    if {arg.name for arg, _ in args if arg.inout} != {ret.name for ret, _ in rets if ret.inout}:
        raise ValueError("`inout` operands: expected the same names among the arguments and the results")
    return tuple(arg for arg, _ in args), tuple(attrs), open_attrs, tuple(ret for ret, _ in rets), _contract(args, rets)


def _split_arrow(text):
    for at in _outside(text):
        if text.startswith("->", at):
            return text[:at].strip(), "->", text[at + 2 :]
    return text, "", ""


def _outside(text):
    """Yields the positions outside of brackets and quotes. Raises a ValueError if a bracket or quote is not closed."""
    stack, quote, at = [], None, 0
    while at < len(text):
        letter = text[at]
        if quote:
            at += letter == "\\"
            quote = None if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN:
            stack.append(letter)
        elif letter in _CLOSE:
            if not stack or _OPEN.index(stack.pop()) != _CLOSE.index(letter):
                raise ValueError(f"the brackets do not match at {text[at:]!r}")
        elif not stack:
            yield at
        at += 1
    if stack or quote:
        raise ValueError(f"{stack[-1] if stack else quote!r} is not closed")


def _items(text):
    """Returns the parts between commas, ignoring commas in brackets and quotes."""
    commas = [at for at in _outside(text) if text[at] == ","]
    parts = [text[start:end].strip() for start, end in zip([0, *(at + 1 for at in commas)], [*commas, len(text)])]
    if parts == [""]:
        return []
    if "" in parts:
        raise ValueError("nothing between two commas")
    return parts


def _operand(found):
    """Returns an operand and its entry in the contract. The entry is None if the operand has no dimensions."""
    if found is None or found["rest"] is None or found["stars"] == "**":
        raise ValueError("expected 'NAME: TYPE', as in 'x: f32[n]'" + (f", got {found['name']!r}" if found else ""))
    name, rest = found["name"], found["rest"].strip()
    rest, optional = re.subn(r"\s*=\s*None$", "", rest)
    kind = _OPERAND.fullmatch(rest)
    if kind is None:
        raise ValueError(f"`{name}`: expected a type such as f32[n m], bf16|f32[...], any or token, got {rest!r}; write attributes after '*'")
    variadic, token = found["stars"] == "*", kind["kind"] == "token"
    dtypes = None
    if not token and kind["kind"] != "any":
        dtypes = tuple(word.upper() for word in kind["kind"].split("|"))
        for dtype in dtypes:
            if dtype not in _facts.ELEMENT_TYPES or dtype == "TOKEN":
                raise ValueError(f"`{name}`: unknown element type {dtype.lower()!r}; write f32, s32, pred …, and attributes after '*'")
    words = None if kind["dims"] is None else kind["dims"].split()
    if words and "," in kind["dims"]:
        raise ValueError(f"`{name}`: expected blanks between dimensions, got [{kind['dims']}]; remove the commas")
    if token:
        rank, entry = 0, "token"
    else:
        rank = None if words is None or "..." in words else len(words)
        entry = None if words is None else " ".join(words) or "()"
    layout = kind["layout"] or "row"
    if layout.startswith("layout"):
        layout = tuple(map(int, layout[7:-1].split()))
        if sorted(layout) != list(range(len(layout) if rank is None else rank)):
            raise ValueError(f"`{name}`: layout: expected each dimension once, got {layout}")
    mark = "*" if variadic else "?" if optional else ""
    operand = _manifest.Operand(name, token, dtypes, rank, bool(optional), variadic, bool(found["inout"]), layout)
    return operand, None if entry is None else entry + mark


def _contract(args, rets):
    entries = [[entry for _, entry in side] for side in (args, rets)]
    if None in entries[0] + entries[1]:
        return None
    return " -> ".join(", ".join(side) for side in entries)


def _attribute(found, inside):
    """Returns an attribute, followed by its members if it is a dictionary."""
    name, rest = found["name"], (found["rest"] or "").strip()
    if not rest:
        raise ValueError(f"attribute `{name}`: missing type; write '{name}: f32' or '{name}: f32 = 1.0'")
    kind, default, optional = rest, None, False
    head, equals, tail = rest[rest.rindex("}") + 1 :].partition("=") if rest.startswith("{") and "}" in rest else rest.partition("=")
    if equals:
        kind, default, optional = head.strip(), _literal(name, tail.strip()), True
    members = []
    if rest.startswith("{"):
        if inside is not None:
            raise ValueError(f"attribute `{inside}`: entry `{name}`: a dictionary in a dictionary; write 'dict' as its type")
        for item in _items(rest[1 : rest.rindex("}")]):
            member = _NAME.fullmatch(item)
            if member is None:
                raise ValueError(f"attribute `{name}`: expected 'NAME: TYPE', got {item!r}")
            members += _attribute(member, name)
        kind = "dict"
    found = _RANGE.fullmatch(kind)
    kind, low, high = found.group("kind", "min", "max") if found else (kind, None, None)
    bounds = [None if bound is None else _literal(name, bound) for bound in (low, high)]
    if not _KIND.fullmatch(kind) or kind.startswith("[") != kind.endswith("]"):
        raise ValueError(f"attribute `{name}`: expected bool, i8 … u64, f32, f64, str, [T], dict or any, got {kind!r}")
    return [_manifest.Attribute(name, kind, optional, default, inside, minimum=bounds[0], maximum=bounds[1]), *members]


def _literal(name, text):
    if text in _FLOATS:
        return _FLOATS[text]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"attribute `{name}`: expected a constant as default, got {text!r}") from error
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"attribute `{name}`: expected a number, str or None as default, got {_values.shown(value)}")
    return value


_LEGACY = re.compile(r"\s*(?P<kind>\w+)\s*(\((?P<args>[^)]*)\)\s*->\s*(?P<rets>.*))?", re.DOTALL)


def _legacy(name, text):
    """Parses ``"cpu_status"`` or ``"cpu_status (f32[128], f32[2048]) -> f32[2048]"``."""
    found = _LEGACY.fullmatch(text)
    if found is None or found["kind"] not in LEGACY_API_VERSIONS:
        raise ValueError(f"expected {', '.join(LEGACY_API_VERSIONS)}, optionally followed by '(f32[128]) -> f32[128]'")
    if found["args"] is None:
        return _manifest.LegacySpec(name, found["kind"], None, None)

    def shapes(side):
        side = side.strip()
        side = side[1:-1] if side.startswith("(") and side.endswith(")") else side
        made = []
        for item in _items(side):
            operand, entry = _operand(_NAME.fullmatch(f"x:{item}"))
            try:
                made.append((operand.dtypes[0], tuple(map(int, entry.removesuffix("()").split()))))
            except (AttributeError, TypeError, ValueError):
                raise ValueError(f"expected a type with a fixed shape, such as f32[128 2], got {item!r}") from None
        return tuple(made)

    return _manifest.LegacySpec(name, found["kind"], shapes(found["args"]), shapes(found["rets"]))

