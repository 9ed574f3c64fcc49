"""What drivers take of jax itself, wherever this jax has it."""

import inspect
import os
import sys

import jax
from checks import skip
from xla_ffi import _primitive

try:
    from jax import ffi
except ImportError:
    from jax.extend import ffi

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

#: Options by which shard_map takes results that it cannot judge.
UNCHECKED = {name: False for name in ("check_vma", "check_rep") if name in inspect.signature(shard_map).parameters}

try:
    from jax import enable_x64
except ImportError:
    from jax.experimental import enable_x64  # noqa: F401

#: What a call raises that fails as it runs.
RUNTIME_ERROR = getattr(jax.errors, "JaxRuntimeError", None) or jax.lib.xla_extension.XlaRuntimeError

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


def export():
    """`jax.export`, whose packages are no part of jaxlib's wheel."""
    # It wants flatbuffers, and absl in earlier ones.
    packages = os.environ.get("XLA_FFI_EXPORT_PACKAGES")
    if packages and packages not in sys.path:
        sys.path.append(packages)
    try:
        import jax.export as module
    except ImportError as error:
        skip(f"jax.export cannot be imported: {error}")
    return module

