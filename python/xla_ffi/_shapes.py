"""Result shapes that the caller gives: ``shapes=``, for what no contract can say."""

import numpy as np

from . import _values


def given(shapes, operands, attrs, rets):
    """The results that come, out of the declared ``rets``, each with its shape; None where ``shapes``
    leaves it to the contract, and for tokens, which ``shapes`` does not count.

    ``shapes`` is a list with a shape for each result; for a handler with one result the shape alone;
    or a function of the operands' shapes and of the attributes, a dict, that returns one of these.
    """
    if callable(shapes):
        shapes = shapes(tuple(operands), dict(attrs))
    if not isinstance(shapes, (list, tuple)):
        raise TypeError(f"shapes= is to give a shape or a list of shapes, not {_values.plain(shapes)}")
    buffers = [ret for ret in rets if not ret.token]
    variadic = any(ret.variadic for ret in buffers)
    if len(buffers) == 1 and not variadic and not _nested(shapes):
        shapes = [shapes]
    shapes = [None if shape is None else _shape(shape) for shape in shapes]
    required = sum(not (ret.optional or ret.variadic) for ret in buffers)
    if len(shapes) < required or (len(shapes) > len(buffers) and not variadic):
        raise TypeError(f"shapes= gives {len(shapes)} shapes, the handler has {', '.join(ret.name for ret in buffers) or 'no results'}")
    left, results = list(shapes), []
    for ret in rets:
        if ret.token:
            results.append((ret, None))
        elif ret.variadic:
            results += [(ret, left.pop(0)) for _ in range(len(left))]
        elif left:
            results.append((ret, left.pop(0)))
    return results


def _nested(shapes):
    return any(shape is None or isinstance(shape, (list, tuple)) for shape in shapes)


def _shape(shape):
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"shapes= gives {_values.plain(shape)} where a shape is to be")
    return tuple(_dim(dim, shape) for dim in shape)


def _dim(dim, shape):
    # A symbolic one of `jax.export` is a size too.
    if type(dim).__module__.startswith("jax"):
        return dim
    if isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim >= 0:
        return int(dim)
    raise TypeError(f"shapes= gives {_values.plain(shape)}, and {_values.plain(dim)} is no size")
