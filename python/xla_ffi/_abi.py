"""The ABI as Python needs it: element types, revisions, and the list of its legacy targets that a library exports."""

import ctypes
import re

import numpy as np

from ._facts import ELEMENT_TYPES, REVISIONS, YANKED


def _numpy_name(name, kind, bits):
    """NumPy's name (that of ml_dtypes where NumPy has none): "F8E4M3" is its "float8_e4m3"."""
    if kind in ("bool", "token"):
        return "bool" if kind == "bool" else None
    short = name[1:].lower().removeprefix(str(bits))
    if kind == "float" and name.startswith("B"):
        return f"b{kind}{bits}"
    return f"{kind}{bits}_{short}" if short else f"{kind}{bits}"


#: NumPy's name of each element type; None for what is no array.
DTYPE_NAMES = {name: _numpy_name(name, *about) for name, about in ELEMENT_TYPES.items()} | {"INVALID": None}

_BY_NUMPY = {numpy: name for name, numpy in DTYPE_NAMES.items() if numpy}

#: Those whose arrays jax has after ``jax_enable_x64`` alone.
WIDE_DTYPES = ("F64", "S64", "U64", "C128")

ATTRIBUTE_DTYPES = {
    "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def dtype_name(dtype):
    """The ABI's name of a NumPy dtype, or NumPy's own where the ABI has none."""
    name = np.dtype(dtype).name
    return _BY_NUMPY.get(name, name)


def type_text(name, dims=None):
    """An element type of the ABI or of NumPy, with dimensions unless they are None, as errors show it: "float32[2, 3]"."""
    name = DTYPE_NAMES.get(name) or name
    return name if dims is None else f"{name}[{', '.join(map(str, dims))}]"


def widens(have, want):
    """Returns true if a cast from one element type of the ABI to another keeps what every value means."""
    kinds = ("bool", "uint", "int", "float", "complex")
    (a, has), (b, gets) = ELEMENT_TYPES.get(have, ("token", 0)), ELEMENT_TYPES[want]
    has, gets = has // (1 + (a == "complex")), gets // (1 + (b == "complex"))
    if a == b or (a, b) == ("uint", "int"):
        return gets > has
    return a in kinds[: kinds.index(b)] and (a == "bool" or gets >= has)


def numpy_dtype(name):
    """The NumPy dtype of an ABI name."""
    plain = DTYPE_NAMES[name]
    try:
        return np.dtype(plain)
    except TypeError:
        import ml_dtypes  # jax always brings it

        return np.dtype(getattr(ml_dtypes, plain))


# jaxlib tells Python nothing of the revision that it was built with: the version number is all there is. (Its
# function table would tell a handler, but a handler has to be registered before it is called.)


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split(".dev")[0]))


def revision_of(version):
    """The revision of jaxlib ``version``; -1 for one older than the first."""
    if version in YANKED:
        return YANKED[version]
    return sum(_numbers(first) <= _numbers(version) for first, _minor in REVISIONS) - 1


def first_jaxlib(revision):
    """The first jaxlib with ``revision``, or None for one that this package does not know."""
    return REVISIONS[revision][0] if revision < len(REVISIONS) else None


def minor_version(revision):
    """The minor version that a runtime of this revision states; each that is yet to come raises it."""
    newest = len(REVISIONS) - 1
    return REVISIONS[min(revision, newest)][1] + max(0, revision - newest)


#: By the number of the signature in a library's list.
LEGACY_SIGNATURES = (None, "cpu", "cpu_status", "gpu", "gpu_status", "cpu_unified")

#: XLA's CustomCallApiVersion under which a signature is called; devices call "gpu_status" as 3 too.
LEGACY_API_VERSIONS = {"cpu": 1, "cpu_status": 2, "cpu_unified": 3, "gpu": 1, "gpu_status": 2}

#: The function that gives a library's list.
LEGACY_LIST = "xla_ffi_legacy_targets"


class _Target(ctypes.Structure):
    """An entry of the list that a library exports."""


_Target._fields_ = [
    ("struct_size", ctypes.c_size_t),
    ("name", ctypes.c_char_p),
    ("platform", ctypes.c_char_p),
    ("function", ctypes.c_void_p),
    ("signature", ctypes.c_uint32),
    ("next", ctypes.POINTER(_Target)),
]


def legacy_targets(image):
    """``(name, platform, address, signature)`` of each target that a loaded library has registered."""
    try:
        function = getattr(image, LEGACY_LIST)
    except (AttributeError, UnicodeDecodeError):  # the loader's words have the path
        return []
    function.restype = ctypes.POINTER(_Target)
    function.argtypes = []
    targets, at = [], function()
    while at:
        entry = at.contents
        targets.append((entry.name.decode(), entry.platform.decode(), entry.function, LEGACY_SIGNATURES[entry.signature]))
        at = entry.next
    return targets[::-1]
