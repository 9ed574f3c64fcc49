"""The differences between jax releases, in one place; they are asked for what they have, not for their numbers."""

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

#: Version of the jaxlib in this process.
JAXLIB = jaxlib.version.__version__

#: Its revision of the ABI.
REVISION = _abi.revision_of(JAXLIB)


def refuse_before_first():
    """Refuses a jaxlib from before the first revision: nothing of it is touched."""
    if REVISION < 0:
        raise UnsupportedRuntimeError(
            f"expected jaxlib {_abi.first_jaxlib(0)} or newer, got {JAXLIB}; upgrade jaxlib"
        )


_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA", "rocm": "ROCM"}


def _leave_out_of_sources():
    """The sources that a program names for its operations are the caller's, not this package's."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import source_info_util

        source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)))


_leave_out_of_sources()


def abstract_token():
    """What stands for a token among result types."""
    return core.abstract_token


def is_token(value):
    """Whether an argument is a token."""
    return type(value).__name__ == "Token" or type(getattr(value, "aval", None)).__name__ == "AbstractToken"


#: Element types that jax takes from NumPy as they are, whatever its settings.
_TAKEN_AS_THEY_ARE = frozenset(
    map(np.dtype, ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32"))
)


def is_plain_array(value):
    """Whether ``jax.jit`` makes of a value what a call outside of it would: its elements are known, on a single device."""
    if type(value) is ArrayImpl:
        return type(value.sharding) is jax.sharding.SingleDeviceSharding
    return type(value) is np.ndarray and value.dtype in _TAKEN_AS_THEY_ARE


def is_plain_eager():
    """Whether nothing is being traced, and jax does not look for NaNs: it would repeat a compiled call to find them."""
    return core.trace_state_clean() and not (jax.config.jax_debug_nans or jax.config.jax_debug_infs)


def capsule(address):
    """A function's address as jaxlib wants it."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(address, None, None)


def register(target, stages, platform):
    """Registers ``{stage: address}`` as ``target``. An unknown platform is passed on as it is."""
    capsules = {stage: capsule(address) for stage, address in stages.items()}
    function = capsules["execute"] if len(capsules) == 1 else capsules
    _ffi.register_ffi_target(target, function, platform=_PLATFORMS.get(platform.lower(), platform))


def platforms_of(context):
    """The platforms that a call is lowered for."""
    return getattr(context, "platforms", None) or context.module_context.platforms


def is_cpu(platform):
    """Whether a handler's platform is the CPU, whatever its name."""
    return platform.lower() in ("cpu", "host")


#: Whether a type is registered with the info that says how its states are deleted: from r7 on.
TYPES_HAVE_INFO = REVISION >= 7


def registers_types():
    """Whether this jaxlib registers types for Python."""
    return any(hasattr(_ffi, name) for name in ("register_ffi_type", "register_ffi_type_id"))


_registered_types = set()  # (address of the id, platform); XLA knows an id once


def register_type(name, number, info, platform):
    """Registers a type, once: ``number`` is the address of its id, ``info`` that of its info, or None."""
    if (number, platform) in _registered_types:
        return
    key = (number, platform)
    platform = _PLATFORMS.get(platform.lower(), platform)
    # jaxlib keeps what it is told before its backends are there, and then takes handlers before their types.
    jax.devices()
    if not TYPES_HAVE_INFO:
        older = getattr(_ffi, "register_ffi_type_id", None) or _ffi.register_ffi_type
        older(name, capsule(number), platform=platform)
    else:
        _ffi.register_ffi_type(name, {"type_id": capsule(number), "type_info": capsule(info)}, platform=platform)
    _registered_types.add(key)


def register_legacy(target, address, platform):
    """Registers a target of the custom calls that came before XLA FFI: jaxlib's API version 0."""
    name = "cpu" if platform.lower() in ("host", "cpu") else "cuda" if platform.lower() == "gpu" else platform.lower()
    platform = _PLATFORMS.get(name, platform)
    _ffi.register_ffi_target(target, capsule(address), platform=platform, api_version=0)


def typeof(value):
    """The type of a value, traced or not."""
    if hasattr(jax, "typeof"):
        return jax.typeof(value)
    return core.raise_to_shaped(core.get_aval(value))


def zero_tangent(value):
    """The tangent of a value that nothing is differentiated by."""
    from jax.interpreters import ad

    aval = typeof(value)
    # The latter is what the former was called once.
    tangent = getattr(aval, "to_tangent_aval", None) or aval.at_least_vspace
    return ad.Zero(tangent())


def axes_of(aval):
    """The mesh axes of a shard_map that a value varies over, however this jax tells them."""
    manual = getattr(aval, "manual_axis_type", None)
    return getattr(manual, "varying", None) or getattr(aval, "vma", None) or frozenset()


def vary_alike(args):
    """The operands, each varying over the mesh axes that some of them varies over."""
    for name in ("auto_insert_reshard", "standard_insert_pvary"):
        if hasattr(core, name):
            return getattr(core, name)(*args)
    return args


def result_aval(shape, dtype, operands, varying=frozenset(), parts=()):
    """The type of a result; under shard_map it varies over the mesh axes that the operands vary over. ``parts`` says how
    its first dimensions are divided over Explicit axes of a mesh, as ``parts_of`` does."""
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
    """How a type says which mesh axes it varies over: options for its axes; None where jax has no such types."""
    parameters = inspect.signature(jax.core.ShapedArray).parameters
    if "manual_axis_type" in parameters and hasattr(jax.sharding, "ManualAxisType"):
        return lambda axes: {"manual_axis_type": jax.sharding.ManualAxisType(varying=axes)}
    return (lambda axes: {"vma": axes}) if "vma" in parameters else None


_VARYING = _varying_options()

#: What moves a value whose type says how it is divided; None where jax has no such types, or none that all of it knows.
_RESHARD = getattr(jax.sharding, "reshard", None) if _VARYING else None


def is_explicit(value):
    """Whether a value is on a mesh with Explicit axes: its type says how they divide it."""
    return _explicit_mesh(value) is not None


def parts_of(value):
    """How Explicit axes divide a value, for each of its dimensions in jax's words: an axis, several, or None; () for a
    value that is on no such mesh."""
    if not is_explicit(value):
        return ()
    spec = type_of(value).sharding.spec
    # Later jax says nothing of parts that are still to be added up here; `divided` does so.
    return tuple(getattr(spec, "partitions", spec))


def divided(value, parts, mesh=None):
    """The value, divided over Explicit axes as ``parts`` says of its first dimensions, and whole along all others. One
    that is on no mesh stays where it is, unless ``mesh`` is given."""
    mesh = _explicit_mesh(value) or mesh
    if mesh is None:
        return value
    spec = jax.sharding.PartitionSpec(*parts, *[None] * (value.ndim - len(parts)))
    return value if is_explicit(value) and typeof(value).sharding.spec == spec else _RESHARD(value, jax.sharding.NamedSharding(mesh, spec))


def explicit_mesh(values):
    """The mesh with Explicit axes that some of the values are on, or None."""
    return next(filter(None, map(_explicit_mesh, values)), None)


def _explicit_mesh(value):
    if _RESHARD is None or value is None or is_token(value):
        return None
    mesh = getattr(getattr(type_of(value), "sharding", None), "mesh", None)
    return mesh if jax.sharding.AxisType.Explicit in tuple(getattr(mesh, "axis_types", None) or ()) else None


def type_of(value):
    """The type of a value, or of what is one."""
    return value if isinstance(value, core.AbstractValue) else typeof(value)


def allow_in_shard_map(primitive):
    """Tells a jax that asks for it that results vary as for any elementwise primitive. jax 0.6.0 asks where its types
    are told not to say so."""
    try:
        from jax.experimental import shard_map
    except ImportError:
        return
    if hasattr(shard_map, "register_standard_check"):
        shard_map.register_standard_check(primitive)
        shard_map.register_standard_rewrite(primitive)


def has_shardy():
    """Whether programs are divided between devices by Shardy; else by GSPMD."""
    return bool(getattr(jax.config, "jax_use_shardy_partitioner", False))


class _Effect(effects.Effect):
    """What a call with a side effect has; jax leaves such calls where they are. Exported models have it by this class's
    module and name, and jax reads it back as one that is equal."""

    def __str__(self):
        return "XLA FFI"

    def __eq__(self, other):
        return type(other) is _Effect

    def __hash__(self):
        return hash(_Effect)


for _kind in ("lowerable", "control_flow_allowed", "remat_allowed", "custom_derivatives_allowed", "partial_eval_kept"):
    if hasattr(effects, f"{_kind}_effects"):
        getattr(effects, f"{_kind}_effects").add_type(_Effect)

#: The effect of a call that has one.
EFFECT = _Effect()


#: Each call is lowered where it stands: what jax lowers once for several has no place of its own to be named.
LOWERED_IN_PLACE = {"cacheable": False} if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {}


def named(location, primitives, name):
    """A place of the program whose operation is called by ``name``, not by one of ``primitives``: XLA names its
    instruction after it, and profiles the instruction's event. Other places stay as they are."""
    last = re.compile(rf"(^|/)({'|'.join(primitives)})(\[.*)?$", re.DOTALL)
    if hasattr(location, "child_loc"):  # of a name alone, in earlier bindings an error for others
        with contextlib.suppress(ValueError):
            if location.name_str.removesuffix(":") in primitives and location.name_str.endswith(":"):
                # The kind of operation, as later jax has it around its place.
                return named(location.child_loc, primitives, name)
            called, count = last.subn(lambda found: found[1] + name, location.name_str)
            return ir.Location.name(called, childLoc=location.child_loc) if count else location
    # Bindings that do not tell: by way of the text.
    text = re.fullmatch(r'loc\("((?:[^"\\]|\\.)*)"(.*)\)', str(location), re.DOTALL)
    if text is None or not hasattr(ir.Location, "from_attr"):
        return location
    called, count = last.subn(lambda found: found[1] + re.sub(r"[^\w.@-]", "_", name, flags=re.ASCII), text[1])
    return ir.Location.from_attr(ir.Attribute.parse(f'loc("{called}"{text[2]})')) if count else location


#: jax's own rule leaves the layouts away that it is given: in 0.4.31, which has this function for those that it makes up.
LOSES_LAYOUTS = hasattr(inspect.getmodule(_ffi.ffi_lowering), "_default_layouts")


#: jax's own rule for the text of a call. Its layouts count from the fastest dimension, ``ffi_call``'s from the slowest.
ffi_lowering = _ffi.ffi_lowering


def has_x64():
    """Whether jax makes arrays of 64-bit elements."""
    return bool(jax.config.jax_enable_x64)


def is_key(value):
    """Whether an argument is an array of random keys."""
    return isinstance(value, jax.Array) and hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def is_differentiable(dtype):
    """Whether there are tangents of this type."""
    return jax.dtypes.issubdtype(dtype, np.inexact)
