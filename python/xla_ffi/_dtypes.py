"""Element types: the C names of the ABI and NumPy's."""

import numpy as np

NAMES = {
    "PRED": "bool",
    "S1": "int1", "S2": "int2", "S4": "int4", "S8": "int8", "S16": "int16", "S32": "int32", "S64": "int64",
    "U1": "uint1", "U2": "uint2", "U4": "uint4", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "C128": "complex128",
    "F8E3M4": "float8_e3m4", "F8E4M3": "float8_e4m3", "F8E4M3FN": "float8_e4m3fn",
    "F8E4M3B11FNUZ": "float8_e4m3b11fnuz", "F8E4M3FNUZ": "float8_e4m3fnuz",
    "F8E5M2": "float8_e5m2", "F8E5M2FNUZ": "float8_e5m2fnuz", "F8E8M0FNU": "float8_e8m0fnu",
    "F4E2M1FN": "float4_e2m1fn",
    "TOKEN": None, "INVALID": None,
}  # fmt: skip

_BY_NUMPY = {numpy: name for name, numpy in NAMES.items() if numpy}

ATTRIBUTES = {
    "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def of(dtype):
    """The ABI's name of a NumPy dtype, or NumPy's own where the ABI has none."""
    name = np.dtype(dtype).name
    return _BY_NUMPY.get(name, name)


def to_numpy(name):
    """The NumPy dtype of an ABI name."""
    plain = NAMES[name]
    try:
        return np.dtype(plain)
    except TypeError:
        import ml_dtypes  # jax always brings it

        return np.dtype(getattr(ml_dtypes, plain))
