"""Framework-independent handlers: the operands, attributes and results that a manifest describes."""

import itertools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _abi, _attributes, _signature, _values
from ._contract import Contract
from ._errors import ManifestError, no_handler


class Single:
    """An object that exists once per process: copying returns the same object.

    Unpickling may return a different object, because unpickling loads the current file.
    """

    def __copy__(self):
        return self

    def __deepcopy__(self, _known):
        return self


class Handlers(Single):
    """The handlers of a library, as attributes and as items."""

    path: str
    handlers: Mapping[str, Any]

    def _find(self, name):
        handlers = self.__dict__.get("handlers", {})
        if name in handlers:
            return handlers[name]
        raise no_handler(self.__dict__.get("path"), name, handlers, [each for each in handlers if "." not in each])

    # Type checkers get the attributes from a stub file.
    if not TYPE_CHECKING:
        __getattr__ = _find

    # Items also include handlers whose names are attributes of the library object.
    def __getitem__(self, name: str) -> Any:
        return self._find(name)

    def __dir__(self):
        return [*super().__dir__(), *(name for name in self.handlers if "." not in name)]

    def __repr__(self):
        return _signature.table(self)


class Described(Single):
    """A handler, with functions that check and convert the operands, attributes and results of its calls.

    A subclass for a framework converts operands (``_operand``) and creates the types of arrays (``_array_type``) and
    tokens (``_token_type``). It also checks result types that a caller passes (``_said``).
    """

    def __init__(self, spec, path):
        self.spec = spec
        self._path = path
        self.__name__ = _signature.printable(spec.name)
        self.__qualname__ = _signature.printable(f"{spec.library}.{spec.name}")
        self.__doc__ = _signature.describe(spec)
        try:
            self._contract = None if spec.shape is None else Contract(spec.shape)
        except ValueError as error:
            raise ManifestError(f"{path}: handler `{spec.name}`: {error}") from error

    def __repr__(self):
        return f"<handler {self.__qualname__} of {_signature.printable(self._path)}>"

    def _attributes(self, given, more, args=()):
        """Returns the attributes of a call, from ``attrs=`` and keywords, in the types that the handler declares."""
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{self.__qualname__}: attrs=: expected a dict, got {_values.shown(given)}")
        both = sorted(set(given or {}) & set(more))
        if both:
            raise TypeError(f"{self.__qualname__}: attribute `{both[0]}`: passed as a keyword and in attrs=; pass it once")
        # Excess arguments are reported first, because a missing attribute may be among them.
        self._refuse_excess(args)
        return _attributes.cast_all(self.spec, {**(given or {}), **more})

    def _refuse_excess(self, args):
        """Raises a TypeError if a call has more arguments than the handler accepts."""
        declared = self.spec.args
        if len(args) > len(declared) and not any(arg.variadic for arg in declared):
            attrs = sorted(attr.name for attr in self.spec.attrs if attr.inside is None)
            hint = f"; pass attributes by keyword: {', '.join(f'{name}=' for name in attrs)}" if attrs else ""
            raise TypeError(f"{self.__qualname__}: expected {_counted(declared, 'argument')}, got {len(args)}{hint}")

    def _operands(self, args):
        """Returns the operands as arrays, and the declaration and the name of each operand."""
        declared = self.spec.args
        while args and args[-1] is None and len(args) <= len(declared) and declared[len(args) - 1].optional:
            args = args[:-1]
        self._refuse_excess(args)
        bound, values, problems = [], [], []
        for index, value in enumerate(args):
            arg = declared[min(index, len(declared) - 1)]
            name = f"{arg.name}[{index - len(declared) + 1}]" if arg.variadic else arg.name
            bound.append((arg, name))
            try:
                values.append(self._operand(arg, name, value))
            except TypeError as error:
                problems.append(f"argument `{name}`: {error}")
        problems += [f"missing argument `{arg.name}`" for arg in declared[len(args) :] if not (arg.optional or arg.variadic)]
        _attributes.refuse(self.__qualname__, problems)
        return values, bound

    def _results(self, args, bound, given, own_shapes, cast):
        rets = self.spec.rets
        variadic = any(ret.variadic or ret.optional for ret in rets)
        if given is not None:
            if own_shapes is not None:
                raise TypeError(f"{self.__qualname__}: expected shapes= or result_shape_dtypes=, got both; remove shapes=")
            single = not isinstance(given, (list, tuple))
            types = [each if each is None else self._said(each) for each in ([given] if single else given)]
            if not variadic and len(types) != len(rets):
                raise TypeError(f"{self.__qualname__}: result_shape_dtypes=: expected {_counted(rets, 'result')}, got {len(types)}")
            if any(each is None for each in types):
                types = self._inferred(args, bound, None, cast, types)
            return types, single
        types = self._inferred(args, bound, own_shapes, cast, ())
        return types, len(rets) == len(types) == 1 and not rets[0].variadic

    def _inferred(self, args, bound, own_shapes, cast, known):
        """Returns the types of the results. Types in ``known`` that are not None are used unchanged."""
        variadic = any(ret.variadic or ret.optional for ret in self.spec.rets)
        rets = [(ret, None) for ret in self.spec.rets]
        if own_shapes is not None:
            operands = [getattr(arg, "shape", ()) for arg in args]
            try:
                rets = _given_shapes(own_shapes, operands, _attributes.with_defaults(self.spec, cast), self.spec.rets)
            except TypeError as error:
                raise TypeError(f"{self.__qualname__}: {error}") from error
        elif variadic:
            self._undecided("the number of results")
        buffers = sum(not ret.token for ret, _ in rets)
        shapes = iter([None] * buffers) if variadic else self._shapes(args, bound, buffers, cast)
        types = []
        for (ret, own), said in itertools.zip_longest(rets, known):
            if ret.token:
                types.append(self._token_type())
                continue
            if said is not None:
                next(shapes)
                types.append(said)
                continue
            source = next((i for i, (arg, _) in enumerate(bound) if ret.inout and arg.name == ret.name), None)
            shape = next(shapes)
            if own is not None and shape is not None and own != shape:
                why = f"expected {list(shape)}, got {list(own)} in shapes=; the contract is `{self._contract.text}`"
                raise TypeError(f"{self.__qualname__}: result `{ret.name}`: {why}")
            shape = own if shape is None else shape
            if shape is None and source is not None:
                shape = args[source].shape
            if shape is None and ret.rank == 0:
                shape = ()
            if shape is None:
                self._undecided(f"result `{ret.name}`: the shape")
            types.append(self._array_type(shape, self._dtype(ret, source, args, bound)))
        return types

    def _shapes(self, args, bound, count, cast):
        if self._contract is None:
            return iter([None] * count)
        buffers = [(f"argument `{name}`", arg) for arg, (spec, name) in zip(args, bound) if not spec.token]
        try:
            names, shapes = [name for name, _ in buffers], [arg.shape for _, arg in buffers]
            dtypes = [_abi.type_text(_abi.dtype_name(arg.dtype)) for _, arg in buffers]
            shapes = self._contract.infer(names, shapes, _attributes.integers(self.spec, cast), dtypes)
        except ValueError as error:
            raise TypeError(f"{self.__qualname__}: {error}") from error
        if len(shapes) != count:
            rets = _counted([ret for ret in self.spec.rets if not ret.token], "result")
            own = f"the contract `{self._contract.text}` has {len(shapes)} result{'' if len(shapes) == 1 else 's'}"
            raise TypeError(f"{self.__qualname__}: {own}, the handler has {rets}")
        return iter(shapes)

    def _dtype(self, ret, source, args, bound):
        if source is not None:
            return args[source].dtype
        if ret.dtypes is not None and len(ret.dtypes) == 1:
            return _abi.numpy_dtype(ret.dtypes[0])
        # The handler is generic, so the result has the element type of the arguments that accept the same types as the
        # result.
        for value, (arg, _name) in zip(args, bound):
            if not arg.token and arg.dtypes == ret.dtypes:
                return value.dtype
        return self._undecided(f"result `{ret.name}`: the element type", "result_shape_dtypes=")

    def _undecided(self, what, how="shapes= or result_shape_dtypes="):
        raise TypeError(f"{self.__qualname__}: {what} cannot be determined from the arguments; pass {how}")

    def _own_aliases(self, given, bound):
        """Returns the caller's aliases without those that the handler declares, because handlers that replace it
        declare their own aliases."""
        pairs = {(operator.index(argument), operator.index(result)) for argument, result in dict(given or {}).items()}
        return tuple(sorted(pairs.difference(self._declared_aliases(bound))))

    def _aliases(self, own, bound):
        """Returns all aliases of a call as a dict."""
        return one_to_one(self.__qualname__, [*own, *self._declared_aliases(bound)])

    def _declared_aliases(self, bound):
        for out, ret in enumerate(self.spec.rets):
            same = [index for index, (arg, _name) in enumerate(bound) if ret.inout and arg.name == ret.name]
            # Each array of a variadic operand is an alias of the result with the same index.
            for index, argument in enumerate(same):
                yield argument, out + (index if ret.variadic else 0)


def one_to_one(name, pairs):
    """Returns aliases as a dict.

    Raises a ValueError if two operands have the same memory. XLA accepts such aliases, but both operands then have the
    same elements.
    """
    for side in zip(*pairs):
        if len(set(side)) < len(side):
            raise ValueError(f"{name}: expected each argument and each result in one alias, got {sorted(pairs)} from input_output_aliases= and the handler")
    return dict(pairs)


def _counted(operands, noun):
    """Returns the text of the number and the names of operands, for error messages."""
    names = ", ".join(f"`{operand.name}`" for operand in operands)
    return f"{len(operands)} {noun}{'' if len(operands) == 1 else 's'}{f' ({names})' if names else ''}"


def _rank(arg):
    return len(arg.layout) if arg.rank is None and isinstance(arg.layout, tuple) else arg.rank


def expected(arg):
    """Returns the text of a declared operand's type for error messages."""
    rank = _rank(arg)
    dims = None if rank is None else "?" * rank
    return " or ".join(_abi.type_text(dtype, dims) for dtype in arg.dtypes or ["an array" if rank is None else "any"])


def checked(arg, name, given, shape, have, cast, more_dims):
    """Raises a TypeError if the handler would refuse an array made of ``given``.

    ``cast`` is a function that returns the remedy, with the element type of the cast as its argument. ``more_dims`` is
    the remedy for too many dimensions.
    """
    if arg.dtypes is None and have not in _abi.DTYPE_NAMES:
        raise TypeError(f"XLA has no arrays of {have}")
    problem, rank = f"expected {expected(arg)}, got {_abi.type_text(have, shape)}", _rank(arg)
    if arg.dtypes is not None and have not in arg.dtypes:
        wider = [dtype for dtype in arg.dtypes if _abi.widens(have, dtype)]
        raise TypeError(f"{problem}; {cast(wider[0])}" if wider else problem)
    if rank is not None and len(shape) != rank:
        more = f"{name if hasattr(given, 'shape') else f'np.asarray({name})'}[{'None, ' * (rank - len(shape))}...]"
        raise TypeError(f"{problem}; {f'add dimensions of size 1: {more}' if len(shape) < rank else more_dims}")


def _given_shapes(shapes, operands, attrs, rets):
    """Returns the results of a call, each with its shape. The shape is None if ``shapes`` leaves it to the contract,
    and for tokens.

    ``shapes`` is a list with a shape for each result that is not a token. For a handler with one result, ``shapes`` may
    be the shape of this result. ``shapes`` may also be a function of the operands' shapes and a dict of the attributes,
    which returns a list or a shape.
    """
    if callable(shapes):
        shapes = shapes(tuple(operands), dict(attrs))
    if not isinstance(shapes, (list, tuple)):
        raise TypeError(f"shapes=: expected a shape or a list of shapes, got {_values.shown(shapes)}")
    buffers = [ret for ret in rets if not ret.token]
    variadic = any(ret.variadic for ret in buffers)
    if len(buffers) == 1 and not variadic and not _nested(shapes):
        shapes = [shapes]
    shapes = [None if shape is None else _checked_shape(shape) for shape in shapes]
    required = sum(not (ret.optional or ret.variadic) for ret in buffers)
    if len(shapes) < required or (len(shapes) > len(buffers) and not variadic):
        raise TypeError(f"shapes=: expected {_counted(buffers, 'shape')}, got {len(shapes)}")
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


def _checked_shape(shape):
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"shapes=: expected a shape such as (2, 3), got {_values.shown(shape)}")
    return tuple(_dim(dim, shape) for dim in shape)


def _dim(dim, shape):
    # Symbolic sizes of `jax.export` are valid.
    if type(dim).__module__.startswith("jax"):
        return dim
    if isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim >= 0:
        return int(dim)
    raise TypeError(f"shapes=: expected sizes, got {_values.plain(dim)} in {_values.plain(shape)}")
