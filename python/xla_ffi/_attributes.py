"""Converts Python values to exactly the attribute types that a handler declares.

JAX turns a Python int into an S64 attribute and a float into an F64 attribute, which handlers that expect other types
refuse. This module converts to the declared type instead, and raises an error if the value does not fit.
"""

import difflib
from collections.abc import Mapping

import numpy as np

from . import _abi, _values

#: Element types of attributes without a declared type.
_UNTYPED = [np.dtype(kind).name for name, kind in _abi.ATTRIBUTE_DTYPES.items() if name != "bool"]


def refuse(handler, problems):
    """Raises a TypeError that lists ``problems``, if there are any.

    A single problem is on the same line as the handler's name. Several problems are listed one per line.
    """
    if problems:
        lines = problems if len(problems) == 1 else [f"{len(problems)} problems", *problems]
        raise TypeError(f"{handler}: " + "\n  ".join(lines))


def cast_all(spec, given):
    """Converts the keyword arguments of a call to attributes for ``ffi_call``."""
    declared = {attr.name: attr for attr in spec.attrs if attr.inside is None}
    given = _stated(spec, declared, {name: value for name, value in given.items() if value is not None})
    cast, problems, unknown = {}, [], []
    for name, value in given.items():
        if name not in declared and not spec.open_attrs:
            if name in (arg.name for arg in spec.args):
                unknown.append(f"argument `{name}`: passed by keyword; pass arguments by position")
                continue
            near = difflib.get_close_matches(name, declared, 1)
            unknown.append(f"unknown attribute `{name}`; {f'did you mean `{near[0]}`?' if near else 'remove it'}")
        elif name not in declared:
            try:
                cast[name] = _untyped(value)
            except TypeError as error:
                unknown.append(f"attribute `{name}`: {error}")
    for name, attr in declared.items():
        if name not in given:
            if not attr.optional:
                problems.append(f"missing attribute `{name}`")
            continue
        try:
            if attr.type == "dict":
                cast[name] = _dictionary(spec, name, given[name])
            else:
                cast[name] = _in_range(attr, _value(attr.type, given[name], name))
        except (TypeError, ValueError) as error:
            problems.append(f"attribute `{name}`: {error}")
    refuse(f"{spec.library}.{spec.name}", problems + unknown)
    return cast


def _stated(spec, declared, given):
    """Returns the given attributes, with the declared defaults added if the handler does not know these defaults."""
    if not spec.states_defaults:
        return given
    return {**{name: attr.default for name, attr in declared.items() if attr.default is not None}, **given}


def with_defaults(spec, cast, inside=None):
    """Returns the attributes of a call, completed with the defaults in the manifest.

    For the members of a dictionary attribute, ``inside`` is the name of the dictionary. Nested dictionaries have no
    declared members.
    """
    declared = [attr for attr in spec.attrs if attr.inside == inside]
    all_ = {**{attr.name: attr.default for attr in declared if attr.default is not None}, **cast}
    inner = {attr.name for attr in declared if attr.type == "dict"} if inside is None else ()
    return {name: with_defaults(spec, value, name) if name in inner else value for name, value in all_.items()}


def integers(spec, cast):
    """Returns the values of the declared integer attributes, which shape contracts may use."""
    given = with_defaults(spec, cast)
    names = [attr.name for attr in spec.attrs if attr.inside is None and attr.type.startswith(("i", "u"))]
    return {name: int(given[name]) for name in names if name in given}


def _dictionary(spec, name, value):
    """Converts the value of a dictionary attribute.

    A handler may declare the members of the dictionary. Nested dictionaries have no declared members, even if a
    declared attribute has the same name.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a dict, got {_values.shown(value)}")
    inner = {attr.name: attr for attr in spec.attrs if attr.inside == name}
    value = _stated(spec, inner, value)
    result = {}
    for key, item in value.items():
        if key not in inner:
            if inner and not spec.open_attrs:
                raise TypeError(f"unknown entry `{key}`; remove it")
            result[key] = _untyped(item)
            continue
        try:
            kind = inner[key].type
            if kind == "dict" and not isinstance(item, Mapping):
                raise TypeError(f"expected a dict, got {_values.shown(item)}")
            result[key] = _untyped(item) if kind == "dict" else _in_range(inner[key], _value(kind, item, f"{name}[{key!r}]"))
        except (TypeError, ValueError) as error:
            raise TypeError(f"entry `{key}`: {error}") from error
    missing = [key for key, attr in inner.items() if key not in value and not attr.optional]
    if missing:
        raise TypeError(f"missing entry `{missing[0]}`")
    return result


def _text(kind):
    """Returns the text of an attribute's type for error messages."""
    if kind.startswith("["):
        return f"{_text(kind[1:-1])}[?]"
    return np.dtype(_abi.ATTRIBUTE_DTYPES[kind]).name if kind in _abi.ATTRIBUTE_DTYPES else kind


def _value(kind, value, name):
    if kind == "any":
        return _untyped(value)
    if kind == "str":
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {_values.shown(value)}")
        return value
    if kind in ("c64", "c128", "[bool]", "[c64]", "[c128]"):
        raise TypeError(f"XLA passes no attributes of type {kind}")
    if kind.startswith("["):
        return np.ascontiguousarray(_elements(kind, value, name)).reshape(-1)
    element = _elements(kind, value, name)
    if element.ndim != 0:
        raise TypeError(f"expected {_text(kind)}, got {_values.shown(value)}")
    return bool(element[()]) if kind == "bool" else element[()]


def _in_range(attr, value):
    """Checks a value against the attribute's range and returns the value.

    The handler also checks the range, but XLA does not call handlers whose results are empty.
    """
    for word, bound in ("min", attr.minimum), ("max", attr.maximum):
        if bound is not None:
            numbers = np.atleast_1d(value)
            # The bound is rounded to the type of the value, because the value was also rounded.
            limit = numbers.dtype.type(bound) if numbers.dtype.kind == "f" else bound
            wrong = numbers[~(numbers >= limit if word == "min" else numbers <= limit)]
            if wrong.size:
                raise ValueError(f"expected at {'least' if word == 'min' else 'most'} {bound}, got {wrong[0].item()}")
    return value


def _elements(kind, value, name):
    """Converts ``value`` to elements of the NumPy type of ``kind``.

    Raises a TypeError if the conversion loses more than digits of floats.
    """
    to = _abi.ATTRIBUTE_DTYPES[kind.strip("[]")]
    value = _constant(value)
    _values.check(value, to, _text(kind), True, name)
    try:
        return _values.convert(value, to)
    except ValueError as error:
        raise TypeError(f"expected {_text(kind)}, got {_values.shown(value)}, which is not rectangular") from error


def _constant(value):
    """Returns a value with the arrays of jax and other libraries converted to NumPy arrays, including arrays in lists.
    """
    _values.refuse_masked(value)
    if isinstance(value, (list, tuple)):
        return [_constant(item) for item in value]
    if isinstance(value, (range, memoryview)) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        return _known(value)
    return value


def _untyped(value):
    """Converts the value of an attribute without a declared type. As in JAX, an int becomes S64 and a float F64."""
    if isinstance(value, Mapping):
        return {key: _untyped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        raise TypeError(f"expected a value with an element type, got {_values.shown(value)}; pass np.asarray(value, dtype)")
    if isinstance(value, str):
        return value
    if hasattr(value, "__array__"):
        return _array_of_its_own(value)
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"expected a bool, number, str, array or dict, got {_values.shown(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise TypeError(f"expected int64, got {value}, which is out of range")
    return value


def _array_of_its_own(value):
    """Returns a private copy of an array, or a NumPy scalar, so that later changes by the caller have no effect."""
    value = _constant(value) if isinstance(value, (np.ndarray, np.generic)) else _known(value)[()]
    if value.dtype.name not in (*_UNTYPED, *(["bool"] if isinstance(value, np.generic) else [])):
        raise TypeError(f"XLA passes no attributes of type {value.dtype.name}, got {_values.shown(value)}")
    return value if isinstance(value, np.generic) else np.array(value, dtype=value.dtype.newbyteorder("="))


def _known(value):
    """Converts an array of any library to NumPy.

    Raises a TypeError for a traced value, which has no elements yet. The libraries themselves raise various errors.
    """
    try:
        return np.asarray(value)
    except Exception as error:
        if _values.is_traced(value):
            hint = ", or use jit with static_argnames" if _values.is_jax(value) else ""
            raise TypeError(f"expected a constant, got a traced value; pass a Python value{hint}") from error
        raise TypeError(f"expected an array, got {type(value).__name__}, which NumPy cannot convert: {_values.first_line(error)}") from error
