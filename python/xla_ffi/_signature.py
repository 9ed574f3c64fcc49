"""Texts for Python users: a handler's signature, its ``help``, and the table of a library."""

import inspect
import keyword
import unicodedata

from . import _abi

#: The default of parameters without a default.
_NO_DEFAULT = inspect.Parameter.empty


def text(spec):
    """Returns a handler's signature in the syntax of ``load``'s ``handlers=``: ``(x: f32[... n], *, eps: f32 =
    1e-05) -> y: f32[... n]``."""
    dims = dimensions(spec)
    taken = [operand(arg, shape) for arg, shape in zip(spec.args, dims[0])]
    attrs = [attribute(spec, attr) for attr in spec.attrs if attr.inside is None]
    if attrs and not any(arg.variadic for arg in spec.args):
        taken.append("*")
    taken += attrs
    if spec.open_attrs:
        taken.append("**others")
    given = [operand(ret, shape) for ret, shape in zip(spec.rets, dims[1])]
    results = given[0] if len(given) == 1 else f"({', '.join(given)})"
    return f"({', '.join(taken)}) -> {results}"


def printable(text):
    """Escapes characters that are unsafe in a terminal, because texts in libraries are untrusted."""
    return "".join(c if c.isprintable() or c in "\n\t\u00a0" else c.encode("unicode_escape").decode() for c in text)


def operand(about, dims=None):
    """Returns the text of an operand, with its dimensions as in the contract if they are known."""
    kind = "token" if about.token else "|".join(about.dtypes).lower() if about.dtypes else "any"
    # The text of an operand with a huge rank would be too long.
    if dims is None and about.rank is not None and about.rank <= 64 and not about.token:
        dims = " ".join("_" * about.rank)
    shape = "" if dims is None or about.token else f"[{dims}]"
    layout = "" if about.layout == "row" else f" {_layout(about.layout)}"
    star = "*" if about.variadic else "inout " if about.inout else ""
    return f"{star}{about.name}: {kind}{shape}{layout}" + (" = None" if about.optional and not about.variadic else "")


def _layout(layout):
    return layout if isinstance(layout, str) else f"layout({' '.join(map(str, layout))})"


def dimensions(spec):
    """Returns the contract's text for each argument and result, or None if the contract does not describe it."""
    sides = [spec.args, spec.rets]
    halves = (spec.shape or "").split("->")
    if len(halves) != 2:
        return [[None] * len(side) for side in sides]
    found = []
    for side, half in zip(sides, halves):
        words = [word.strip() for word in half.split(",")] if half.strip() else []
        if len(words) != len(side):
            found.append([None] * len(side))
            continue
        plain = [word.rstrip("?*").strip() for word in words]
        found.append(["" if word == "()" else word for word in plain])
    return found


def attribute(spec, attr):
    """Returns the text of an attribute. Dictionaries include their declared members."""
    kind = attr.type
    members = [each for each in spec.attrs if each.inside == attr.name] if kind == "dict" and attr.inside is None else []
    if members:
        kind = f"{{{', '.join(attribute(spec, each) for each in members)}}}"
    bounds = (("min", attr.minimum), ("max", attr.maximum))
    kind += "".join(f" {word} {bound!r}" for word, bound in bounds if bound is not None)
    default = f" = {attr.default!r}" if attr.default is not None else " = None" if attr.optional else ""
    return f"{attr.name}: {kind}{default}"


def operand_names(spec):
    """Returns parameter names for the arguments.

    Arguments are positional only, so their names need to differ only from the names of attributes.
    """
    taken = {attr.name for attr in spec.attrs} | {"self", "options"}
    names = []
    for at, arg in enumerate(spec.args):
        name = arg.name if is_plain_name(arg.name) else f"operand{at}"
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


def attributes(spec, options):
    """Returns the attributes that can be passed as keywords.

    Attributes whose names are not identifiers, or are names of options, must be passed by ``attrs=``.
    """
    known = [attr for attr in spec.attrs if attr.inside is None]
    taken = {*options, "options", "self"}
    return [attr for attr in known if is_plain_name(attr.name) and attr.name not in taken]


def python_type(kind):
    """Returns the type of an attribute's value for annotations."""
    if kind.startswith("["):
        return list
    if kind in ("bool", "str", "dict"):
        return {"bool": bool, "str": str, "dict": dict}[kind]
    if kind == "any":
        return inspect.Parameter.empty
    return int if kind[0] in "iu" else complex if kind[0] == "c" else float


def signature(spec, options, array):
    """Returns an ``inspect.Signature``. Operands are positional, attributes keywords, and ``options`` the keywords of
    every handler.

    ``array`` is the framework's class of arrays.
    """
    parameters = []
    for arg, name in zip(spec.args, operand_names(spec)):
        kind = inspect.Parameter.VAR_POSITIONAL if arg.variadic else inspect.Parameter.POSITIONAL_ONLY
        default = None if arg.optional and not arg.variadic else _NO_DEFAULT
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=array))
    # Arguments after an optional argument must also be optional.
    for at in range(1, len(parameters)):
        if parameters[at - 1].default is None and parameters[at].kind == inspect.Parameter.POSITIONAL_ONLY:
            parameters[at] = parameters[at].replace(default=None)
    for attr in attributes(spec, options):
        default = None if attr.optional and attr.default is None else attr.default if attr.default is not None else _NO_DEFAULT
        annotation = python_type(attr.type)
        parameters.append(inspect.Parameter(attr.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    parameters.append(inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD))
    results = None if not spec.rets else array if len(spec.rets) == 1 else tuple
    return inspect.Signature(parameters, return_annotation=results)


def describe(spec):
    """Returns the text for ``help``: the signature, the author's documentation, and further properties."""
    paragraphs = [f"{spec.name}{text(spec)}"]
    if spec.doc:
        paragraphs.append(spec.doc.strip("\n"))
    for title, entries in (("Operands", spec.args), ("Attributes", spec.attrs), ("Results", spec.rets)):
        documented = [entry for entry in entries if entry.doc]
        if documented:
            width = max(len(entry.name) for entry in documented)
            lines = [f"  {entry.name:<{width}}  " + entry.doc.strip().replace("\n", "\n" + " " * (width + 4)) for entry in documented]
            paragraphs.append("\n".join([f"{title}:", *lines]))
    facts = [f"Shapes: {spec.shape}"] if spec.shape else []
    if spec.gradient is not None:
        facts.append(f"Gradient: {gradient(spec.gradient)}")
    if spec.batch is not None:
        facts.append(f"Batching: {_batch(spec)}")
    if spec.traits:
        facts.append(f"Traits: {', '.join(spec.traits)}")
    facts.append(f"Platforms: {', '.join(spec.platforms)}; {needs(spec)}")
    paragraphs.append("\n".join(facts))
    return printable("\n\n".join(paragraphs))


def needs(spec):
    """Returns the oldest jaxlib that supports everything the handler does, as text."""
    first = _abi.first_jaxlib(spec.floor)
    return f"needs jaxlib {first} or newer" if first else "needs a newer jaxlib than this xla_ffi knows"


def gradient(declared):
    """Returns a handler's declared gradient as text."""
    kinds = {"vjp": declared.vjp, "forward": declared.forward, "jvp": declared.jvp, "transpose": declared.transpose}
    said = [f"{kind} by {name}" for kind, name in kinds.items() if name is not None]
    if declared.linear:
        said.insert(0, "linear")
    if declared.residuals is not None:
        said.append(f"residuals {', '.join(declared.residuals) or 'none'}")
    return ", ".join(said)


def _batch(spec):
    if isinstance(spec.batch, dict):
        return f"by {spec.batch['handler']}"
    if isinstance(spec.batch, tuple):
        return ", ".join(f"{arg.name} {word}" for arg, word in zip(spec.args, spec.batch))
    return spec.batch


def table(library):
    """Returns a table with a line for each handler of a library, and for each target of the original custom calls."""
    short = {handler: name for name, handler in sorted(library.handlers.items(), key=lambda item: -len(item[0]))}
    rows = []
    for handler, name in short.items():
        spec = handler.spec
        note = f"; {needs(spec)}" if handler.refused else ""
        rows.append((name, text(spec) if spec.described else "not described", f"{', '.join(spec.platforms)}{note}"))
    rows.sort(key=lambda row: list(library.handlers).index(row[0]))
    rows += [(name, f"{target.signature or 'of unknown signature'}", "legacy") for name, target in library.legacy.items()]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    lines = [f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
    count = f"{len(short)} handler{'' if len(short) == 1 else 's'}"
    return printable("\n".join([f"<library {library.path}: {count}>", *lines]))


def is_plain_name(name):
    """Returns true if a name can be a parameter: it is a Python identifier that Python does not normalize."""
    read = unicodedata.normalize("NFKC", name)
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__" and read == name
