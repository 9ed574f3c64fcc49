"""Whether libraries have the targets that a model calls, as they are called."""

import os
import re

from . import _dtypes, _manifest, _model, _signature
from ._needs import calls as calls_of
from ._needs import merged


def report(model, paths):
    """``(text, whether all are there)``: a line for each target that a model calls, and which of the libraries has it as it is called."""
    data, where = _model.read(model)
    listed = _model.parts(data, where)[0].get("libraries", [])
    calls = calls_of(data, where)
    offers = {}
    for path in paths:
        prefixes = _prefixes(listed, path)
        for name, (handlers, legacy) in _manifest.read_all(os.path.realpath(path)).items():
            for prefix in (name, *prefixes):
                offers.update({f"{prefix}.{spec.name}": (path, spec) for spec in handlers.values()})
            offers.update({spec.name: (path, None) for spec in legacy})
            offers.update({f"{prefix}.{spec.name}": (path, None) for prefix in prefixes for spec in legacy})
    wrong = {}
    for call in calls:
        _path, spec = offers.get(call.need.target, (None, None))
        known = wrong.setdefault((call.need.target, call.need.api_version), {})
        if call.need.target in offers:
            known.update(dict.fromkeys(_misfits(call, spec)))
    lines, good = [], True
    for need in merged(calls):
        attributes = ", ".join(f"{name}: {kind}" for name, kind in need.attributes)
        path, _spec = offers.get(need.target, (None, None))
        by = "jax" if need.of_jax else path
        misfits = [] if need.of_jax else list(wrong[need.target, need.api_version])
        said = f"in {by}" + (f", but {' and '.join(misfits)}" if misfits else "") if by else "in none of the libraries" if paths else "?"
        good = good and bool(by) and not misfits
        # What a model says is one line, and no command for a terminal.
        lines.append(_signature.printable(f"{need.target}  API version {need.api_version}  {{{attributes}}}  {said}").replace("\n", "\\n"))
    return "\n".join(lines) + "\n" if lines else "it calls no handlers\n", good or not paths


def _prefixes(listed, path):
    """The prefixes under which a model's own list has a library of this name."""
    same = [about for about in listed if os.path.basename(str(about.get("file"))) == os.path.basename(path)]
    return [about["prefix"] for about in same if isinstance(about.get("prefix"), str)]


def _misfits(call, spec):
    """Why a library does not take a call, in words; ``spec`` is None for a target of the original custom calls."""
    if (spec is None) != (call.need.api_version < 4):
        is_handler = "a handler of XLA FFI" if spec else "a target of the original custom calls"
        return [f"it is {is_handler}, and not for API version {call.need.api_version}"]
    if spec is None or not spec.described:
        return []
    given = dict(call.need.attributes)
    declared = {attr.name: attr for attr in spec.attrs if attr.inside is None}
    unknown = [] if spec.open_attrs else [name for name in given if name not in declared]
    lacking = [name for name, attr in declared.items() if not attr.optional and name not in given]
    wrong = [f"it has no attribute {', '.join(unknown)}"] * bool(unknown) + [f"it wants the attribute {', '.join(lacking)}"] * bool(lacking)
    for name, attr in declared.items():
        kind = _declared_kind(given[name]) if name in given else None
        if kind is not None and attr.type not in ("any", kind):
            wrong.append(f"its attribute {name} is of type {attr.type}, not {given[name]}")
    for what, operands, arrays in (("argument", spec.args, call.args), ("result", spec.rets, call.rets)):
        wrong += _misfit_arrays(what, operands, arrays)
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


def _declared_kind(kind):
    """The type of an attribute as a manifest has it; None for one that no manifest has."""
    kind = re.sub(r"^tensor<(?:\d+x)+(\w+)>$", r"[\1]", kind)
    bare = kind.strip("[]")
    plain = bare.replace("ui", "u", 1) if bare.startswith("ui") else bare
    kind = kind.replace(bare, plain) if bare else kind
    return kind if plain in (*_dtypes.ATTRIBUTES, "str", "dict") else None
