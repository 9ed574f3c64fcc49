"""No value is changed quietly: element types and kinds of attributes times Python values.

What the loader accepts has to be the value that was given, floats rounded at most; what it refuses must not have fitted.

usage: values.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: all is done in the loader)
"""

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from checks import check, finish, raises
from xla_ffi import _attributes, _dtypes, _handler, _legacy, _manifest

warnings.simplefilter("ignore")

#: Element types that every jax has, and their kinds.
KINDS = {"PRED": "b", "S8": "i", "S16": "i", "S32": "i", "U8": "i", "U32": "i", "F16": "f", "BF16": "f", "F32": "f", "C64": "c"}
WIDE = {"S64": "i", "U64": "i", "F64": "f", "C128": "c"}
ATTRIBUTES = {"bool": "PRED", **{f"{sign}{bits}": f"{'S' if sign == 'i' else 'U'}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
              "f32": "F32", "f64": "F64"}  # fmt: skip

INTS = sorted({sign * (2**n + d) for n in (0, 3, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64, 128) for d in (-1, 0, 1) for sign in (1, -1)})
REALS = [0.0, -0.0, 0.1, 0.5, 1.0, -1.5, 2.9, 17.0, 65504.0, 65520.0, 2.0**31, 3.3e38, 1e39, -1e39, 1e300, 1e-45, math.inf, -math.inf, math.nan]
COMPLEXES = [0j, 2.5 - 1j, complex(1e300, 0), complex(0, math.nan)]
OTHERS = ["1", b"1", None, {1}, object(), np.array(["1"]), np.array([None]), np.datetime64(1, "s"), [1, [2]], [1, "2"]]


def given():
    """Scalars of Python, alone and in lists, and of NumPy, alone and in arrays."""
    for value in (True, False, *INTS, *REALS, *COMPLEXES):
        yield value, value
        yield [value, value], value
    for kind in ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "complex128"):
        for number in (0, 1, 100, np.iinfo(kind).max if np.dtype(kind).kind in "iu" else 0.5):
            value = np.dtype(kind).type(number)
            yield value, value.item()
            yield np.array([value, value]), value.item()


def fits(value, dtype):
    """Whether a type has a value."""
    try:
        with np.errstate(all="ignore"):
            made = np.array(value).astype(dtype)
        wide = complex(made) if isinstance(value, complex) else made.item() if dtype.kind in "iub" else float(made)
        return wide == value or (value != value and wide != wide)
    except (OverflowError, TypeError, ValueError):
        return False


def kept(value, got, dtype):
    """Whether what arrived is what was given; floats may be rounded."""
    got = got.reshape(-1)[0]
    if dtype.kind in "iub":
        return not isinstance(value, (float, complex)) and int(got) == int(value)
    if isinstance(value, (bool, int)):
        return complex(got) == value and (dtype.kind == "c" or int(float(got)) == value)
    digits = ml_dtypes.finfo(dtype if dtype.kind != "c" else np.float32 if dtype.itemsize == 8 else np.float64).nmant
    for part, of in zip((complex(value).real, complex(value).imag), (complex(got).real, complex(got).imag)):
        near = part == of or (math.isnan(part) and math.isnan(of))
        if not near and not (math.isfinite(of) and abs(part - of) <= max(abs(part) * 2.0**-digits, 2.0**-24)):
            return False
    return isinstance(value, (float, complex)) and not (isinstance(value, complex) and dtype.kind != "c")


def product(name, work, strict):
    """Every value for one type; ``strict`` where a bool is no number."""
    dtype, counts = _dtypes.to_numpy(name), [0, 0]
    for value, one in given():
        own = getattr(value, "dtype", None)
        must = fits(one, dtype) and (own is None or own == dtype) and not (isinstance(one, float) and dtype.kind in "iub")
        must = must and not (isinstance(one, complex) and dtype.kind != "c")
        if strict:
            must = must and isinstance(one, bool) == (name == "PRED") and not isinstance(one, complex)
        try:
            got = np.asarray(work(value))
        except TypeError as error:
            counts[1] += 1
            if must:
                raise AssertionError(f"{name} refuses {value!r}: {error}") from error
            continue
        counts[0] += 1
        if got.dtype != dtype or not kept(one, got, dtype):
            raise AssertionError(f"{name} of {value!r} became {got!r}")
    if 0 in counts:
        raise AssertionError(f"{name}: {counts}")
    for value in OTHERS:
        raises(TypeError, lambda value=value: work(value))


def operands(x64):
    """Each type alone, as a handler declares it; those of 64 bits with jax_enable_x64."""
    jax.config.update("jax_enable_x64", x64)
    for name in WIDE if x64 else KINDS:
        spec = _manifest.Operand("x", False, (name,), None, False, False, False)
        product(name, lambda value, spec=spec: _handler.Handler._operand(spec, "x", value), False)


def attributes():
    """Each kind of attribute, alone and inside a dictionary."""
    outer = _manifest.Attribute(name="d", type="dict", optional=False, default=None, inside=None)
    spec = lambda *attrs: _manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), attrs, False, None, 0)
    is_pair = lambda value: isinstance(value, (list, np.ndarray)) and len(value) == 2 and type(value[0]) is type(value[1])
    for kind, name in ATTRIBUTES.items():
        attr, inner = (_manifest.Attribute(name="a", type=kind, optional=False, default=None, inside=inside) for inside in (None, "d"))
        alone = lambda value, attr=attr: _attributes.cast_all(spec(attr), {"a": value})["a"]
        within = lambda value, inner=inner: _attributes.cast_all(spec(outer, inner), {"d": {"a": value}})["d"]["a"]
        for work in (alone, within):
            product(name, lambda value, work=work: work(value[0] if is_pair(value) else value), True)


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
    for value, to in ((jnp.int32(-7), "F64"), (jnp.uint32(7), "C128"), (jnp.int16(-7), "F32"), (jnp.int64(7), "S64")):
        if np.asarray(operand([value], to)()).tolist() != [int(value)]:
            raise AssertionError(f"{value.dtype} as {to}")
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
    raises(TypeError, lambda: operand(jax.ShapeDtypeStruct((2,), np.float32), "F32"), "it is no array but ShapeDtypeStruct")
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
    for x64 in (False, True):
        check(f"operands of every type, x64 {x64}", lambda x64=x64: operands(x64))
    check("attributes of every type", attributes)
    check("refusals say what to write", texts)
    check("arrays of other libraries", arrays_of_others)
    check("operands of original custom calls", legacy_operands)
    finish()


if __name__ == "__main__":
    main()
