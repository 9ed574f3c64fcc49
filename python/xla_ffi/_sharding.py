"""Calls with sharded operands, and how contracts allow splitting them over devices.

A handler that may be batched along leading dimensions (``_batch.py``) processes the elements along these dimensions
independently. Each device therefore calls the handler on its own part, without gathering along these dimensions. All
other dimensions, and operands without leading dimensions, must be whole on every device.
"""

import dataclasses
import inspect
import math

from . import _jax


@dataclasses.dataclass(frozen=True)
class Split:
    """The number of leading dimensions along which a call may be split, and the operands that have these dimensions.

    All results have these dimensions.
    """

    dims: int
    leading: tuple

    def batched(self, words):
        """Returns the split of a call with an additional leading dimension, or None if it cannot be split.

        ``words`` has true for each operand that has the additional dimension.
        """
        if all(word == mine for word, mine in zip(words, self.leading)):
            return dataclasses.replace(self, dims=self.dims + 1)
        return None


def lead(avals, split):
    """Returns the Explicit mesh axes that divide the leading dimensions of a call, as in ``_jax.parts_of``.

    All operands and results are divided in the same way as the operand that the most axes divide.
    """
    if split is None:
        return ()
    each = [_jax.parts_of(aval)[: split.dims] for aval, leading in zip(avals, split.leading) if leading]
    return max(each, key=_axes, default=())


def _axes(parts):
    return sum(len(part) if isinstance(part, tuple) else part is not None for part in parts)


def placed(args, split):
    """Returns the operands of a call on a mesh with Explicit axes: divided along leading dimensions only."""
    if not any(map(_jax.is_explicit, args)):
        return args
    first, leading = lead(args, split), split.leading if split else [False] * len(args)
    return [_jax.divided(arg, first if leads else ()) for arg, leads in zip(args, leading)]


def of_batch(args, batched):
    """Returns the Explicit axes that divide the batch, which is the first dimension of the batched operands."""
    each = [_jax.parts_of(arg)[:1] for arg, is_batched in zip(args, batched) if is_batched]
    return max(each, key=_axes, default=())


def alike(args, batched, batch=None, mesh=None):
    """Returns the operands with the batch divided in the same way in all operands, as ``jax.vmap`` and ``jax.lax.scan``
    require.

    Operands that are not on a mesh are moved to ``mesh`` if it is given, because jax does not move them outside of
    ``jit``.
    """
    batch = of_batch(args, batched) if batch is None else batch
    return [
        _jax.divided(arg, (*batch, *_jax.parts_of(arg)[1:]), mesh) if is_batched else arg
        for arg, is_batched in zip(args, batched)
    ]


def wanted(context):
    """Returns true if a call that is being lowered may be split. Calls in exported programs are not split."""
    module = context.module_context
    of_jit = type(module.axis_context).__name__ == "ShardingContext"
    return of_jit and module.axis_context.num_devices > 1 and not module.lowering_parameters.for_export


def refuse(context, target, has_side_effect, has_results):
    """Raises a NotImplementedError for calls that XLA does not support in programs that it partitions between devices.

    The error names the axes that a surrounding shard_map leaves to XLA.
    """
    place = context.module_context.axis_context
    left = _left(place)
    if has_side_effect and (left or (type(place).__name__ == "ShardingContext" and place.num_devices > 1)):
        which = "with side effects" if has_results else "without results, which have side effects,"
        how = _all_manual(left) if left else "put the call into jax.shard_map, which makes one call per device"
        raise NotImplementedError(f"{target}: calls {which} cannot be in a program that XLA partitions between devices; {how}")
    if left and not _jax.has_shardy():
        raise NotImplementedError(
            f"{target}: without Shardy, calls in a jax.shard_map with automatic axes crash XLA; {_all_manual(left)}, or set "
            "jax_use_shardy_partitioner (the default of jax 0.7.0 and newer)"
        )


def _left(place):
    """Returns the mesh axes that the surrounding shard_map leaves to XLA."""
    if not hasattr(place, "manual_axes"):
        return []
    return [str(name) for name, size in place.mesh.shape.items() if size > 1 and name not in place.manual_axes]


def _all_manual(axes):
    return f"make {' and '.join(axes)} manual too (axis_names= of jax.shard_map, auto= of earlier jax)"


def split_call(bind, split, args, results, devices):
    """Calls ``bind`` so that XLA may split the call over the devices."""
    from jax.experimental import custom_partitioning as partitioning

    def whole(*args):
        first = next(arg for arg, leading in zip(args, split.leading) if leading)
        lead = tuple(first.shape[: split.dims])
        return list(bind(*args, results=tuple((lead + shape[split.dims :], dtype) for shape, dtype in results)))

    def partition(mesh, given, _results):
        arguments, outputs = _shardings(split, given, results, devices)
        return mesh, whole, outputs, arguments

    def infer(_mesh, given, _results):
        return _shardings(split, given, results, devices)[1]

    function = partitioning.custom_partitioning(whole)
    known = inspect.signature(function.def_partition).parameters
    # Use XLA's shardings. After a reshape, the remaining part of a mesh axis may have no name. If jax does not find a
    # name, earlier jaxlib crashes the process.
    options = {"decode_shardings": False} if "decode_shardings" in known else {}
    if "sharding_rule" in known:
        options["sharding_rule"] = _rule(split, args, results)
    function.def_partition(partition=partition, infer_sharding_from_operands=infer, **options)
    return function(*args)


def _rule(split, args, results):
    """Returns Shardy's rule: operands and results share the leading dimensions, and each other dimension is a
    separate factor."""
    from jax.experimental import custom_partitioning as partitioning

    lead = [f"b{i}" for i in range(split.dims)]
    whole = []

    def mapping(index, rank, leading):
        first = lead if leading else []
        rest = [f"{'xy'[index >= len(args)]}{index}d{i}" for i in range(len(first), rank)]
        whole.extend(rest)
        return partitioning.ArrayMapping(*first, *rest)

    operands = tuple(mapping(i, arg.ndim, leading) for i, (arg, leading) in enumerate(zip(args, split.leading)))
    outputs = tuple(mapping(len(args) + i, len(shape), True) for i, (shape, _) in enumerate(results))
    try:
        return partitioning.SdyShardingRule(operands, outputs, need_replication_factors=tuple(whole))
    except (TypeError, ValueError):  # An older release lacks this option. The factors occur only once, so the option is not needed.
        return partitioning.SdyShardingRule(operands, outputs)


def _shardings(split, given, results, devices):
    """Returns the required shardings of operands and results, from the operands' current shardings.

    Returns a sharding for every operand and result, because earlier jaxlib crashes the process if a sharding is missing
    or an error is raised.
    """
    of = [info for info, leading in zip(given, split.leading) if leading and info.sharding is not None]
    tiles = [_tiles(info, split.dims) for info in of]
    best = max(range(len(of)), key=lambda i: math.prod(tiles[i]), default=None)

    def along(rank, leading):
        if not leading or best is None or math.prod(tiles[best]) == 1:
            return _sharding(devices)
        return _sharding(devices, of[best], tiles[best], rank)

    arguments = tuple(along(len(info.shape), leading) for info, leading in zip(given, split.leading))
    return arguments, [along(len(shape), True) for shape, _ in results]


def _tiles(info, dims):
    """Returns the number of parts of each leading dimension, or all 1 if the parts would not be equal."""
    hlo = info.sharding._to_xla_hlo_sharding(len(info.shape))
    if not hlo.is_tiled():
        return (1,) * dims
    tiles = tuple(hlo.tile_assignment_dimensions()[:dims])
    return tiles if all(size % tile == 0 for size, tile in zip(info.shape, tiles)) else (1,) * dims


def _sharding(devices, info=None, tiles=(), rank=0):
    """Returns a sharding over the devices: replicated, or with the leading dimensions divided as in ``info``."""
    from jax._src.lib import xla_client
    from jax._src.sharding_impls import GSPMDSharding

    if info is None:
        return GSPMDSharding(devices, xla_client.HloSharding.replicate())
    # The order of the devices is unchanged. Devices that held different parts of other dimensions now hold copies.
    proto = info.sharding._to_xla_hlo_sharding(len(info.shape)).to_proto().clone()
    copies = len(devices) // math.prod(tiles)
    proto.tile_assignment_dimensions = [*tiles, *[1] * (rank - len(tiles)), *([copies] if copies > 1 else [])]
    proto.last_tile_dims = []
    proto.replicate_on_last_tile_dim = copies > 1
    return GSPMDSharding(devices, xla_client.HloSharding.from_proto(proto))
