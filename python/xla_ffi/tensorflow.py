"""Load XLA custom-call libraries into TensorFlow.

``lib = xla_ffi.tensorflow.load("libfoo.so")`` registers the handlers of a library with the XLA in TensorFlow. It
returns an object with one function per handler, for use under ``tf.function(jit_compile=True)``. jax is not needed.
"""

import contextlib
import os
import threading
import types
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf

from . import _abi, _facts, _file, _manifest, _mlir, _related_handlers, _signature, _values
from ._description import Described, Handlers, checked, expected
from ._errors import LibraryError, UnsupportedRuntimeError
from ._tf_host import Host

__all__ = ["Handler", "Library", "load"]

_FORMAT = 9  # XlaCallModule version, the newest that TensorFlow 2.18 supports

_lock = threading.RLock()
_host = None
_libraries = {}  # (real path, digest): Library; libraries stay loaded until the process ends
_targets = {}  # handler: path of the library that registered it
_within = threading.local()


def load(path: Union[str, "os.PathLike[str]"]) -> Any:
    """Loads a shared library made with this SDK and registers its handlers with TensorFlow, for the CPU.

    Each target has the handler's own name. Saved models refer to that name, and run in any process that has loaded the
    library. Loading a file twice returns the same object::

        norm = xla_ffi.tensorflow.load("librms_norm.so").rms_norm
        y = tf.function(lambda x: norm(x, eps=1e-6), jit_compile=True)(x)

    Raises:
        LibraryError: The file cannot be loaded, a different library has registered a handler of the same name, or the
            loaded file was rebuilt.
        UnsupportedRuntimeError: The XLA in this TensorFlow does not support XLA FFI.
    """
    global _host
    path = os.path.realpath(os.fsdecode(path))
    with _lock:
        contents = _file.read(path)
        if (path, contents.digest) not in _libraries:
            if _host is None:
                _host = Host()
            _libraries[path, contents.digest] = Library(path, contents, _host)
        return _libraries[path, contents.digest]


class Library(Handlers):
    """The handlers of one library file, as attributes and in ``handlers``."""

    def __init__(self, path, contents, host):
        self.path: str = path
        specs = [spec for handlers, _ in _manifest.read_all(path, contents.data).values() for spec in handlers.values()]
        for spec in specs:
            owner = _targets.get(spec.name)
            if owner is not None and _on_cpu(spec):
                what = "an earlier build of this file" if owner == path else owner
                raise LibraryError(
                    f"{path}: `{spec.name}` is already registered with {host.name} by {what}; rename the handler, or start a "
                    "new process"
                )
        refused = {spec.name: _refusal(spec, host) for spec in specs}
        image = _file.load(contents, any(known == path for known, _ in _libraries))
        for library in dict.fromkeys(spec.library for spec in specs):
            self._register(host, image, [spec for spec in specs if spec.library == library], refused)
        self.handlers: dict[str, Handler] = {spec.name: Handler(spec, path, refused[spec.name]) for spec in specs}
        for library in dict.fromkeys(spec.library for spec in specs):
            mine = {spec.name: self.handlers[spec.name] for spec in specs if spec.library == library}
            _related_handlers.resolve(path, mine)
        #: Always empty, because TensorFlow's XLA does not support targets of the original custom calls.
        self.legacy: Mapping[str, Any] = {}

    def _register(self, host, image, specs, refused):
        """Registers one library of the file.

        Rust libraries have a registration function, which may already have run when the library was loaded. They are
        registered through that function, other libraries by the symbols in their manifest.
        """
        register = getattr(image, f"{specs[0].library}__xla_ffi_register", None)
        taken = [spec for spec in specs if refused[spec.name] is None]
        if register is not None:
            said = host.enroll(register)
            # Features that the host is known to lack are reported when the handler is called.
            if said and len(taken) == len(specs):
                raise LibraryError(f"{self.path}: {host.name} refuses its handlers: {said}")
            _targets.update((spec.name, self.path) for spec in taken)
            return
        for spec in taken:
            # TensorFlow cannot run the record stage.
            stages = {stage: _file.address(image, self.path, symbol) for stage, symbol in spec.stages.items() if stage != "record"}
            said = host.register(spec.name, stages)
            if said:
                raise LibraryError(f"{self.path}: {host.name} refuses `{spec.name}`: {said}")
            _targets[spec.name] = self.path

    def __reduce__(self):
        # A different process loads the file when it unpickles the library or one of its handlers.
        return load, (self.path,)


def _on_cpu(spec):
    return any(platform.lower() in ("cpu", "host") for platform in spec.platforms)


def _refusal(spec, host):
    if not _on_cpu(spec):
        return f"{spec.library}.{spec.name}: expected a handler for the CPU, the only platform with TensorFlow, got one for {', '.join(spec.platforms)}"
    if not spec.described:
        return f"{spec.library}.{spec.name}: its library does not describe its arguments"
    return host.refusal(spec)


class Handler(Described):
    """Calls a handler under ``tf.function(jit_compile=True)``. Operands are passed by position, attributes by keyword.

    An error of the handler is raised as the ``tf.errors`` exception of its code. Handlers with a declared gradient are
    differentiable in reverse mode. For others, use ``tf.custom_gradient``.

    Args:
        shapes: Result shapes, needed if the contract does not determine them. See :class:`xla_ffi.Handler`.
        result_shape_dtypes: Result types, needed if the element types are not determined either. A ``tf.TensorSpec`` or a
            sequence of them.
        input_output_aliases: A dict from the index of an operand to the index of the result that uses its memory.
        has_side_effect: Whether XLA must make the call even if its results are unused.
        attrs: A dict with attributes whose names are also names of these parameters.
    """

    def __init__(self, spec, path, refusal):
        super().__init__(spec, path)
        self._refusal = refusal
        self.__signature__ = _signature.signature(spec, (), tf.Tensor)
        # Set by `_related_handlers.resolve`. TensorFlow does not use `batch`.
        self.batch = None
        self.gradient = None

    @property
    def refused(self) -> Optional[str]:
        """The reason why the TensorFlow of this process cannot use the handler, or None."""
        return self._refusal

    def __reduce__(self):
        return _restored, (self._path, self.spec.name)

    def __call__(
        self,
        *args: Any,
        result_shape_dtypes: Any = None,
        shapes: Any = None,
        input_output_aliases: Optional[Mapping[int, int]] = None,
        has_side_effect: bool = False,
        attrs: Optional[Mapping[str, Any]] = None,
        **more_attrs: Any,
    ) -> Any:
        if self._refusal:
            raise UnsupportedRuntimeError(self._refusal)
        self._compiled()
        _values.flag(f"{self.__qualname__}: has_side_effect", has_side_effect)
        cast = self._attributes(attrs, more_attrs, args)
        values, bound = self._operands(args)
        results, single = self._results(values, bound, result_shape_dtypes, shapes, cast)
        own_aliases = self._own_aliases(input_output_aliases, bound)
        aliases = self._aliases(own_aliases, bound)
        run = lambda *tensors: self._run(tensors, values, bound, results, cast, aliases, has_side_effect)
        tensors = [value.tensor for value in values]
        if any(_differentiable(value.dtype) for value in values):
            run = _with_gradient(self, run, values, bound, results, cast, has_side_effect, dict(own_aliases))
        out = run(*tensors)
        if not results:
            return None
        return out[0] if single else tuple(out)

    def _compiled(self):
        """Raises a RuntimeError if TensorFlow does not compile the call together with the code around the call."""
        from tensorflow.python.ops import control_flow_util

        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if getattr(_within, "gradient", False) or (graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph)):
            return
        raise RuntimeError(
            f"{self.__qualname__}: called {'eagerly' if graph is None else 'in a graph that XLA does not compile'}; "
            "call it in a function with tf.function(jit_compile=True)"
        )

    def _run(self, tensors, values, bound, results, attrs, aliases, has_side_effect):
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops

        rets = _rets(self.spec, results)
        module = _mlir.call(
            self.spec.name,
            [(value.shape, value.dtype) for value in values],
            [(result.shape, result.dtype) for result in results],
            attrs,
            ([arg.layout for arg, _ in bound], [ret.layout for ret in rets]),
            sorted(aliases.items()),
            has_side_effect or not results,
        )
        out = gen_xla_ops.xla_call_module(
            list(tensors),
            version=_FORMAT,
            module=module,
            Sout=[list(result.shape) for result in results],
            Tout=[tf.as_dtype(result.dtype) for result in results],
            platforms=["CPU"],
            # Without this setting, a saved model cannot be loaded, because TensorFlow rejects unknown custom calls.
            disabled_checks=[f"custom_call:{self.spec.name}"],
        )
        return list(out) if results else []

    def _said(self, spec):
        """Converts a result type that a caller passes in ``result_shape_dtypes``."""
        if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
            raise TypeError(f"{self.__qualname__}: result_shape_dtypes=: expected tf.TensorSpec(shape, dtype), got {spec!r}")
        return _Array(_static(spec.shape), _numpy(tf.as_dtype(spec.dtype)))

    @staticmethod
    def _array_type(shape, dtype):
        return _Array(tuple(shape), np.dtype(dtype))

    def _token_type(self):
        raise TypeError(f"{self.__qualname__}: TensorFlow does not support tokens")

    @staticmethod
    def _operand(arg, name, value):
        if arg.token:
            raise TypeError("TensorFlow does not support tokens")
        if not tf.is_tensor(value):
            _values.refuse_masked(value)
            value = _values.of_numpy(value, tf.is_tensor)  # TensorFlow ignores the byte order
            only = _abi.numpy_dtype(arg.dtypes[0]) if arg.dtypes is not None and len(arg.dtypes) == 1 else None
            if only is not None and not hasattr(value, "dtype"):
                # A Python number or list has no element type. If the handler accepts only one type, use that.
                try:
                    _values.check(value, only, expected(arg), name=name)
                    value = _values.convert(value, only)
                except (ValueError, OverflowError) as error:
                    raise TypeError(f"expected {expected(arg)}, got {_values.shown(value)}, which is not rectangular") from error
        given = value
        try:
            value = tf.convert_to_tensor(given)
            if isinstance(given, (int, float, complex)) or _values.is_list_of_numbers(given):
                made = _numpy(value.dtype)
                _values.check(given, made, f"{made.name} (TensorFlow converts the value to it)")
        except (TypeError, ValueError) as error:
            raise TypeError(f"expected {expected(arg)}, got {_values.shown(given)}: {_values.first_line(error)}") from error
        shape, dtype = _static(value.shape), _numpy(value.dtype)
        cast = lambda dtype: f"cast it: tf.cast({name}, {_abi.DTYPE_NAMES[dtype]!r})"
        checked(arg, name, given, shape, _abi.dtype_name(dtype), cast, "map over leading dimensions with tf.map_fn")
        return _Array(shape, dtype, value)


def _restored(path, name):
    return load(path)[name]


class _Array(NamedTuple):
    """The type of an array. An operand also has its tensor."""

    shape: tuple
    dtype: np.dtype
    tensor: Any = None


def _static(shape):
    """Returns a shape as a tuple. Raises a TypeError unless all sizes are known."""
    shape = tf.TensorShape(shape)
    if not shape.is_fully_defined():
        raise TypeError(
            f"expected a shape with fixed sizes, got {shape}; remove the function's input_signature, or write sizes there"
        )
    return tuple(shape.as_list())


def _numpy(dtype):
    """Returns a tensor's element type as a NumPy dtype."""
    try:
        plain = np.dtype(dtype.as_numpy_dtype)
    except TypeError as error:
        raise TypeError(f"XLA has no arrays of {dtype.name}") from error
    if _facts.ELEMENT_TYPES.get(_abi.dtype_name(plain), (None, 8))[1] in (2, 4):
        raise TypeError(f"XLA packs {dtype.name} elements, but TensorFlow stores one per byte, so a handler would read different values")
    return plain


def _rets(spec, results):
    """Returns the declaration of each result of a call. Variadic results are repeated, and absent results omitted."""
    return [spec.rets[min(index, len(spec.rets) - 1)] for index in range(len(results))]


def _differentiable(dtype):
    return tf.as_dtype(dtype).is_floating or tf.as_dtype(dtype).is_complex


def _with_gradient(handler, run, values, bound, results, cast, has_side_effect, own_aliases):
    """Returns the call with its declared derivative. ``own_aliases`` are the caller's aliases."""
    declared = handler.gradient
    varies = [_differentiable(value.dtype) for value in values]
    attributes = [(name, types.SimpleNamespace(value=value)) for name, value in cast.items()]
    kinds = [(result.shape, result.dtype) for result in results]

    @tf.custom_gradient
    def differentiable(*tensors):
        if declared is not None and declared.forward is not None:
            with _inside():
                options = {"input_output_aliases": own_aliases, "has_side_effect": has_side_effect}
                known = list(declared.call("forward", attributes, tensors, kinds, **options))
        else:
            known = run(*tensors)
        out = known[: len(results)]

        def gradient(*cotangents):
            if declared is None or (declared.vjp is None and declared.transpose is None):
                raise TypeError(
                    f"{handler.__qualname__}: cannot be differentiated, because the handler declares neither `vjp = …` nor "
                    "`transpose = …`; define a gradient with tf.custom_gradient"
                )
            names = [arg.name for arg, _ in bound], [ret.name for ret in _rets(handler.spec, results)]
            saved = declared.saved(*names, varies)
            if declared.linear:
                saved = saved[: len(saved) - varies.count(False)]
            residuals = [[*tensors, *known][index] for index in saved]
            # Handlers use JAX's convention for complex cotangents, and TensorFlow uses their conjugates.
            given = [
                tf.zeros(result.shape, result.dtype) if cotangent is None else tf.math.conj(cotangent)
                for result, cotangent in zip(results, cotangents)
                if _differentiable(result.dtype)
            ]
            wanted = [(value.shape, value.dtype) for value, is_varying in zip(values, varies) if is_varying]
            with _inside():
                which = "vjp" if declared.vjp is not None else "transpose"
                found = iter(declared.call(which, attributes, [*residuals, *given], wanted))
            return [tf.math.conj(next(found)) if is_varying else None for is_varying in varies]

        return out, gradient

    return differentiable


@contextlib.contextmanager
def _inside():
    """Marks calls of a derivative's handlers as compiled, because TensorFlow builds backward graphs outside of the
    compiled context."""
    before = getattr(_within, "gradient", False)
    _within.gradient = True
    try:
        yield
    finally:
        _within.gradient = before
