"""Attributes: Python values become exactly the type that a handler declares.

JAX turns a Python int into an S64 and a float into an F64 attribute; a handler that wants another
type would refuse it. Here the declared type decides, and a value that does not fit is an error.
"""

import difflib
from collections.abc import Mapping

import numpy as np

from . import _dtypes


def cast_all(spec, given):
    """Attributes as ``ffi_call`` takes them, from the keyword arguments of a call."""
    given = {name: value for name, value in given.items() if value is not None}
    declared = {attr.name: attr for attr in spec.attrs if attr.inside is None}
    problems = []
    for name in given:
        if name not in declared and not spec.open_attrs:
            near = difflib.get_close_matches(name, declared, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(declared) or 'none'}"
            problems.append(f"no attribute {name!r}: {hint}")
    cast = {name: value for name, value in given.items() if name not in declared}
    for name, attr in declared.items():
        if name not in given:
            if not attr.optional:
                problems.append(f"attribute {name!r} ({attr.type}) is missing")
            continue
        try:
            if attr.type == "dict":
                cast[name] = _dictionary(spec, name, given[name])
            else:
                cast[name] = _value(attr.type, given[name])
        except (TypeError, ValueError) as error:
            problems.append(f"attribute {name!r}: {error}")
    if problems:
        raise TypeError(f"{spec.library}.{spec.name}: " + "\n".join(problems))
    return cast


def _dictionary(spec, name, value):
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a dict, got {_shown(value)}")
    inner = {attr.name: attr for attr in spec.attrs if attr.inside == name}
    result = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(f"its keys are to be str, got {_shown(key)}")
        if key not in inner:
            if inner and not spec.open_attrs:
                raise TypeError(f"it has no {key!r}, but {', '.join(inner)}")
            result[key] = item
            continue
        try:
            kind = inner[key].type
            result[key] = _dictionary(spec, key, item) if kind == "dict" else _value(kind, item)
        except (TypeError, ValueError) as error:
            raise TypeError(f"its {key!r}: {error}") from error
    missing = [key for key, attr in inner.items() if key not in value and not attr.optional]
    if missing:
        raise TypeError(f"it lacks {', '.join(missing)}")
    return result


def _value(kind, value):
    if type(value).__module__.startswith("jax") and not _concrete(value):
        raise TypeError("attributes are constants of the program: it cannot be a traced value (make it an operand)")
    if kind == "any":
        return value
    if kind == "str":
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {_shown(value)}")
        return value
    if kind.startswith("["):
        return _array(kind[1:-1], value)
    if kind in ("c64", "c128"):
        raise TypeError(f"it is of type {kind}, and JAX has no complex attributes; the handler cannot be called from JAX")
    value = np.asarray(value)
    if value.ndim != 0:
        raise TypeError(f"expected one {kind}, got an array of shape {list(value.shape)}")
    return bool(_elements(kind, value)[()]) if kind == "bool" else _elements(kind, value)[()]


def _array(kind, value):
    if kind in ("bool", "c64", "c128"):
        raise TypeError(f"it is an array of {kind}, which JAX cannot pass as an attribute")
    value = np.asarray(value)
    if value.size == 0:
        return np.empty(0, _dtypes.ATTRIBUTES[kind])
    return np.ascontiguousarray(_elements(kind, value)).reshape(-1)


def _elements(kind, value):
    """``value`` as the NumPy type of ``kind``, if that changes nothing but the precision of floats."""
    to = np.dtype(_dtypes.ATTRIBUTES[kind])
    fits = {"bool": "b", "i": "iu", "u": "iu", "f": "iuf"}[kind if kind == "bool" else kind[0]]
    if value.dtype.kind not in fits:
        if not (value.dtype.name == "bfloat16" and to.kind == "f"):
            raise TypeError(f"expected {kind}, got {value.dtype.name} {_shown(value.tolist())}")
    if to.kind in "iu":
        limits = np.iinfo(to)
        low, high = int(value.min()), int(value.max())
        if low < limits.min or high > limits.max:
            wrong = low if low < limits.min else high
            raise ValueError(f"{wrong} does not fit {kind} ({limits.min} to {limits.max})")
        return value.astype(to)
    with np.errstate(over="ignore"):
        result = value.astype(to)
    if to.kind == "f" and np.any(np.isinf(result) & ~np.isinf(value.astype(np.float64))):
        raise ValueError(f"{_shown(value.tolist())} does not fit {kind}")
    return result


def _concrete(value):
    try:
        np.asarray(value)
    except Exception:  # jax has its own error for each kind of tracer
        return False
    return True


def _shown(value):
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
