"""Tests conversions of Python values: numbers may be rounded, and other changes of a value are refused at the call.

usage: values.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used, because only the loader is tested)
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from checks import check, finish, raises
from xla_ffi import _abi, _attributes, _handler, _legacy, _manifest

#: Types, with values that they accept and values that they refuse.
OPERANDS = [
    ("PRED", [True, [False, 1]], [2, 1.0]), ("S8", [-128, [127], True], [128, -129, 1.0, [300]]),
    ("U8", [255, range(3)], [-1, 256]), ("U32", [2**32 - 1], [2**32, 2**70]),
    ("F16", [0.1, 65504.0, math.inf, math.nan, 3], [65520.0, 1e39, 2**20]), ("BF16", [1.5, 3.0e38], [1e39]),
    ("F32", [0.1, 1e-46, 2**24 + 1, [1, 2.5]], [1e39, 10**400, 1j, "1", None, ["a"], [1, [2]]]),
    ("C64", [1, 2.5, 1j], [complex(1e300, 0)]), ("F8E4M3FN", [448.0], [1e5, math.inf]),
    ("S64", [], [1]), ("F64", [], [1.0]),
]  # fmt: skip
WIDE = [("S64", [2**63 - 1], [2**63]), ("F64", [1e300, 2**60], [10**400]), ("C128", [1j], ["1"])]
ATTRIBUTES = [
    ("bool", [True, np.bool_(False)], [1, 0.0]), ("i8", [-128, np.int64(7)], [128, True, 1.5]), ("u64", [2**64 - 1], [-1, 2**64]),
    ("f32", [1, 0.1, math.nan], [1e39, True, 1j, "1"]), ("[i16]", [[1, 2], np.array([3]), range(3)], [[2**15], [1.5]]),
]  # fmt: skip


def declared(*names):
    return _manifest.Operand("x", False, names or None, None, False, False, False)


def operand(value, *names):
    return np.asarray(_handler.Handler._operand(declared(*names), "x", value))


def attribute(kind, value):
    attr = _manifest.Attribute(name="a", type=kind, optional=False, default=None, inside=None)
    return _attributes.cast_all(_manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), (attr,), False, None, 0), {"a": value})["a"]


def table(rows, make, dtype_of):
    for name, taken, refused in rows:
        dtype = dtype_of(name)
        for value in taken:
            wanted = np.array(value).astype(dtype)
            got = np.asarray(make(name, value))
            if got.dtype != dtype or not np.array_equal(got.astype(np.complex128), wanted.astype(np.complex128), equal_nan=True):
                raise AssertionError(f"{name} of {value!r} became {got!r}")
        for value in refused:
            raises(TypeError, lambda name=name, value=value: make(name, value))


def operands():
    table(OPERANDS, lambda name, value: operand(value, name), _abi.numpy_dtype)
    jax.config.update("jax_enable_x64", True)
    table(WIDE, lambda name, value: operand(value, name), _abi.numpy_dtype)
    jax.config.update("jax_enable_x64", False)
    # jax converts these 64-bit arrays without jax_enable_x64, which would change their values.
    for value, name in (np.array([2**40 + 5]), "S32"), (np.array([1e300]), "F32"):
        raises(TypeError, lambda value=value, name=name: operand(value, name), _abi.DTYPE_NAMES[name], "jax_enable_x64")


def attributes():
    table(ATTRIBUTES, attribute, lambda kind: _abi.ATTRIBUTE_DTYPES[kind.strip("[]")])


def arrays():
    """Arrays of NumPy, jax and other libraries are accepted, also in lists and in any byte order."""
    frame = type("Frame", (), {"__array__": lambda self, *_args, **_more: np.arange(3, dtype=np.uint8)})()
    for value in (np.array([0, 1, 2], ">u2"), [np.uint8(0), np.uint8(1), np.uint8(2)], frame, memoryview(bytes(range(3)))):
        if operand(value).tolist() != [0, 1, 2]:
            raise AssertionError(operand(value))
    x = jnp.arange(3, dtype=np.float32)
    if jax.jit(lambda x: _handler.Handler._operand(declared("F32"), "x", [x, x + 1]))(x).shape != (2, 3):
        raise AssertionError("a list of traced arrays")
    masked = np.ma.array([1, 2], mask=[False, True])
    for value in (np.array(["a"]), np.array([None]), masked, [masked], [x], x, jax.ShapeDtypeStruct((2,), np.int32)):
        raises(TypeError, lambda value=value: operand(value, "S32"), "expected ")
    gone = jnp.ones(2)
    gone.delete()
    raises(TypeError, lambda: attribute("[f32]", gone), "attribute `a`", "deleted")


def legacy_operands():
    """Targets of the original custom calls read 64-bit arrays, so arrays that jax would narrow are refused."""
    target = _legacy.LegacyTarget("t", "t", "cpu", _manifest.LegacySpec("t", "cpu", (("F64", (2,)),), (("F64", (2,)),)), ("lib.so", None, {}))
    for value in (np.array([1.0, 2.0]), [1.0, 2.0], np.array([1e300, 2.0])):
        raises(TypeError, lambda value=value: target(value))


def main():
    for work in (operands, attributes, arrays, legacy_operands):
        check(f"values, {work.__name__}", work)
    finish()


if __name__ == "__main__":
    main()
