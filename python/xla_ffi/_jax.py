"""The differences between jax releases, in one place.

From jax 0.4.38 on (``jax.extend.ffi``, since 0.5.0 ``jax.ffi``) ``ffi_call`` does all that we need.
Earlier ones know neither aliases nor side effects nor array attributes there, though their runtimes
do: for them this module has a primitive of its own over their ``ffi_lowering``.
"""

import contextlib
import ctypes
import functools
import inspect

import jax
import jaxlib
import numpy as np

from . import _record, _revisions
from ._errors import UnsupportedRuntimeError

try:
    from jax import ffi as _ffi
except ImportError:
    from jax.extend import ffi as _ffi

#: Version of the jaxlib in this process.
JAXLIB = jaxlib.version.__version__

#: Its revision of the ABI.
REVISION = _revisions.of(JAXLIB)

_MODERN = "input_output_aliases" in inspect.signature(_ffi.ffi_call).parameters

_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA", "rocm": "ROCM"}


def abstract_token():
    """What stands for a token among result types."""
    try:
        return jax.core.abstract_token
    except AttributeError:
        from jax._src import core

        return core.abstract_token


def is_token(value):
    """Whether an argument is a token."""
    return type(value).__name__ == "Token" or type(getattr(value, "aval", None)).__name__ == "AbstractToken"


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


def is_cpu(platform):
    """Whether a handler's platform is the CPU, whatever its name."""
    return platform.lower() in ("cpu", "host")


def register_legacy(target, address, platform):
    """Registers a target of the custom calls that came before XLA FFI: jaxlib's API version 0."""
    name = "cpu" if platform.lower() in ("host", "cpu") else "cuda" if platform.lower() == "gpu" else platform.lower()
    platform = _PLATFORMS.get(name, platform)
    _ffi.register_ffi_target(target, capsule(address), platform=platform, api_version=0)


def legacy_call(target, results, args, version, opaque="", has_side_effect=False):
    """Calls a target as XLA's ``CustomCallApiVersion`` 1, 2 or 3. Returns a list."""
    if _MODERN:
        function = _ffi.ffi_call(
            target,
            tuple(results),
            has_side_effect=has_side_effect,
            vmap_method="sequential",
            custom_call_api_version=version,
            legacy_backend_config=opaque,
        )
        return list(function(*args))
    return list(
        _primitive().bind(
            *args,
            result_avals=tuple(_aval(result) for result in results),
            target_name=target,
            attributes=(),
            has_side_effect=has_side_effect,
            aliases=(),
            vmap_method="sequential",
            legacy=(version, opaque),
        )
    )


def result_type(shape, dtype, like=()):
    """The type of a result; under shard_map it varies over the mesh axes that the operands vary over."""
    varying, mesh = frozenset(), None
    for operand in like:
        aval = getattr(operand, "aval", None)
        axes = _axes_of(aval)
        if axes:
            varying |= axes
            mesh = getattr(getattr(aval, "sharding", None), "mesh", mesh)
    if not varying or _VARYING is None:
        return jax.ShapeDtypeStruct(shape, dtype)
    options = _VARYING(varying)
    if mesh is not None and not getattr(mesh, "empty", True) and not _mesh_is_implied(varying):
        # Such a jax wants the type to say over which mesh it varies.
        options["sharding"] = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.ShapeDtypeStruct(shape, dtype, **options)


def _axes_of(aval):
    """The mesh axes that a value varies over, however this jax tells them."""
    manual = getattr(aval, "manual_axis_type", None)
    return getattr(manual, "varying", None) or getattr(aval, "vma", None) or frozenset()


def _varying_options():
    """How a result type says which mesh axes it varies over: options for its axes; None where jax has no such types."""
    parameters = inspect.signature(jax.ShapeDtypeStruct).parameters
    if "manual_axis_type" in parameters and hasattr(jax.sharding, "ManualAxisType"):
        return lambda axes: {"manual_axis_type": jax.sharding.ManualAxisType(varying=axes)}
    if "vma" in parameters:
        return lambda axes: {"vma": axes}
    return None


_VARYING = _varying_options()


def _mesh_is_implied(axes):
    """Whether a type may vary without naming its mesh, for a jax takes that of the running shard_map."""
    try:
        jax.core.ShapedArray((), np.dtype(np.float32), **_VARYING(axes))
    except Exception:  # an AssertionError in those that were seen
        return False
    return True


_partitionable = set()


def _partitioned(target, batch_dims):
    """A context in which calls of ``target`` are split along their leading ``batch_dims`` dimensions.

    Where jax has no such thing (before 0.5.0) XLA gathers sharded operands instead.
    """
    register_partitionable = getattr(_ffi, "register_ffi_target_as_batch_partitionable", None)
    if not batch_dims or register_partitionable is None:
        return contextlib.nullcontext()
    from jax.experimental.xla_metadata import set_xla_metadata

    if target not in _partitionable:
        register_partitionable(target)
        _partitionable.add(target)
    return set_xla_metadata(num_batch_dims=str(batch_dims))


def has_x64():
    """Whether jax makes arrays of 64-bit elements."""
    return bool(jax.config.jax_enable_x64)


def is_key(value):
    """Whether an argument is an array of random keys."""
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def call(target, results, args, attrs, vmap_method=None, has_side_effect=False, aliases=None, batch_dims=0):
    """Calls ``target``. ``results`` is a list of types; returns a list."""
    target = _record.target_now(target)
    if REVISION < 4 and (abstract_token() in results or any(is_token(arg) for arg in args)):
        # Those runtimes end the process when they meet a token.
        raise UnsupportedRuntimeError(f"{target}: tokens need jaxlib 0.5.1 or newer; this process has {JAXLIB}")
    if _MODERN:
        attrs = {name: _hashable(value) for name, value in attrs.items()}
        function = _ffi.ffi_call(
            target,
            tuple(results),
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_output_aliases=dict(aliases or {}) or None,
        )
        with _partitioned(target, batch_dims):
            return list(function(*args, **attrs))
    avals = tuple(_aval(result) for result in results)
    attributes = tuple(sorted((name, _Frozen(value)) for name, value in attrs.items()))
    return list(
        _primitive().bind(
            *args,
            result_avals=avals,
            target_name=target,
            attributes=attributes,
            has_side_effect=has_side_effect,
            aliases=tuple(sorted((aliases or {}).items())),
            vmap_method=vmap_method,
            legacy=None,
        )
    )


class _Dict(dict):
    """A dictionary that jax can use as a key, so that dictionaries may hold dictionaries and arrays."""

    def __hash__(self):
        return hash(_key(self))

    def __eq__(self, other):
        return isinstance(other, dict) and _key(self) == _key(other)


class _Array(np.ndarray):
    """An array that jax can use as a key."""

    def __hash__(self):
        return hash(_key(self))

    def __eq__(self, other):
        return isinstance(other, np.ndarray) and _key(self) == _key(other)


def _hashable(value, inside=False):
    """Attributes as ``ffi_call`` can hash them; top-level arrays it wraps by itself."""
    if isinstance(value, dict):
        return _Dict({name: _hashable(item, True) for name, item in value.items()})
    if inside and isinstance(value, np.ndarray):
        return value.view(_Array)
    return value


def _aval(result):
    return result if result is abstract_token() else jax.core.ShapedArray(result.shape, result.dtype)


@functools.total_ordering
class _Frozen:
    """An attribute's value as a hashable parameter of the primitive."""

    def __init__(self, value):
        self.value = value
        self._key = _key(value)

    def __hash__(self):
        return hash(self._key)

    def __eq__(self, other):
        return isinstance(other, _Frozen) and self._key == other._key

    def __lt__(self, other):
        return repr(self._key) < repr(other._key)


def _key(value):
    if isinstance(value, dict):
        return ("dict", tuple(sorted((name, _key(item)) for name, item in value.items())))
    if isinstance(value, (np.ndarray, np.generic)):
        return ("numpy", value.dtype.str, value.shape, value.tobytes())
    return (type(value).__name__, value)


@functools.cache
def _primitive():
    """``ffi_call`` for jax before 0.4.38."""
    from jax._src import dispatch
    from jax.interpreters import batching, mlir

    primitive = jax.core.Primitive("xla_ffi_call")
    primitive.multiple_results = True
    primitive.def_impl(functools.partial(dispatch.apply_primitive, primitive))
    primitive.def_abstract_eval(lambda *_args, result_avals, **_rest: result_avals)

    def lower(context, *operands, target_name, attributes, has_side_effect, aliases, legacy, **_rest):
        def layouts(avals):
            return [list(reversed(range(len(getattr(aval, "shape", ()))))) for aval in avals]

        if legacy is not None:
            version, opaque = legacy
            call = mlir.custom_call(
                target_name,
                operands=operands,
                result_types=[mlir.aval_to_ir_type(aval) for aval in context.avals_out],
                operand_layouts=layouts(context.avals_in),
                result_layouts=layouts(context.avals_out),
                has_side_effect=has_side_effect,
                backend_config=opaque,
                api_version=version,
            )
            return call.results
        rule = _ffi.ffi_lowering(
            target_name,
            operand_layouts=layouts(context.avals_in),
            result_layouts=layouts(context.avals_out),
            has_side_effect=has_side_effect,
            operand_output_aliases=dict(aliases),
            backend_config={name: _ir_attribute(frozen.value) for name, frozen in attributes},
        )
        return rule(context, *operands)

    mlir.register_lowering(primitive, lower)
    _allow_in_shard_map(primitive)
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    return primitive


def _allow_in_shard_map(primitive):
    """Results vary over the mesh axes that some operand varies over, as for any elementwise primitive."""
    from jax.experimental import shard_map

    shard_map.register_standard_check(primitive)
    shard_map.register_standard_rewrite(primitive)


def _batch(primitive, args, dims, *, result_avals, vmap_method, **params):
    """vmap as ``ffi_call`` does it since jax 0.4.36."""
    import jax.numpy as jnp

    size = next(arg.shape[dim] for arg, dim in zip(args, dims) if dim is not None)
    args = [arg if dim is None else jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims)]
    if vmap_method in ("broadcast_all", "expand_dims", "legacy_vectorized"):
        if vmap_method != "legacy_vectorized":
            lead = size if vmap_method == "broadcast_all" else 1
            args = [
                jnp.broadcast_to(arg, (lead, *arg.shape)) if dim is None else arg for arg, dim in zip(args, dims)
            ]
        batched = tuple(jax.core.ShapedArray((size, *aval.shape), aval.dtype) for aval in result_avals)
        out = primitive.bind(*args, result_avals=batched, vmap_method=vmap_method, **params)
    elif vmap_method in ("sequential", "sequential_unrolled"):

        def one(carry, mapped):
            mapped = iter(mapped)
            operands = [arg if dim is None else next(mapped) for arg, dim in zip(args, dims)]
            return carry, primitive.bind(*operands, result_avals=result_avals, vmap_method=vmap_method, **params)

        mapped = [arg for arg, dim in zip(args, dims) if dim is not None]
        _, out = jax.lax.scan(one, (), mapped, unroll=size if vmap_method == "sequential_unrolled" else 1)
    else:
        raise NotImplementedError(f"vmap_method={vmap_method!r} is not known with jax {jax.__version__}")
    return tuple(out), (0,) * len(out)


def _ir_attribute(value):
    from jax._src.lib.mlir import ir
    from jax.interpreters import mlir

    if isinstance(value, dict):
        return ir.DictAttr.get({name: _ir_attribute(item) for name, item in value.items()})
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, (bool, np.bool_)):
        return ir.BoolAttr.get(bool(value))
    if isinstance(value, int):
        return mlir.i64_attr(value)
    if isinstance(value, float):
        return ir.FloatAttr.get_f64(value)
    if isinstance(value, np.ndarray):
        dense = {
            "int8": ir.DenseI8ArrayAttr, "int16": ir.DenseI16ArrayAttr, "int32": ir.DenseI32ArrayAttr,
            "int64": ir.DenseI64ArrayAttr, "float32": ir.DenseF32ArrayAttr, "float64": ir.DenseF64ArrayAttr,
        }.get(value.dtype.name)  # fmt: skip
        if dense is not None:
            return dense.get(value.tolist())
        element = mlir.dtype_to_ir_type(value.dtype)
        return ir.DenseElementsAttr.get(np.ascontiguousarray(value), type=element)
    if isinstance(value, np.generic):
        element = mlir.dtype_to_ir_type(value.dtype)
        if isinstance(element, ir.IntegerType):
            return ir.IntegerAttr.get(element, int(value))
        return ir.FloatAttr.get(element, float(value))
    raise TypeError(f"JAX {jax.__version__} takes no {type(value).__name__} as an attribute")
