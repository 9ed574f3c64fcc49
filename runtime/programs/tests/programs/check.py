"""Checks programs with jaxlib: parses the HLO text, compiles the StableHLO text and runs it on the CPU. Compares the
results with those of the embedded runtime.

    python check.py FOLDER LIBRARY

FOLDER contains the files NAME.hlo, NAME.mlir and NAME.json of each program. For a program that has to run, the JSON
contains the element types, dimensions and bytes (in hex, packed) of the arguments and of the expected results. It may
also contain the seeds of the calls that must run. It always contains the parts that jaxlib's text of the program must
contain, both for the parsed HLO text and for the parsed StableHLO text.
"""

import ctypes
import json
import pathlib
import sys

import jax
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir

TYPES = {"pred": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
         "c64": "complex64", "c128": "complex128"}


def dtype(name):
    """Returns NumPy's type for the element type called `name`."""
    if name in TYPES:
        name = TYPES[name]
    elif name[0] in "su":
        name = ("int" if name[0] == "s" else "uint") + name[1:]
    else:
        name = "float" + name[1:].replace("e", "_e", 1)
    return np.dtype(getattr(jax.numpy, name)) if hasattr(jax.numpy, name) else np.dtype(name)


def bits(name):
    """Returns the number of bits of an element that is smaller than a byte; 0 for other types."""
    return {"s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4}.get(name, 0)


def array(name, dims, text):
    """Returns the array whose packed bytes are `text` in hex."""
    raw = np.frombuffer(bytes.fromhex(text), np.uint8)
    if width := bits(name):
        parts = [raw >> shift & (1 << width) - 1 for shift in range(0, 8, width)]
        raw = np.stack(parts, -1).reshape(-1)[: int(np.prod(dims))].astype(np.uint8)
        if name[0] == "s":
            # NumPy stores each small integer in a byte, with sign extension.
            raw = np.where(raw >> (width - 1) & 1, raw | 0xFF << width & 0xFF, raw).astype(np.uint8)
    return raw.view(dtype(name)).reshape(dims)


def same(name, left, right):
    """Returns true if two arrays have the same shape and the same bits in all elements."""
    view = lambda x: np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    mask = (1 << bits(name)) - 1 if bits(name) else 0xFF
    return left.shape == right.shape and bool((view(left) & mask == view(right) & mask).all())


def execute(text, arguments):
    """Runs a StableHLO module on the CPU with jaxlib, and returns the results."""
    backend = xla_bridge.get_backend("cpu")
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        devices = _jax.DeviceList((backend.local_devices()[0],))
        options = compiler.get_compile_options(1, 1)
        executable = backend.compile_and_load(module, devices, options)
    return [np.asarray(x) for x in executable.execute([jax.device_put(x) for x in arguments])]


def called(library):
    """Returns the seeds of the calls of `mix` since the last call of this function. They are sorted, because XLA runs
    calls in any order."""
    seeds = (ctypes.c_int64 * 1024)()
    return sorted(seeds[: library.mix_called(seeds, 1024)])


def imported(module):
    """Returns the HLO module as StableHLO, converted by XLA; None if XLA cannot convert the module."""
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    try:
        return _jax.mlir.xla_computation_to_mlir_module(computation)
    except jax.errors.JaxRuntimeError as error:
        if "nested tuples is not implemented" in str(error):
            return None
        raise


def main(folder, library):
    jax.config.update("jax_enable_x64", True)
    library = ctypes.CDLL(library)
    for name, version in {"mix": 1, "opaque_bytes": 0, "by_leaves": 0}.items():
        target = jax.ffi.pycapsule(getattr(library, name))
        jax.ffi.register_ffi_target(name, target, platform="cpu", api_version=version)
    read = ran = failed = 0
    for hlo in sorted(pathlib.Path(folder).glob("*.hlo")):
        try:
            parsed = _hlo.hlo_module_from_text(hlo.read_text())
            texts = [parsed.to_string()]
            # XLA must also be able to parse the text that it printed; otherwise it misinterpreted the program.
            _hlo.hlo_module_from_text(texts[0])
            read += 1
            mlir = hlo.with_suffix(".mlir")
            if mlir.exists():
                text = mlir.read_text()
                convert = _jax.mlir.mlir_module_to_xla_computation
                computation = convert(text, use_tuple_args=False, return_tuple=False)
                texts.append(computation.get_hlo_module().to_string())
            values = json.loads(hlo.with_suffix(".json").read_text())
            for part in values["parts"]:
                for index, told in enumerate(texts):
                    if part not in told:
                        raise AssertionError(f"text {index} lacks {part}:\n{told}")
            if "results" not in values:
                continue
            arguments = [array(*x) for x in values["arguments"]]
            called(library)
            for text in filter(None, [text, imported(parsed)]):
                for index, (came, expected) in enumerate(
                    zip(execute(text, arguments), values["results"], strict=True)
                ):
                    if not same(expected[0], came, array(*expected)):
                        message = f"result {index}: {expected} was expected, {came} came"
                        raise AssertionError(message)
                if (seeds := called(library)) != values.get("called", seeds):
                    raise AssertionError(f"{values['called']} were to run, {seeds} did:\n{text}")
            ran += 1
        except Exception as error:  # All programs are checked and reported.
            failed += 1
            print(f"{hlo}: {type(error).__name__}: {error}", file=sys.stderr)
    print(f"{read} read, {ran} ran, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
