"""Element types: the C names of the ABI and NumPy's."""

import numpy as np

from . import _facts


def _numpy(name, kind, bits):
    """NumPy's name (that of ml_dtypes where NumPy has none): "F8E4M3" is its "float8_e4m3"."""
    if kind in ("bool", "token"):
        return "bool" if kind == "bool" else None
    short = name[1:].lower().removeprefix(str(bits))
    if kind == "float" and name.startswith("B"):
        return f"b{kind}{bits}"
    return f"{kind}{bits}_{short}" if short else f"{kind}{bits}"


#: NumPy's name of each element type; None for what is no array.
NAMES = {name: _numpy(name, *about) for name, about in _facts.ELEMENT_TYPES.items()} | {"INVALID": None}

_BY_NUMPY = {numpy: name for name, numpy in NAMES.items() if numpy}

#: Those whose arrays jax has after ``jax_enable_x64`` alone.
WIDE = ("F64", "S64", "U64", "C128")

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
