"""Values from Python: what becomes of them as elements of a type.

Floats are rounded, as JAX rounds them; nothing else may get lost. What would is refused, with what to
write instead: a float or complex number for a type that holds less, a number out of range, a finite one
that would become infinite, an integer that a float type cannot hold.
"""

import math
import re
import sys

import numpy as np

from . import _dtypes


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
        elif issubclass(kind, bool):
            _array(_numbers(found), dtype, name, strict)
        elif issubclass(kind, int):
            _integers(found, dtype, name, strict)
        elif issubclass(kind, (float, complex)):
            _array(_numbers(found), dtype, name, strict)
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
    import jax.numpy as jnp

    if is_jax(value):
        return value
    refuse_masked(value)
    if hasattr(value, "__jax_array__"):
        return jnp.asarray(value)
    value = of_numpy(value)
    if hasattr(value, "dtype"):
        if _kind(value.dtype) == "?":
            raise TypeError(f"jax has no arrays of {value.dtype}, got {shown(value)}")
        result = _asarray(value)
        if result.dtype != value.dtype:
            check(value, result.dtype, f"{_dtypes.of(result.dtype)}, which jax makes of it without jax_enable_x64")
        return result
    if isinstance(value, range):
        value = list(value)
    leaves = list(_leaves(value))
    if any(is_jax(leaf) and not isinstance(leaf.dtype, np.dtype) for leaf in leaves):
        raise TypeError("it is a list with random keys: write jnp.stack(...), or jax.random.key_data(...) of each")
    if only is None:
        result = _asarray(value)
        check(value, result.dtype, f"{_dtypes.of(result.dtype)}, which jax makes of it")
        return result
    if canonical(only) != only:
        raise TypeError(f"{name} has 64 bits: jax has such arrays after jax.config.update('jax_enable_x64', True)")
    check(value, only, name)
    if any(map(is_jax, leaves)):
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


def native(array):
    """An array or a scalar of NumPy in this machine's order of bytes."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def canonical(dtype):
    """What jax makes of a type: without ``jax_enable_x64`` nothing has more than 32 bits (complex: 64)."""
    import jax

    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


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
    try:
        text = repr(value)
    except RecursionError:
        return "that contains itself"
    except ValueError:  # Python writes no integers of thousands of digits.
        return hex(value)[:57] + "..." if isinstance(value, int) else "(with an integer of thousands of digits)"
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
    if isinstance(value, (np.ndarray, np.generic)):
        return native(value)
    if keep(value) or hasattr(value, "__jax_array__"):
        return value
    if hasattr(value, "__array__") or hasattr(value, "dtype") or isinstance(value, memoryview):
        return native(_of_others(value))
    return value


def _of_others(value):
    """An array of another library as one of NumPy's; what has but the type of one, as a ShapeDtypeStruct, is refused."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise TypeError(f"it is no array but {shown(value)}: {first_line(error)}") from error
    if array.dtype == object and array.dtype != getattr(value, "dtype", object):
        how = "write numpy.from_dlpack(…)" if hasattr(value, "__dlpack__") else "it has no elements"
        raise TypeError(f"it is no array but {shown(value)}: {how}")
    return array


def first_line(error):
    """What an exception says, on one line."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def _asarray(value, dtype=None):
    import jax.numpy as jnp

    try:
        return jnp.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        # jax's own words tell much; whether the value is a number too big or a text is in them.
        raise TypeError(f"jax takes no {shown(value)}: {str(error).splitlines()[0]}") from error


def _leaves(value):
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _kind(dtype):
    """``b``, ``i``, ``u``, ``f`` or ``c``; "?" for what holds no numbers."""
    found = re.match(r"(bool|u?int|b?float|complex|longdouble|clongdouble)", np.dtype(dtype).name)
    text = found.group() if found else "?"
    return {"uint": "u", "longdouble": "f", "clongdouble": "c", "bfloat": "f"}.get(text, text[0])


def _same_type(array, dtype, name):
    """An array of jax inside a list: its elements may not be known, so its type decides. NumPy takes float64 for a type that
    holds all integers of 64 bits."""
    have = array.dtype
    exact = _kind(have) not in "iu" or _kind(dtype) not in "fc" or max(map(abs, _limits(have))) <= 2 ** _digits(_part(dtype))
    if have != dtype and not (np.issubdtype(have, np.generic) and np.can_cast(have, dtype, "safe") and exact):
        raise TypeError(f"expected {name}, got an array of {have}: convert it with .astype({dtype.name!r})")


def _array(value, dtype, name, strict):
    """The same for a NumPy array: its values decide, and whether they are integers, floats or complex."""
    have, want = _kind(value.dtype), _kind(dtype)
    if value.size == 0 or value.dtype == dtype:
        return
    if have == "?":
        raise TypeError(f"expected {name}, got {shown(value.tolist())} of {value.dtype}")
    if have == "c" and want == "c":
        for part in (value.real, value.imag):
            _floats(part, dtype, name)
    elif have == "c":
        raise TypeError(f"expected {name}, got complex {_first(value)}: write x.real if its imaginary part may go")
    elif have == "f" and want in "fc":
        _floats(value, dtype, name)
    elif have == "f":
        how = "x != 0" if want == "b" else "round(x) or numpy.asarray(x).astype(...) if its fraction may go"
        raise TypeError(f"expected {name}, got {_noun(value)} {_first(value)}: write {how}")
    elif strict and (have == "b") != (want == "b"):
        how = "x != 0" if want == "b" else "float(x)" if want in "fc" else "int(x)"
        raise TypeError(f"expected {name}, got {_noun(value)} {_first(value)}: write {how}")
    elif want != "b" or have != "b":
        wide = value.astype(np.uint64 if have == "u" else np.int64)
        found = {int(wide.min()), int(wide.max())}
        # In between nothing is worse, but for floats, which have gaps.
        if want in "fc" and (_part(dtype).itemsize < 2 or max(map(abs, found)) > 2**_digits(_part(dtype))):
            found = wide.reshape(-1).tolist()
        _integers(found, dtype, name, strict)


def _numbers(found):
    """Python's numbers; one of them is told as one, not as an array."""
    return np.array(found[0] if len(found) == 1 else found)


def _noun(value):
    return f"{value.dtype.name}" if value.ndim == 0 else f"an array of {value.dtype.name}, first"


def _first(value):
    return repr(value.reshape(-1)[0].item())


def _integers(values, dtype, name, strict):
    """The same for integers, be they as big as they like."""
    want = _kind(dtype)
    if want == "b":
        wrong = [int(value) for value in values if strict or int(value) not in (0, 1)]
        if wrong:
            raise TypeError(f"expected {name}, got int {plain(wrong[0])}: write True or False, or x != 0")
        return
    if want in "iu":
        low, high = _limits(dtype)
        for value in values:
            if not low <= value <= high:
                raise TypeError(f"{plain(int(value))} does not fit {name} ({low} to {high})")
        return
    for value in values:
        try:
            near = np.array([float(value)])
        except OverflowError:
            raise TypeError(f"{plain(int(value))} does not fit {name}") from None
        _floats(near, dtype, name)
        with np.errstate(all="ignore"):
            held = float(near.astype(_part(dtype))[0])
        if int(value) != held:
            raise TypeError(f"{plain(int(value))} is no {name}, the nearest is {held!r}: write {near[0].item()!r} if it may be rounded")


def _limits(dtype):
    """The range of an integer type, of those too that NumPy does not know."""
    name = dtype.name
    bits = int(re.search(r"\d+", name).group())
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _part(dtype):
    """The type of the parts of a complex type, or the type itself."""
    return np.dtype({"complex64": np.float32, "complex128": np.float64}.get(dtype.name, dtype))


def _floats(values, dtype, name):
    """The same for floats: they may be rounded, no more."""
    part = _part(dtype)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        held = wide.astype(part).astype(np.float64)
        lost = (
            (np.isnan(held) != np.isnan(wide))
            | (np.isinf(held) != np.isinf(wide))
            # Only long doubles are wider than `wide`.
            | (np.isinf(wide) != np.isinf(values if values.dtype.itemsize > 8 else wide))
            | (np.sign(held) * np.sign(wide) < 0)
            | ((wide == 0) & (held != 0))
            # Types without infinity end at their greatest number instead.
            | (np.isfinite(wide) & (np.abs(wide) > _furthest(part)))
        )
    if np.any(lost):
        given = values if values.dtype.itemsize > 8 else wide
        wrong, became = (array[lost].reshape(-1)[0].item() for array in (given, held))
        how = ": write float('inf') if that is meant" if math.isinf(became) else ""
        raise TypeError(f"{wrong!r} does not fit {name}, where it would become {became!r}{how}")


def _digits(dtype):
    """How many bits of an integer a float type keeps."""
    import ml_dtypes  # jax always brings it

    return int(ml_dtypes.finfo(dtype).nmant) + 1


def _furthest(dtype):
    """What is beyond this is no longer rounded to a type's greatest number, but cut."""
    if dtype.itemsize >= 8:
        return math.inf
    import ml_dtypes  # jax always brings it

    about = ml_dtypes.finfo(dtype)
    greatest = float(about.max)
    return greatest + 2.0 ** (math.frexp(greatest)[1] - 2 - about.nmant)
