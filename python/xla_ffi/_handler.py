"""A handler of a library as a Python function."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any, Optional

import jax

from . import _abi, _batch, _jax, _primitive, _related_handlers, _sharding, _signature, _values
from ._description import Described, checked, expected
from ._errors import UnsupportedRuntimeError

#: Number of compiled calls with different keywords that each handler caches for calls outside of ``jax.jit``.
_COMPILED = 64


class Handler(Described):
    """Calls a handler of a library. Operands are passed by position, attributes by keyword.

    Handlers with a declared gradient are differentiable. For others, see :meth:`with_vjp`.

    Args:
        shapes: Result shapes, needed if the contract does not determine them. A list with a shape for each result, or
            None for a result whose shape the contract determines. For one result, the shape of the result. Or a
            function of a tuple of the operands' shapes and a dict of the attributes, which returns a list or a shape.
        result_shape_dtypes: Result types, needed if the element types are not determined either. An object with ``shape``
            and ``dtype``, or a sequence of them, with None for results whose type is determined.
        vmap_method: As in ``jax.ffi.ffi_call``.
        input_output_aliases: As in ``jax.ffi.ffi_call``.
        has_side_effect: As in ``jax.ffi.ffi_call``. A call without results always has a side effect.
        partition_batch: Whether operands may stay sharded along the leading dimensions that the contract calls ``...``, so
            that each device works on its own part. The default, None, allows this if the handler may be batched along them.
        attrs: A dict with attributes whose names are also names of these parameters.
    """

    def __init__(self, spec, target, path, refusal, prefix=None, given=None):
        super().__init__(spec, path)
        #: The target name under which the handler is registered.
        self.target: str = target
        self._refusal = refusal
        self._prefix = prefix
        self._given = given or {}
        self.__signature__ = _signature.signature(spec, options(), jax.Array)
        #: The author's declarations: see ``_batch.py`` and ``_related_handlers.Gradient``. The library replaces names
        #: by handlers.
        self.batch = _batch.declared(spec, self._contract)
        self.gradient = None
        has_tokens = any(operand.token for operand in (*spec.args, *spec.rets))
        self._can_be_compiled = refusal is None and spec.described and not has_tokens
        self._compiled = functools.lru_cache(maxsize=_COMPILED)(self._compile)

    @property
    def refused(self) -> Optional[str]:
        """The reason why the jaxlib of this process cannot use the handler, or None."""
        return self._refusal

    def __reduce__(self):
        from . import _library

        name = f"{self.spec.library}.{self.spec.name}"
        return _library.restored_handler, (self._path, self._prefix, self._given, name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if not (self._can_be_compiled and _jax.is_plain_eager()):
            return self._call(*args, **keywords)
        try:
            operands = args if all(map(_jax.is_plain_array, args)) else self._operands(args)[0]
            compiled = self._compiled(_Keywords(keywords)) if all(map(_jax.is_plain_array, operands)) else None
        except (TypeError, RecursionError):
            # Some keywords are not constants, or an operand is invalid. For an invalid operand, the call below raises
            # the error.
            compiled = None
        if compiled is None:
            return self._call(*args, **keywords)
        with jax.profiler.TraceAnnotation(self.__qualname__):
            return compiled(*operands)

    def _compile(self, keywords):
        """Returns a compiled call with these keywords.

        ``jax.jit`` compiles again for new operand types and settings of jax.
        """
        options = copy.deepcopy(keywords.values)

        def function(*args):
            return self._call(*args, **options)

        function.__name__ = function.__qualname__ = self.__name__
        return jax.jit(function)

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
                f"{self.__qualname__}: its library does not describe its arguments; describe them when you load it, as in "
                f"xla_ffi.load(path, handlers={{{self.spec.name!r}: '(x: f32[n], *, a: i64) -> y: f32[n]'}})"
            )
        _values.flag(f"{self.__qualname__}: has_side_effect", has_side_effect)
        if partition_batch is not None:
            _values.flag(f"{self.__qualname__}: partition_batch", partition_batch)
        cast = self._attributes(attrs, more_attrs, args)
        args, bound = self._operands(args)
        results, single = self._results(args, bound, result_shape_dtypes, shapes, cast)
        said = {"input_output_aliases": self._own_aliases(input_output_aliases, bound)}
        if vmap_method != "default":
            said["vmap_method"] = vmap_method
        if partition_batch is False:
            said["partition_batch"] = False
        batch = self._batch(bound, vmap_method, said)
        out = self._bind(
            args,
            bound,
            results,
            cast,
            said,
            batch=batch,
            has_side_effect=has_side_effect,
            split=self._split(args, bound, partition_batch, batch, has_side_effect),
        )
        if not out:
            return None
        return out[0] if single else tuple(out)

    def with_vjp(self, fwd: Any, bwd: Any) -> Any:
        """Returns this handler with a gradient written in Python, as a function with the same arguments.

        ``fwd(*operands, **options)`` returns the results, and residuals of any structure. ``bwd(residuals, cotangents,
        **options)`` returns a tuple with the cotangent of each operand, or None for operands without one. ``options``
        are the keywords of the call, and ``cotangents`` have the structure of the results. The function uses
        ``jax.custom_vjp``, so forward mode is not available.
        """

        def function(*args, **options):
            operands = self._operands(args)[0]
            # Random keys become plain data only inside the handler. Trailing None arguments were dropped above, but the
            # caller's functions expect them.
            absent = args[len(operands) :]
            args = [*(given if _jax.is_key(given) else value for given, value in zip(args, operands)), *absent]
            once = jax.custom_vjp(lambda *args: self(*args, **options))
            once.defvjp(lambda *args: fwd(*args, **options), lambda *both: tuple(bwd(*both, **options)))
            return once(*args)

        return functools.update_wrapper(function, self, updated=())

    def batched(self, args, attrs, results, gradient, has_side_effect, said):
        """Calls this handler to compute a batch of calls of a different handler.

        ``gradient`` is the gradient of the different handler, used if this handler has none. ``said`` are the caller's
        keywords.
        """
        attrs = self._attributes(attrs, {})
        args, bound = self._operands(args)
        types = [self._token_type() if result is None else self._array_type(*result) for result in results]
        options = {"gradient": gradient} if self.gradient is None else {}
        options["has_side_effect"] = has_side_effect
        return self._bind(args, bound, types, attrs, said, batch=self._batch(bound, "default", said), **options)

    def _bind(self, args, bound, results, attrs, said, **options):
        options["aliases"] = self._aliases(said["input_output_aliases"], bound)
        rets = [self.spec.rets[min(index, len(self.spec.rets) - 1)] for index in range(len(results))]
        layouts = [arg.layout for arg, _ in bound], [ret.layout for ret in rets]
        if self.gradient is not None:
            from . import _gradient

            attributes = tuple((name, _primitive.Frozen(value)) for name, value in sorted(attrs.items()))
            names = tuple(arg.name for arg, _ in bound), tuple(ret.name for ret in rets)
            options["gradient"] = _gradient.Rule(self.gradient, attributes, *names, tuple(said.items()))
        # Program metadata and profiles show the call under this name.
        with jax.named_scope(self.__qualname__), jax.profiler.TraceAnnotation(self.__qualname__):
            return _primitive.call(self.target, results, args, attrs, layouts=layouts, **options)

    def _batch(self, bound, method, said):
        """Returns the batching of a call under ``vmap``, in the form that ``_batch.py`` describes."""
        if method == "default":
            if isinstance(self.batch, _related_handlers.Other):
                return dataclasses.replace(self.batch, said=tuple(said.items()))
            if not isinstance(self.batch, tuple):
                return self.batch
            return tuple(self.batch[self.spec.args.index(arg)] for arg, _name in bound)
        if method is not None and method not in _batch.METHODS:
            raise ValueError(f"{self.__qualname__}: vmap_method=: expected {', '.join(_batch.METHODS)} or None, got {method!r}")
        return method

    def _split(self, args, bound, wanted, batch, has_side_effect):
        """Returns the ``_sharding.Split`` of a call, or None if the call cannot be split over devices."""
        if wanted and not (self._contract and self._contract.batchable and args):
            raise TypeError(f"{self.__qualname__}: partition_batch=True needs a contract whose operands all start with `...`; remove it")
        if not (self._contract and args) or has_side_effect or wanted is False:
            return None
        # Operands of a fixed rank cannot have an additional dimension, but their existing dimensions can be split.
        of_one_rank = batch == self.batch == "sequential" and self.spec.batch is None and self._contract.batchable
        if not wanted and not (batch == "broadcast_all" or isinstance(batch, tuple) or of_one_rank):
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

    def _said(self, each):
        """Checks a result type that a caller passes in ``result_shape_dtypes``."""
        if each is self._token_type():
            return each
        if not (hasattr(each, "shape") and hasattr(each, "dtype")):
            raise TypeError(f"{self.__qualname__}: result_shape_dtypes=: expected jax.ShapeDtypeStruct(shape, dtype), got {_values.shown(each)}")
        return each

    _array_type = staticmethod(jax.ShapeDtypeStruct)
    _token_type = staticmethod(_jax.abstract_token)

    @staticmethod
    def _operand(arg, name, value):
        if arg.token:
            if not _jax.is_token(value):
                raise TypeError(f"expected a token, got {_values.shown(value)}")
            return value
        if _jax.is_token(value):
            raise TypeError(f"expected {expected(arg)}, got a token")
        # A Python number or list has no element type. If the handler accepts only one type, use that.
        only = _abi.numpy_dtype(arg.dtypes[0]) if arg.dtypes is not None and len(arg.dtypes) == 1 else None
        array = _values.operand(value, only, expected(arg), name)
        if _jax.is_key(array):
            value = array = jax.random.key_data(array)
            name = f"jax.random.key_data({name})"

        def cast(dtype):
            wide = _abi.numpy_dtype(dtype)
            if getattr(value, "dtype", None) == wide:
                return f"jax converts {wide.name} arrays; {_values.ENABLE_X64}"
            how = f"cast it: {_values.converted(name, value, wide)}"
            return f"{_values.ENABLE_X64}, then {how}" if dtype in _abi.WIDE_DTYPES and not _jax.has_x64() else how

        checked(arg, name, value, array.shape, _abi.dtype_name(array.dtype), cast, "map over leading dimensions with jax.vmap")
        return array


class _Keywords:
    """The keywords of a call as a hashable key. The constructor raises a TypeError if a keyword is not a constant."""

    __slots__ = ("key", "values")

    def __init__(self, values):
        self.key = tuple((name, _primitive.key(value)) for name, value in values.items())
        self.values = values

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return self.key == other.key


@functools.cache
def options():
    """Returns the keywords that every handler has in addition to its attributes."""
    parameters = inspect.signature(Handler._call).parameters.values()
    return tuple(each.name for each in parameters if each.kind == inspect.Parameter.KEYWORD_ONLY)


def refusal(spec):
    """Returns the reason why this jaxlib does not support the handler, or None.

    Runtimes of ABI version 0.1 report a missing feature when it is used. Later runtimes refuse the registration. jaxlib
    may ignore that error, so this function finds such handlers.
    """
    have = _jax.REVISION
    if _abi.minor_version(spec.floor) <= max(1, _abi.minor_version(max(have, 0))):
        return None
    first = _abi.first_jaxlib(spec.floor)
    needs = f"jaxlib {first} or newer" if first else "a newer jaxlib than this xla_ffi knows"
    return f"{spec.library}.{spec.name}: needs {needs} (r{spec.floor}), got {_jax.JAXLIB} (r{have}); upgrade jaxlib"
