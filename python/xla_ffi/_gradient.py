"""Derivatives of calls, computed by the handlers that the author declared.

Differentiating a call returns its results, the values that the derivative needs (the *residuals*), and a second
primitive, the *tangent*. The tangent is the linear map from the arguments' tangents to the results' tangents. Forward
mode evaluates this map, and reverse mode transposes it. See ``docs/manifest.md`` for the operands and results of the
handlers.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, dispatch
from jax.interpreters import ad, batching, mlir

from . import _jax, _sharding

#: The primitives for a call's linear map. The first is for maps whose calls may be split over devices, the second for
#: other maps. The operands are the residuals and then the nonzero tangents.
TANGENTS = (core.Primitive("xla_ffi_tangent_split"), core.Primitive("xla_ffi_tangent"))


@dataclasses.dataclass(frozen=True)
class Rule:
    """The derivative of one call.

    ``handlers`` are the declared handlers (``_related_handlers.Gradient``). ``args`` and ``rets`` are the names of the
    call's operands, in which a variadic operand occurs several times. ``said`` are the caller's keywords, for calls of
    the declared handlers.
    """

    handlers: Any
    attributes: tuple
    args: tuple
    rets: tuple
    said: tuple

    def augmented(self, args, bind, results, has_side_effect):
        """Returns the results of the call, followed by additional results of its ``forward`` handler."""
        if self.handlers.forward is None:
            return bind(*args)
        options = {**dict(self.said), "has_side_effect": has_side_effect}
        return self.handlers.call("forward", self.attributes, args, results, **options)

    def saved(self, args):
        """Returns the operands that the linear map needs, as indices into the arguments followed by the results."""
        return self.handlers.saved(self.args, self.rets, [_is_differentiable(arg) for arg in args])

    def lifted(self, _args, tangents):
        """Returns the tangents in the form that the linear map accepts. None is a zero tangent."""
        return tangents

    def linear(self, args, _saved, results):
        """Returns the linear map. ``results`` are the types of the call's results."""
        return Linear(self.handlers, self.attributes, tuple(map(_is_differentiable, args)), results, self.said)


@dataclasses.dataclass(frozen=True)
class Batched:
    """The derivative of a batched call, with the methods of ``Rule``.

    ``axes`` has an entry per argument: 0 if the argument has the leading dimension, "one" if that dimension has size 1,
    None if the dimension is missing.
    """

    rule: Any
    axes: tuple

    def augmented(self, args, bind, results, has_side_effect):
        if self.handlers.forward is None:
            return bind(*args)
        inner = tuple(result and (result[0][1:], result[1]) for result in results)
        one = lambda *args: tuple(self.rule.augmented(args, None, inner, has_side_effect))
        return _vmap(one, self._squeezed(args), self._in_axes)

    def saved(self, args):
        return self.rule.saved(args)

    def lifted(self, args, tangents):
        """Returns the tangents in the form that the linear map accepts. Tangents of operands that all elements of the
        batch share are repeated for each element."""
        size = next(arg.shape[0] for arg, axis in zip(args, self.axes) if axis == 0)
        axes = [axis for arg, axis in zip(args, self.axes) if _is_differentiable(arg)]
        tangents = [t if t is None or axis != "one" else t[0] for t, axis in zip(tangents, axes)]
        axes = [None if axis != 0 or t is None else 0 for t, axis in zip(tangents, axes)]

        def one(*tangents):
            inner = [_element(arg, axis) for arg, axis in zip(args, self.axes)]
            return self.rule.lifted(inner, tangents)

        return _vmap(one, tangents, axes, size)

    def linear(self, args, saved, results):
        axes = tuple(0 if index >= len(args) or self.axes[index] == 0 else None for index in saved)
        squeezed = tuple(index < len(args) and self.axes[index] == "one" for index in saved)
        inner = [_element(arg, axis) for arg, axis in zip(args, self.axes)]
        results = tuple(result and (result[0][1:], result[1]) for result in results)
        return BatchedLinear(self.rule.linear(inner, saved, results), axes, squeezed)

    @property
    def handlers(self):
        return self.rule.handlers

    @property
    def _in_axes(self):
        return tuple(0 if axis == 0 else None for axis in self.axes)

    def _squeezed(self, args):
        return [arg[0] if axis == "one" else arg for arg, axis in zip(args, self.axes)]


@dataclasses.dataclass(frozen=True)
class Linear:
    """A linear map.

    ``differentiable`` has a bool for each argument of the call, and ``results`` the type of each result, including
    results without tangents. ``said`` is as in ``Rule``.
    """

    handlers: Any
    attributes: tuple
    differentiable: tuple
    results: tuple
    said: tuple

    @property
    def whole(self):
        """Returns the caller's keywords that apply to every call that evaluates this map."""
        return {"partition_batch": False} if dict(self.said).get("partition_batch") is False else {}

    def tangents(self, residuals, tangents, results):
        """Evaluates the map for forward mode. ``results`` are the types of the returned tangents."""
        handlers = self.handlers
        if handlers.linear:
            constant = iter(residuals[len(residuals) - self.differentiable.count(False) :])
            given = iter(tangents)
            args = [next(given if is_given else constant) for is_given in self.differentiable]
            # The handler also returns results without tangents.
            have, wanted = [_has_tangent(result) for result in self.results], iter(results)
            types = [next(wanted) if has else result for result, has in zip(self.results, have)]
            out = handlers.call("linear", self.attributes, args, types, **dict(self.said))
            return [value for value, has in zip(out, have) if has]
        if handlers.jvp is None:
            raise TypeError(
                f"{handlers.name}: no derivative in forward mode (jvp, jacfwd, linearize, hessian), because the handler declares only "
                f"`vjp = \"{handlers.vjp.spec.name}\"`; use reverse mode (jax.grad), or declare `jvp = …` and `transpose = …`"
            )
        return handlers.call("jvp", self.attributes, [*residuals, *tangents], results, **self.whole)

    def cotangents(self, residuals, cotangents, results):
        """Evaluates the transposed map for reverse mode. ``results`` are the types of the returned cotangents."""
        handlers = self.handlers
        if handlers.linear:
            residuals = residuals[: len(residuals) - self.differentiable.count(False)]
        if handlers.vjp is None and handlers.transpose is None:
            have = "linear" if handlers.linear else f"jvp = \"{handlers.jvp.spec.name}\""
            raise TypeError(
                f"{handlers.name}: no derivative in reverse mode (grad, vjp, jacrev), because the handler declares `{have}` without "
                "`transpose = …`; use forward mode (jax.jvp), or declare the handler of the transposed map"
            )
        which = "vjp" if handlers.vjp is not None else "transpose"
        return handlers.call(which, self.attributes, [*residuals, *cotangents], results, **self.whole)


@dataclasses.dataclass(frozen=True)
class BatchedLinear:
    """A linear map for each element of a batch, with the methods of ``Linear``.

    ``axes`` has the batch dimension of each residual. In all other operands, the batch dimension is first.
    """

    linear: Any
    axes: tuple
    squeezed: tuple

    @property
    def handlers(self):
        return self.linear.handlers

    @property
    def whole(self):
        return self.linear.whole

    def tangents(self, residuals, tangents, results):
        return self._each(self.linear.tangents, residuals, tangents, results)

    def cotangents(self, residuals, cotangents, results):
        return self._each(self.linear.cotangents, residuals, cotangents, results)

    def _each(self, function, residuals, values, results):
        residuals = [value[0] if squeeze else value for value, squeeze in zip(residuals, self.squeezed)]
        inner = tuple((shape[1:], dtype) for shape, dtype in results)
        one = lambda *args: tuple(function(args[: len(residuals)], args[len(residuals) :], inner))
        return _vmap(one, [*residuals, *values], [*self.axes, *[0] * len(values)])


def _vmap(function, args, axes, size=None):
    """Calls ``jax.vmap`` with the batch divided over devices in the same way in all operands."""
    args = _sharding.alike(args, [axis == 0 for axis in axes], mesh=_jax.explicit_mesh(args))
    return jax.vmap(function, tuple(axes), 0, axis_size=size)(*args)


def _is_differentiable(value):
    return not _jax.is_token(value) and _jax.is_differentiable(value.dtype)


def _has_tangent(result):
    """Returns true if a result of this type has a tangent. None is the type of a token."""
    return result is not None and _jax.is_differentiable(result[1])


def _element(value, axis):
    """Returns the type of one element of a batch."""
    return value if axis is None else jax.ShapeDtypeStruct(value.shape[1:], value.dtype)


def _like(args):
    """Returns the types of the operands that have tangents."""
    explicit = lambda arg: {"sharding": _jax.type_of(arg).sharding} if _jax.is_explicit(arg) else {}
    return [jax.ShapeDtypeStruct(arg.shape, arg.dtype, **explicit(arg)) for arg in args if _is_differentiable(arg)]


def _as(value, aval):
    """Divides a cotangent over Explicit axes like the corresponding value ``aval``, if the type of ``aval`` is
    Explicit."""
    return _jax.divided(value, _jax.parts_of(aval)) if _jax.is_explicit(aval) else value


def _divided(values, parts):
    """Divides each value over the Explicit mesh axes in the corresponding entry of ``parts``."""
    return [_jax.divided(value, part) for value, part in zip(values, parts)]


def _type(value):
    return tuple(value.shape), np.dtype(value.dtype)


def jvp(primitive, args, tangents, *, gradient, **params):
    """Returns the results of a call and their tangents."""
    if not params["results"]:
        # The call has only side effects, so there is nothing to differentiate.
        return primitive.bind(*args, gradient=gradient, **params), []
    if gradient is None:
        raise ValueError(
            f"{params['target']}: cannot be differentiated, because the handler declares no gradient (`vjp = …`, `jvp = …` or "
            "`linear`); define one with handler.with_vjp(fwd, bwd) or jax.custom_vjp"
        )
    bind = functools.partial(primitive.bind, gradient=gradient, **params)
    out = list(gradient.augmented(args, bind, params["results"], params["has_side_effect"]))
    count = len(params["results"])
    parts = _sharding.lead(args, params["split"])
    result, more = _divided(out[:count], [parts] * count), out[count:]
    saved = gradient.saved(args)
    residuals = [[*args, *result, *more][index] for index in saved]
    given = [None if type(t) is ad.Zero else t for arg, t in zip(args, tangents) if _is_differentiable(arg)]
    kinds = [_type(value) for value in result if _is_differentiable(value)]
    if not kinds or all(t is None for t in given):
        return result, [_jax.zero_tangent(value) for value in result]
    types = tuple(map(_type, jax.eval_shape(functools.partial(gradient.lifted, args), _like(args))))
    linear = gradient.linear(args, saved, params["results"])
    slopes = iter(_bind(residuals, gradient.lifted(args, given), linear, types, tuple(kinds), (parts,) * len(kinds)))
    return result, [next(slopes) if _is_differentiable(value) else _jax.zero_tangent(value) for value in result]


def transpose(cotangents, *args, gradient, **params):
    """Returns the cotangents of the arguments of a call of a linear map."""
    if gradient is None or not gradient.handlers.linear:
        raise TypeError(f"{params['target']}: cannot be transposed, because the handler does not declare `linear`")
    undefined = [ad.is_undefined_primal(arg) for arg in args]
    avals = [arg.aval if is_undefined else arg for arg, is_undefined in zip(args, undefined)]
    saved = gradient.saved(avals)
    residuals = [args[index] for index in saved]
    if any(map(ad.is_undefined_primal, residuals)):
        raise TypeError(f"{params['target']}: cannot be transposed, because the values of its nonlinear operands are unknown")
    linear = gradient.linear(avals, saved, params["results"])
    # The map acts on each element of a batch. Operands that the elements share get the sum of the elements' cotangents.
    lift, like = lambda like: tuple(gradient.lifted(avals, like)), _like(avals)
    lifted = jax.make_jaxpr(lift)(like).out_avals
    given = [
        ad.instantiate_zeros(cotangent)
        for result, cotangent in zip(params["results"], cotangents)
        if _has_tangent(result)
    ]
    found = tuple(map(_as, linear.cotangents(residuals, given, tuple(map(_type, lifted))), lifted))
    found = iter(*jax.linear_transpose(lift, like)(found))
    found = [next(found) if _is_differentiable(aval) else None for aval in avals]
    return [
        _as(value, aval) if is_undefined else None
        for value, aval, is_undefined in zip(found, avals, undefined)
    ]


def _bind(residuals, tangents, linear, types, results, parts):
    """Returns the tangents of the results.

    ``types`` are the types of the arguments' tangents, where None is a zero tangent, and ``results`` are the types of
    the results. ``parts`` has for each result the Explicit axes that divide it.
    """
    given = [tangent for tangent in tangents if tangent is not None]
    which = tuple(tangent is not None for tangent in tangents)
    operands = _jax.vary_alike([*residuals, *given])
    return _tangent(*operands, count=len(residuals), linear=linear, which=which, types=types, results=results, parts=parts)


def _tangent(*operands, linear, **params):
    return TANGENTS[bool(linear.whole)].bind(*operands, linear=linear, **params)


def _evaluate(*args, count, linear, which, types, results, parts):
    given = iter(args[count:])
    tangents = [next(given) if there else jnp.zeros(*kind) for there, kind in zip(which, types)]
    return _divided(linear.tangents(args[:count], tangents, results), parts)


def _abstract(*avals, results, parts, **_):
    return [_jax.result_aval(*result, avals, parts=part) for result, part in zip(results, parts)]


def _transpose(cotangents, *args, count, linear, which, types, **_):
    residuals, tangents = args[:count], args[count:]
    if any(map(ad.is_undefined_primal, residuals)):
        raise TypeError(f"{linear.handlers.name}: cannot be transposed, because its tangent is linear only in the tangents")
    if all(type(cotangent) is ad.Zero for cotangent in cotangents):
        return [None] * len(args)
    found = linear.cotangents(residuals, [ad.instantiate_zeros(value) for value in cotangents], types)
    found = [value for value, there in zip(found, which) if there]
    return [None] * count + [
        _as(value, tangent.aval) if ad.is_undefined_primal(tangent) else None
        for value, tangent in zip(found, tangents)
    ]


def _jvp_of_tangent(args, slopes, *, count, which, **params):
    """Differentiates a tangent.

    A tangent primitive is linear in its tangents. The handler declares the derivative with respect to the residuals.
    """
    out = _tangent(*args, count=count, which=which, **params)
    if all(type(slope) is ad.Zero for slope in slopes[:count]):
        given = iter(zip(args[count:], slopes[count:]))
        pairs = [next(given) if there else None for there in which]
        second = [None if pair is None or type(pair[1]) is ad.Zero else pair[1] for pair in pairs]
        if all(value is None for value in second):
            return out, [_jax.zero_tangent(value) for value in out]
        params["tangents"] = second
        return out, _bind(list(args[:count]), **params)
    function = functools.partial(_evaluate, count=count, which=which, **params)
    instantiated = [
        ad.instantiate_zeros(slope) if _is_differentiable(arg) else np.zeros(arg.shape, jax.dtypes.float0)
        for arg, slope in zip(args, slopes)
    ]
    return jax.jvp(lambda *args: tuple(function(*args)), tuple(args), tuple(instantiated))


def _batch_tangent(args, dims, *, count, linear, types, results, parts, **params):
    size = next(arg.shape[dim] for arg, dim in zip(args, dims) if dim is not None)
    args = [arg if dim is None else jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims)]
    tangents = [
        jnp.broadcast_to(arg, (size, *arg.shape)) if dim is None else arg for arg, dim in zip(args[count:], dims[count:])
    ]
    axes = tuple(None if dim is None else 0 for dim in dims[:count])
    batch = _sharding.of_batch(args, [dim is not None for dim in dims])
    out = _tangent(
        *args[:count],
        *tangents,
        count=count,
        linear=BatchedLinear(linear, axes, (False,) * count),
        types=tuple(((size, *shape), dtype) for shape, dtype in types),
        results=tuple(((size, *shape), dtype) for shape, dtype in results),
        parts=tuple((*batch, *part) if batch else part for part in parts),
        **params,
    )
    return out, (0,) * len(out)


for _primitive in TANGENTS:
    _primitive.multiple_results = True
    _primitive.def_impl(_evaluate)
    _primitive.def_abstract_eval(_abstract)
    mlir.register_lowering(_primitive, mlir.lower_fun(_evaluate, multiple_results=True))
    ad.primitive_jvps[_primitive] = _jvp_of_tangent
    ad.primitive_transposes[_primitive] = _transpose
    batching.primitive_batchers[_primitive] = _batch_tangent
    _jax.allow_in_shard_map(_primitive)
# Lowering may split calls over devices, so jax must provide the devices.
dispatch.prim_requires_devices_during_lowering.add(TANGENTS[0])
