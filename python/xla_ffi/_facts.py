"""Facts of the ABI. Generated from ffi-sys by `cargo xtask headers`; do not edit."""

# The first jaxlib, the minor version and the number of functions of each revision, oldest first.
REVISIONS = (
    ("0.4.31", 0, 11),
    ("0.4.33", 1, 12),
    ("0.4.34", 1, 15),
    ("0.4.38", 1, 16),
    ("0.5.1", 1, 17),
    ("0.6.0", 1, 18),
    ("0.8.0", 1, 18),
    ("0.8.1", 2, 18),
    ("0.9.1", 3, 18),
    ("0.11.1", 4, 19),
    ("0.12.0", 5, 20),
)

# Releases that were withdrawn, and the revision of each.
YANKED = {
    "0.4.32": 1,
}

# The stages in order.
STAGES = ("instantiate", "prepare", "initialize", "execute", "record")

# What kind of number each element type is, and how many bits one takes.
ELEMENT_TYPES = {
    "PRED": ("bool", 8),
    "S1": ("int", 1),
    "S2": ("int", 2),
    "S4": ("int", 4),
    "S8": ("int", 8),
    "S16": ("int", 16),
    "S32": ("int", 32),
    "S64": ("int", 64),
    "U1": ("uint", 1),
    "U2": ("uint", 2),
    "U4": ("uint", 4),
    "U8": ("uint", 8),
    "U16": ("uint", 16),
    "U32": ("uint", 32),
    "U64": ("uint", 64),
    "F16": ("float", 16),
    "F32": ("float", 32),
    "F64": ("float", 64),
    "BF16": ("float", 16),
    "C64": ("complex", 64),
    "C128": ("complex", 128),
    "TOKEN": ("token", 0),
    "F8E5M2": ("float", 8),
    "F8E3M4": ("float", 8),
    "F8E4M3": ("float", 8),
    "F8E4M3FN": ("float", 8),
    "F8E4M3B11FNUZ": ("float", 8),
    "F8E5M2FNUZ": ("float", 8),
    "F8E4M3FNUZ": ("float", 8),
    "F4E2M1FN": ("float", 4),
    "F8E8M0FNU": ("float", 8),
}
