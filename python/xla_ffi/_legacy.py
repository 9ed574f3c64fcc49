"""Targets of the original custom calls, the API before XLA FFI."""

import jax

from . import _abi, _jax, _primitive, _values
from ._description import Single


class LegacyTarget(Single):
    """Calls a target of the original custom calls. Operands are passed by position.

    ``opaque`` is text that unified and device targets receive. ``result_shape_dtypes`` is as in :class:`Handler`, and
    needed if the manifest does not declare the results. ``api_version`` (1, 2 or 3) is needed if only the target's
    address was registered. In jaxlib, these targets cannot report errors; adapt a target to XLA FFI to report errors.
    """

    def __init__(self, name, target, signature, spec, library):
        #: The name under which the target is registered.
        self.target = target
        #: One of ``cpu``, ``cpu_status``, ``cpu_unified``, ``gpu``, ``gpu_status``, or None.
        self.signature = signature
        #: XLA's CustomCallApiVersion, or None.
        self.api_version = _abi.LEGACY_API_VERSIONS.get(signature)
        self._spec = spec
        #: The arguments of the `load` call for the library of the target.
        self._library = library
        self.__name__ = name

    def __reduce__(self):
        from . import _library

        return _library.restored_legacy, (*self._library, self.__name__)

    def __repr__(self):
        return f"<legacy target {self.target} ({self.signature or 'of unknown signature'})>"

    def __call__(self, *args, result_shape_dtypes=None, opaque="", api_version=None, has_side_effect=False):
        _values.flag(f"{self.target}: has_side_effect", has_side_effect)
        version = self.api_version if api_version is None else api_version
        if version not in (1, 2, 3):
            raise TypeError(f"{self.target}: api_version=: expected 1, 2 or 3, got {version!r}")
        if self.api_version not in (None, version) and (self.signature, version) != ("gpu_status", 3):
            raise TypeError(
                f"{self.target}: api_version=: expected API version {self.api_version}, that of the signature {self.signature}, got {version}; remove it"
            )
        spec = self._spec
        # Operands are converted before the comparison, because jax may make 32-bit elements of 64-bit ones.
        args = [self._operand(index, arg) for index, arg in enumerate(args)]
        if spec is not None and spec.args is not None:
            _check(self.target, spec.args, args)
        if result_shape_dtypes is None:
            if spec is None or spec.rets is None:
                raise TypeError(f"{self.target}: its results are not declared; pass result_shape_dtypes=")
            result_shape_dtypes = [jax.ShapeDtypeStruct(dims, _abi.numpy_dtype(dtype)) for dtype, dims in spec.rets]
            if len(result_shape_dtypes) == 1:
                result_shape_dtypes = result_shape_dtypes[0]
        single = not isinstance(result_shape_dtypes, (list, tuple))
        if spec is not None and spec.tuples is not None:
            _check_tuples(self.target, spec, 1 if single else len(result_shape_dtypes))
        results = [result_shape_dtypes] if single else list(result_shape_dtypes)
        if spec is not None and spec.rets is not None:
            _check(self.target, spec.rets, results, "result")
        out = _primitive.call(
            self.target,
            results,
            args,
            {},
            batch="sequential",
            has_side_effect=has_side_effect,
            legacy=(version, opaque),
        )
        return out[0] if single else tuple(out)

    def _operand(self, index, value):
        declared = self._spec.args if self._spec is not None else None
        only = _abi.numpy_dtype(declared[index][0]) if declared is not None and index < len(declared) else None
        try:
            return value if _jax.is_token(value) else _values.operand(value, only, str(only or "an array"), f"args[{index}]")
        except TypeError as error:
            raise TypeError(f"{self.target}: argument {index}: {error}") from error


def _check_tuples(target, spec, results):
    """Raises a TypeError if a target expects pointers that XLA does not pass for arrays.

    XLA passes one pointer per operand. A single result is a pointer to its data; several results are an array of
    pointers.
    """
    operands, result = (part.replace(" ", "") for part in spec.structure.split("->"))
    inner = result[1:-1]
    fits = result == "_" if results == 1 else result.startswith("(") and inner != "_"
    if spec.tuples == "roots":
        fits = fits and "(" not in operands + inner
    if not fits:
        raise TypeError(
            f"{target}: expected tuples ({spec.structure} by {spec.tuples}), which jax cannot pass, got arrays and {results} results; "
            "call it from a StableHLO program"
        )


def _check(target, declared, args, noun="argument"):
    """Raises a TypeError if operands differ from the target's declaration, because the target would access memory
    out of bounds."""
    if len(args) != len(declared):
        raise TypeError(f"{target}: expected {len(declared)} {noun}{'' if len(declared) == 1 else 's'}, got {len(args)}")
    for index, (arg, (dtype, dims)) in enumerate(zip(args, declared)):
        got = (_abi.dtype_name(arg.dtype), tuple(arg.shape)) if hasattr(arg, "dtype") else ("a token", ())
        if got != (dtype, tuple(dims)):
            raise TypeError(f"{target}: {noun} {index}: expected {_abi.type_text(dtype, dims)}, got {_abi.type_text(*got)}")
