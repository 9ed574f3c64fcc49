"""Stub files, which describe a library's handlers to type checkers and editors."""

import keyword
import math
import os
import re

from . import _handler, _library, _manifest, _signature
from ._errors import LibraryError

#: Attributes of Library objects that the class does not list. A test compares this list with an object.
_FIELDS = ("path", "prefix", "digest", "handlers", "legacy", "_owner", "_given", "_image", "_generation")
_SCALARS = {"bool": "t.Bool", "str": "str", "dict": "typing.Mapping[str, typing.Any]", "any": "typing.Any"}


def of(path):
    """Returns the text of a stub file for the library at ``path``, without running any code of the library.

    The file has a class of handlers, named after the library in CamelCase, and ``lib``, an object of the class. If the
    file has several libraries, they share a class named after the file. Comments list handlers that cannot be
    attributes, and attributes that cannot be keywords.
    """
    described = _manifest.read(path)
    every = [spec for handlers in described.values() for spec in handlers.values()]
    names = [spec.name for spec in every]
    # As in a loaded library, a handler is not an attribute in three cases: two libraries share its name, the
    # library object already has an attribute of the name, or the name is not an identifier.
    own = {*dir(_library.Library), *_FIELDS}
    several = {name for name in names if names.count(name) > 1}
    usable = lambda spec: spec.name not in several and _signature.is_plain_name(spec.name) and spec.name not in own
    specs = [spec for spec in every if usable(spec)]
    left_out = [f"{spec.library}.{spec.name}" if spec.name in several else spec.name for spec in every if not usable(spec)]
    if not specs:
        raise LibraryError(f"{path}: a stub file needs a handler whose name is a Python identifier, and the library has none")
    file = os.path.basename(path)
    owner = _class_name(next(iter(described)) if len(described) == 1 else file.split(".")[0].removeprefix("lib"))
    head = [
        f"# Written by `python -m xla_ffi stubs {ascii(file)[1:-1]}` from the library's manifest; do not edit.",
        *(f"# Not an attribute: lib[{name!a}]." for name in left_out),
    ]
    kinds = {spec.name: f"_{spec.name}" for spec in specs}
    taken = set(kinds.values())
    handlers = [block for spec in specs for block in _handler_class(spec, kinds[spec.name], taken)]
    library = "\n".join([f"class {owner}(xla_ffi.Library):", *(f"    {spec.name}: {kinds[spec.name]}" for spec in specs)])
    text = "\n\n".join([*handlers, library, f"lib: {owner}"])
    # Strict checkers reject unused imports.
    code = "\n".join(line for line in text.split("\n") if not line.startswith((" " * 8, "    #")))
    head += [f"import {name}" for name in ("typing", "jax", "typing_extensions") if re.search(rf"\b{name}\.", code)]
    head += ["import xla_ffi", *(["from xla_ffi import typing as t"] if re.search(r"\bt\.", code) else [])]
    return "\n".join(head) + "\n\n" + text + "\n"


def _class_name(name):
    words = [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]
    text = "".join(word[0].upper() + word[1:] for word in words)
    return text if text[:1].isalpha() and not keyword.iskeyword(text) else f"Library{text}"


def _free(name, taken):
    """Returns a name that is not in ``taken``, and adds the name to ``taken``."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _handler_class(spec, name, taken):
    """Returns the classes of a handler's dictionaries and of the handler.

    ``taken`` are the names used in the module.
    """
    blocks = []
    names = _signature.operand_names(spec)
    single = [arg for arg in spec.args if not arg.variadic]
    parameters = ["self"]
    left_out = False
    for arg, own in zip(single, names):
        kind = "typing.Any" if arg.token else "t.Operand"
        left_out = left_out or arg.optional
        parameters.append(f"{own}: {kind} | None = None" if left_out else f"{own}: {kind}")
    parameters.append("/")
    attrs = _signature.attributes(spec, _handler.options())
    variadic = [f"*{own}: t.Operand" for arg, own in zip(spec.args, names) if arg.variadic]
    parameters += variadic or (["*"] if attrs else [])
    for attr in attrs:
        kind = _type(attr.type)
        members = [each for each in spec.attrs if each.inside == attr.name] if attr.type == "dict" else []
        if members and not spec.open_attrs and all(each.name.isascii() for each in members):
            kind = _free(f"_{spec.name}_{attr.name}", taken)
            blocks.append(_dictionary(kind, members))
        if attr.default is not None:
            parameters.append(f"{attr.name}: {kind} = {_default(attr.default)}")
        elif attr.optional:
            parameters.append(f"{attr.name}: {kind} | None = None")
        else:
            parameters.append(f"{attr.name}: {kind}")
    parameters.append("**options: typing.Any" if spec.open_attrs else "**options: typing_extensions.Unpack[t.Options]")
    others = [ascii(attr.name) for attr in spec.attrs if attr.inside is None and attr not in attrs]
    by_attrs = f"    # By attrs={{…}}: {', '.join(others)}.\n" if others else ""
    doc = _signature.describe(spec).replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\n", "\n        ").replace("        \n", "\n")
    blocks.append(
        f"class {name}(xla_ffi.Handler):\n{by_attrs}"
        "    @typing_extensions.override\n"
        f"    def __call__({', '.join(parameters)}) -> {_results(spec)}:\n"
        f'        """{doc}\n        """'
    )
    return blocks


def _dictionary(name, members):
    """Returns a TypedDict in the functional syntax, which allows any names."""
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
