"""Tests libraries without a manifest, whose signatures are written in Python.

usage: python_signatures.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
"""

import copy
import dataclasses
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish, raises, skip
from xla_ffi import _attributes, _jax, _manifest, _signature, _user_signature

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
X = jnp.arange(4, dtype=np.float32)

SOURCE = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error ScaleImpl(ffi::Buffer<ffi::F32> x, ffi::Result<ffi::Buffer<ffi::F32>> y, float by, int64_t plus) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * by + plus;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, ScaleImpl, ffi::Ffi::Bind()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<float>("by").Attr<int64_t>("plus"));
extern "C" void add_one(void* out, const void** in) { for (int i = 0; i < 4; ++i) ((float*)out)[i] = ((const float**)in)[0][i] + 1; }
"""

SCALE = "(x: f32[...], *, by: f32, plus: i64 = 0) -> y: f32[...]"


def compiled(source, library, *options):
    compiler = shutil.which("c++")
    if compiler is None:
        skip("no compiler for C++")
    command = [compiler, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", *options, source, "-o", library, "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return library


def compiled_text(text, folder, name):
    source = os.path.join(folder, f"{name}.cc")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    return compiled(source, os.path.join(folder, f"lib{name}.so"), "-I", f"{ROOT}/include")


def build(folder):
    return compiled_text(SOURCE, folder, "plain")


def bare(spec):
    """Returns the parts of a handler's description that its signature's text contains."""
    operand = lambda each: dataclasses.replace(each, doc="")
    return (
        [operand(arg) for arg in spec.args],
        [dataclasses.replace(attr, doc="") for attr in spec.attrs],
        spec.open_attrs,
        [operand(ret) for ret in spec.rets],
    )


def read_back(paths):
    """The signature in `help` can be parsed again, for every handler of the examples."""
    count = 0
    for path in paths:
        # Some of the C and C++ examples have no manifest.
        for handlers, _ in _manifest.read_all(path, required=False).values():
            for spec in handlers.values():
                text = _signature.text(spec)
                args, attrs, open_attrs, rets, shape = _user_signature.parse(text)
                again = dataclasses.replace(spec, args=args, attrs=attrs, open_attrs=open_attrs, rets=rets, shape=shape)
                if _signature.text(again) != text:
                    raise AssertionError(f"{text}: {_signature.text(again)}")
                ordered = lambda entries: sorted(entries, key=lambda entry: (entry.inside or "", entry.name))
                plainly = lambda contract: contract.split()
                # If the binding does not determine the rank, the contract may.
                ranked = lambda said, read: [
                    dataclasses.replace(one, rank=other.rank) if one.rank is None else one for one, other in zip(said, read)
                ]
                read = list(args), list(rets), ordered(attrs)
                said = ranked(spec.args, args), ranked(spec.rets, rets), ordered(spec.attrs)
                if spec.shape and (read, plainly(shape)) != (said, plainly(spec.shape)):
                    raise AssertionError(f"{text}: {bare(again)}, {shape!r} is not {bare(spec)}, {spec.shape!r}")
                count += 1
    if count < 5:
        raise AssertionError(f"{count} handlers")


def parses():
    args, attrs, open_attrs, rets, shape = _user_signature.parse(
        "(x: f32|bf16[b n], bias: f32[n] = None, *rest: f32[n], eps: f32 = 1e-5, name: str = 'a, b', o: {lo: f64, hi: i8 = 2}, w: [f32], **others) -> (y: f32[b n+1] column, done: token)"
    )
    if shape != "b n, n?, n* -> b n+1, token" or not open_attrs or rets[0].layout != "column" or not rets[1].token:
        raise AssertionError((shape, open_attrs, rets))
    if [arg.dtypes for arg in args] != [("F32", "BF16"), ("F32",), ("F32",)] or not args[1].optional or not args[2].variadic or args[0].rank != 2:
        raise AssertionError(args)
    if [(a.name, a.type, a.default, a.inside) for a in attrs] != [
        ("eps", "f32", 1e-5, None), ("name", "str", "a, b", None), ("o", "dict", None, None),
        ("lo", "f64", None, "o"), ("hi", "i8", 2, "o"), ("w", "[f32]", None, None),
    ]:  # fmt: skip
        raise AssertionError(attrs)
    for quoted in (":)", "(", "->", "a -> b", "\\'", '"', "]"):
        attrs = _user_signature.parse(f"(x: f32[n], *, s: str = {quoted!r}) -> y: f32[n]")[1]
        if attrs[0].default != quoted:
            raise AssertionError(attrs)
    if _user_signature.parse("() -> ()") != ((), (), False, (), " -> ") or _user_signature.parse("(x: f32) -> y: f32")[4] is not None:
        raise AssertionError("nothing, or no dimensions")
    for text in (
        "x: f32 -> y: f32", "(x: f32)", "(x) -> y: f32", "(x: f33) -> y: f32", "(x: f32[n) -> y: f32", "(x: f32, x: f32) -> ()", "(x: f32,, y: f32) -> ()",
        "(x: f32, eps: f32 = 1.0) -> ()", "(*, eps) -> ()", "(*, eps: f31) -> ()", "(*, eps: f32 = open()) -> ()", "(*, o: {a: {b: i8}}) -> ()",
        "(x: f32[n] layout(0 1)) -> ()", "(*, s: str = 'a) -> ()", "(inout x: f32[n]) -> x: f32[n]", "() -> **ys: f32", "(*, a: i8, a: i8) -> ()",
    ):  # fmt: skip
        raises(ValueError, lambda text=text: _user_signature.parse(text))


def plain(path):
    """Upstream's C++ without a manifest is called like any other library."""
    raises(xla_ffi.ManifestError, lambda: xla_ffi.load(path), "XFFI_LIBRARY", "handlers={'SYMBOL'")
    lib = xla_ffi.load(path, handlers={"Scale": SCALE}, legacy={"add_one": "cpu (f32[4]) -> f32[4]"})
    if not np.array_equal(jax.jit(lambda x: lib.Scale(x, by=2, plus=1))(X), np.asarray(X) * 2 + 1):
        raise AssertionError("wrong numbers")
    # The handler does not know the defaults, so the loader passes them in each call.
    if not np.array_equal(lib.Scale(X, by=2), np.asarray(X) * 2):
        raise AssertionError("an attribute's default")
    if lib.Scale.target != "plain.Scale" or SCALE not in repr(lib) or "add_one" not in repr(lib):
        raise AssertionError(repr(lib))
    if not np.array_equal(jax.vmap(lambda x: lib.Scale(x, by=2, plus=0))(X.reshape(2, 2)), np.asarray(X).reshape(2, 2) * 2):
        raise AssertionError("vmap")
    if not np.array_equal(lib.legacy["add_one"](X), np.asarray(X) + 1):
        raise AssertionError("the legacy target")
    raises(TypeError, lambda: lib.legacy["add_one"](X[:2]), "argument 0", "float32[4]", "float32[2]")
    for value in (lib.Scale, lib, lib.legacy["add_one"]):
        if pickle.loads(pickle.dumps(value)) is not value or copy.deepcopy(value) is not value:
            raise AssertionError(f"{value} unpickled, or its copy")
    again = xla_ffi.load(path, handlers={"Scale": SCALE}, legacy={"add_one": "cpu (f32[4]) -> f32[4]"})
    if again is not lib:
        raise AssertionError("the same file and signatures, and another object")
    for handlers, kind, words in [
        ({"Scales": SCALE}, xla_ffi.LibraryError, ("`Scales`",)),
        ({"Scale": "x: f32"}, xla_ffi.LibraryError, ("handlers['Scale']", "ARGUMENTS")),
        ({"Scale": "(x: f32[n n]) -> y: f32[n!]"}, xla_ffi.LibraryError, ("Scale", "contract")),
        ({"Scale": 3}, TypeError, ("handlers['Scale']", "int")),
        ({"Scale": xla_ffi.Signature(SCALE, stages={"run": "Scale"})}, xla_ffi.LibraryError, ("stages", "run")),
        ({"Scale": xla_ffi.Signature(SCALE, batch="all")}, xla_ffi.LibraryError, ("batch", "'all'")),
        ({"Scale": xla_ffi.Signature(SCALE, gradient={"vjp": "missing"})}, xla_ffi.LibraryError, ("missing",)),
    ]:
        raises(kind, lambda handlers=handlers: xla_ffi.load(path, prefix="wrong", handlers=handlers), *words)
    for legacy in ("host", "cpu (f32[n]) -> f32[4]", "cpu (f32) -> f32[4]"):
        raises(xla_ffi.LibraryError, lambda legacy=legacy: xla_ffi.load(path, legacy={"add_one": legacy}), "legacy['add_one']")


def dictionaries():
    """Members of a dictionary can also have defaults."""
    attrs = _user_signature.parse("(x: f32[n], *, o: {lo: f64, hi: i8 = 2}, p: {q: f32 = 0.5} = None, k: u8 = 7) -> ()")[1]
    spec = _manifest.HandlerSpec("l", "f", ("cpu",), {}, (), (), attrs, False, None, 0, states_defaults=True)
    cast = _attributes.cast_all(spec, {"o": {"lo": 1}})
    if cast != {"o": {"lo": 1.0, "hi": 2}, "k": 7} or not isinstance(cast["o"]["hi"], np.int8) or not isinstance(cast["k"], np.uint8):
        raise AssertionError(cast)
    if _attributes.cast_all(dataclasses.replace(spec, states_defaults=False), {"o": {"lo": 1}}) != {"o": {"lo": 1.0}}:
        raise AssertionError("a library's own defaults are its own")


def ranges():
    """The loader refuses attributes out of range, also in dictionaries and defaults."""
    text = "(*, bins: i64 min 1 max 8, p: f32 max 0.1 = 0.1, w: [f32] min 0 = None, o: {k: u8 min 2} = None) -> ()"
    attrs = _user_signature.parse(text)[1]
    if _manifest._attribute({"name": "bins", "type": "i64", "min": 1, "max": 8}) != attrs[0]:
        raise AssertionError(attrs[0])
    spec = _manifest.HandlerSpec("l", "f", ("cpu",), {}, (), (), attrs, False, None, 0, states_defaults=True)
    if _signature.text(spec) != text:
        raise AssertionError(_signature.text(spec))
    for given in {"bins": 1}, {"bins": 8, "p": -1}, {"bins": 2, "w": [0.0, 3.0], "o": {"k": 2}}:
        _attributes.cast_all(spec, given)
    for given, words in (
        ({"bins": 0}, ("`bins`", "at least 1, got 0")), ({"bins": 9}, ("`bins`", "at most 8, got 9")),
        ({"bins": 1, "p": 0.2}, ("`p`", "at most 0.1")), ({"bins": 1, "p": float("nan")}, ("`p`", "nan")),
        ({"bins": 1, "w": [1.0, -1.0]}, ("`w`", "at least 0, got -1.0")), ({"bins": 1, "o": {"k": 1}}, ("`o`", "`k`", "at least 2, got 1")),
    ):  # fmt: skip
        raises(TypeError, lambda given=given: _attributes.cast_all(spec, given), "l.f", *words)


def checked(folder):
    """`check` passes the caller's descriptions to the embedded runtime: symbols, results and
    defaults."""
    if not (os.environ.get("XLA_FFI_CLI") or os.path.exists(f"{ROOT}/target/debug/xla-ffi")):
        skip("no command line")
    lib = xla_ffi.load(build(folder), "checked", handlers={"scale": xla_ffi.Signature("(x: f32[n], *, by: f32 = 2.0, plus: i64 = 0) -> y: f32[n]", stages={"execute": "Scale"})})
    report = xla_ffi.check(lib.scale, X)
    if not report or report["embedded: written"].status != "passed" or report["embedded: runs"].status != "passed":
        raise AssertionError(report)


STATEFUL = {"stateful": xla_ffi.Signature("(x: f32[n]) -> y: f32[n]", stages={"instantiate": "stateful_instantiate", "execute": "stateful"})}


def state_types(folder):
    """Tests the state of a handler built with this jaxlib's upstream headers."""
    headers = _jax._ffi.include_dir()
    source = f"{ROOT}/tests/fixtures/upstream/verdicts.cc"
    path = compiled(source, os.path.join(folder, "libstate.so"), "-I", headers, f"-DREVISION={_jax.REVISION}")
    load = lambda prefix, types: xla_ffi.load(path, prefix, handlers=STATEFUL, types=types)
    functions = "factor_type_id, factor_type_info" if _jax.TYPES_HAVE_INFO else "factor_type_id"
    if not _jax.registers_types():
        raises(xla_ffi.UnsupportedRuntimeError, lambda: load("old", {"Factor": functions}), "'Factor'", "0.4.38 or newer")
        return
    lib = load("state", {"Factor": functions})
    if not np.array_equal(jax.jit(lib.stateful)(X), 3 * np.asarray(X)):
        raise AssertionError("wrong numbers")
    if pickle.loads(pickle.dumps(lib)) is not lib:
        raise AssertionError("unpickled")
    # Registering the same type under a different prefix has no effect.
    if not np.array_equal(load("again", {"Factor": functions}).stateful(X), 3 * np.asarray(X)):
        raise AssertionError("wrong numbers")
    for text, words in [("", "symbols of its id"), (functions.replace("type_id", "id"), "`factor_id`")]:
        raises(xla_ffi.LibraryError, lambda text=text: load("wrong", {"F": text}), words)


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    check("signatures are read back", lambda: read_back([path for path in libraries.values() if path]))
    check("texts of signatures are read", parses)
    check("defaults in dictionaries", dictionaries)
    check("ranges of attributes", ranges)
    with tempfile.TemporaryDirectory() as folder:
        check("a library without manifest", lambda: plain(build(folder)))
        check("a check of a library without manifest", lambda: checked(folder))
        check("state types", lambda: state_types(os.path.realpath(folder)))
    finish()


if __name__ == "__main__":
    main()
