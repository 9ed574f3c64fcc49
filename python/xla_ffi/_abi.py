"""The parts of the ABI that Python needs: element types, revisions, and a library's list of targets of the original
custom calls."""

import contextlib
import ctypes
import re

import numpy as np

from ._facts import ELEMENT_TYPES, REVISIONS, YANKED


def _numpy_name(name, kind, bits):
    """Returns NumPy's name of an element type, or that of ml_dtypes: ``F8E4M3`` is ``float8_e4m3``."""
    if kind in ("bool", "token"):
        return "bool" if kind == "bool" else None
    short = name[1:].lower().removeprefix(str(bits))
    if kind == "float" and name.startswith("B"):
        return f"b{kind}{bits}"
    return f"{kind}{bits}_{short}" if short else f"{kind}{bits}"


#: NumPy's name of each element type, or None if NumPy has no arrays of it.
DTYPE_NAMES = {name: _numpy_name(name, *about) for name, about in ELEMENT_TYPES.items()} | {"INVALID": None}

_BY_NUMPY = {numpy: name for name, numpy in DTYPE_NAMES.items() if numpy}

#: Element types that jax only supports with ``jax_enable_x64``.
WIDE_DTYPES = ("F64", "S64", "U64", "C128")

ATTRIBUTE_DTYPES = {
    "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def dtype_name(dtype):
    """Returns the ABI's name of a NumPy dtype, or NumPy's name if the ABI lacks the type."""
    name = np.dtype(dtype).name
    return _BY_NUMPY.get(name, name)


def type_text(name, dims=None):
    """Returns the text of an element type for error messages, with dimensions unless they are None: ``float32[2, 3]``.
    """
    name = DTYPE_NAMES.get(name) or name
    return name if dims is None else f"{name}[{', '.join(map(str, dims))}]"


def widens(have, want):
    """Returns true if a cast of element type ``have`` to element type ``want`` preserves the meaning of every value.
    """
    kinds = ("bool", "uint", "int", "float", "complex")
    (a, has), (b, gets) = ELEMENT_TYPES.get(have, ("token", 0)), ELEMENT_TYPES[want]
    has, gets = has // (1 + (a == "complex")), gets // (1 + (b == "complex"))
    if a == b or (a, b) == ("uint", "int"):
        return gets > has
    return a in kinds[: kinds.index(b)] and (a == "bool" or gets >= has)


def numpy_dtype(name):
    """Returns the NumPy dtype of an ABI name."""
    plain = DTYPE_NAMES[name]
    try:
        return np.dtype(plain)
    except TypeError:
        import ml_dtypes  # jax depends on ml_dtypes

        return np.dtype(getattr(ml_dtypes, plain))


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0].split(".dev")[0]))


def _is_published(version):
    """Returns true if ``version`` is a jaxlib release that this package knows. A fourth number marks a corrected
    release."""
    return bool(re.fullmatch(r"\d+(\.\d+)+", version)) and _numbers(version)[:3] <= _numbers(REVISIONS[-1][0])


def _revision_of_header(text):
    """Returns the revision of a ``c_api.h`` from its text, by the minor version and the length of the function table.
    """
    minor = int(re.search(r"#define XLA_FFI_API_MINOR (\d+)", text)[1])
    functions = len(re.findall(r"_API_STRUCT_FIELD\(XLA_FFI_\w+\);", text))
    return sum(known <= [minor, functions] for _first, *known in REVISIONS) - 1


def revision_of(version, header=None):
    """Returns the revision of jaxlib ``version``, or -1 if the version is older than the first revision.

    Nightly and vendor builds may have the number of a release but a newer revision. The revision of such builds is read
    from ``header``, the path of the wheel's ``xla/ffi/api/c_api.h``.
    """
    if version in YANKED:
        return YANKED[version]
    by_number = sum(_numbers(first) <= _numbers(version) for first, *_ in REVISIONS) - 1
    if header and not _is_published(version):
        with contextlib.suppress(OSError, TypeError), open(header, encoding="utf-8") as file:
            known = _revision_of_header(file.read())
            # The headers of r5 and r6 have equal minor versions and table lengths, so the jaxlib version decides.
            return known if REVISIONS[known][1:] != REVISIONS[max(by_number, 0)][1:] else by_number
    return by_number


def first_jaxlib(revision):
    """Returns the first jaxlib with ``revision``, or None if this package does not know the revision."""
    return REVISIONS[revision][0] if revision < len(REVISIONS) else None


def minor_version(revision):
    """Returns the minor version that a runtime of a revision reports.

    Future revisions are assumed to increase the minor version by one each.
    """
    newest = len(REVISIONS) - 1
    return REVISIONS[min(revision, newest)][1] + max(0, revision - newest)


#: Names of signatures of the original custom calls, indexed by their numbers in a library's list of targets.
LEGACY_SIGNATURES = (None, "cpu", "cpu_status", "gpu", "gpu_status", "cpu_unified")

#: XLA's CustomCallApiVersion for each signature. On devices, XLA also accepts "gpu_status" targets as version 3.
LEGACY_API_VERSIONS = {"cpu": 1, "cpu_status": 2, "cpu_unified": 3, "gpu": 1, "gpu_status": 2}

#: The function that returns a library's list of targets of the original custom calls.
LEGACY_LIST = "xla_ffi_legacy_targets"


class _Target(ctypes.Structure):
    """An entry of a library's list of targets of the original custom calls."""


_Target._fields_ = [
    ("struct_size", ctypes.c_size_t),
    ("name", ctypes.c_char_p),
    ("platform", ctypes.c_char_p),
    ("function", ctypes.c_void_p),
    ("signature", ctypes.c_uint32),
    ("next", ctypes.POINTER(_Target)),
]


def legacy_targets(image):
    """Returns ``(name, platform, address, signature)`` for each target of the original custom calls that a loaded
    library has registered."""
    try:
        function = getattr(image, LEGACY_LIST)
    except (AttributeError, UnicodeDecodeError):  # The loader's error has the path, which may not be UTF-8.
        return []
    function.restype = ctypes.POINTER(_Target)
    function.argtypes = []
    targets, at = [], function()
    while at:
        entry = at.contents
        targets.append((entry.name.decode(), entry.platform.decode(), entry.function, LEGACY_SIGNATURES[entry.signature]))
        at = entry.next
    return targets[::-1]
