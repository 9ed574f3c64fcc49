"""Stub files: what a library's manifest says, as type checkers and editors read it."""

import math
import os
import re

from . import _handler, _library, _manifest, _signature
from ._errors import LibraryError

_SCALARS = {"bool": "t.Bool", "str": "str", "dict": "typing.Mapping[str, typing.Any]", "any": "typing.Any"}


def of(path):
    """The text of a stub file for the library at ``path``. None of the library's code runs.

    A class of handlers, called as the library in CamelCase (several libraries of one file share one, which is
    called as the file), and ``lib``, an object of it.
    """
    described = _manifest.read(path)
    specs = [spec for handlers in described.values() for spec in handlers.values()]
    names = [spec.name for spec in specs]
    # As in a loaded library: a name that two libraries have is no attribute, and neither is one of the library's own.
    own = {*dir(_library.Library), "path", "prefix", "digest", "handlers", "legacy"}
    specs = [spec for spec in specs if names.count(spec.name) == 1 and _signature.plain(spec.name) and spec.name not in own]
    if not specs:
        raise LibraryError(f"{path} has no handler whose name can be an attribute: there is nothing to write a stub of")
    file = os.path.basename(path)
    owner = _class_name(next(iter(described)) if len(described) == 1 else file.split(".")[0].removeprefix("lib"))
    head = [
        f"# Written by `python -m xla_ffi stubs {ascii(file)[1:-1]}` from the library's manifest; do not edit.",
    ]
    handlers = [block for spec in specs for block in _handler_class(spec)]
    library = "\n".join([f"class {owner}(xla_ffi.Library):", *(f"    {spec.name}: _{spec.name}" for spec in specs)])
    text = "\n\n".join([*handlers, library, f"lib: {owner}"])
    # Only what is used is imported: strict checkers ask for that.
    code = "\n".join(line for line in text.split("\n") if not line.startswith(" " * 8))
    head += [f"import {name}" for name in ("typing", "jax", "typing_extensions") if re.search(rf"\b{name}\.", code)]
    head += ["import xla_ffi", *(["from xla_ffi import typing as t"] if re.search(r"\bt\.", code) else [])]
    return "\n".join(head) + "\n\n" + text + "\n"


def _class_name(name):
    words = [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]
    text = "".join(word[0].upper() + word[1:] for word in words)
    return text if text[:1].isalpha() else f"Library{text}"


def _handler_class(spec):
    """The class of a handler, after those of its dictionaries."""
    blocks = []
    names = _signature.operand_names(spec)
    single = [arg for arg in spec.args if not arg.variadic]
    parameters = ["self"]
    left_out = False
    for arg, name in zip(single, names):
        kind = "typing.Any" if arg.token else "t.Operand"
        left_out = left_out or arg.optional
        parameters.append(f"{name}: {kind} | None = None" if left_out else f"{name}: {kind}")
    parameters.append("/")
    attrs = _signature.attributes(spec, _handler.options())
    variadic = [f"*{name}: t.Operand" for arg, name in zip(spec.args, names) if arg.variadic]
    parameters += variadic or (["*"] if attrs else [])
    for attr in attrs:
        kind = _type(attr.type)
        members = [each for each in spec.attrs if each.inside == attr.name] if attr.type == "dict" else []
        if members and not spec.open_attrs and all(each.name.isascii() for each in members):
            kind = f"_{spec.name}_{attr.name}"
            blocks.append(_dictionary(kind, members))
        if attr.default is not None:
            parameters.append(f"{attr.name}: {kind} = {_default(attr.default)}")
        elif attr.optional:
            parameters.append(f"{attr.name}: {kind} | None = None")
        else:
            parameters.append(f"{attr.name}: {kind}")
    parameters.append("**options: typing.Any" if spec.open_attrs else "**options: typing_extensions.Unpack[t.Options]")
    doc = _signature.describe(spec).replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\n", "\n        ")
    blocks.append(
        f"class _{spec.name}(xla_ffi.Handler):\n"
        "    @typing_extensions.override\n"
        f"    def __call__({', '.join(parameters)}) -> {_results(spec)}:\n"
        f'        """{_lines(doc)}\n        """'
    )
    return blocks


def _lines(text):
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _dictionary(name, members):
    """A TypedDict in the form that takes any names."""
    fields = [
        f"{ascii(each.name)}: typing_extensions.{'NotRequired' if each.optional else 'Required'}[{_type(each.type)}]"
        for each in members
    ]
    return f"{name} = typing_extensions.TypedDict({name!r}, {{{', '.join(fields)}}})"


def _type(kind):
    if kind.startswith("["):
        return {"i": "t.Ints", "u": "t.Ints", "f": "t.Floats"}.get(kind[1], "typing.Any")
    if kind in _SCALARS:
        return _SCALARS[kind]
    return {"i": "t.Int", "u": "t.Int", "f": "t.Float"}.get(kind[0], "complex")


def _default(value):
    plain = isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    return ascii(value) if plain else "..."


def _results(spec):
    if any(ret.variadic or ret.optional for ret in spec.rets) or not spec.described:
        return "typing.Any"
    kinds = ["typing.Any" if ret.token else "jax.Array" for ret in spec.rets]
    if len(kinds) < 2:
        return kinds[0] if kinds else "None"
    return f"tuple[{', '.join(kinds)}]"
