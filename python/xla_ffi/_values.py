"""Values from Python: what becomes of them as elements of a type.

Numbers are rounded, as JAX rounds them; nothing else may get lost. What would is refused, with what to
write instead: a float or complex number for a type that holds less, a number out of range, a finite one
that would become infinite.
"""

import re
import sys

import numpy as np

from . import _abi


def check(value, dtype, name, strict=False):
    """Raises TypeError where ``value`` as ``dtype``, which the text calls ``name``, would be another value.

    ``value`` is a number, an array, or a list of such, nested as one likes. Under ``strict`` a bool is no
    number and a number no bool.
    """
    dtype = np.dtype(dtype)
    groups = {}
    for leaf in _leaves(value):
        groups.setdefault(type(leaf), []).append(leaf)
    for kind, found in groups.items():
        if is_jax(found[0]):
            for array in found:
                _same_type(array, dtype, name)
        elif issubclass(kind, (np.ndarray, np.generic)):
            for array in found:
                _array(np.asarray(array), dtype, name, strict)
        elif issubclass(kind, int) and kind is not bool:
            _integers(min(found), max(found), dtype, name, strict)
        elif issubclass(kind, (bool, float, complex)):
            # One of them is told as one, not as an array.
            _array(np.array(found[0] if len(found) == 1 else found), dtype, name, strict)
        else:
            raise TypeError(f"expected {name}, got {shown(found[0])}")


def convert(value, dtype):
    """A checked value without arrays of jax as a NumPy array."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biufc":
        return np.array(value, dtype=dtype)
    # Types that NumPy only knows from elsewhere: by way of what holds them all.
    return np.array(value, dtype=np.int64 if _kind(dtype) in "iu" else np.float64).astype(dtype)


def operand(value, only=None, name="its type"):
    """A value as an array of jax; ``only`` is the one type that it may have, where there is but one.

    Arrays have a type and keep it, but for what jax without ``jax_enable_x64`` makes of 64-bit elements;
    Python's numbers and lists take the one that is wanted.
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
        result = _asarray(value)
        if result.dtype != value.dtype:
            check(value, result.dtype, f"{_abi.dtype_name(result.dtype)}, which jax makes of it without jax_enable_x64")
        return result
    if isinstance(value, range):
        value = list(value)
    if only is None:
        result = _asarray(value)
        check(value, result.dtype, f"{_abi.dtype_name(result.dtype)}, which jax makes of it")
        return result
    if np.dtype(jax.dtypes.canonicalize_dtype(only)) != only:
        raise TypeError(f"{name} has 64 bits: jax has such arrays after jax.config.update('jax_enable_x64', True)")
    check(value, only, name)
    if any(map(is_jax, _leaves(value))):
        return _asarray(value, only)
    try:
        value = convert(value, only)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"it is no array: {error}") from error
    return _asarray(value)


def refuse_masked(value):
    """Raises TypeError for arrays with masks, in lists, too: what is under a mask would be an element like others."""
    if any(isinstance(leaf, np.ma.MaskedArray) for leaf in _leaves(value)):
        raise TypeError("it is a masked array, and handlers take no masks: write .filled(…)")


def is_list_of_numbers(value):
    """Whether a value is a list, nested as one likes, of Python's numbers alone."""
    return isinstance(value, (list, tuple)) and all(isinstance(leaf, (int, float, complex)) for leaf in _leaves(value))


def is_jax(value):
    """Whether a value is an array of jax or a traced one."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def is_traced(value):
    """Whether a value of which NumPy makes no array stands for one that is not known before the program runs."""
    jax = sys.modules.get("jax")
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return traced or type(value).__module__.startswith("tensorflow")


def shown(value):
    """A value in an error's text, and of which type it is."""
    return f"{type(value).__name__} {plain(value)}"


def plain(value):
    """A value in an error's text."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def flag(name, value):
    """Raises TypeError for an option that is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}= is to be True or False, got {shown(value)}")


def of_numpy(value, keep=is_jax):
    """A value with NumPy's arrays, in this machine's order of bytes, in place of other libraries' and of what shows its
    memory; in lists, too. What ``keep`` says, and all that is no array, stays as it is."""
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
            raise TypeError(f"it is no array but {shown(given)}: {first_line(error)}") from error
        if value.dtype == object and value.dtype != getattr(given, "dtype", object):
            raise TypeError(f"it is no array but {shown(given)}")
    return value.astype(value.dtype.newbyteorder("="), copy=False)


def first_line(error):
    """What an exception says, on one line."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def _asarray(value, dtype=None):
    import jax.numpy as jnp

    try:
        return jnp.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        # jax's own words tell much; whether the value is a number too big or a text is in them.
        raise TypeError(f"jax takes no {shown(value)}: {first_line(error)}") from error


def _leaves(value):
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _kind(dtype):
    """``b``, ``i``, ``u``, ``f`` or ``c``; "?" for what holds no numbers."""
    found = re.match(r"(bool|u?int|b?float|complex)", np.dtype(dtype).name)
    text = found.group() if found else "?"
    return "f" if text == "bfloat" else text[0]


def _same_type(array, dtype, name):
    """An array of jax inside a list: its elements may not be known, so its type decides."""
    have = array.dtype
    if have != dtype and not (np.issubdtype(have, np.generic) and np.can_cast(have, dtype, "safe")):
        raise TypeError(f"expected {name}, got an array of {have}: convert it with .astype({dtype.name!r})")


def _array(value, dtype, name, strict):
    """The same for a NumPy array: its values decide, and whether they are integers, floats or complex."""
    have, want = _kind(value.dtype), _kind(dtype)
    if value.size == 0 or value.dtype == dtype:
        return
    noun = value.dtype.name if value.ndim == 0 else f"an array of {value.dtype.name}, first"
    how = None
    if have == "?":
        how = "an array of numbers"
    elif have == "c" and want != "c":
        how = "x.real if its imaginary part may go"
    elif have == "f" and want not in "fc":
        how = "x != 0" if want == "b" else "round(x) or numpy.asarray(x).astype(...) if its fraction may go"
    elif strict and (have == "b") != (want == "b"):
        how = "x != 0" if want == "b" else "float(x)" if want in "fc" else "int(x)"
    if how is not None:
        raise TypeError(f"expected {name}, got {noun} {plain(value.reshape(-1)[0].item())}: write {how}")
    if have in "fc":
        _floats(value, dtype, name)
    else:
        wide = value.astype(np.uint64 if have == "u" else np.int64)
        _integers(int(wide.min()), int(wide.max()), dtype, name, strict)


def _integers(least, greatest, dtype, name, strict):
    """The same for integers, be they as big as they like."""
    want = _kind(dtype)
    if want == "b":
        if strict or least < 0 or greatest > 1:
            raise TypeError(f"expected {name}, got int {plain(greatest if greatest > 1 else least)}: write True or False, or x != 0")
    elif want in "iu":
        low, high = _limits(dtype)
        if least < low or greatest > high:
            raise TypeError(f"{plain(least if least < low else greatest)} does not fit {name} ({low} to {high})")
    else:
        try:
            _floats(np.array([float(least), float(greatest)]), dtype, name)
        except OverflowError:
            raise TypeError(f"an integer does not fit {name}") from None


def _limits(dtype):
    """The range of an integer type, of those too that NumPy does not know."""
    bits = int(re.search(r"\d+", dtype.name).group())
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _floats(values, dtype, name):
    """The same for floats: they may be rounded, no more."""
    with np.errstate(all="ignore"):
        held = values.astype(dtype).astype(np.complex128)
    lost = (np.isnan(held) != np.isnan(values)) | (np.isinf(held) != np.isinf(values))
    if np.any(lost):
        raise TypeError(f"{values[lost].reshape(-1)[0].item()!r} does not fit {name}")
