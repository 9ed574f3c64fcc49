"""Batching for ``vmap``: changes a call whose operands have an additional leading dimension.

The ``batch`` of a call determines the batched call. ``batch`` is one of jax's values of ``vmap_method``, None if vmap
is refused, or the author's declaration. A declaration is a tuple with ``"leading"`` or ``"shared"`` for each operand,
or a different handler (``_related_handlers.Other``).
"""

import functools

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from . import _jax, _related_handlers, _sharding
from ._primitive import PRIMITIVES

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


def declared(spec, contract):
    """Returns the batching that a handler's manifest declares."""
    # Operands of a fixed rank cannot have an additional dimension.
    fixed = any(operand.rank is not None and not operand.token for operand in (*spec.args, *spec.rets))
    if spec.batch == "leading" or (spec.batch is None and contract is not None and contract.batchable and not fixed):
        return "broadcast_all"
    if spec.batch in (None, "sequential"):
        return "sequential"
    return None if spec.batch == "none" else spec.batch


def _batch(primitive, args, dims, *, results, batch, aliases, gradient, split, target, **params):
    params = {**params, "target": target, "aliases": aliases, "batch": batch}
    size = next(arg.shape[dim] for arg, dim in zip(args, dims) if dim is not None)
    args = [arg if dim is None else jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims)]
    batched = [dim is not None for dim in dims]
    parts = _sharding.of_batch(args, batched)
    if any(map(_jax.is_token, args)) or None in results:
        raise NotImplementedError(f"{target}: vmap does not support tokens; loop over the batch in Python")
    if batch is None:
        raise NotImplementedError(
            f"{target}: vmap is disabled by vmap_method=None or the handler's `batch = \"none\"`; pass vmap_method='sequential', "
            "which makes one call per element"
        )
    method = batch
    if isinstance(batch, tuple):
        shared = [word == "shared" for word in batch]
        # The declaration does not apply if a batched operand is declared as shared, or if a shared operand is aliased
        # with a result.
        alone = any(a and b for a, b in zip(shared, batched)) or any(shared[argument] for argument, _ in aliases)
        method = "sequential" if alone else "declared"
    if method in ("sequential", "sequential_unrolled"):
        # A loop cannot run over a dimension that is divided over devices.
        args = _sharding.alike(args, batched, (None,))
        return _found(_one_by_one(primitive, args, batched, method, results=results, gradient=gradient, split=split, **params), parts)
    if method == "declared":
        wide = [not word for word in shared]
    elif method == "legacy_vectorized":
        wide = batched
    else:
        wide = [True] * len(args)
    for argument, _result in aliases:
        if not batched[argument]:
            # An aliased operand must have room for the results of all elements.
            args[argument] = jnp.broadcast_to(args[argument], (size, *args[argument].shape))
            batched[argument] = wide[argument] = True
    lead = 1 if method == "expand_dims" else size
    args = [
        jnp.broadcast_to(arg, (lead, *arg.shape)) if is_wide and not is_batched else arg
        for arg, is_wide, is_batched in zip(args, wide, batched)
    ]
    args = _sharding.alike(args, [is_wide and (is_batched or lead == size) for is_wide, is_batched in zip(wide, batched)])
    axes = tuple("one" if w and not b and method == "expand_dims" else 0 if w else None for w, b in zip(wide, batched))
    results = tuple(((size, *shape), dtype) for shape, dtype in results)
    if gradient is not None:
        from . import _gradient

        gradient = _gradient.Batched(gradient, axes)
    if isinstance(batch, _related_handlers.Other):
        attrs = batch.attributes(params["attributes"])
        out = batch.handler.batched(args, attrs, results, gradient, params["has_side_effect"], dict(batch.said))
        return _found(out, parts)
    split = None if split is None or "one" in axes else split.batched([axis == 0 for axis in axes])
    out = PRIMITIVES[split is not None].bind(*args, results=results, gradient=gradient, split=split, **params)
    return _found(out, parts)


def _found(out, parts):
    """Returns the results of a batched call and their batch dimensions.

    Results are divided over a mesh's Explicit axes like the operands.
    """
    return tuple(_jax.divided(value, (*parts, *_jax.parts_of(value)[1:])) for value in out), (0,) * len(out)


def _one_by_one(primitive, args, batched, method, **params):
    size = next(arg.shape[0] for arg, is_batched in zip(args, batched) if is_batched)
    if method == "sequential_unrolled" and not isinstance(size, int):
        raise NotImplementedError(
            f"{params['target']}: vmap_method='sequential_unrolled' needs a fixed batch size, got {size}; pass vmap_method='sequential'"
        )
    return _loop(args, primitive, tuple(batched), method, tuple(params.items()))


# `jax.jit` caches the traced loop. Without this cache, jax would compile the loop again in every call outside of `jit`,
# and keep every compiled copy.
@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4), inline=True)
def _loop(args, primitive, batched, method, params):
    def one(carry, mapped):
        mapped = iter(mapped)
        operands = [next(mapped) if is_batched else arg for arg, is_batched in zip(args, batched)]
        return carry, primitive.bind(*operands, **dict(params))

    mapped = [arg for arg, is_batched in zip(args, batched) if is_batched]
    _, out = jax.lax.scan(one, (), mapped, unroll=max(1, mapped[0].shape[0]) if method == "sequential_unrolled" else 1)
    return out


for _primitive in PRIMITIVES:
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)
