"""Runs libraries built with upstream's headers on this process's jaxlib, each in a child process.

usage: verdicts.py NAME=LIBRARY…

Each library has one handler of tests/fixtures/upstream/verdicts.cc. Prints one line of JSON per cell: {"library",
"case", "end", "message"}. The case is the handler's name. A stateful handler runs twice, with and without its type
registered from Python. The end is one of these:

works    the results are right
refused  the runtime does not accept the handler or the type
fails    the call raises an error
wrong    the results are wrong
crash    the process crashes
varies   the case failed, and ended differently when it ran again
"""

import contextlib
import ctypes
import io
import json
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from cells import REFUSALS, f32
from checks import forked
from jaxlib import xla_client
from xla_ffi import _jax, _primitive

# Objects that the runtime points to, which must not be freed.
KEPT = []
FACTORS = {"stateless": 2, "stateful": 3, "async": 4}
AGAIN = 2


class Refused(Exception):
    """Raised if the runtime refuses the handler or its type."""


class TypeInfo(ctypes.Structure):
    """The struct XLA_FFI_TypeInfo of r7 and later."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def register_type(image):
    """Registers the state's type in the form that this jaxlib expects.

    From r7 on, this includes the deleter, which the headers of older revisions do not provide.
    """
    deleter = ctypes.cast(image.factor_delete, ctypes.c_void_p).value
    info = TypeInfo(ctypes.sizeof(TypeInfo), None, deleter)
    KEPT.append(info)
    number = _jax.capsule(function(image, "factor_type_id")())
    registration = {"type_id": number, "type_info": _jax.capsule(ctypes.addressof(info))}
    register = getattr(xla_client, "register_custom_type", None) or xla_client.register_custom_type_id
    register("factor", registration if _jax.REVISION >= 7 else number)


def function(image, symbol):
    found = getattr(image, symbol)
    found.restype = ctypes.c_void_p
    return found


def child(path, handler, with_type):
    image = ctypes.CDLL(path)
    address = lambda symbol: ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value
    stages = {"execute": address(handler)}
    if handler == "stateful":
        stages["instantiate"] = address("stateful_instantiate")
    try:
        if with_type:
            # Before the backend exists, jaxlib only queues the registration.
            jax.devices("cpu")
            register_type(image)
        _jax.register("verdict", stages, "cpu")
        jax.devices("cpu")
    except Exception as error:
        return {"end": "refused", "message": str(error)[:300]}
    x = np.arange(5, dtype=np.float32)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            [got] = jax.jit(lambda x: _primitive.call("verdict", [f32(5)], [x], {}))(jnp.asarray(x))
            # Reading the result waits for the call.
            got = np.asarray(got)
    except Exception as error:
        message = " ".join(str(error).split())
        refused = any(sign in message for sign in REFUSALS)
        return {"end": "refused" if refused else "fails", "message": message[:300]}
    right = np.array_equal(got, x * FACTORS[handler])
    return {"end": "works" if right else "wrong", "message": "" if right else str(got)}


def run(path, handler, with_type):
    ends = []
    for _ in range(1 + AGAIN):
        result, message = forked(lambda: child(path, handler, with_type), 60)
        ends.append(result or {"end": "crash", "message": message})
        if ends[-1]["end"] in ("works", "refused") and len(ends) == 1:
            break
    if len({end["end"] for end in ends}) > 1:
        return {"end": "varies", "message": "; ".join(f"{end['end']}: {end['message']}" for end in ends)}
    return ends[0]


def main():
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        handler = next(handler for handler in FACTORS if name.endswith(handler))
        for with_type in (False, True) if handler == "stateful" else (False,):
            case = "registered" if with_type else handler
            print(json.dumps({"library": name, "case": case, **run(path, handler, with_type)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
