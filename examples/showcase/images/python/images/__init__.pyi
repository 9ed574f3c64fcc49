from collections.abc import Sequence
from typing import Literal

import jax
import jax.typing
import numpy as np
import xla_ffi

__all__ = ["decode", "lib", "pack", "sizes"]
__version__: str

lib: xla_ffi.Library

def pack(files: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Packs files into one array: (bytes, lengths)."""

def decode(
    packed: jax.typing.ArrayLike,
    lengths: jax.typing.ArrayLike,
    *,
    height: int,
    width: int,
    channels: Literal[1, 3, 4] = 3,
    fit: Literal["exact", "resize"] = "exact",
) -> jax.Array:
    """Decodes JPEG and PNG images."""

def sizes(packed: jax.typing.ArrayLike, lengths: jax.typing.ArrayLike) -> jax.Array:
    """Reads the height, width and channels of each image."""
