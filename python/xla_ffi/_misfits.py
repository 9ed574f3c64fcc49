"""Whether libraries have the targets that a model calls, as they are called."""

import re

from . import _dtypes, _given, _jax, _listed, _manifest, _model, _needs, _signature


def report(model, paths):
    """``(text, whether all are there)``: a line for each target that a model calls, and which of the libraries has it as it is called."""
    data, where = _model.read(model)
    calls, platforms = _needs.opened(data, where)
    offers = _offers(_listed.read(_model.parts(data, where)[0], where), paths)
    lines, good = [], True
    for need in _needs.merged(calls):
        attributes = ", ".join(f"{name}: {kind}" for name, kind in need.attributes)
        theirs = [call for call in calls if (call.need.target, call.need.api_version) == (need.target, need.api_version)]
        found = [(path, dict.fromkeys(why for call in theirs for why in _misfits(call, spec, platforms))) for path, spec in offers.get(need.target, ())]
        path, misfits = (None, {}) if need.of_jax or not found else min(found, key=lambda each: len(each[1]))
        by = "jax" if need.of_jax else path
        said = f"in {by}" + (f", but {' and '.join(misfits)}" if misfits else "") if by else "in none of the libraries" if paths else "?"
        good = good and bool(by) and not misfits
        # What a model says is one line, and no command for a terminal.
        lines.append(_signature.printable(f"{need.target}  API version {need.api_version}  {{{attributes}}}  {said}").replace("\n", "\\n"))
    return "\n".join(lines) + "\n" if lines else "it calls no handlers\n", good or not paths


def _offers(listed, paths):
    """``(path, spec)`` of each library by target: what these libraries have under their own names, and under those of a model's list."""
    given = [_listed.given(path) for path in paths]
    stand = _listed.standing(listed, given)
    offers = {}
    for path, each in zip(paths, given):
        said = {None: {}, **{entry.prefix: entry.signatures for entry, choices in zip(listed, stand) if each in choices}}
        libraries = _manifest.read_all(each.path, required=not any(any(signatures.values()) for signatures in said.values()))
        for prefix, signatures in said.items():
            for name, (handlers, legacy) in _given.complete(each.path, libraries, signatures.get("handlers"), signatures.get("legacy")).items():
                for spec in handlers.values():
                    offers.setdefault(f"{prefix or name}.{spec.name}", []).append((path, spec))
                for spec in legacy:
                    offers.setdefault(f"{prefix}.{spec.name}" if prefix else spec.name, []).append((path, None))
    return offers


def _misfits(call, spec, platforms):
    """Why a library does not take a call, in words; ``spec`` is None for a target of the original custom calls."""
    if (spec is None) != (call.need.api_version < 4):
        is_handler = "a handler of XLA FFI" if spec else "a target of the original custom calls"
        return [f"it is {is_handler}, and not for API version {call.need.api_version}"]
    if spec is None:
        return []
    wrong = []
    if platforms and call.always and not any(is_for(spec.platforms, platform) for platform in platforms):
        wrong.append(f"it is for {' and '.join(spec.platforms) or 'no platform'}, and the model for {' and '.join(platforms)}")
    if not spec.described:
        return wrong
    wrong += _misfit_attributes(spec, call.attributes)
    for what, operands, arrays in (("argument", spec.args, call.args), ("result", spec.rets, call.rets)):
        wrong += _misfit_arrays(what, operands, arrays)
    return wrong


def is_for(platforms, platform):
    """Whether a handler for ``platforms``, as a manifest has them, is one for a ``platform`` of jax's."""
    names = {"cpu" if _jax.is_cpu(name) else name.lower() for name in platforms}
    return platform.lower() in names or ("gpu" in names and platform.lower() in ("cuda", "rocm"))


def _misfit_attributes(spec, given, inside=None):
    """What is wrong with the attributes of a call, or with the members of the dictionary ``inside``."""
    declared = {attr.name: attr for attr in spec.attrs if attr.inside == inside}
    if inside is not None and not declared:
        return []
    it, its, one = "it", "its attribute", "attribute"
    if inside is not None:
        it, its, one = f"its attribute {inside}", f"in its attribute {inside} the member", "member"
    unknown = [] if spec.open_attrs else [name for name in given if name not in declared]
    lacking = [name for name, attr in declared.items() if not attr.optional and name not in given]
    wrong = [f"{it} has no {one} {', '.join(unknown)}"] * bool(unknown) + [f"{it} wants the {one} {', '.join(lacking)}"] * bool(lacking)
    for name, attr in declared.items():
        has = given.get(name)
        kind = "dict" if isinstance(has, dict) else has and _declared_kind(has)
        if kind is not None and attr.type not in ("any", kind) and not (attr.narrow and _narrows(kind, attr.type)):
            wrong.append(f"{its} {name} is of type {attr.type}, not {kind if isinstance(has, dict) else has}")
        elif isinstance(has, dict) and attr.type == "dict" and inside is None:
            wrong += _misfit_attributes(spec, has, name)
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


def _narrows(given, kind):
    """Whether a handler that narrows makes a number of a type, or an array of such, one of another; not for every value."""
    if given.startswith("[") != kind.startswith("["):
        return False
    given, kind = given.strip("[]"), kind.strip("[]")
    is_integer = lambda name: re.fullmatch(r"[iu]\d+", name) is not None
    is_float = lambda name: re.fullmatch(r"f\d+", name) is not None
    return (is_integer(given) and (is_integer(kind) or is_float(kind))) or (is_float(given) and is_float(kind))


def _declared_kind(kind):
    """The type of an attribute as a manifest has it; None for one that no manifest has."""
    kind = re.sub(r"^tensor<(?:\d+x)+(\w+)>$", r"[\1]", kind)
    bare = kind.strip("[]")
    plain = bare.replace("ui", "u", 1) if bare.startswith("ui") else bare
    kind = kind.replace(bare, plain) if bare else kind
    return kind if plain in (*_dtypes.ATTRIBUTES, "str", "dict") else None
