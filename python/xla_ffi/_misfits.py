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
    return wrong + _misfit_attributes(spec, dict(call.need.attributes))


def is_for(platforms, platform):
    """Whether a handler for ``platforms``, as a manifest has them, is one for a ``platform`` of jax's."""
    names = {"cpu" if _jax.is_cpu(name) else name.lower() for name in platforms}
    return platform.lower() in names or ("gpu" in names and platform.lower() in ("cuda", "rocm"))


def _misfit_attributes(spec, given):
    """What is wrong with the attributes of a call: their names, and their types where the handler takes but one."""
    declared = {attr.name: attr for attr in spec.attrs if attr.inside is None}
    unknown = [] if spec.open_attrs else [name for name in given if name not in declared]
    lacking = [name for name, attr in declared.items() if not attr.optional and name not in given]
    wrong = [f"it has no attribute {', '.join(unknown)}"] * bool(unknown) + [f"it wants the attribute {', '.join(lacking)}"] * bool(lacking)
    for name, attr in declared.items():
        kind = _declared_kind(given[name]) if name in given else None
        if kind is not None and attr.type not in ("any", kind) and not attr.narrow:
            wrong.append(f"its attribute {name} is of type {attr.type}, not {kind}")
    return wrong


def _declared_kind(kind):
    """The type of an attribute as a manifest has it; None for one that no manifest has."""
    kind = re.sub(r"^tensor<(?:\d+x)+(\w+)>$", r"[\1]", kind)
    kind = re.sub(r"^(\[?)ui", r"\1u", kind)
    return kind if kind.strip("[]") in (*_dtypes.ATTRIBUTES, "str", "dict") else None
