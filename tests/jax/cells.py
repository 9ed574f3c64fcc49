"""Helpers for drivers: a library under test, the cell for an outcome, and jax functions whose location varies."""

import ctypes
import re

import jax
import numpy as np
import xla_ffi
from checks import skip

# The primitive's rules for vmap and grad are registered with the handlers.
from xla_ffi import _abi, _handler, _jax, _manifest, _primitive

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


class Absent(Exception):
    """Raised if the runtime or jax does not have the feature. The text is the error that reported this."""


class Moot(Exception):
    """Raised if the row does not apply to the library, because its language or headers do not have the feature."""


#: The reasons why a row does not apply, by kind of library and missing feature. All other rows apply.
NOT_IN = {
    ("c", "panic"): "the language has no panics",
    ("upstream", "optional_parts"): "the headers have no such binding",
    ("upstream", "xla_ffi_register"): "the library has no registration entry",
    ("upstream", "targets of the original custom calls"): "these headers have no such targets",
}


def not_in(kind, what):
    """Returns the exception for a feature that the library does not have: Moot if ``NOT_IN`` has a reason, otherwise an
    error."""
    reason = NOT_IN.get((kind, what))
    return Moot(reason) if reason else AssertionError(f"the library {kind!r} has no {what}, and nothing says why it could not")


class Refused(Exception):
    """Raised if the runtime refuses the handler."""


def f32(*shape):
    """Returns the type of an f32 array."""
    return jax.ShapeDtypeStruct(shape, np.float32)


def typed(dtype, *shape):
    """Returns the type of an array."""
    return jax.ShapeDtypeStruct(shape, dtype)


# Texts of errors that runtimes report before a handler is called.
RUNTIME_LACKS = {
    "Unsupported attribute type for attribute": "the runtime's attribute parser knows no such attribute",
    "Unsupported array element type for attribute": "the runtime's attribute parser knows no such array",
    "is currently only supported in": "the runtime takes no arrays of this type",
}


def lacks(text):
    """Returns true if an error reports that the runtime is too old for a feature."""
    # These errors name the first jaxlib that has the feature, which must be newer than this jaxlib.
    named = re.findall(r"jaxlib\D{,30}?(\d+(?:\.\d+)+)", text)
    later = any(_abi._numbers(version) > _abi._numbers(_jax.JAXLIB) for version in named)
    return later or any(sign in text for sign in RUNTIME_LACKS)


def as_far_as_it_goes(work, *args):
    """Runs `work`, and skips the check if an error reports that this jaxlib does not have the feature."""
    try:
        return work(*args)
    except Exception as error:
        if lacks(str(error)):
            skip(f"this jaxlib lacks it: {' '.join(str(error).split())}")
        raise


# Texts of errors for refused handlers, which occur at registration, when a backend with queued handlers is initialized,
# and when a program calls the target.
REFUSALS = (
    "incompatible with the framework's API version",
    "No registered implementation for custom call",
    "No FFI handler registered",
)


class Subject:
    """A library whose handlers are registered when they are first called, under ``KIND.NAME``.

    Handlers are found by the manifest. A library without a manifest exports ``NAME`` and ``NAME_instantiate``.
    """

    def __init__(self, kind, path):
        self.kind = kind
        self.path = path
        self._registered = set()
        self._image = None
        try:
            self._specs = {
                spec.name: spec for handlers in _manifest.read(path).values() for spec in handlers.values()
            }
        except xla_ffi.ManifestError:
            self._specs = None

    @property
    def has_manifest(self):
        return self._specs is not None

    @property
    def image(self):
        if self._image is None:
            self._image = ctypes.CDLL(self.path)
        return self._image

    def address(self, symbol):
        """Returns the address of an exported function."""
        return ctypes.cast(getattr(self.image, symbol), ctypes.c_void_p).value

    def has(self, name):
        """Returns true if the library has a handler of this name."""
        return name in self._specs if self.has_manifest else hasattr(self.image, name)

    def register(self, name):
        """Registers one handler. Raises Refused or Absent."""
        if name in self._registered:
            return
        if self.has_manifest:
            spec = self._specs[name]
            refusal = _handler.refusal(spec)
            if refusal:
                raise Absent(refusal)
            stages = {stage: self.address(symbol) for stage, symbol in spec.stages.items() if stage != "record"}
        else:
            stages = {"execute": self.address(name)}
            if hasattr(self.image, f"{name}_instantiate"):
                stages["instantiate"] = self.address(f"{name}_instantiate")
        try:
            _jax.register(self.target(name), stages, "cpu")
        except Exception as error:
            raise Refused(str(error)) from error
        self._registered.add(name)

    def own_target(self, name):
        """Returns the target name under which the library's registration function registers a handler."""
        return name if self.has_manifest else f"conformance_c.{name}"

    def beyond(self, revision):
        """Returns the handlers that a runtime of this revision refuses, because they need a newer version."""
        if not self.has_manifest or revision == 0:
            return []
        newest = max(1, _abi.minor_version(revision))
        return [spec.name for spec in self._specs.values() if _abi.minor_version(spec.floor) > newest]

    def target(self, name):
        return f"{self.kind}.{name}"

    def call(self, name, results, *args, vmap_method=None, has_side_effect=False, aliases=None, **attrs):
        """Calls a handler with exactly these attributes. ``results`` is one type or a list."""
        self.register(name)
        many = isinstance(results, (list, tuple))
        out = _primitive.call(
            self.target(name),
            list(results) if many else [results],
            args,
            attrs,
            batch=vmap_method,
            has_side_effect=has_side_effect,
            aliases=aliases,
        )
        return out if many else out[0]


def verdict(error):
    """Returns the cell for an exception that a feature raised, and the cell's message."""
    text = " ".join(str(error).split())
    if isinstance(error, Absent):
        return "absent", text
    if isinstance(error, Moot):
        return "moot", text
    if isinstance(error, Refused):
        return "refused", text
    if any(sign in text for sign in REFUSALS):
        return "refused", text
    if lacks(text):
        lack = [lack for sign, lack in RUNTIME_LACKS.items() if sign in text]
        return "absent", ": ".join([*lack, text])
    return "FAIL", f"{type(error).__name__}: {text}"


def expect(got, wanted, what="result"):
    """Fails unless two arrays are equal in values, type and shape."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape or not np.array_equal(got, wanted):
        raise AssertionError(f"{what}: expected {wanted.dtype}{list(wanted.shape)} {wanted.tolist()}, "
                             f"got {got.dtype}{list(got.shape)} {got.tolist()}")  # fmt: skip


def expect_error(work, *texts, refusal=False):
    """Fails unless ``work`` raises an error that contains every text. Returns the error's text.

    Errors that report a refusal or a missing feature are raised again, unless a ``refusal`` is expected.
    """
    try:
        jax.block_until_ready(work())
    except (AssertionError, Absent, Moot, Refused):
        raise
    except Exception as error:
        text = str(error)
        if not refusal and verdict(error)[0] in ("absent", "refused"):
            raise
        for wanted in texts:
            if wanted not in text:
                raise AssertionError(f"the error lacks {wanted!r}: {text!r}") from error
        return text
    raise AssertionError(f"no error where one with {texts} was expected")


#: Whether jax has the present form of ``ffi_call``, which supports aliases, layouts and methods for vmap.
HAS_FFI_CALL = hasattr(jax, "ffi")


def of_jax_alone():
    """Skips a check of jax's own ``ffi_call`` if this jax has an older form of the function."""
    if not HAS_FFI_CALL:
        skip("this jax's own ffi_call is another one, of jax.extend")


def ffi_call(target, results, vmap_method=None, **options):
    """Returns a call without the loader: jax's own ``ffi_call``, or the loader's primitive if jax has only an older
    ``ffi_call``."""
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
