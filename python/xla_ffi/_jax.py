"""The differences between jax releases, in one place. The code checks for features, not for version numbers."""

import contextlib
import ctypes
import inspect
import os
import re

import jax
import jaxlib
import numpy as np
from jax._src import core, effects
from jax._src.array import ArrayImpl
from jax._src.lib.mlir import ir
from jax.interpreters import mlir

from . import _abi
from ._errors import UnsupportedRuntimeError

try:
    from jax import ffi as _ffi
except ImportError:
    from jax.extend import ffi as _ffi

#: The version of the jaxlib in this process.
JAXLIB = jaxlib.version.__version__

#: The ABI revision of this jaxlib.
REVISION = _abi.revision_of(JAXLIB, os.path.join(os.path.dirname(jaxlib.__file__), "include/xla/ffi/api/c_api.h"))


def refuse_before_first():
    """Raises an UnsupportedRuntimeError if jaxlib is older than the first revision, before this package uses jaxlib."""
    if REVISION < 0:
        raise UnsupportedRuntimeError(
            f"expected jaxlib {_abi.first_jaxlib(0)} or newer, got {JAXLIB}; upgrade jaxlib"
        )


_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA", "rocm": "ROCM"}


def _leave_out_of_sources():
    """Excludes this package from the source locations of operations, so that these locations are lines of the caller.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import source_info_util

        source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)))


_leave_out_of_sources()


def abstract_token():
    """Returns the result type that represents a token."""
    return core.abstract_token


def is_token(value):
    """Returns true if an argument is a token."""
    return type(value).__name__ == "Token" or type(getattr(value, "aval", None)).__name__ == "AbstractToken"


#: Element types that jax accepts from NumPy without conversion, independently of its settings.
_TAKEN_AS_THEY_ARE = frozenset(
    map(np.dtype, ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32"))
)


def is_plain_array(value):
    """Returns true if ``jax.jit`` would treat the value like an eager call does: a concrete array on a single
    device."""
    if type(value) is ArrayImpl:
        return type(value.sharding) is jax.sharding.SingleDeviceSharding
    return type(value) is np.ndarray and value.dtype in _TAKEN_AS_THEY_ARE


def is_plain_eager():
    """Returns true if nothing is being traced and jax does not check for NaNs. To check for NaNs, jax repeats compiled
    calls."""
    return core.trace_state_clean() and not (jax.config.jax_debug_nans or jax.config.jax_debug_infs)


def capsule(address):
    """Returns a function's address as a capsule, the form that jaxlib expects."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(address, None, None)


def register(target, stages, platform):
    """Registers ``{stage: address}`` as ``target``. An unknown platform is passed to jax unchanged."""
    capsules = {stage: capsule(address) for stage, address in stages.items()}
    function = capsules["execute"] if len(capsules) == 1 else capsules
    _ffi.register_ffi_target(target, function, platform=_PLATFORMS.get(platform.lower(), platform))


def platforms_of(context):
    """Returns the platforms for which a call is being lowered."""
    return getattr(context, "platforms", None) or context.module_context.platforms


def is_cpu(platform):
    """Returns true if a handler's platform is the CPU, which has two names."""
    return platform.lower() in ("cpu", "host")


#: Whether types are registered with a TypeInfo, which has the function that deletes states. True from r7 on.
TYPES_HAVE_INFO = REVISION >= 7


def registers_types():
    """Returns true if this jaxlib has a Python function that registers types."""
    return any(hasattr(_ffi, name) for name in ("register_ffi_type", "register_ffi_type_id"))


_registered_types = set()  # (address of the id, platform); XLA accepts each id once


def register_type(name, number, info, platform):
    """Registers a type once. ``number`` is the address of its id, ``info`` that of its TypeInfo, or None."""
    if (number, platform) in _registered_types:
        return
    key = (number, platform)
    platform = _PLATFORMS.get(platform.lower(), platform)
    # Before the backends are initialized, jaxlib defers registrations, and then registers handlers before types.
    jax.devices()
    if not TYPES_HAVE_INFO:
        older = getattr(_ffi, "register_ffi_type_id", None) or _ffi.register_ffi_type
        older(name, capsule(number), platform=platform)
    else:
        _ffi.register_ffi_type(name, {"type_id": capsule(number), "type_info": capsule(info)}, platform=platform)
    _registered_types.add(key)


def register_legacy(target, address, platform):
    """Registers a target of the original custom calls, which are API version 0 in jaxlib."""
    name = "cpu" if platform.lower() in ("host", "cpu") else "cuda" if platform.lower() == "gpu" else platform.lower()
    platform = _PLATFORMS.get(name, platform)
    _ffi.register_ffi_target(target, capsule(address), platform=platform, api_version=0)


def typeof(value):
    """Returns the type of a value, traced or not."""
    if hasattr(jax, "typeof"):
        return jax.typeof(value)
    return core.raise_to_shaped(core.get_aval(value))


def zero_tangent(value):
    """Returns the zero tangent of a value."""
    from jax.interpreters import ad

    aval = typeof(value)
    # Older jax calls the method `at_least_vspace`.
    tangent = getattr(aval, "to_tangent_aval", None) or aval.at_least_vspace
    return ad.Zero(tangent())


def axes_of(aval):
    """Returns the mesh axes of a shard_map over which a value varies."""
    manual = getattr(aval, "manual_axis_type", None)
    return getattr(manual, "varying", None) or getattr(aval, "vma", None) or frozenset()


def vary_alike(args):
    """Returns the operands, each varying over all mesh axes that any of them varies over."""
    for name in ("auto_insert_reshard", "standard_insert_pvary"):
        if hasattr(core, name):
            return getattr(core, name)(*args)
    return args


def result_aval(shape, dtype, operands, varying=frozenset(), parts=()):
    """Returns the type of a result.

    Under shard_map, the result varies over the mesh axes that the operands vary over. ``parts`` has the division of the
    result's first dimensions over Explicit axes of a mesh, as in ``parts_of``.
    """
    varying = varying.union(*map(axes_of, operands))
    if _VARYING is None or not hasattr(jax.sharding, "get_abstract_mesh"):
        return jax.core.ShapedArray(shape, dtype)
    mesh = jax.sharding.get_abstract_mesh()
    if getattr(mesh, "empty", True):
        mesh = next((aval.sharding.mesh for aval in operands if axes_of(aval) or is_explicit(aval)), mesh)
    if getattr(mesh, "empty", True):
        return jax.core.ShapedArray(shape, dtype)
    spec = jax.sharding.PartitionSpec(*parts, *[None] * (len(shape) - len(parts)))
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return jax.core.ShapedArray(shape, dtype, sharding=sharding, **(_VARYING(varying) if varying else {}))


def _varying_options():
    """Returns a function from mesh axes to the options of a type that varies over them, or None if jax has no such
    types."""
    parameters = inspect.signature(jax.core.ShapedArray).parameters
    if "manual_axis_type" in parameters and hasattr(jax.sharding, "ManualAxisType"):
        return lambda axes: {"manual_axis_type": jax.sharding.ManualAxisType(varying=axes)}
    return (lambda axes: {"vma": axes}) if "vma" in parameters else None


_VARYING = _varying_options()

#: The function that moves a value to a given division over Explicit axes. None if jax has no such function or types.
_RESHARD = getattr(jax.sharding, "reshard", None) if _VARYING else None


def is_explicit(value):
    """Returns true if a value is on a mesh with Explicit axes, whose division is part of its type."""
    return _explicit_mesh(value) is not None


def parts_of(value):
    """Returns the Explicit mesh axes that divide each dimension of a value: an axis, a tuple of axes, or None per
    dimension.

    Returns () for values that are not on an Explicit mesh.
    """
    if not is_explicit(value):
        return ()
    spec = type_of(value).sharding.spec
    # In later jax, `partitions` omits axes whose parts must still be summed. `divided` sums these parts.
    return tuple(getattr(spec, "partitions", spec))


def divided(value, parts, mesh=None):
    """Divides the first dimensions of a value over Explicit axes as in ``parts``, and makes all other dimensions whole.

    Values that are not on a mesh are unchanged, unless ``mesh`` is given.
    """
    mesh = _explicit_mesh(value) or mesh
    if mesh is None:
        return value
    spec = jax.sharding.PartitionSpec(*parts, *[None] * (value.ndim - len(parts)))
    return value if is_explicit(value) and typeof(value).sharding.spec == spec else _RESHARD(value, jax.sharding.NamedSharding(mesh, spec))


def explicit_mesh(values):
    """Returns the mesh with Explicit axes that one of the values is on, or None."""
    return next(filter(None, map(_explicit_mesh, values)), None)


def _explicit_mesh(value):
    if _RESHARD is None or value is None or is_token(value):
        return None
    mesh = getattr(getattr(type_of(value), "sharding", None), "mesh", None)
    return mesh if jax.sharding.AxisType.Explicit in tuple(getattr(mesh, "axis_types", None) or ()) else None


def type_of(value):
    """Returns the type of a value. Returns types unchanged."""
    return value if isinstance(value, core.AbstractValue) else typeof(value)


def allow_in_shard_map(primitive):
    """Makes the results of a primitive vary over mesh axes like those of elementwise primitives, in versions of jax
    that require a declaration. jax 0.6.0 requires the declaration if its check of varying types is off."""
    try:
        from jax.experimental import shard_map
    except ImportError:
        return
    if hasattr(shard_map, "register_standard_check"):
        shard_map.register_standard_check(primitive)
        shard_map.register_standard_rewrite(primitive)


def has_shardy():
    """Returns true if Shardy divides programs between devices, and false if GSPMD does."""
    return bool(getattr(jax.config, "jax_use_shardy_partitioner", False))


class _Effect(effects.Effect):
    """The effect of a call with side effects, which keeps jax from moving the call.

    Exported models refer to the effect by the module and name of this class. When jax reads a model, the effect must
    equal this object.
    """

    def __str__(self):
        return "XLA FFI"

    def __eq__(self, other):
        return type(other) is _Effect

    def __hash__(self):
        return hash(_Effect)


for _kind in ("lowerable", "control_flow_allowed", "remat_allowed", "custom_derivatives_allowed", "partial_eval_kept"):
    if hasattr(effects, f"{_kind}_effects"):
        getattr(effects, f"{_kind}_effects").add_type(_Effect)

#: The effect of calls with side effects.
EFFECT = _Effect()


#: Options that lower each call separately. Otherwise, jax lowers several calls as one function, and the calls have no
#: separate names in locations.
LOWERED_IN_PLACE = {"cacheable": False} if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {}


def named(location, primitives, name):
    """Returns a location whose operation is named ``name`` instead of one of ``primitives``.

    XLA names the instruction after the location, and profilers name the instruction's event after it. Locations of
    other operations are returned unchanged.
    """
    last = re.compile(rf"(^|/)({'|'.join(primitives)})(\[.*)?$", re.DOTALL)
    if hasattr(location, "child_loc"):  # Earlier bindings raise an error for locations other than names.
        with contextlib.suppress(ValueError):
            if location.name_str.removesuffix(":") in primitives and location.name_str.endswith(":"):
                # Later jax wraps the location in a location with the kind of operation.
                return named(location.child_loc, primitives, name)
            called, count = last.subn(lambda found: found[1] + name, location.name_str)
            return ir.Location.name(called, childLoc=location.child_loc) if count else location
    # Earlier bindings lack properties of locations, so the text of the location is changed.
    text = re.fullmatch(r'loc\("((?:[^"\\]|\\.)*)"(.*)\)', str(location), re.DOTALL)
    if text is None or not hasattr(ir.Location, "from_attr"):
        return location
    called, count = last.subn(lambda found: found[1] + re.sub(r"[^\w.@-]", "_", name, flags=re.ASCII), text[1])
    return ir.Location.from_attr(ir.Attribute.parse(f'loc("{called}"{text[2]})')) if count else location


#: True in jax 0.4.31, whose lowering rule ignores the layouts that callers pass. ``_default_layouts`` exists only in
#: that release.
LOSES_LAYOUTS = hasattr(inspect.getmodule(_ffi.ffi_lowering), "_default_layouts")


#: jax's own lowering rule. Layouts in the rule list the fastest dimension first, those of ``ffi_call`` the slowest.
ffi_lowering = _ffi.ffi_lowering


def has_x64():
    """Returns true if jax makes arrays with 64-bit elements."""
    return bool(jax.config.jax_enable_x64)


def is_key(value):
    """Returns true if an argument is an array of random keys."""
    return isinstance(value, jax.Array) and hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def is_differentiable(dtype):
    """Returns true if values of this type have tangents."""
    return jax.dtypes.issubdtype(dtype, np.inexact)
