"""No value is changed quietly: every element type times a rich list of Python values, judged by exact arithmetic.

The judge shares nothing with the loader: it reads the bits that arrive and compares them, as fractions,
with what was given. What the loader accepts has to be the value that was given, floats rounded at most;
what it refuses has to be refused with reason.

usage: values.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: all is done in the loader)
"""

import enum
import itertools
import math
import sys
import warnings
from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from checks import check, finish, raises
from xla_ffi import _attributes, _dtypes, _handler, _jax, _legacy, _manifest

warnings.simplefilter("ignore")

# bits, bits of the exponent, of the fraction, bias, and how infinity and NaN are written
FLOATS = {
    "F16": (16, 5, 10, 15, "ieee"), "BF16": (16, 8, 7, 127, "ieee"), "F32": (32, 8, 23, 127, "ieee"),
    "F64": (64, 11, 52, 1023, "ieee"), "F8E3M4": (8, 3, 4, 3, "ieee"), "F8E4M3": (8, 4, 3, 7, "ieee"),
    "F8E5M2": (8, 5, 2, 15, "ieee"), "F8E4M3FN": (8, 4, 3, 7, "fn"), "F8E4M3B11FNUZ": (8, 4, 3, 11, "fnuz"),
    "F8E4M3FNUZ": (8, 4, 3, 8, "fnuz"), "F8E5M2FNUZ": (8, 5, 2, 16, "fnuz"), "F8E8M0FNU": (8, 8, 0, 127, "e8m0"),
    "F4E2M1FN": (4, 2, 1, 1, "finite"),
}  # fmt: skip
COMPLEX = {"C64": "F32", "C128": "F64"}
INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "SU" for bits in (1, 2, 4, 8, 16, 32, 64)}
NAMES = ["PRED", *INTEGERS, *FLOATS, *COMPLEX]
NAN, INF = "nan", {False: "inf", True: "-inf"}


def decode(name, bits):
    """The value of an element: a Fraction, "nan", "inf" or "-inf"."""
    if name == "PRED":
        return Fraction(bits & 1)
    if name in INTEGERS:
        sign, width = INTEGERS[name]
        bits &= 2**width - 1
        return Fraction(bits - 2**width if sign == "S" and bits >> (width - 1) else bits)
    width, exponents, fractions, bias, flavour = FLOATS[name]
    bits &= 2**width - 1
    if flavour == "e8m0":
        return NAN if bits == 255 else Fraction(2) ** (bits - bias)
    negative, magnitude = bool(bits >> (width - 1)), bits & (2 ** (width - 1) - 1)
    exponent, fraction = magnitude >> fractions, magnitude & (2**fractions - 1)
    if flavour == "fnuz" and negative and magnitude == 0:
        return NAN
    if flavour == "fn" and magnitude == 2 ** (width - 1) - 1:
        return NAN
    if flavour == "ieee" and exponent == 2**exponents - 1:
        return NAN if fraction else INF[negative]
    value = Fraction(fraction, 2**fractions) * Fraction(2) ** (1 - bias)
    if exponent:
        value = (1 + Fraction(fraction, 2**fractions)) * Fraction(2) ** (exponent - bias)
    return -value if negative else value


def elements(array):
    """``(kind, value)`` of every element of a NumPy array, by its bits. A complex value is a pair."""
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    name = _dtypes.of(array.dtype)
    if name in COMPLEX:
        part, size = COMPLEX[name], array.dtype.itemsize // 2
        bits = array.reshape(-1).view(f"u{size}").tolist()
        return [("c", (decode(part, a), decode(part, b))) for a, b in zip(bits[::2], bits[1::2])]
    if array.dtype == np.longdouble and name not in FLOATS:
        return [("f", wide(value)) for value in array.reshape(-1)]
    kind = "b" if name == "PRED" else "i" if name in INTEGERS else "f" if name in FLOATS else "?"
    if kind == "?":
        return [(kind, None)] * array.size
    bits = array.reshape(-1).view(f"u{array.dtype.itemsize}").tolist()
    return [(kind, decode(name, value)) for value in bits]


def exact(value):
    """The same for a Python value."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in exact(item)]
    if isinstance(value, (np.ndarray, np.generic)):
        return elements(np.asarray(value))
    if isinstance(value, bool):
        return [("b", Fraction(value))]
    if isinstance(value, int):
        return [("i", Fraction(int(value)))]
    if isinstance(value, float):
        return [("f", special(value))]
    if isinstance(value, complex):
        return [("c", (special(value.real), special(value.imag)))]
    return [("?", None)]


def special(value):
    return NAN if math.isnan(value) else INF[value < 0] if math.isinf(value) else Fraction(value)


def wide(value):
    """The same for a long double, whose bits differ from machine to machine."""
    return NAN if np.isnan(value) else INF[bool(value < 0)] if np.isinf(value) else Fraction(*value.as_integer_ratio())


def every(name):
    """All finite values of a small float type, in order."""
    return sorted({v for v in (decode(name, b) for b in range(2 ** FLOATS[name][0])) if isinstance(v, Fraction)})


SMALL = {name: every(name) for name in FLOATS if FLOATS[name][0] <= 16}
LARGEST = {
    **{name: values[-1] for name, values in SMALL.items()},
    **{name: decode(name, (2 ** FLOATS[name][1] - 2) << FLOATS[name][2] | (2 ** FLOATS[name][2] - 1)) for name in ("F32", "F64")},
}


def step(name):
    """The distance from the greatest number of a float type to what would be the next."""
    fractions = FLOATS[name][2]
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= LARGEST[name]:
        exponent += 1
    return Fraction(2) ** (exponent - fractions)


def rounded(name, given, got):
    """Whether ``got`` is ``given``, or a neighbour of it that rounding may choose."""
    if given == got:
        return True
    if not isinstance(given, Fraction) or not isinstance(got, Fraction):
        return False
    if abs(given) > LARGEST[name] + step(name) / 2:
        return False
    if name in SMALL:
        low, high = sorted((given, got))
        import bisect

        values = SMALL[name]
        # No other value of the type lies between them.
        return bisect.bisect_left(values, high) - bisect.bisect_right(values, low) <= 0
    _width, _exponents, fractions, bias, _flavour = FLOATS[name]
    return abs(given - got) <= max(abs(given) / 2**fractions, Fraction(2) ** (1 - bias - fractions))


def kept(name, given, got):
    """Whether an element that arrives is the one that was given."""
    (kind, value), (_, arrived) = given, got
    if name in COMPLEX:
        parts = value if kind == "c" else (value, Fraction(0))
        if kind in "bi":
            return arrived == parts
        return all(rounded(COMPLEX[name], part, of) for part, of in zip(parts, arrived))
    if kind == "c" or kind == "?":
        return False
    if kind == "f":
        return name in FLOATS and rounded(name, value, arrived)
    return value == arrived


def holds(name, given):
    """Whether the type has the given element, so that a refusal would be wrong."""
    kind, value = given
    if kind in "c?":
        return name in COMPLEX and kind == "c" and all(holds(COMPLEX[name], ("f", part)) for part in value)
    name = COMPLEX.get(name, name)
    if name in INTEGERS or name == "PRED":
        sign, width = INTEGERS.get(name, ("U", 1))
        low, high = (0, 2**width - 1) if sign == "U" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
        return kind in "bi" and low <= value <= high
    if not isinstance(value, Fraction):
        return FLOATS[name][4] == "ieee"
    if kind in "bi":
        if name in SMALL:
            return value in SMALL[name]
        return value == 0 or abs(value) <= 2 ** (FLOATS[name][2] + 1)
    if FLOATS[name][4] == "e8m0":
        return value > 0 and value in SMALL[name]
    return abs(value) <= LARGEST[name]


# ---- what is given -----------------------------------------------------------------------------


class Level(enum.IntEnum):
    HIGH = 300


def dtype_of(name):
    try:
        return _dtypes.to_numpy(name)
    except (AttributeError, TypeError):
        return None


DTYPES = {name: dtype_of(name) for name in NAMES if dtype_of(name) is not None}

INTS = sorted({sign * (2**n + d) for n in (0, 1, 2, 3, 4, 7, 8, 11, 15, 16, 24, 31, 32, 40, 53, 63, 64, 128, 1024, 2000)
               for d in (-1, 0, 1) for sign in (1, -1)})  # fmt: skip
REALS = [0.0, -0.0, 0.1, -0.1, 0.5, 1.0, -1.0, 1.5, 2.9, 3.0, 6.0, 7.0, 8.0, 15.5, 17.0, 240.0, 247.0, 248.0, 249.0, 448.0, 464.0, 470.0,
         57344.0, 61439.0, 61441.0, 65504.0, 65519.0, 65520.0, 65536.0, 2.0**31, 2.0**63, 3.4028234663852886e38, 3.4028235677973366e38,
         3.4e38, 3.39e38, 1e39, -1e39, 1e300, -1e300, 1.7976931348623157e308, 1e-38, 1e-45, 1e-46, 1e-300, 5e-324,
         math.inf, -math.inf, math.nan, 2.0**-127, 2.0**127, 1.7014118346046923e38, 3e38]  # fmt: skip
COMPLEXES = [0j, 1j, 1 + 0j, 2.5 - 1j, complex(1e300, 0), complex(0, -1e300), complex(math.inf, math.nan), complex(math.nan, 1)]
OTHERS = ["1", "", b"1", None, {1}, {}, object(), np.str_("1"), np.array(["1"]), np.array([object()]), np.array([None]),
          np.datetime64(1, "s"), np.array([1], "timedelta64[s]"), Fraction(1, 3), np.void(b"12")]  # fmt: skip
PAIRS = [True, 1, -1, 2**24 + 1, 2**53 + 1, 2**64 - 1, 0.5, 1e300, 1j, None, np.float64(2.5), np.int64(2**40 + 5), np.array(3, np.int8)]


def patterns(name, dtype):
    """Arrays of a type, by their bits: edges and a few at random."""
    width = 2 * FLOATS[COMPLEX[name]][0] if name in COMPLEX else FLOATS[name][0] if name in FLOATS else INTEGERS.get(name, ("", 1))[1]
    random = np.random.default_rng(width)
    some = {0, 1, 2**width - 1, 2 ** (width - 1), 2 ** (width - 1) - 1, *(2**n for n in range(width))}
    some |= {int.from_bytes(random.bytes(16), "little") % 2**width for _ in range(8)}
    if name in COMPLEX:
        half = width // 2
        some = {a << half | b for a, b in itertools.product(sorted(b for b in some if b < 2**half)[::8], repeat=2)}
    for bits in sorted(some):
        if width < 8 and bits >> (width - 1) and name.startswith("S"):
            bits |= 0xFF ^ (2**width - 1)  # as ml_dtypes keeps them
        yield np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)


def scalars():
    yield from (True, False, *INTS, *REALS, *COMPLEXES, Level.HIGH)


def given(name=None):
    """Every value: scalars, lists of them, pairs, NumPy's scalars and arrays of every type; most are of type ``name``."""
    for value in scalars():
        yield value
        yield [value]
    yield from (((value,), [value]) for value in PAIRS)
    yield from OTHERS
    yield from ([value] for value in OTHERS)
    yield from ([a, b] for a, b in itertools.product(PAIRS, repeat=2))
    yield from ([], [[]], [[], []], [1, [2]], [[1, 2], [3]], range(3), memoryview(b"123"), np.zeros((0, 3)), np.zeros(0, np.int64))
    for other, dtype in DTYPES.items():
        arrays = list(patterns(other, dtype))
        for array in arrays if other == name else arrays[:: len(arrays) // 3 or 1]:
            yield array
            yield array[0]
            # jax stacks no arrays of one bit.
            if array is arrays[-1] and not other.endswith("1"):
                yield [array[0]]
                yield [array, array]
    yield from (np.arange(3, dtype=">i4"), np.array([2**40 + 5], ">i8"), np.array([1e300], ">f8"), np.arange(6)[::-2])
    yield from (np.array([2**40 + 5, 1]), np.array([[1, 2**31]]), np.array([1e39]), np.array([1, 1e300 * 1j]))
    yield from (np.longdouble(1.5), np.array([1e39], np.longdouble), [np.longdouble("1e4000")], np.clongdouble(1j))
    yield np.ma.array([1, 2], mask=[False, True])
    yield np.ma.array([1.5], mask=[True])
    loop = []
    loop.append(loop)
    yield loop
    deep = 1
    for _ in range(500):
        deep = [deep]
    yield deep


def text_of(value):
    text = f"{type(value).__name__} {getattr(value, 'dtype', '')} "
    try:
        return text + repr(value)[:80]
    except RecursionError:
        return text + "that contains itself"


# ---- the checks --------------------------------------------------------------------------------


def judge(tally, problems, where, name, value, work, must):
    """One value for one type: refused by a TypeError, or arrived as it was."""
    try:
        arrived = work()
    except TypeError as error:
        tally["refused"] += 1
        if must():
            problems.append(f"{where} refuses {text_of(value)}: {error}")
        return
    except Exception as error:
        problems.append(f"{where} of {text_of(value)}: {type(error).__name__}: {error}")
        return
    tally["accepted"] += 1
    wanted, got = leaves(value), elements(np.asarray(arrived))
    name = name or _dtypes.of(np.asarray(arrived).dtype)
    if _dtypes.of(np.asarray(arrived).dtype) != name:
        problems.append(f"{where} of {text_of(value)}: it has {np.asarray(arrived).dtype}")
    elif len(wanted) != len(got) or not all(kept(name, *pair) for pair in zip(wanted, got)):
        problems.append(f"{where} of {text_of(value)} became {np.asarray(arrived)!r}")


def leaves(value):
    if isinstance(value, (range, memoryview)):
        value = list(value)
    try:
        return exact(value)
    except RecursionError:
        return [("?", None)]


def report(tally, problems):
    print(f"{tally['accepted']} accepted, {tally['refused']} refused")
    if problems:
        raise AssertionError(f"{len(problems)} of them wrong, such as: " + "; ".join(problems[:12]))
    if not tally["accepted"] or not tally["refused"]:
        raise AssertionError("the product is empty")


def jax_takes(dtype):
    try:
        # Some releases take arrays of one bit for arrays of bool.
        for kind in (np.bool_, dtype):
            made = [jnp.asarray(np.zeros((2, 1), kind)), jnp.asarray(np.zeros(1, kind)[0]), jax.device_put(np.zeros(3, kind))]
            jax.block_until_ready(made)
            if any(np.asarray(array).dtype != kind and np.dtype(kind).itemsize == 1 for array in made):
                return False
    except Exception:
        return False
    return True


def even(value):
    """Whether a list is a rectangle of numbers alone."""
    try:
        return np.array(value).dtype != object or all(isinstance(v, int) for v in np.array(value).reshape(-1))
    except Exception:
        return False


def operands(x64):
    """Each type alone, as a handler declares it."""
    jax.config.update("jax_enable_x64", x64)
    tally, problems = {"accepted": 0, "refused": 0}, []
    for name, dtype in DTYPES.items():
        wide = name in ("S64", "U64", "F64", "C128")
        if not jax_takes(dtype):
            continue
        spec = _manifest.Operand("x", False, (name,), None, False, False, False)
        for value in given(name):

            def must(value=value):
                if wide and not x64:
                    return False
                if isinstance(value, np.ma.MaskedArray):
                    return False
                if hasattr(value, "dtype"):
                    return value.dtype == dtype
                return even(value) and all(holds(name, leaf) for leaf in leaves(value)) and not isinstance(value, memoryview)

            judge(tally, problems, name, name, value, lambda value=value: _handler.Handler._operand(spec, "x", value), must)
    report(tally, problems)


def open_operands(x64):
    """A handler that takes any type: jax decides, and loses nothing either."""
    jax.config.update("jax_enable_x64", x64)
    tally, problems = {"accepted": 0, "refused": 0}, []
    spec = _manifest.Operand("x", False, None, None, False, False, False)
    for value in given():
        if getattr(value, "dtype", None) in (DTYPES.get("S1"), DTYPES.get("U1")) and hasattr(value, "dtype"):
            continue  # jax mistakes them for bool, or has none
        must = lambda value=value: (type(value) in (bool, float) and (x64 or abs(value) < 1e38)) or (
            hasattr(value, "dtype") and value.dtype in DTYPES.values() and jax_takes(value.dtype) and value.dtype.itemsize < 4
        )
        judge(tally, problems, "any", None, value, lambda value=value: _handler.Handler._operand(spec, "x", value), must)
    report(tally, problems)


KINDS = {"bool": "PRED", **{f"{sign}{bits}": f"{'S' if sign == 'i' else 'U'}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
         "f32": "F32", "f64": "F64"}  # fmt: skip


def attributes():
    """Each kind of attribute and each kind of array, alone and inside a dictionary."""
    tally, problems = {"accepted": 0, "refused": 0}, []
    for kind, name in KINDS.items():
        for text in (kind, f"[{kind}]"):
            if text == "[bool]":
                continue
            attr = _manifest.Attribute(name="a", type=text, optional=False, default=None, inside=None)
            inner = _manifest.Attribute(name="a", type=text, optional=False, default=None, inside="d")
            outer = _manifest.Attribute(name="d", type="dict", optional=False, default=None, inside=None)
            spec = lambda *attrs: _manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), attrs, False, None, 0)
            for value in given(name):
                if value is None:
                    continue

                def must(value=value):
                    found = leaves(value)
                    one = np.ndim(value) == 0 if not isinstance(value, (list, tuple, range, memoryview)) else False
                    same = all((leaf[0] == "b") == (kind == "bool") for leaf in found)
                    if isinstance(value, np.ma.MaskedArray) or (text == kind and not one):
                        return False
                    return same and all(holds(name, leaf) for leaf in found) and (one or even(value))

                work = lambda value=value: _attributes.cast_all(spec(attr), {"a": value})["a"]
                judge(tally, problems, f"attribute {text}", name, value, work, must)
                work = lambda value=value: _attributes.cast_all(spec(outer, inner), {"d": {"a": value}})["d"]["a"]
                judge(tally, problems, f"attribute {text} in a dictionary", name, value, work, must)
    report(tally, problems)


def texts():
    """Refusals say what to write."""
    jax.config.update("jax_enable_x64", False)
    spec = lambda *names: _manifest.Operand("x", False, names, None, False, False, False)
    operand = lambda value, *names: lambda: _handler.Handler._operand(spec(*names) if names else anything, "x", value)
    anything = _manifest.Operand("x", False, None, None, False, False, False)
    declared = lambda type: (_manifest.Attribute(name="a", type=type, optional=False, default=None, inside=None),)
    handler = lambda type: _manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), declared(type), False, None, 0)
    attribute = lambda value, type: lambda: _attributes.cast_all(handler(type), {"a": value})
    for work, *parts in [
        (operand([1.5, 2.9], "S32"), "x is to be S32", "float64", "1.5", "round(x)"),
        (operand(2.0, "S32"), "x is to be S32", "got float64 2.0: write round(x)"),
        (attribute(2.0, "i32"), "attribute 'a': expected i32, got float64 2.0: write round(x)"),
        (attribute(True, "i32"), "expected i32, got bool True: write int(x)"),
        (attribute(True, "f32"), "expected f32, got bool True: write float(x)"),
        (attribute(np.array([1, 0]), "[bool]"), "XLA does not pass"),
        (attribute(1, "bool"), "expected bool, got int 1: write True or False"),
        (operand(1j, "F32"), "complex 1j", "x.real"),
        (operand([300], "U8"), "300 does not fit U8 (0 to 255)"),
        (operand(1e39, "F32"), "1e+39 does not fit F32", "inf"),
        (operand(2**24 + 1, "F32"), "16777217 is no F32", "16777217.0"),
        (operand(np.array([2**40 + 5]), "S32"), "1099511627781 does not fit S32", "jax_enable_x64"),
        (operand(np.array([1e300]), "F32"), "1e+300 does not fit F32", "jax_enable_x64"),
        (operand([1], "S64"), "x is to be S64", "jax_enable_x64"),
        (operand(np.array([1]), "S64"), "x is to be S64", "jax_enable_x64"),
        (operand([[1], [2, 3]], "S32"), "x is to be S32", "no array"),
        (operand(2, "PRED"), "True or False"),
        (operand(["a"], "F32"), "x is to be F32", "'a'"),
        (operand(np.array(["a"]), "F32"), "jax has no arrays of <U1"),
        (operand(np.array([1, None])), "jax has no arrays of object"),
        (operand(np.zeros(2, [("a", "f4")])), "jax has no arrays of [('a', '<f4')]"),
        (operand(np.zeros(2, jax.dtypes.float0)), "jax has no arrays of [('float0', 'V')]"),
        (operand([np.ma.array([1, 2], mask=[False, True])], "S32"), "a masked array", ".filled"),
        (operand([np.ma.array([1, 2], mask=[False, True])]), "a masked array", ".filled"),
        (operand([jax.random.key(0)]), "a list with random keys", "jnp.stack"),
    ]:
        raises(TypeError, work, *parts)
    # The order of an array's bytes is no type of its own.
    for name in (">f4", ">i4", ">c8", ">u2"):
        for value in (np.array([1, 258], name), np.array(258, name)):
            if np.asarray(operand(value)()).tolist() != value.tolist():
                raise AssertionError(name)
    # What XLA has no number for would reach a handler as nothing of size 0.
    for name in {name for name in dir(ml_dtypes) if name.startswith("float6")}:
        raises(TypeError, operand(np.zeros(3, getattr(ml_dtypes, name))), name)
    # Arrays of jax and traced ones go by their type, in lists too.
    x = jnp.arange(3, dtype=np.float32)
    if jax.jit(lambda x: _handler.Handler._operand(spec("F32"), "x", [x, x + 1]))(x).shape != (2, 3):
        raise AssertionError("a list of traced arrays")
    raises(TypeError, lambda: jax.jit(lambda x: _handler.Handler._operand(spec("S32"), "x", [x, x + 1]))(x), "x is to be S32", "astype")
    raises(TypeError, operand([x], "S32"), "x is to be S32", "astype")
    jax.config.update("jax_enable_x64", True)
    # Of 64 bits no float type holds all integers, though NumPy says so.
    for kind, to in itertools.product((jnp.int64, jnp.uint64), ("F64", "C128")):
        raises(TypeError, operand([kind(3), 1.0], to), f"x is to be {to}", f"got an array of {kind.dtype.name}", "astype")
        raises(TypeError, lambda kind=kind, to=to: jax.jit(lambda n: operand([n], to)())(kind(3)), f"x is to be {to}", "astype")
    raises(TypeError, operand([jnp.int64(2**53 + 1), 1.0]), "got an array of int64")
    for value, to in ((jnp.int32(-7), "F64"), (jnp.uint32(7), "C128"), (jnp.int16(-7), "F32"), (jnp.int64(7), "S64"), (jnp.asarray(-7), "S8")):
        if np.asarray(operand([value], to)()).tolist() != [int(value)]:
            raise AssertionError(f"{value.dtype} as {to}")
    # A weak type gives way to another of its kind; what is known of its elements is not lost.
    for value, to in ((jnp.asarray(2**40), "S32"), (jnp.asarray(300), "S8"), (jnp.asarray(1e300), "F32")):
        raises(TypeError, operand([value], to), f"does not fit {to}")
    raises(TypeError, operand(x, "S32"), "x is to be S32, got F32")


class Arrays:
    """What gives an array of NumPy when it is asked, as a DataFrame does."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        if isinstance(self._array, Exception):
            raise self._array
        return self._array


def typed(array):
    """The same with a type, as a Series and a DataArray have one."""
    found = Arrays(array)
    found.dtype, found.shape = array.dtype, array.shape
    return found


def arrays_of_others():
    """What has an array is that array, with its shape and its type, in lists too."""
    jax.config.update("jax_enable_x64", False)
    spec = lambda *names: _manifest.Operand("x", False, names or None, None, False, False, False)
    operand = lambda value, *names: np.asarray(_handler.Handler._operand(spec(*names), "x", value))
    for array in (np.zeros((0, 3), np.float32), np.zeros((2, 0), np.uint8), np.arange(3, dtype=np.uint8), np.array([[1, 258]], ">i4")):
        name = _dtypes.of(array.dtype.newbyteorder("="))
        ways = [Arrays(array), typed(array), [array], [Arrays(array)], [typed(array)]]
        ways += [memoryview(array)] if array.dtype.isnative else []
        for value in ways:
            wanted = np.stack([array]) if isinstance(value, list) else array
            for names in ((name,), ("F16", name), ()):
                got = operand(value, *names)
                if got.shape != wanted.shape or got.dtype != array.dtype.newbyteorder("=") or got.tolist() != wanted.tolist():
                    raise AssertionError(f"{value} for {names}: {got!r}, expected {wanted!r}")
    raises(TypeError, lambda: operand(Arrays(np.ones(2, np.int32)), "F32"), "x is to be F32, got S32", "astype")
    # The words of whoever could not give it.
    why = RuntimeError("Can't call numpy() on what requires grad.\nUse x.detach().\n")
    for value in (Arrays(why), [Arrays(why)]):
        raises(TypeError, lambda value=value: operand(value, "F32"), "it is no array but Arrays", "requires grad")
    raises(TypeError, lambda: operand(jax.ShapeDtypeStruct((2,), np.float32), "F32"), "jax.eval_shape")
    capsule = type("Capsule", (), {"dtype": np.dtype(np.float32), "__dlpack__": lambda self, **_: None})()
    raises(TypeError, lambda: operand(capsule, "F32"), "numpy.from_dlpack")
    # An array of jax that is gone is no traced value.
    gone = jnp.ones(2)
    gone.delete()
    attr = _manifest.Attribute(name="a", type="[f32]", optional=False, default=None, inside=None)
    handler = _manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), (attr,), False, None, 0)
    for value in (gone, [gone, gone]):
        raises(TypeError, lambda value=value: _attributes.cast_all(handler, {"a": value}), "attribute 'a'", "deleted")


def legacy_operands():
    """A target of the original custom calls reads what it was made for: 64-bit arrays that jax cuts are told."""
    jax.config.update("jax_enable_x64", False)
    target = _legacy.LegacyTarget("t", "t", "cpu", _manifest.LegacySpec("t", "cpu", (("F64", (2,)),), (("F64", (2,)),)), ("lib.so", None, {}))
    raises(TypeError, lambda: target(np.array([1.0, 2.0])), "made for (F64[2])", "F32[2]")
    raises(TypeError, lambda: target([1.0, 2.0]), "jax_enable_x64")
    raises(TypeError, lambda: target(np.array([1e300, 2.0])), "1e+300 does not fit")


def main():
    if len(DTYPES) < 20:
        sys.exit(f"only {list(DTYPES)} are known here")
    for x64 in (False, True):
        check(f"operands of every type, x64 {x64}", lambda x64=x64: operands(x64))
        check(f"operands of any type, x64 {x64}", lambda x64=x64: open_operands(x64))
    check("attributes of every type", attributes)
    check("refusals say what to write", texts)
    check("arrays of other libraries", arrays_of_others)
    check("operands of original custom calls", legacy_operands)
    finish()


if __name__ == "__main__":
    main()
