"""Registers the GPU examples in JAX, for the tests and the benches.

With ``--platform cpu``, the libraries run on JAX's CPU. ``--driver`` names a library that replaces NVIDIA's driver and
emulates the kernels. ``--device-host`` names a library that gives calls a stream. The C++ libraries must then be
compiled with the emulator. Such measurements do not apply to any GPU.
"""

import argparse
import ctypes
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

#: The handlers of each library.
HANDLERS = {
    "kernels": ["tiled_add", "polynomial", "sum", "axpy"],
    "rms_norm": ["rms_norm", "rms_norm_grad"],
    "tuples": ["sum_and_difference"],
    "probe": ["probe", "dispatch"],
    # Built in C++, once with each of the two sets of headers.
    "dispatch": ["dispatch"],
    # The CPU example, registered for the wrong platform.
    "host_rms_norm": ["host_rms_norm"],
}

#: The prefix of each language's symbols.
PREFIXES = {"rust": "", "cpp": "cpp_", "upstream": "upstream_"}

STAGES = ["instantiate", "prepare", "initialize"]


def arguments(description):
    """Returns the parser for the command line that the GPU drivers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--platform", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--driver", help="stand-in for the driver, for --platform cpu")
    parser.add_argument("--device-host", help="gives calls on CPU a stream, for --platform cpu")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("libraries", nargs="*", metavar="LANGUAGE:LIBRARY=FILE")
    return parser


def pycapsule(address):
    """Returns an address as a capsule, the form that jaxlib expects."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(address, None, None)


class World:
    """The registered libraries of a command line."""

    def __init__(self, options):
        self.on_gpu = options.platform == "cuda"
        self.quick = options.quick or not self.on_gpu
        self.platform = "CUDA" if self.on_gpu else "cpu"
        self.languages = {}
        self.images = {}
        self.paths = {}
        #: Libraries that could not be registered, with the errors.
        self.refused = []
        self._host = None
        if not self.on_gpu:
            # Load the substitute globally, so that libraries find it under the driver's name.
            driver = ctypes.CDLL(options.driver, mode=ctypes.RTLD_GLOBAL)
            driver.fake_stream.restype = ctypes.c_void_p
            self._host = ctypes.CDLL(options.device_host)
            self._host.device_host_stream.argtypes = [ctypes.c_void_p]
            self._host.device_host_stream(driver.fake_stream(0))
            self._host.device_host_wrap.argtypes = [ctypes.c_void_p]
            self._host.device_host_wrap.restype = ctypes.c_void_p
        self.device = jax.devices()[0]
        expected = "gpu" if self.on_gpu else "cpu"
        if self.device.platform != expected:
            raise SystemExit(f"error: JAX runs on {self.device.platform}, expected {expected}: is JAX's CUDA plugin installed?")
        for text in options.libraries:
            name, _, path = text.partition("=")
            language, _, example = name.partition(":")
            try:
                self._register(language, example, pathlib.Path(path).resolve())
            except Exception as error:
                self.refused.append((name, error))

    def _register(self, language, example, path):
        image = ctypes.CDLL(str(path))
        self.images[language, example] = image
        self.paths[language, example] = path
        for handler in HANDLERS[example]:
            symbol = PREFIXES[language] + handler.removeprefix("host_")
            if hasattr(image, f"{symbol}_type_id"):
                self._register_type(image, symbol)
            stages = {"execute": self.address(image, symbol)}
            for stage in STAGES:
                if hasattr(image, f"{symbol}_{stage}"):
                    stages[stage] = self.address(image, f"{symbol}_{stage}")
            capsules = {stage: pycapsule(address) for stage, address in stages.items()}
            function = capsules if len(capsules) > 1 else capsules["execute"]
            jax.ffi.register_ffi_target(f"{language}.{handler}", function, platform=self.platform)
            self.languages.setdefault(handler, []).append(language)

    def _register_type(self, image, symbol):
        capsules = {}
        for part in ["type_id", "type_info"]:
            function = getattr(image, f"{symbol}_{part}")
            function.restype = ctypes.c_void_p
            capsules[part] = pycapsule(function())
        try:
            jax.ffi.register_ffi_type(f"{symbol}_state", capsules, platform=self.platform)
        except Exception:
            # Plugins older than TypeInfo accept only the id.
            jax.ffi.register_ffi_type(f"{symbol}_state", capsules["type_id"], platform=self.platform)

    def address(self, image, symbol):
        """Returns the address of a handler's function, which is wrapped if the host has no device."""
        address = ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
        if self._host is None:
            return address
        wrapped = self._host.device_host_wrap(address)
        if wrapped is None:
            raise SystemExit("error: more handlers than the stand-in for a device host has room for")
        return wrapped

    def count(self, name):
        """Returns one of the probe's counters."""
        function = getattr(self.images["rust", "probe"], f"probe_{name}")
        function.restype = ctypes.c_uint64
        return function()


def call(target, result, *operands, **attributes):
    """Calls a target with one result that has the type of ``result``."""
    kind = jax.ShapeDtypeStruct(result.shape, result.dtype)
    return jax.ffi.ffi_call(target, kind, vmap_method="broadcast_all")(*operands, **attributes)


def tiled_add(language):
    return lambda b, c: call(f"{language}.tiled_add", c, b, c)


def rms_norm(language, eps=1e-5):
    """Returns the handler with its gradient."""
    eps = np.float32(eps)

    @jax.custom_vjp
    def norm(x):
        return call(f"{language}.rms_norm", x, x, eps=eps)

    def backward(x, dy):
        return (call(f"{language}.rms_norm_grad", x, x, dy, eps=eps),)

    norm.defvjp(lambda x: (norm(x), x), backward)
    return norm


def polynomial(language, coefficients):
    values = np.asarray(coefficients, np.float32)
    return lambda x: call(f"{language}.polynomial", x, x, coefficients=values)


def total(language):
    scalar = jax.ShapeDtypeStruct((), np.float32)
    return lambda x: jax.ffi.ffi_call(f"{language}.sum", scalar)(x)


def axpy(language):
    return lambda a, x, y: call(f"{language}.axpy", y, x, y, a=np.float32(a))


def sum_and_difference(language):
    """Returns the adapter of a target that does not receive sizes."""

    def both(x, y):
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(f"{language}.sum_and_difference", (kind, kind))(x, y)

    return both


def probe():
    return lambda x: call("rust.probe", x, x)


def dispatch(language):
    return lambda x: call(f"{language}.dispatch", x, x, scale=np.float32(1), steps=np.int64(3))


# The functions of the GPU examples, written in jax.numpy.


def tiled_add_reference(b, c):
    return jnp.tile(b, -(-c.shape[0] // b.shape[0]))[: c.shape[0]] + c


def rms_norm_reference(x, eps=1e-5):
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * scale).astype(x.dtype)


def polynomial_reference(x, coefficients):
    return sum(np.float32(c) * x**k for k, c in enumerate(coefficients))


def numbers(shape, dtype=jnp.float32, seed=0):
    """Returns normally distributed numbers on the device."""
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32).astype(dtype)


def difference(got, wanted):
    """Returns the largest difference. For numbers over 1, the difference is relative."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        raise AssertionError(f"shape {got.shape}, expected {wanted.shape}")
    return float(np.max(np.abs(got - wanted) / np.maximum(1, np.abs(wanted)), initial=0))


def close(got, wanted, tolerance):
    """Fails if two arrays differ by more than the tolerance."""
    if not np.all(np.isfinite(np.asarray(got, np.float64))):
        raise AssertionError("not all numbers are finite")
    value = difference(got, wanted)
    if not value <= tolerance:
        raise AssertionError(f"differs from jax.numpy by {value}, more than {tolerance}")
