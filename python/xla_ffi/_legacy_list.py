"""The list of its targets of the original custom calls that a library exports, and what a manifest says of one."""

import ctypes
import dataclasses
from typing import Optional

#: By the number of the signature in a library's list.
SIGNATURES = (None, "cpu", "cpu_status", "gpu", "gpu_status", "cpu_unified")

#: XLA's CustomCallApiVersion under which a signature is called; devices call "gpu_status" as 3 too.
API_VERSIONS = {"cpu": 1, "cpu_status": 2, "cpu_unified": 3, "gpu": 1, "gpu_status": 2}

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


@dataclasses.dataclass(frozen=True)
class LegacySpec:
    """What a manifest says of a target."""

    name: str
    signature: str
    args: Optional[tuple]  # (dtype, dims) of each operand, where they are declared
    rets: Optional[tuple]
    tuples: Optional[str] = None  # "leaves" or "roots", where tuples are declared
    structure: Optional[str] = None  # "(_, _) -> (_, (_))"


def listed(image):
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
        targets.append((entry.name.decode(), entry.platform.decode(), entry.function, SIGNATURES[entry.signature]))
        at = entry.next
    return targets[::-1]
