"""Converts Python values to element types.

Floats are rounded as in JAX. Conversions that lose more raise a TypeError with a remedy: a float or complex number for
a narrower kind, a number out of range, a finite number that would become infinite. Error messages are written to follow
the text "argument `x`: ".
"""

import re
import sys

import numpy as np

from . import _abi

#: The remedy if jax would make 32-bit elements of 64-bit ones.
ENABLE_X64 = "call jax.config.update('jax_enable_x64', True) first"


def check(value, dtype, wanted, strict=False, name="value"):
    """Raises TypeError if ``value`` would be a different value as ``dtype``.

    ``value`` is a number, an array, or a nested list of numbers and arrays. The error calls the type ``wanted`` and the
    value ``name``. If ``strict``, bools are not numbers and numbers are not bools.
    """
    dtype = np.dtype(dtype)
    groups = {}
    for leaf in _leaves(value):
        groups.setdefault(type(leaf), []).append(leaf)
    for kind, found in groups.items():
        if is_jax(found[0]):
            for array in found:
                _same_type(array, dtype, wanted, name)
        elif issubclass(kind, (np.ndarray, np.generic)):
            for array in found:
                _array(np.asarray(array), dtype, wanted, strict, name, value)
        elif issubclass(kind, int) and kind is not bool:
            _integers(min(found), max(found), dtype, wanted, strict)
        elif issubclass(kind, (bool, float, complex)):
            _array(np.array(found), dtype, wanted, strict, name, value)
        else:
            raise TypeError(f"expected {wanted}, got {shown(found[0])}")


def convert(value, dtype):
    """Converts a value to a NumPy array. The value was checked and contains no jax arrays."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biufc":
        return np.array(value, dtype=dtype)
    # NumPy cannot convert to types of ml_dtypes directly. The intermediate type holds all their values.
    return np.array(value, dtype=np.int64 if _kind(dtype) in "iu" else np.float64).astype(dtype)


def operand(value, only=None, wanted="an array", name="value"):
    """Converts a value to an array of jax. ``only`` is the operand's element type if the operand accepts a single type.

    Arrays keep their type, except that jax converts 64-bit elements unless ``jax_enable_x64`` is set. Python numbers
    and lists become ``only``.
    """
    import jax
    import jax.numpy as jnp

    if is_jax(value):
        return value
    refuse_masked(value)
    if hasattr(value, "__jax_array__"):
        return jnp.asarray(value)
    value = of_numpy(value)
    if hasattr(value, "dtype"):
        result = _asarray(value, wanted)
        if result.dtype != value.dtype:
            check(value, result.dtype, f"{result.dtype.name} (jax converts {value.dtype.name} to it unless jax_enable_x64 is set)")
        return result
    if isinstance(value, range):
        value = list(value)
    if only is None:
        result = _asarray(value, wanted)
        check(value, result.dtype, f"{result.dtype.name} (jax converts the value to it)")
        return result
    if np.dtype(jax.dtypes.canonicalize_dtype(only)) != only:
        raise TypeError(f"expected {wanted}, got {shown(value)}; {ENABLE_X64}")
    check(value, only, wanted, name=name)
    if any(map(is_jax, _leaves(value))):
        return _asarray(value, wanted, only)
    try:
        value = convert(value, only)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"expected {wanted}, got {shown(value)}, which is not rectangular") from error
    return _asarray(value, wanted)


def refuse_masked(value):
    """Raises TypeError for masked arrays, also in lists, because masked elements would become ordinary elements."""
    if any(isinstance(leaf, np.ma.MaskedArray) for leaf in _leaves(value)):
        raise TypeError("expected an array without a mask, got a masked array; replace masked elements with .filled(value)")


def is_list_of_numbers(value):
    """Returns true if a value is a list, possibly nested, that contains only Python numbers."""
    return isinstance(value, (list, tuple)) and all(isinstance(leaf, (int, float, complex)) for leaf in _leaves(value))


def is_jax(value):
    """Returns true if a value is an array of jax, traced or not."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def is_traced(value):
    """Returns true if a value that NumPy cannot convert is traced, so that it is unknown until the program runs."""
    jax = sys.modules.get("jax")
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return traced or type(value).__module__.startswith("tensorflow")


def shown(value):
    """Returns the text of a value and its type for error messages."""
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        return f"{value.dtype.name} {plain(value.item())}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _abi.type_text(str(value.dtype), value.shape)
    return "None" if value is None else f"{type(value).__name__} {plain(value)}"


def plain(value):
    """Returns the text of a value for error messages, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def flag(name, value):
    """Raises TypeError if an option is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}=: expected True or False, got {shown(value)}")


def of_numpy(value, keep=is_jax):
    """Converts arrays of other libraries and buffers to NumPy arrays in native byte order, also in lists.

    Values for which ``keep`` returns true, and values that are not arrays, are unchanged.
    """
    if isinstance(value, (list, tuple)):
        found = [of_numpy(item, keep) for item in value]
        return value if all(new is old for new, old in zip(found, value)) else found
    if not isinstance(value, (np.ndarray, np.generic)):
        if keep(value) or hasattr(value, "__jax_array__"):
            return value
        if not (hasattr(value, "__array__") or hasattr(value, "dtype") or isinstance(value, memoryview)):
            return value
        given = value
        try:
            value = np.asarray(given)
        except Exception as error:
            raise TypeError(f"expected an array, got {shown(given)}, which NumPy cannot convert: {first_line(error)}") from error
        if value.dtype == object and value.dtype != getattr(given, "dtype", object):
            raise TypeError(f"expected an array, got {shown(given)}")
    return value.astype(value.dtype.newbyteorder("="), copy=False)


def first_line(error):
    """Returns an exception's text on one line: its first line, or all lines if it lists several problems."""
    first, *more = [line for line in map(str.strip, str(error).splitlines()) if line] or [type(error).__name__]
    return f"{first}: {'; '.join(more)}" if first.endswith(" problems") else first


def _asarray(value, wanted, dtype=None):
    import jax.numpy as jnp

    try:
        return jnp.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        why = "" if hasattr(value, "dtype") else f", which jax cannot convert: {first_line(error)}"
        raise TypeError(f"expected {wanted}, got {shown(value)}{why}") from error


def _leaves(value):
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _kind(dtype):
    """Returns ``b``, ``i``, ``u``, ``f`` or ``c``, or "?" for types that are not numbers."""
    found = re.match(r"(bool|u?int|b?float|complex)", np.dtype(dtype).name)
    text = found.group() if found else "?"
    return "f" if text == "bfloat" else text[0]


def _same_type(array, dtype, wanted, name):
    """Checks the type of a jax array in a list. Its elements may be unknown."""
    have = array.dtype
    if have != dtype and not (np.issubdtype(have, np.generic) and np.can_cast(have, dtype, "safe")):
        how = f"; pass jnp.asarray({name}, {numpy_text(dtype)})" if _abi.widens(_abi.dtype_name(have), _abi.dtype_name(dtype)) else ""
        raise TypeError(f"expected {wanted}, got a list with {_abi.type_text(str(have), array.shape)}{how}")


def _array(value, dtype, wanted, strict, name, given):
    """Checks an array: the kind of its numbers, and their values. ``given`` is the caller's value that contains the
    array."""
    have, want = _kind(value.dtype), _kind(dtype)
    if value.size == 0 or value.dtype == dtype:
        return
    if have == "?" or (have == "c" and want != "c") or (have == "f" and want not in "fc") or (strict and (have == "b") != (want == "b")):
        first = shown(value.reshape(-1)[0].item())
        got = shown(given) if hasattr(given, "dtype") else f"a list with {first}" if isinstance(given, (list, tuple)) else shown(given)
        raise TypeError(f"expected {wanted}, got {got}{_advice(value, dtype, want, name, given)}")
    if have in "fc":
        _floats(value, dtype, wanted)
    else:
        wide = value.astype(np.uint64 if have == "u" else np.int64)
        _integers(int(wide.min()), int(wide.max()), dtype, wanted, strict)


def _advice(value, dtype, want, name, given):
    """Returns the remedy for refused elements, or nothing if a cast would lose more than a fraction."""
    if want == "b":
        return "; pass True or False"
    low, high = _limits(dtype) if want in "iu" else (-np.inf, np.inf)
    if value.dtype.kind not in "biuf" or not np.all((value >= low) & (value <= high)):
        return ""
    fraction = " if its fraction can be dropped" if want in "iu" and np.any(value != np.trunc(value)) else ""
    is_scalar = not isinstance(given, (list, tuple)) and getattr(given, "shape", ()) == ()
    number = f"{'int' if want in 'iu' else 'float'}({name})"
    return f"; pass {number if is_scalar else converted(name, given, dtype)}{fraction}"


def converted(name, given, dtype):
    """Returns a Python expression that casts a value to an element type."""
    return f"{name}.astype({numpy_text(dtype)})" if hasattr(given, "astype") else f"np.asarray({name}, {numpy_text(dtype)})"


def numpy_text(dtype):
    """Returns a Python expression for an element type."""
    name = np.dtype(dtype).name
    return "np.bool_" if name == "bool" else f"{'np' if hasattr(np, name) else 'jnp'}.{name}"


def _integers(least, greatest, dtype, wanted, strict):
    """Checks integers of any size, by their minimum and maximum."""
    want = _kind(dtype)
    if want == "b":
        if strict or least < 0 or greatest > 1:
            raise TypeError(f"expected {wanted}, got int {plain(greatest if greatest > 1 else least)}; pass True or False")
    elif want in "iu":
        low, high = _limits(dtype)
        if least < low or greatest > high:
            raise TypeError(f"expected {wanted}, got {plain(least if least < low else greatest)}, which is not in {low} to {high}")
    else:
        try:
            _floats(np.array([float(least), float(greatest)]), dtype, wanted)
        except OverflowError:
            raise TypeError(f"expected {wanted}, got an integer that is out of range") from None


def _limits(dtype):
    """Returns the range of an integer type, including types that NumPy does not have."""
    bits = int(re.search(r"\d+", dtype.name).group())
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _floats(values, dtype, wanted):
    """Checks that floats are in range. The conversion may round floats."""
    with np.errstate(all="ignore"):
        held = values.astype(dtype).astype(np.complex128)
    lost = (np.isnan(held) != np.isnan(values)) | (np.isinf(held) != np.isinf(values))
    if np.any(lost):
        raise TypeError(f"expected {wanted}, got {values[lost].reshape(-1)[0].item()!r}, which is out of range")
