"""The primitive for calls of handlers: evaluation, typing and lowering.

See ``_batch.py`` for batching, ``_gradient.py`` for differentiation, and ``_sharding.py`` for splitting over devices.
"""

import functools
import re

import jax
import numpy as np
from jax._src import core, dispatch
from jax._src.interpreters import mlir as internal
from jax._src.lib.mlir import ir
from jax.interpreters import ad, mlir

from . import _abi, _jax, _mlir, _record, _sharding
from ._description import one_to_one
from ._errors import UnsupportedRuntimeError

#: The primitives: for plain calls, and for calls that may be split over devices. Two primitives exist because jax
#: decides per primitive whether lowering needs the devices. All parameters of the primitives are hashable.
PRIMITIVES = (core.Primitive("xla_ffi_call"), core.Primitive("xla_ffi_call_split"))


def call(
    target,
    results,
    args,
    attrs,
    batch=None,
    has_side_effect=False,
    aliases=None,
    layouts=None,
    gradient=None,
    split=None,
    legacy=None,
):
    """Calls ``target`` and returns a list of results.

    ``results`` is a list of types with ``shape`` and ``dtype``, or the type of tokens. ``batch`` is as in
    ``_batch.py``, ``gradient`` a rule of ``_gradient.py``, and ``split`` a ``_sharding.Split``. ``layouts`` has a
    sequence with the layout of each operand and one for the results, as in a manifest. ``legacy`` is XLA's
    ``CustomCallApiVersion`` and the opaque text of a call of the original API.

    A call without results has a side effect, because jax would otherwise drop it.
    """
    token = _jax.abstract_token()
    if _jax.REVISION < 4 and (token in results or any(map(_jax.is_token, args))):
        # jaxlib before 0.5.1 crashes the process on tokens.
        raise UnsupportedRuntimeError(f"{target}: tokens need jaxlib 0.5.1 or newer, got {_jax.JAXLIB}; upgrade jaxlib")
    for result in results:
        if result is not token and not (hasattr(result, "shape") and hasattr(result, "dtype")):
            raise ValueError(f"{target}: result_shape_dtypes=: expected jax.ShapeDtypeStruct(shape, dtype), got {result!r}")
    types = tuple(None if result is token else (tuple(result.shape), np.dtype(result.dtype).newbyteorder("=")) for result in results)
    _check_wide(target, types)
    _check_aliases(target, aliases or {}, args, types)
    return PRIMITIVES[split is not None].bind(
        *_sharding.placed(_jax.vary_alike(args), split),
        target=target,
        results=types,
        varying=frozenset().union(*(_jax.axes_of(result) for result in results)),
        attributes=tuple(sorted((name, Frozen(value)) for name, value in attrs.items())),
        has_side_effect=bool(has_side_effect) or not types,
        aliases=tuple(sorted((aliases or {}).items())),
        layouts=tuple(map(tuple, layouts)) if layouts else (("row",) * len(args), ("row",) * len(types)),
        batch=batch,
        gradient=gradient,
        split=split,
        legacy=legacy,
    )


def _check_wide(target, types):
    """Raises a TypeError for results that jax would treat as arrays of 32-bit elements."""
    if _jax.has_x64():
        return
    for index, kind in enumerate(types):
        if kind is not None and _abi.dtype_name(kind[1]) in _abi.WIDE_DTYPES:
            raise TypeError(
                f"{target}: result {index}: {_abi.type_text(kind[1].name, kind[0])} needs jax_enable_x64; call jax.config.update('jax_enable_x64', True) first"
            )


def _check_aliases(target, aliases, args, types):
    one_to_one(target, sorted(aliases.items()))
    for argument, result in aliases.items():
        pair = f"{target}: input_output_aliases={{{argument}: {result}}}"
        if not (0 <= argument < len(args) and 0 <= result < len(types)):
            raise ValueError(f"{pair}: expected indices of {len(args)} arguments and {len(types)} results")
        given, taken = args[argument], types[result]
        own = None if _jax.is_token(given) else (tuple(given.shape), np.dtype(given.dtype))
        if own != taken:
            raise ValueError(f"{pair}: expected equal types, got {_type_text(own)} and {_type_text(taken)}")


def _type_text(kind):
    return "a token" if kind is None else _abi.type_text(str(kind[1]), kind[0])


def _abstract(*avals, results, varying, has_side_effect, split, **_):
    operands = [aval for aval in avals if hasattr(aval, "shape")]
    parts = _sharding.lead(avals, split)
    out = [
        _jax.abstract_token() if result is None else _jax.result_aval(*result, operands, varying, parts) for result in results
    ]
    return out, {_jax.EFFECT} if has_side_effect else set()


def _lower(context, *operands, split, **params):
    _sharding.refuse(context, params["target"], params["has_side_effect"], bool(params["results"]))
    if split is not None and split.dims and _sharding.wanted(context):
        results = params.pop("results")
        bind = functools.partial(PRIMITIVES[0].bind, split=None, **params)
        devices = tuple(context.module_context.axis_context.device_assignment)
        whole = lambda *args: _sharding.split_call(bind, split, args, results, devices)
        found = mlir.lower_fun(whole, multiple_results=True)(context, *operands)
        # The result types determine the division, even if XLA's sharding rule gives a different one.
        typed = lambda value, aval: internal.lower_with_sharding_in_types(context, value, aval)
        return [typed(*each) if _jax.is_explicit(each[1]) else each[0] for each in zip(found, context.avals_out)]
    return _custom_call(context, *operands, **params)


def _custom_call(context, *operands, target, **params):
    # Without this location, instructions are named after the primitive, which is the same for all handlers.
    with _jax.named(ir.Location.current, [each.name for each in PRIMITIVES], target):
        now = _record.target_now(target, _jax.platforms_of(context))
        return _emitted(context, *operands, target=now, **params)


def _emitted(context, *operands, target, attributes, has_side_effect, aliases, layouts, legacy, **_):
    given, taken = layouts
    options = {
        "operand_layouts": [_mlir.minor_to_major(layout, len(getattr(aval, "shape", ()))) for layout, aval in zip(given, context.avals_in)],
        "result_layouts": [_mlir.minor_to_major(layout, len(getattr(aval, "shape", ()))) for layout, aval in zip(taken, context.avals_out)],
        "has_side_effect": has_side_effect,
        "operand_output_aliases": dict(aliases),
    }
    version, config = legacy or (4, {name: ir.Attribute.parse(_mlir.attribute(frozen.value)) for name, frozen in attributes})
    if version < 4 or _jax.LOSES_LAYOUTS:
        # In some versions of jax, the public lowering rule does not support calls of earlier API versions.
        shapes = [aval.shape for aval in context.avals_out]
        sizes = [[size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in shape] for shape in shapes]
        types = [ir.RankedTensorType.get(each, mlir.dtype_to_ir_type(aval.dtype)) for each, aval in zip(sizes, context.avals_out)]
        if sizes != list(map(list, shapes)):
            options["result_shapes"] = [internal.eval_dynamic_shape_as_tensor(context, shape) for shape in shapes]
        return internal.custom_call(
            target, operands=operands, result_types=types, backend_config=config, api_version=version, **options
        ).results
    return _jax.ffi_lowering(target, backend_config=config, **options)(context, *operands)


def _impl(primitive, *args, **params):
    try:
        return dispatch.apply_primitive(primitive, *args, **params)
    except FloatingPointError as error:
        # jax_debug_nans or jax_debug_infs is set. jax's error names the primitive, which is the same for all handlers.
        found = re.search(r"\((nan|inf)\)", str(error))
        what = found[1] if found else "nan or inf"
        raise FloatingPointError(f"{params['target']}: invalid value ({what}) encountered in a result") from None


# The module is imported late, because most programs do not differentiate calls.
def _jvp(primitive, args, tangents, **params):
    from . import _gradient

    return _gradient.jvp(primitive, args, tangents, **params)


def _transpose(cotangents, *args, **params):
    from . import _gradient

    return _gradient.transpose(cotangents, *args, **params)


for _primitive in PRIMITIVES:
    _primitive.multiple_results = True
    _primitive.def_impl(functools.partial(_impl, _primitive))
    _primitive.def_effectful_abstract_eval(_abstract)
    mlir.register_lowering(_primitive, _lower, **_jax.LOWERED_IN_PLACE)
    ad.primitive_jvps[_primitive] = functools.partial(_jvp, _primitive)
    ad.primitive_transposes[_primitive] = _transpose
    _jax.allow_in_shard_map(_primitive)
dispatch.prim_requires_devices_during_lowering.add(PRIMITIVES[1])


@functools.total_ordering
class Frozen:
    """An attribute's value as a hashable, ordered parameter of the primitive."""

    def __init__(self, value):
        self.value = value
        self._key = key(value)

    def __repr__(self):
        return repr(self.value)

    def __hash__(self):
        return hash(self._key)

    def __eq__(self, other):
        return isinstance(other, Frozen) and self._key == other._key

    def __lt__(self, other):
        return repr(self._key) < repr(other._key)


def key(value):
    """Returns a hashable key for a constant, and raises a TypeError for anything else.

    Equal constants of different types have different keys, as have 0.0 and -0.0. The key of a NaN equals itself.
    """
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is np.ndarray or isinstance(value, np.generic):
        return kind, value.dtype, value.shape, value.tobytes()
    if value is None or isinstance(value, (int, float, str, jax.ShapeDtypeStruct)):
        return kind, value
    if isinstance(value, (list, tuple)):
        return kind, tuple(map(key, value))
    if isinstance(value, dict):
        return dict, tuple(sorted((name, key(item)) for name, item in value.items()))
    raise TypeError(f"expected a constant, got {kind.__name__}")
