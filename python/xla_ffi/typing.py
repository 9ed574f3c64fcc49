"""Types of operands and attributes for annotations, used by stub files of ``python -m xla_ffi stubs``."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional, TypedDict, Union

import jax
import numpy as np
import numpy.typing as npt

_Number = Union[jax.Array, np.generic, complex, float, int, bool]

#: An operand: an array of jax or NumPy, a number, or numbers in lists.
Operand = Union[
    _Number,
    npt.NDArray[Any],
    Sequence[_Number],
    Sequence[Sequence[_Number]],
    Sequence[Sequence[Sequence[_Number]]],
    Sequence[Sequence[Sequence[Sequence[_Number]]]],
]

#: Attributes, by their declared types. They are constants of the program, so arrays of jax are not accepted.
Bool = Union[bool, np.bool_]
Int = Union[int, np.integer[Any]]
Float = Union[float, np.floating[Any], np.integer[Any]]
Ints = Union[Sequence[Int], npt.NDArray[np.integer[Any]]]
Floats = Union[Sequence[Float], npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]]]


class Options(TypedDict, total=False):
    """The keywords that every handler has in addition to its attributes. See :class:`xla_ffi.Handler`."""

    result_shape_dtypes: Any
    vmap_method: Optional[str]
    input_output_aliases: Optional[Mapping[int, int]]
    has_side_effect: bool
    partition_batch: Optional[bool]
    shapes: Any
    attrs: Optional[Mapping[str, Any]]
