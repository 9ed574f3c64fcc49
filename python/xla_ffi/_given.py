"""Signatures given in Python, for handlers that do not describe themselves: what ``handlers=`` of ``load`` takes.

They are written as ``help`` shows them: ``"(x: f32[... n], *, eps: f32 = 1e-05) -> y: f32[... n]"``.
"""

import ast
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _facts, _manifest, _signature, _values
from ._errors import LibraryError
from ._legacy_list import LegacySpec

_KIND = re.compile(r"\[?(bool|[iu](8|16|32|64)|f32|f64|c64|c128)\]?|str|dict|any")
_OPERAND = re.compile(r"(?P<kind>[\w|]+)\s*(\[(?P<dims>[^\]]*)\])?\s*(?P<layout>row|column|layout\([\d ]+\))?")
_NAME = re.compile(r"(?P<stars>\*{0,2})(?P<inout>inout\s+)?(?P<name>[^\s:*]+)\s*(:(?P<rest>.*))?", re.DOTALL)
_SIZE = re.compile(r"[0-9]{1,18}")  # digits of other scripts, which \d takes, are none of a size
_RANGE = re.compile(r"(?P<kind>[^{\s]+)(\s+min\s+(?P<min>\S+))?(\s+max\s+(?P<max>\S+))?")
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_OPEN, _CLOSE = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a handler takes and gives, and what else its library does not say.

    ``text`` is written as ``help`` shows it; ``stages`` names the exported symbol of each stage (else the handler's
    own name is that of its execute stage); ``platforms`` are ``cpu`` unless given. ``batch``, ``gradient`` and
    ``traits`` are those of the manifest (``docs/manifest.md``). Of a handler that its manifest lists without describing
    it, stages and platforms are the manifest's unless they are given.
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
    """What ``load`` was given besides a file and a prefix, as a key that another call of it can have."""
    for keyword, each in said.items():
        if not isinstance(each or {}, Mapping) or not all(isinstance(name, str) for name in each or {}):
            raise TypeError(f"{keyword}= is to be a dict whose keys are str, got {_values.shown(each)}")
    try:
        return tuple(repr(sorted((each or {}).items(), key=lambda item: item[0])) for each in said.values())
    except RecursionError:
        raise TypeError(f"{', '.join(f'{keyword}=' for keyword in said)}: values are nested too deep") from None


def complete(path, libraries, handlers, legacy):
    """The libraries of a file, as ``_manifest.read_all`` gives them, with what the caller says of them."""
    if not handlers and not legacy:
        return libraries
    libraries = {name: (dict(specs), list(targets)) for name, (specs, targets) in libraries.items()}
    if not libraries:
        libraries[_stem(path)] = ({}, [])
    for key, given in (handlers or {}).items():
        given = Signature(given) if isinstance(given, str) else given
        if not isinstance(given, Signature):
            raise TypeError(f"handlers[{key!r}] is to be a text or an xla_ffi.Signature, got {type(given).__name__}")
        _typed(f"handlers[{key!r}]", given)
        owners = [name for name, (specs, _) in libraries.items() if key in specs] or [next(iter(libraries))]
        specs = libraries[owners[0]][0]
        known = specs.get(key)
        if known is not None and known.described:
            raise LibraryError(f"{path}: {key} describes itself, as {_signature.text(known)}: leave it out of handlers=")
        try:
            specs[key] = _spec(owners[0], key, given, known)
        except ValueError as error:
            raise LibraryError(f"{path}: handlers[{key!r}], {given.text!r}: {error}") from error
    for key, text in (legacy or {}).items():
        if not isinstance(text, str):
            raise TypeError(f"legacy[{key!r}] is to be a text, got {_values.shown(text)}")
        try:
            libraries[next(iter(libraries))][1].append(_legacy(key, text))
        except ValueError as error:
            raise LibraryError(f"{path}: legacy[{key!r}], {text!r}: {error}") from error
    return libraries


def _typed(where, given):
    """Tells which field of a Signature is none of its type. What may be left out may be None, too."""
    is_text = lambda value: isinstance(value, str)
    are_texts = lambda value: isinstance(value, (tuple, list)) and all(map(is_text, value))
    names = lambda value: isinstance(value, Mapping) and all(map(is_text, value))
    symbols = lambda value: names(value) and all(map(is_text, value.values()))
    for field, fits, kind in (
        ("text", is_text, "a str"), ("stages", symbols, "a dict of str to str"), ("platforms", are_texts, "a tuple of str"),
        ("gradient", names, "a dict whose keys are str"), ("traits", are_texts, "a tuple of str"), ("doc", is_text, "a str"),
    ):  # fmt: skip
        value = getattr(given, field)
        if not (fits(value) or (value is None and field != "text")):
            raise TypeError(f"{where}: {field}= is to be {kind}, got {_values.shown(value)}")
    if given.platforms is not None and not given.platforms:
        raise TypeError(f"{where}: platforms= is empty: leave it out for a handler of cpu, or name one")


def written(said):
    """What ``load`` was given besides a file and a prefix, as JSON has it; what is empty is left out."""
    found = {key: dict(value) for key, value in said.items() if value}
    if "handlers" in found:
        found["handlers"] = {key: _written(each) for key, each in found["handlers"].items()}
    return found


def _written(given):
    if isinstance(given, str):
        return given
    fields = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in fields.items()}
    return {name: value for name, value in plain.items() if value}


def read_back(about):
    """The keywords of ``load`` that ``written`` wrote into a dictionary."""
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
    for stage in stages:
        if stage not in _facts.STAGES:
            raise ValueError(f"there is no stage {stage!r}, but {', '.join(_facts.STAGES)}")
    if "execute" not in stages:
        raise ValueError("its stages lack 'execute'")
    batch = _manifest.batch_of(given.batch, args)
    wrong = _batch_fault(batch, args, shape)
    if wrong:
        raise ValueError(f"its batch has one more leading dimension, which {wrong!r} of its contract does not take: begin it with '...'")
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
        batch=batch,
        doc=given.doc or (known.doc if known else ""),
        states_defaults=True,
    )


def _batch_fault(batch, args, shape):
    """The first entry of the contract that takes no leading dimension more, though ``batch`` says that its operand has one."""
    words = ["leading"] * len(args) if batch == "leading" else batch if isinstance(batch, tuple) else ()
    if shape is None or "leading" not in words:
        return None
    taken, given = ([entry.strip() for entry in side.split(",")] for side in shape.split("->"))
    led = [entry for entry, word in zip(taken, words) if word == "leading"]
    return next((entry for entry in [*led, *given] if entry not in ("", "token") and not entry.startswith("...")), None)


def parse(text):
    """``(arguments, attributes, open_attrs, results, contract)`` of a signature's text. Raises ValueError."""
    head, arrow, tail = _split_arrow(text.strip())
    if not arrow or not head.startswith("(") or not head.endswith(")"):
        raise ValueError("a signature is '(ARGUMENTS) -> RESULTS'")
    args, attrs, open_attrs, keywords = [], [], False, False
    for item in _items(head[1:-1]):
        if item == "*":
            keywords = True
            continue
        found = _NAME.fullmatch(item)
        if found is None:
            raise ValueError(f"{item!r} is no 'NAME: TYPE'")
        if found["stars"] == "**":
            if open_attrs or found["inout"] or found["rest"] is not None:
                raise ValueError(f"{item!r}: '**others' is there once, without a type")
            open_attrs = True
        elif keywords:
            attrs += _attribute(found, None)
        else:
            args.append(_operand(found))
            keywords = found["stars"] == "*"
    tail = tail.strip()
    whole = tail.startswith("(") and tail.endswith(")")
    rets = [_operand(_NAME.fullmatch(item)) for item in _items(tail[1:-1] if whole else tail)]
    for side in (args, rets):
        names = [operand.name for operand, _ in side]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} occurs twice")
    taken, given = ([operand for operand, _ in side] for side in (args, rets))
    wrong = _fault(taken, given, attrs)
    if wrong is not None:
        raise ValueError(wrong)
    # In a manifest results alone say it; here a result without it would be memory that nobody has written.
    lost = [arg.name for arg in taken if arg.inout and not any(ret.inout and ret.name == arg.name for ret in given)]
    if lost:
        raise ValueError(f"{lost[0]!r} is inout, and no result is: write 'inout {lost[0]}: …' among the results, too")
    return tuple(arg for arg, _ in args), tuple(attrs), open_attrs, tuple(ret for ret, _ in rets), _contract(args, rets)


def _split_arrow(text):
    for at in _outside(text):
        if text.startswith("->", at):
            return text[:at].strip(), "->", text[at + 2 :]
    return text, "", ""


def _outside(text):
    """The places that are in no brackets and no quotes. What is quoted is any text; raises ValueError where one is not closed."""
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
                raise ValueError(f"its brackets do not match at {text[at:]!r}")
        elif not stack:
            yield at
        at += 1
    if stack or quote:
        raise ValueError(f"{stack[-1] if stack else quote!r} is not closed")


def _items(text):
    """The parts between the commas that are in no brackets and no quotes."""
    commas = [at for at in _outside(text) if text[at] == ","]
    parts = [text[start:end].strip() for start, end in zip([0, *(at + 1 for at in commas)], [*commas, len(text)])]
    if parts == [""]:
        return []
    if "" in parts:
        raise ValueError("there is nothing between two commas")
    return parts


def _operand(found):
    """An operand and the contract's words for it, None where there are none."""
    if found is None or found["rest"] is None:
        raise ValueError("an operand is 'NAME: TYPE'" if found is None else f"{found['name']!r} has no type: write '{found['name']}: f32[n]'")
    name, rest = found["name"], found["rest"].strip()
    if found["stars"] == "**":
        raise ValueError(f"the result {name!r} has two stars: '*{name}' stands for all that are left")
    rest, optional = re.subn(r"\s*=\s*None$", "", rest)
    kind = _OPERAND.fullmatch(rest)
    if kind is None:
        raise ValueError(f"{name!r} is of the type {rest!r}: write f32[n m], bf16|f32[...], any, or token; attributes come after '*'")
    variadic, token = found["stars"] == "*", kind["kind"] == "token"
    dtypes = None
    if not token and kind["kind"] != "any":
        dtypes = tuple(word.upper() for word in kind["kind"].split("|"))
        for dtype in dtypes:
            if dtype not in _facts.ELEMENT_TYPES or dtype == "TOKEN":
                known = ", ".join(each.lower() for each in _facts.ELEMENT_TYPES if each != "TOKEN")
                raise ValueError(f"{name!r} has the element type {dtype.lower()!r}, which is none of {known}")
    words = None if kind["dims"] is None else kind["dims"].split()
    if words and "," in kind["dims"]:
        raise ValueError(f"{name!r} has the dimensions [{kind['dims']}]: write blanks between them, no commas")
    if token:
        rank, entry = 0, "token"
    else:
        rank = None if words is None or "..." in words else len(words)
        entry = None if words is None else " ".join(words) or "()"
    layout = kind["layout"] or "row"
    if layout.startswith("layout"):
        layout = tuple(map(int, layout[7:-1].split()))
        if sorted(layout) != list(range(len(layout) if rank is None else rank)):
            raise ValueError(f"{name!r} has the layout {layout}, which does not order its dimensions")
    mark = "*" if variadic else "?" if optional else ""
    operand = _manifest.Operand(name, token, dtypes, rank, bool(optional), variadic, bool(found["inout"]), layout)
    return operand, None if entry is None else entry + mark


def _contract(args, rets):
    entries = [[entry for _, entry in side] for side in (args, rets)]
    if None in entries[0] + entries[1]:
        return None
    return " -> ".join(", ".join(side) for side in entries)


def _attribute(found, inside):
    """An attribute, and after a dictionary its members."""
    name, rest = found["name"], (found["rest"] or "").strip()
    if found["stars"] or found["inout"]:
        raise ValueError(f"the attribute {name!r} is marked {found['stars'] or 'inout'!r}, as operands are, which stand before '*'")
    if not rest:
        raise ValueError(f"the attribute {name!r} has no type: write '{name}: f32' or '{name}: f32 = 1.0'")
    kind, default, optional = rest, None, False
    parts = re.split(r"\s*=\s*", rest, maxsplit=1) if not rest.startswith("{") else [rest, *_after_braces(rest)]
    if len(parts) == 2:
        kind, optional = parts[0].strip(), True
        default = _literal(name, parts[1])
    members = []
    if rest.startswith("{"):
        if inside is not None:
            raise ValueError(f"the dictionary {inside!r} holds another: write 'dict' for that one")
        body = rest[1 : rest.rindex("}")]
        for item in _items(body):
            member = _NAME.fullmatch(item)
            if member is None or member["stars"]:
                raise ValueError(f"{item!r} is no member of {name!r}")
            members += _attribute(member, name)
        kind = "dict"
    found = _RANGE.fullmatch(kind)
    kind, low, high = found.group("kind", "min", "max") if found else (kind, None, None)
    bounds = [None if bound is None else _literal(name, bound) for bound in (low, high)]
    if not all(bound is None or (type(bound) in (int, float) and kind.strip("[")[0] in "iuf") for bound in bounds):
        raise ValueError(f"the attribute {name!r} has a min or a max that is not a number, or is not a number itself")
    if not _KIND.fullmatch(kind) or kind.startswith("[") != kind.endswith("]"):
        raise ValueError(f"the attribute {name!r} is of the type {kind!r}: it is one of bool, i8 … u64, f32, f64, str, [T], dict, any")
    if default is not None and not _is_of_type(kind, default):
        raise ValueError(f"the attribute {name!r} is of type {kind}, and its default is {default!r}")
    return [_manifest.Attribute(name, kind, optional, default, inside, minimum=bounds[0], maximum=bounds[1]), *members]


def _after_braces(rest):
    after = rest[rest.rindex("}") + 1 :].strip() if "}" in rest else ""
    if after and not after.startswith("="):
        raise ValueError(f"{after!r} follows a dictionary")
    return [after[1:].strip()] if after else []


def _literal(name, text):
    if text in _FLOATS:
        return _FLOATS[text]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"the default of {name!r} is {text!r}, which is no constant") from error
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"the default of {name!r} is a {type(value).__name__}; defaults are numbers, texts and None")
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"the default of {name!r} is {text}, which is beyond every number")
    return value


_LEGACY = re.compile(r"\s*(?P<kind>\w+)\s*(\((?P<args>[^)]*)\)\s*->\s*(?P<rets>.*))?", re.DOTALL)


def _legacy(name, text):
    """``"cpu_status"`` or ``"cpu_status (f32[128], f32[2048]) -> f32[2048]"``."""
    from ._legacy_list import API_VERSIONS

    found = _LEGACY.fullmatch(text)
    if found is None or found["kind"] not in API_VERSIONS:
        raise ValueError(f"a legacy target is one of {', '.join(API_VERSIONS)}, and may say '(f32[128]) -> f32[128]' behind it")
    if found["args"] is None:
        return LegacySpec(name, found["kind"], None, None)

    def shapes(side):
        side = side.strip()
        side = side[1:-1] if side.startswith("(") and side.endswith(")") else side
        made = []
        for item in _items(side):
            operand, entry = _operand(_NAME.fullmatch(f"x:{item}"))
            words = [] if entry in (None, "()") else entry.split()
            if entry is None or operand.token or operand.dtypes is None or len(operand.dtypes) != 1 or not all(map(_SIZE.fullmatch, words)):
                raise ValueError(f"{item!r} has no fixed shape: write f32[128 2]")
            made.append((operand.dtypes[0], tuple(map(int, words))))
        return tuple(made)

    return LegacySpec(name, found["kind"], shapes(found["args"]), shapes(found["rets"]))


def _fault(args, rets, attrs):
    """What operands and attributes of a handler cannot say together, in words, or None."""
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


#: From here on numbers are none of the type: they would be rounded to infinity.
_BEYOND = {"f32": 2**128 - 2**103, "f64": 2**1024 - 2**970}


def _is_of_type(kind, value):
    """Whether a value of JSON, or one that Python writes so, is a value of an attribute's type."""
    if kind == "any":
        return True
    if kind.startswith("["):
        return isinstance(value, list) and all(_is_of_type(kind[1:-1], item) for item in value)
    if kind in ("bool", "str", "dict"):
        return isinstance(value, {"bool": bool, "str": str, "dict": dict}[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind.startswith(("i", "u")):
        bits, signed = int(kind[1:]), kind.startswith("i")
        return isinstance(value, int) and -(2 ** (bits - 1)) * signed <= value < 2 ** (bits - signed)
    beyond = _BEYOND.get(kind, math.inf)
    return abs(value) < beyond or (isinstance(value, float) and not math.isfinite(value))
