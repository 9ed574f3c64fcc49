"""Runs cases of tests/cpp in this process's jaxlib, for tests/cpp/suite_in_jax.rs, which judges what came out.

usage: cpp_suite.py CASES

CASES is a file with a line of JSON for each case: {"library", "target", "stages": {STAGE: SYMBOL}, "attributes", "args",
"rets", "calls"}, the latter four as a `RUN` line has them. Prints a line of JSON for each: {"code", "message", "values"},
the values a list of numbers for each result.
"""

import ctypes
import functools
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from differential import operand, python, result
from jaxlib.mlir import ir
from xla_ffi import _jax, _primitive


@functools.cache
def register(library, target, stages):
    image = ctypes.CDLL(library)
    addresses = {stage: ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value for stage, symbol in stages}
    _jax.register(target, addresses, "cpu")


def run(case):
    register(case["library"], case["target"], tuple(case["stages"].items()))
    with ir.Context():
        attrs = python(ir.Attribute.parse(case["attributes"]))
    args, rets = case["args"], case["rets"]
    aliases = {int(ret.partition(":")[2]): number for number, ret in enumerate(rets) if ret.startswith("alias:")}
    # A result that is an argument is as that is; tokens do not leave a program, but are made and dropped inside.
    rets = [args[int(ret[6:])].partition("=")[0] if ret.startswith("alias:") else ret for ret in rets]
    kinds = [result(ret.partition("=")[0]) for ret in rets]

    def call(arrays):
        arrays = iter(arrays)
        operands = [jax.lax.create_token() if spec.startswith("token") else next(arrays) for spec in args]
        out = _primitive.call(case["target"], kinds, operands, attrs, aliases=aliases or None, has_side_effect=True)
        return [jnp.zeros(0) if ret.startswith("token") else value for ret, value in zip(rets, out)]

    arrays = [operand(spec) for spec in args if not spec.startswith("token")]
    program = jax.jit(call).lower(arrays).compile()
    for _ in range(case["calls"]):
        out = jax.block_until_ready(program(arrays))
    return [np.asarray(value, np.float64).ravel().tolist() for value in out]


def attempt(case):
    try:
        return {"code": "OK", "message": "", "values": run(case)}
    except Exception as error:
        code, _, message = str(error).partition(": ")
        if not re.fullmatch(r"[A-Z_]+", code):
            code, message = "", f"{type(error).__name__}: {error}"
        return {"code": code, "message": message, "values": []}


def main(cases):
    with open(cases, encoding="utf-8") as file:
        for line in file:
            print(json.dumps(attempt(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
