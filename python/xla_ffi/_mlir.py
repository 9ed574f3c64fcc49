"""StableHLO text: a program with a single custom call, its types and its attributes."""

import numpy as np

from . import _abi, _facts

_DENSE = ("int8", "int16", "int32", "int64", "float32", "float64")


def call(target, args, rets, attrs, layouts, aliases=(), has_side_effect=False):
    """Returns a module whose ``main`` is one call of a typed handler.

    ``args`` and ``rets`` are pairs ``(shape, dtype)``. ``layouts`` are those of arguments and results, as in a
    manifest. ``aliases`` are pairs of operand and result indices. ``attrs`` are attributes as returned by
    ``_attributes.cast_all``.
    """
    taken, given = ([tensor(*each) for each in side] for side in (args, rets))
    said = ["api_version = 4 : i32", f"backend_config = {attribute(attrs)}"]
    if has_side_effect:
        said.append("has_side_effect = true")
    for name, side, kinds in (("operand_layouts", layouts[0], args), ("result_layouts", layouts[1], rets)):
        said.append(f"{name} = [{', '.join(_layout(minor_to_major(each, len(kind[0]))) for each, kind in zip(side, kinds))}]")
    if aliases:
        pairs = ", ".join(
            f"#stablehlo.output_operand_alias<output_tuple_indices = {[result] if len(rets) > 1 else []}, "
            f"operand_index = {operand}, operand_tuple_indices = []>"
            for operand, result in aliases
        )
        said.append(f"output_operand_aliases = [{pairs}]")
    names = [f"%arg{index}" for index in range(len(args))]
    count = len(rets)
    results = ", ".join(given) if count == 1 else f"({', '.join(given)})"
    left = "" if count == 0 else "%0 = " if count == 1 else f"%0:{count} = "
    back = ["%0"] if count == 1 else [f"%0#{index}" for index in range(count)]
    parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, taken))
    return (
        f"func.func @main({parameters}) -> {results} {{\n"
        f"  {left}stablehlo.custom_call @{_text(target)}({', '.join(names)}) {{{', '.join(said)}}}"
        f" : ({', '.join(taken)}) -> {results}\n"
        f"  return{' ' if back else ''}{', '.join(back)}{' : ' if back else ''}{', '.join(given)}\n}}\n"
    )


def tensor(shape, dtype):
    """Returns the text of an array type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element(_abi.dtype_name(dtype))}>"


def element(name):
    """Returns the text of an element type of the ABI."""
    kind, bits = _facts.ELEMENT_TYPES.get(name, (None, 0))
    if kind == "complex":
        return f"complex<f{bits // 2}>"
    if kind in ("bool", "int", "uint"):
        return "i1" if kind == "bool" else f"{'u' if kind == 'uint' else ''}i{bits}"
    if kind == "float":
        return name[0].lower() + name[1:] if name.startswith("F") else name.lower()
    raise TypeError(f"XLA has no arrays of {name}")


def minor_to_major(layout, rank):
    """Converts a declared layout, which counts from the slowest dimension, to XLA's, which counts from the fastest."""
    if layout == "column":
        return list(range(rank))
    if layout == "row":
        return list(reversed(range(rank)))
    # Additional leading dimensions are the slowest.
    more = rank - len(layout)
    return [*(axis + more for axis in reversed(layout)), *reversed(range(more))]


def _layout(order):
    return f"dense<{order}> : tensor<{len(order)}xindex>" if order else "dense<> : tensor<0xindex>"


def attribute(value):
    """Returns the text of an attribute's value in StableHLO."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(name)} = {attribute(item)}' for name, item in value.items())}}}"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    value = np.asarray(value)
    kind = element(_abi.dtype_name(value.dtype))
    numbers = [_number(item) for item in value.reshape(-1)]
    if value.ndim == 0:
        return f"{numbers[0]} : {kind}"
    listed = ", ".join(numbers)
    if value.dtype.name in _DENSE:
        return f"array<{kind}{': ' if numbers else ''}{listed}>"
    listed = f"[{listed}]" if numbers else ""
    return f"dense<{listed}> : tensor<{len(numbers)}x{kind}>"


def _number(value):
    """Returns the text of a number. Floats are written as bits, so that they are not rounded."""
    if value.dtype.kind == "f":
        return f"0x{int.from_bytes(value.tobytes()[::-1], 'big'):0{2 * value.dtype.itemsize}X}"
    return str(int(value))


def _text(value):
    """Returns a quoted string with all bytes escaped that are not plain ASCII characters."""
    plain = lambda byte: 0x20 <= byte < 0x7F and chr(byte) not in '"\\'
    return '"' + "".join(chr(byte) if plain(byte) else f"\\{byte:02X}" for byte in value.encode("utf-8", "surrogateescape")) + '"'
