"""Runs rows of runtime/tests/behaviours.txt, or cases of tests/cpp, in this process's jaxlib.

The callers are runtime/tests/differential.rs and tests/cpp/suite_in_jax.rs.

usage: differential.py TABLE LIBRARY RULES [FIRST] or differential.py CASES

Prints a line of JSON when a row starts, {"row": LINE}, and a second line when the row ends: {"row": LINE, "code",
"message", "results": [{"dtype", "dims", "bytes"}]}. A row is named by its line in the table. Row 0 is the handler
`rules` of the library RULES. If the process crashes, the caller starts a new process at FIRST, the row after the crash.

CASES is a file with a line of JSON per case: {"library", "target", "stages": {STAGE: SYMBOL}, "attributes", "args",
"rets", "calls"}. The last four have the syntax of a `RUN` line. Prints a line of JSON per case: {"code", "message",
"values"}, where the values are a list of numbers per result.
"""

import ctypes
import functools
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir
from cells import ffi
from xla_ffi import _abi, _jax, _primitive

jax.config.update("jax_enable_x64", True)

PREFIX = "differential"


def dtype(name):
    return _abi.numpy_dtype(name.upper())


def operand(spec):
    """Returns the array of a SPEC such as ``f32[2]=1,2`` or ``s8[2,3]=iota``."""
    kind, _, values = spec.partition("=")
    name, dims = shape(kind)
    count = int(np.prod(dims, dtype=int))
    made = {"iota": range(count), "zeros": [0] * count, "ones": [1] * count}.get(values)
    if made is None:
        made = [complex(value.replace("i", "j")) for value in values.split(",") if value]
        made = made if name.startswith("c") else [value.real for value in made]
    return jnp.asarray(np.array(made).astype(dtype(name)).reshape(dims))


def shape(kind):
    name, _, dims = kind.rstrip("]").partition("[")
    return name, tuple(int(dim) for dim in dims.split(",") if dim)


def result(kind):
    if kind == "token":
        return _jax.abstract_token()
    name, dims = shape(kind)
    return jax.ShapeDtypeStruct(dims, dtype(name))


def python(attribute):
    """Returns the Python value of an attribute, in the form in which programs pass attributes to JAX."""
    if isinstance(attribute, ir.DictAttr):
        entries = attribute
        return {entries[i].name: python(entries[i].attr) for i in range(len(entries))}
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.StringAttr):
        return attribute.value_bytes.decode()
    if isinstance(attribute, ir.IntegerAttr):
        return scalar(str(attribute.type))(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        return scalar(str(attribute.type))(attribute.value)
    text = str(attribute)
    found = re.fullmatch(r"array<(\w+)(?:: (.*))?>", text)
    if found:
        values = found[2].split(",") if found[2] else []
        return np.array([json.loads(value) for value in values], scalar(found[1]))
    found = re.fullmatch(r"dense<(.*)> : tensor<(\d+)x(\w+)>", text)
    if not found:
        raise ValueError(f"no Python value for {text}")
    values = json.loads(found[1])
    values = values if isinstance(values, list) else [values] * int(found[2])
    return np.array(values, scalar(found[3]))


def scalar(name):
    if name == "i1":
        return np.bool_
    return np.dtype(_abi.ATTRIBUTE_DTYPES[name.replace("ui", "u")]).type


class Handlers:
    """A library with its registered handlers and types."""

    def __init__(self, library):
        self.image = ctypes.CDLL(library)
        self.registered = set()
        self.types = set()

    def address(self, symbol):
        return ctypes.cast(getattr(self.image, symbol), ctypes.c_void_p).value

    def register(self, column):
        """Registers the handler of a row and returns the target's name."""
        target = f"{PREFIX}.{column}"
        if target in self.registered:
            return target
        execute, *options = column.split()
        stages, traits = {"execute": _jax.capsule(self.address(execute))}, {}
        for option in options:
            key, _, value = option.partition("=")
            if key == "type":
                self.register_type(value)
            elif key == "traits":
                traits["traits"] = int(value)
            else:
                stages[key] = _jax.capsule(self.address(value))
        ffi.register_ffi_target(target, stages, platform="cpu", **traits)
        self.registered.add(target)
        return target

    def register_type(self, name):
        if name in self.types:
            return
        parts = {"type_id": _jax.capsule(self.address(f"_ZN{len(name)}{name}2idE"))}
        if hasattr(self.image, f"{name.lower()}_info"):
            parts["type_info"] = _jax.capsule(self.address(f"{name.lower()}_info"))
        ffi.register_ffi_type(name, parts, platform="cpu")
        self.types.add(name)

    def attributes(self, text):
        def called(match):
            function = self.image[match[1]]
            function.restype = ctypes.c_int64
            return str(function())

        text = re.sub(r"\$(\w+)", called, text)
        with ir.Context():
            return python(ir.Attribute.parse(text or "{}"))

    def run(self, column, operands, results, attributes):
        target = self.register(column)
        attrs = self.attributes(attributes)
        kinds = [result(kind) for kind in results.split()]

        def call(specs, arrays):
            # Tokens cannot be arguments or results of a program, so the program creates and drops them.
            arrays = iter(arrays)
            args = [jax.lax.create_token() if spec == "token" else next(arrays) for spec in specs]
            out = _primitive.call(target, kinds, args, attrs, has_side_effect=True)
            return [jnp.zeros(0) if kind == "token" else value for kind, value in zip(results.split(), out)]

        out = program = None
        for specs in map(str.split, operands.split("then")):
            arrays = [operand(spec) for spec in specs if spec != "token"]
            program = program or jax.jit(lambda arrays: call(specs, arrays)).lower(arrays).compile()
            out = jax.block_until_ready(program(arrays))
        return [dump(kind, value) for kind, value in zip(results.split(), out)]


def dump(kind, value):
    value = np.asarray(value)
    return {"dtype": shape(kind)[0], "dims": list(value.shape), "bytes": value.tobytes().hex()}


def say(**line):
    print(json.dumps(line), flush=True)


def answer(work, results):
    """Returns the result of ``work`` under the key ``results``, or its error."""
    try:
        return {"code": "OK", "message": "", results: work()}
    except Exception as error:
        code, _, message = str(error).partition(": ")
        if not re.fullmatch(r"[A-Z_]+", code):
            code, message = "", f"{type(error).__name__}: {error}"
        return {"code": code, "message": message, results: []}


def attempt(row, work):
    say(row=row)
    say(row=row, **answer(work, "results"))


@functools.cache
def register_case(library, target, stages):
    image = ctypes.CDLL(library)
    addresses = {stage: ctypes.cast(getattr(image, symbol), ctypes.c_void_p).value for stage, symbol in stages}
    _jax.register(target, addresses, "cpu")


def run_case(case):
    """Runs a case of tests/cpp, and returns each result as a list of numbers."""
    register_case(case["library"], case["target"], tuple(case["stages"].items()))
    with ir.Context():
        attrs = python(ir.Attribute.parse(case["attributes"]))
    args, rets = case["args"], case["rets"]
    aliases = {int(ret.partition(":")[2]): number for number, ret in enumerate(rets) if ret.startswith("alias:")}
    # An aliased result has the type of its argument. Tokens are created and dropped inside the program.
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


def rows(table, library, rules, first="0"):
    first = int(first)
    handlers = Handlers(library)
    if first == 0:
        own = Handlers(rules)
        attempt(0, lambda: own.run("rules instantiate=rules_instantiate", "", "s64[64]", ""))
    with open(table) as file:
        for number, line in enumerate(file, 1):
            columns = [column.strip() for column in line.split("|")]
            if number < first or line.startswith("#") or len(columns) != 7 or columns[1] != "both":
                continue
            attempt(number, lambda: handlers.run(*columns[2:6]))


def cases(file):
    with open(file, encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            say(**answer(lambda: run_case(case), "values"))


if __name__ == "__main__":
    (rows if len(sys.argv) > 2 else cases)(*sys.argv[1:])
