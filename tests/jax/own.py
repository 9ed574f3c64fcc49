"""What drivers take of jax itself, wherever this jax has it."""

import jax
from checks import skip
from xla_ffi import _primitive

try:
    from jax import ffi
except ImportError:
    from jax.extend import ffi

try:
    from jax import shard_map  # noqa: F401
except ImportError:
    from jax.experimental.shard_map import shard_map

try:
    from jax import enable_x64
except ImportError:
    from jax.experimental import enable_x64  # noqa: F401

#: Whether jax's own ``ffi_call`` is what it is today: a function of jax itself, with aliases, layouts and methods for vmap.
HAS_FFI_CALL = hasattr(jax, "ffi")


def of_jax_alone():
    """Ends a check of jax's own ``ffi_call`` as skipped, where that has not what is asked."""
    if not HAS_FFI_CALL:
        skip("this jax's own ffi_call is another one, of jax.extend")


def ffi_call(target, results, vmap_method=None, **options):
    """A call without the loader: jax's own; where that cannot do it, the loader's primitive alone."""
    if HAS_FFI_CALL:
        return ffi.ffi_call(target, results, vmap_method=vmap_method, **options)
    many = isinstance(results, (list, tuple))
    aliases, effect = options.pop("input_output_aliases", None), options.pop("has_side_effect", False)
    version, config = options.pop("custom_call_api_version", 4), options.pop("legacy_backend_config", None)
    if options:
        of_jax_alone()

    def call(*args, **attrs):
        out = _primitive.call(
            target, list(results) if many else [results], args, attrs, batch=vmap_method, aliases=aliases,
            has_side_effect=effect, legacy=(version, config) if version < 4 else None,
        )  # fmt: skip
        return type(results)(out) if many else out[0]

    return call
