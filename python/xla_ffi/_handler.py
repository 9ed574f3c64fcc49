"""One handler of a library as a Python function."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Optional

import jax

from . import _attributes, _batch, _dtypes, _gradient, _jax, _primitive, _revisions, _shapes, _sharding, _signature, _values
from ._contract import Contract
from ._errors import ManifestError, UnsupportedRuntimeError


class Handler:
    """Calls a handler: operands by position, attributes by keyword.

    Further keywords: ``shapes`` where the result shapes do not follow from the contract: a list with a
    shape for each result (None: as the contract says), for one result its shape alone, or a function of
    the operands' shapes, a tuple, and of the attributes, a dict, that returns these;
    ``result_shape_dtypes`` (one type with ``shape`` and ``dtype``, or a sequence of them) where the types
    do not follow either; ``vmap_method``,
    ``input_output_aliases``, ``has_side_effect`` as in ``jax.ffi.ffi_call``; ``partition_batch``:
    whether operands sharded along the leading dimensions that the contract calls ``...`` stay so, each
    device working on its own part (None: where the handler may be batched along them); ``attrs``, a dict
    for attributes whose names are taken by these keywords.

    Differentiable where the author declared a gradient; see :meth:`with_vjp` otherwise.
    """

    def __init__(self, spec, target, path, refusal, prefix=None, given=None):
        self.spec = spec
        #: The name under which the handler is registered.
        self.target: str = target
        self._path = path
        self._refusal = refusal
        self._prefix = prefix
        self._given = given or {}
        self.__name__ = spec.name
        self.__qualname__ = f"{spec.library}.{spec.name}"
        self.__doc__ = _signature.describe(spec)
        self.__signature__ = _signature.signature(spec, options())
        try:
            self._contract = Contract(spec.shape) if spec.shape else None
        except ValueError as error:
            raise ManifestError(f"{path}: handler {spec.name!r}: {error}") from error
        #: What the author declared: see ``_batch.py`` and ``_declared.Gradient``. The library fills in other handlers.
        self.batch = _batch.declared(spec, self._contract)
        self.gradient = None

    def __repr__(self):
        return f"<handler {self.__qualname__} of {self._path}>"

    @property
    def refused(self) -> Optional[str]:
        """Why the jaxlib of this process cannot take the handler, or None."""
        return self._refusal

    def __reduce__(self):
        # Another process loads the library when it unpickles one of its handlers.
        return _restore, (self._path, self._prefix, f"{self.spec.library}.{self.spec.name}", self._given)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._call(*args, **keywords)

    def _call(
        self,
        *args: Any,
        result_shape_dtypes: Any = None,
        shapes: Any = None,
        vmap_method: Optional[str] = "default",
        input_output_aliases: Optional[Mapping[int, int]] = None,
        has_side_effect: bool = False,
        partition_batch: Optional[bool] = None,
        attrs: Optional[Mapping[str, Any]] = None,
        **more_attrs: Any,
    ) -> Any:
        if self._refusal:
            raise UnsupportedRuntimeError(self._refusal)
        if not self.spec.described:
            raise TypeError(
                f"{self.__qualname__}: its library does not say what it takes: say it when it is loaded, as in "
                f"xla_ffi.load(path, handlers={{{self.spec.name!r}: '(x: f32[n], *, a: i64) -> y: f32[n]'}})"
            )
        both = sorted(set(attrs or {}) & set(more_attrs))
        if both:
            raise TypeError(f"{self.__qualname__}: attribute {both[0]!r} is given twice")
        cast = _attributes.cast_all(self.spec, {**(attrs or {}), **more_attrs})
        args, bound = self._operands(args)
        results, single = self._results(args, bound, result_shape_dtypes, shapes, cast)
        aliases = dict(input_output_aliases or {})
        aliases.update(self._declared_aliases(bound))
        batch = self._batch(bound, vmap_method)
        out = self._bind(
            args,
            bound,
            results,
            cast,
            batch=batch,
            has_side_effect=has_side_effect,
            aliases=aliases,
            split=self._split(args, bound, partition_batch, batch, has_side_effect),
        )
        if not out:
            return None
        return out[0] if single else tuple(out)

    def with_vjp(self, fwd: Any, bwd: Any) -> Any:
        """This handler with a gradient written in Python, as a function with the same arguments.

        ``fwd(*operands, **options)`` returns the results and residuals of any structure;
        ``bwd(residuals, cotangents, **options)`` a tuple with the cotangent of each operand, None for one that has
        none. ``options`` are the keywords of the call, ``cotangents`` are structured as the results are. As with
        ``jax.custom_vjp``, which does it, there is no forward mode.
        """

        def function(*args, **options):
            args, _ = self._operands(args)
            once = jax.custom_vjp(lambda *args: self(*args, **options))
            once.defvjp(lambda *args: fwd(*args, **options), lambda *both: tuple(bwd(*both, **options)))
            return once(*args)

        return functools.update_wrapper(function, self, updated=())

    def batched(self, args, attributes, results, gradient):
        """Calls this handler for one that is batched by it; ``gradient`` is that one's, for want of an own."""
        attrs = {name: frozen.value for name, frozen in attributes}
        declared = {attr.name for attr in self.spec.attrs if attr.inside is None}
        attrs = {name: value for name, value in attrs.items() if name in declared or self.spec.open_attrs}
        args, bound = self._operands(args)
        types = [jax.ShapeDtypeStruct(*result) for result in results]
        options = {"gradient": gradient} if self.gradient is None else {}
        aliases = dict(self._declared_aliases(bound))
        return self._bind(args, bound, types, attrs, batch=self._batch(bound, "default"), aliases=aliases, **options)

    def _bind(self, args, bound, results, attrs, **options):
        rets = [self.spec.rets[min(index, len(self.spec.rets) - 1)] for index in range(len(results))]
        layouts = [arg.layout for arg, _ in bound], [ret.layout for ret in rets]
        if self.gradient is not None:
            attributes = tuple((name, _primitive.Frozen(value)) for name, value in sorted(attrs.items()))
            names = tuple(arg.name for arg, _ in bound), tuple(ret.name for ret in rets)
            options["gradient"] = _gradient.Rule(self.gradient, attributes, *names)
        # The names under which the metadata of the program and profiles know the call.
        with jax.named_scope(self.__qualname__), jax.profiler.TraceAnnotation(self.__qualname__):
            return _primitive.call(self.target, results, args, attrs, layouts=layouts, **options)

    def _batch(self, bound, method):
        """What ``vmap`` does with a call."""
        if method == "default":
            if not isinstance(self.batch, tuple):
                return self.batch
            return tuple(self.batch[self.spec.args.index(arg)] for arg, _name in bound)
        if method is not None and method not in _batch.METHODS:
            raise ValueError(f"{self.__qualname__}: vmap_method is one of {', '.join(_batch.METHODS)}, or None, got {method!r}")
        return method

    def _split(self, args, bound, wanted, batch, has_side_effect):
        """How a call may be split over devices, or None."""
        if wanted and not (self._contract and self._contract.batchable and args):
            raise TypeError(f"{self.__qualname__}: partition_batch needs a contract whose operands all begin with '...'")
        if not (self._contract and args) or has_side_effect or wanted is False:
            return None
        if not wanted and not (batch == "broadcast_all" or isinstance(batch, tuple)):
            return None
        entries = [self._contract.args[min(index, len(self._contract.args) - 1)] for index in range(len(args))]
        words = batch if isinstance(batch, tuple) else ["leading"] * len(args)
        leading = tuple(word == "leading" for word in words)
        begins = lambda entry: entry.dims[:1] == ("...",)
        fits = all(map(begins, self._contract.rets)) and self._contract.rets and any(leading)
        if not fits or not all(begins(entry) for entry, leads in zip(entries, leading) if leads):
            return None
        first = leading.index(True)
        return _sharding.Split(len(args[first].shape) - len(entries[first].dims) + 1, leading)

    def _operands(self, args):
        """The operands as arrays, and ``[(declared operand, index of ours)]``."""
        declared = self.spec.args
        while args and args[-1] is None and len(args) <= len(declared) and declared[len(args) - 1].optional:
            args = args[:-1]
        required = sum(not (arg.optional or arg.variadic) for arg in declared)
        most = None if any(arg.variadic for arg in declared) else len(declared)
        if len(args) < required or (most is not None and len(args) > most):
            names = ", ".join(map(_signature.operand, declared))
            wants = str(required) if most == required else f"{required} to {most}" if most else f"at least {required}"
            count = "1 operand" if wants == "1" else f"{wants} operands"
            given = {attr.name for attr in self.spec.attrs if attr.inside is None}
            hint = f"; attributes are keywords: {', '.join(f'{name}=' for name in sorted(given))}" if given and len(args) > required else ""
            raise TypeError(f"{self.__qualname__}({names}) takes {count}, got {len(args)}{hint}")
        bound, values, problems = [], [], []
        for index, value in enumerate(args):
            arg = declared[min(index, len(declared) - 1)]
            name = f"{arg.name}[{index - len(declared) + 1}]" if arg.variadic else arg.name
            bound.append((arg, name))
            try:
                values.append(_operand(arg, name, value))
            except TypeError as error:
                problems.append(str(error))
        if problems:
            raise TypeError(f"{self.__qualname__}: " + "\n".join(problems))
        return values, bound

    def _results(self, args, bound, given, own_shapes, cast):
        rets = self.spec.rets
        variadic = any(ret.variadic or ret.optional for ret in rets)
        if given is not None:
            if own_shapes is not None:
                raise TypeError(f"{self.__qualname__}: result_shape_dtypes= says the shapes, give no shapes=")
            single = not isinstance(given, (list, tuple))
            types = [given] if single else list(given)
            if not variadic and len(types) != len(rets):
                raise TypeError(f"{self.__qualname__} has {len(rets)} results, result_shape_dtypes has {len(types)}")
            if not variadic:
                self._check_results(types, args, bound, sum(not ret.token for ret in rets), cast)
            return types, single
        rets = [(ret, None) for ret in rets]
        if own_shapes is not None:
            operands = [getattr(arg, "shape", ()) for arg in args]
            try:
                rets = _shapes.given(own_shapes, operands, _attributes.with_defaults(self.spec, cast), self.spec.rets)
            except TypeError as error:
                raise TypeError(f"{self.__qualname__}: {error}") from error
        elif variadic:
            self._undecided("it has a variable number of results")
        buffers = sum(not ret.token for ret, _ in rets)
        shapes = iter([None] * buffers) if variadic else self._shapes(args, bound, buffers, cast)
        types = []
        for ret, own in rets:
            if ret.token:
                types.append(_jax.abstract_token())
                continue
            source = next((i for i, (arg, _) in enumerate(bound) if ret.inout and arg.name == ret.name), None)
            shape = next(shapes)
            if own is not None and shape is not None and own != shape:
                says = f"shapes= gives {list(own)} for {ret.name}, the contract {self._contract.text!r} {list(shape)}"
                raise TypeError(f"{self.__qualname__}: {says}")
            shape = own if shape is None else shape
            if shape is None and source is not None:
                shape = args[source].shape
            if shape is None and ret.rank == 0:
                shape = ()
            if shape is None:
                self._undecided(f"it declares no shape for {ret.name}")
            types.append(jax.ShapeDtypeStruct(shape, self._dtype(ret, source, args, bound)))
        return types, len(self.spec.rets) == len(types) == 1 and not self.spec.rets[0].variadic

    def _check_results(self, types, args, bound, count, cast):
        """Refuses result types that the handler would refuse when it runs. A result cannot be cast: the caller declares it."""
        shapes, problems = self._shapes(args, bound, count, cast), []
        for ret, given in zip(self.spec.rets, types):
            if ret.token or not (hasattr(given, "shape") and hasattr(given, "dtype")):
                continue
            wanted, shape = next(shapes), tuple(given.shape)
            have = _dtypes.of(given.dtype)
            if ret.dtypes is not None and have not in ret.dtypes:
                accepted = " or ".join(ret.dtypes)
                problems.append(
                    f"the result {ret.name} is {accepted}, and result_shape_dtypes says {have}: say "
                    f"{_dtypes.NAMES[ret.dtypes[0]]!r} there and convert what comes back"
                )
            if wanted is not None and shape != wanted:
                problems.append(
                    f"the result {ret.name} has shape {list(wanted)} by the contract {self.spec.shape!r}, "
                    f"and result_shape_dtypes says {list(shape)}: leave it out"
                )
            elif ret.rank is not None and len(shape) != ret.rank:
                problems.append(f"the result {ret.name} has {ret.rank} dimensions, and result_shape_dtypes says {list(shape)}")
        if problems:
            raise TypeError(f"{self.__qualname__}: " + "\n".join(problems))

    def _shapes(self, args, bound, count, cast):
        if self._contract is None:
            return iter([None] * count)
        buffers = [(name, arg.shape) for arg, (spec, name) in zip(args, bound) if not spec.token]
        try:
            names, shapes = [name for name, _ in buffers], [shape for _, shape in buffers]
            shapes = self._contract.infer(names, shapes, _attributes.integers(self.spec, cast))
        except ValueError as error:
            raise TypeError(f"{self.__qualname__}: {error}") from error
        if len(shapes) != count:
            raise TypeError(f"{self.__qualname__}: its contract has {len(shapes)} results, its signature {count}")
        return iter(shapes)

    def _dtype(self, ret, source, args, bound):
        if source is not None:
            return args[source].dtype
        if ret.dtypes is not None and len(ret.dtypes) == 1:
            return _dtypes.to_numpy(ret.dtypes[0])
        # A generic handler: the result is of the type that the arguments of the same set have.
        for value, (arg, _name) in zip(args, bound):
            if not arg.token and arg.dtypes == ret.dtypes:
                return value.dtype
        return self._undecided(f"{ret.name} may have several element types", "result_shape_dtypes=")

    def _undecided(self, why, how="shapes= or result_shape_dtypes="):
        raise TypeError(f"{self.__qualname__}: the result types cannot be inferred, since {why}: give {how}")

    def _declared_aliases(self, bound):
        for out, ret in enumerate(self.spec.rets):
            for index, (arg, _name) in enumerate(bound):
                if ret.inout and arg.name == ret.name:
                    yield index, out


def _other_rank(name, arg, value):
    if value.ndim < arg.rank:
        return f"write {name}[{', '.join(['None'] * (arg.rank - value.ndim) + ['...'])}] to put dimensions of size 1 first"
    return "jax.vmap maps over leading dimensions"


@functools.cache
def options():
    """The keywords that every handler takes besides its attributes."""
    parameters = inspect.signature(Handler._call).parameters.values()
    return tuple(each.name for each in parameters if each.kind == inspect.Parameter.KEYWORD_ONLY)


def _restore(path, prefix, name, given):
    from ._library import load

    return load(path, prefix, **given)[name]


def refusal(spec):
    """Why this jaxlib cannot take the handler, or None.

    Up to version 0.1 of the ABI a lack shows when the missing part is used; later runtimes refuse at
    registration, which jaxlib may swallow. So those are refused here, in words.
    """
    have = _jax.REVISION
    if _revisions.version(spec.floor) <= max(1, _revisions.version(max(have, 0))):
        return None
    first = _revisions.first_jaxlib(spec.floor)
    needs = f"jaxlib {first} or newer" if first else "a newer jaxlib than this xla_ffi knows"
    return f"handler {spec.library}.{spec.name} needs {needs} (r{spec.floor}); this process has {_jax.JAXLIB} (r{have})"


def _operand(arg, name, value):
    if arg.token:
        if not _jax.is_token(value):
            raise TypeError(f"{name} is to be a token, got {type(value).__name__}")
        return value
    if _jax.is_token(value):
        raise TypeError(f"{name} is to be an array, got a token")
    # A Python number or list has no type of its own: it takes the only one that is accepted.
    only = _dtypes.to_numpy(arg.dtypes[0]) if arg.dtypes is not None and len(arg.dtypes) == 1 else None
    wanted = " or ".join(arg.dtypes) if arg.dtypes else "an array"
    try:
        value = _values.operand(value, only, wanted)
    except TypeError as error:
        raise TypeError(f"{name} is to be {wanted}: {error}") from error
    if _jax.is_key(value):
        value = jax.random.key_data(value)
    have = _dtypes.of(value.dtype)
    if arg.dtypes is not None and have not in arg.dtypes:
        wide = arg.dtypes[0] in ("F64", "S64", "U64", "C128")
        how = f"convert it with {name}.astype({_dtypes.NAMES[arg.dtypes[0]]!r})"
        if wide and not _jax.has_x64():
            how = "jax has such arrays after jax.config.update('jax_enable_x64', True)"
        raise TypeError(f"{name} is to be {' or '.join(arg.dtypes)}, got {have} of shape {list(value.shape)}: {how}")
    if arg.rank is not None and value.ndim != arg.rank:
        raise TypeError(f"{name} is to have {arg.rank} dimensions, got shape {list(value.shape)}: {_other_rank(name, arg, value)}")
    if isinstance(arg.layout, tuple) and value.ndim != len(arg.layout):
        raise TypeError(f"{name} has a layout of {len(arg.layout)} dimensions, got shape {list(value.shape)}")
    return value
