"""The Python package `xla_ffi`: manifests, contracts, attributes, operands.

usage: loader.py LANGUAGE:EXAMPLE=LIBRARY… (the libraries of examples.py)
"""

import ast
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import own
import xla_ffi
from checks import check, finish, raises, skip
from xla_ffi import _attributes, _image, _jax, _manifest, _primitive, _revisions, _shapes, _signature
from xla_ffi._contract import Contract

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def contracts():
    """The table that the Rust reader is tested with, too: contract/tests/python.rs."""
    with open(os.path.join(os.path.dirname(__file__), "../../testing/fixtures/contracts.json")) as file:
        cases = json.load(file)
    for case in cases:
        text, shapes = case["contract"], case.get("args", [])
        infer = lambda: Contract(text).infer([f"argument {i}" for i in range(len(shapes))], shapes, case.get("attrs"))  # noqa: B023
        if "rets" in case:
            got = [None if shape is None else list(shape) for shape in infer()]
            if got != case["rets"]:
                raise AssertionError(f"{case}: {got}")
        else:
            raises(ValueError, infer, case.get("wrong") or case["error"])
    # Tokens have no shape: they are left away.
    if Contract("token, ... -> token, ...").infer(["x"], [(2, 3)]) != [(2, 3)]:
        raise AssertionError("tokens")
    # What jax.export does not know yet is computed with, too.
    (b,) = own.export().symbolic_shape("b")
    if Contract("n 2 -> 2*n n+1 n").infer(["x"], [(b, 2)]) != [(2 * b, b + 1, b)]:
        raise AssertionError("symbolic sizes")


def sizes(lib):
    """Result shapes that attributes tell, and those that the caller gives."""
    powers = lib.powers
    x = np.array([2, 3], np.float32)
    if powers(x).tolist() != [[1, 2, 4], [1, 3, 9]] or powers(x, degree=np.int8(3)).shape != (2, 4):
        raise AssertionError("a size from an attribute")
    if jax.jit(jax.vmap(lambda x: powers(x, degree=0)))(X).shape != (2, 3, 1):
        raise AssertionError("under vmap")
    raises(TypeError, lambda: powers(x, degree=-1), "attributes.powers", "degree is -1, which is no size")
    raises(TypeError, lambda: powers(x, degree=2**63 - 1), "degree+1 is too large")
    for shapes in [(2, 3), [2, np.int64(3)], [(2, 3)], [None], lambda operands, attrs: (*operands[0], attrs["degree"] + 1)]:
        if powers(x, shapes=shapes).shape != (2, 3):
            raise AssertionError(f"{shapes!r}")
    raises(TypeError, lambda: powers(x, shapes=(2, 4)), "[2, 4] for y", "'n -> n degree+1' [2, 3]")
    given = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    raises(TypeError, lambda: powers(x, shapes=(2, 3), result_shape_dtypes=given), "give no shapes=")
    for shapes, text in [
        ((2, -3), "-3 is no size"), ((2, True), "True is no size"), ((2, 3.0), "3.0 is no size"), (7, "not 7"),
        ([(2, 3), (2, 3)], "gives 2 shapes, the handler has 1 results"), ([(2, 3), 4], "4 where a shape"),
        (lambda operands, attrs: None, "not None"),
    ]:  # fmt: skip
        raises(TypeError, lambda shapes=shapes: powers(x, shapes=shapes), "attributes.powers", "shapes=", text)


def given_shapes():
    """``shapes=`` of handlers with several results, tokens, and results that may be absent."""

    def given(shapes, *rets):
        operand = lambda **more: _manifest.Operand("y", **{"token": False, "dtypes": None, "rank": None, "inout": False, **more})
        kinds = {
            "y": operand(optional=False, variadic=False), "token": operand(token=True, optional=False, variadic=False),
            "y?": operand(optional=True, variadic=False), "y*": operand(optional=False, variadic=True),
        }  # fmt: skip
        return [shape for _, shape in _shapes.given(shapes, [], {}, [kinds[ret] for ret in rets])]

    for shapes, rets, wanted in [
        ([(2,), ()], "y y", [(2,), ()]), ([(2,), None], "y token y", [(2,), None, None]), ((), "y", [()]),
        ([], "token", [None]), ([(2,)], "y y?", [(2,)]), ([(2,), (3,)], "y y?", [(2,), (3,)]), ((4,), "y?", [(4,)]),
        ([(2,), (3,), (4,)], "y y*", [(2,), (3,), (4,)]), ([], "y*", []), ([(2,)], "y*", [(2,)]),
    ]:  # fmt: skip
        got = given(shapes, *rets.split())
        if got != wanted:
            raise AssertionError(f"{shapes} for {rets}: {got}")
    raises(TypeError, lambda: given([(2,)], "y", "y"), "gives 1 shapes, the handler has 2 results")
    raises(TypeError, lambda: given([(2,)] * 3, "y", "y?"), "gives 3 shapes, the handler has 1 to 2 results")
    raises(TypeError, lambda: given([], "y", "y*"), "gives 0 shapes, the handler has at least 1 results")
    raises(TypeError, lambda: given((2,), "y*"), "2 where a shape is to be")


def attribute(kind, **more):
    return _manifest.Attribute(name="a", type=kind, optional=False, default=None, inside=None, **more)


def casts():
    spec = lambda kind: _manifest.HandlerSpec("lib", "h", ("cpu",), {}, (), (), (attribute(kind),), False, None, 0)
    cast = lambda kind, value: _attributes.cast_all(spec(kind), {"a": value})["a"]
    for kind, value, wanted in [
        ("f32", 1, np.float32(1)), ("f32", 0.1, np.float32(0.1)), ("f64", np.float32(0.5), np.float64(0.5)),
        ("i8", -128, np.int8(-128)), ("u64", 2**63 - 1, np.uint64(2**63 - 1)), ("i32", np.int64(7), np.int32(7)),
        ("i64", jnp.int32(7), np.int64(7)), ("f32", np.inf, np.float32(np.inf)),
    ]:  # fmt: skip
        got = cast(kind, value)
        if type(got) is not type(wanted) or got != wanted:
            raise AssertionError(f"{kind} of {value!r}: {got!r} ({type(got).__name__}), expected {wanted!r}")
    if cast("bool", np.bool_(True)) is not True or cast("str", "x") != "x":
        raise AssertionError("bool or str")
    got = cast("[i16]", [1, 2, 3])
    if got.dtype != np.int16 or got.tolist() != [1, 2, 3] or cast("[f32]", []).dtype != np.float32:
        raise AssertionError(f"{got!r}")
    for kind, value, text in [
        ("i8", 128, "does not fit i8"), ("u8", -1, "does not fit u8"), ("i32", 1.5, "expected i32"),
        ("i32", True, "expected i32"), ("bool", 1, "expected bool"), ("f32", 1e300, "does not fit f32"),
        ("f32", "1", "expected f32"), ("str", 1, "expected a str"), ("i32", [1, 2], "got an array"),
        ("c64", 1j, "no complex"), ("[bool]", [True], "does not pass"), ("dict", 3, "expected a dict"),
    ]:  # fmt: skip
        raises(TypeError, lambda kind=kind, value=value: cast(kind, value), "lib.h", "'a'", text)
    raises(TypeError, lambda: _attributes.cast_all(spec("i32"), {}), "'a' (i32) is missing")
    raises(TypeError, lambda: _attributes.cast_all(spec("i32"), {"a": 1, "b": 2}), "no attribute 'b'")
    raises(TypeError, lambda: jax.jit(lambda v: cast("f32", v) and v)(1.0), "traced")


def calls(lib):
    norm = lib.rms_norm
    if norm(X).shape != (2, 3) or "eps" not in norm.__doc__ or "rms_norm" not in dir(lib):
        raise AssertionError(f"{norm!r}: {norm.__doc__}")
    if norm([1.0, 2.0]).dtype != jnp.float32:
        raise AssertionError("a list becomes the declared type")
    raises(TypeError, lambda: norm(X.astype(jnp.int32)), "x is to be F32", "S32", "astype")
    raises(TypeError, lambda: norm(), "takes 1 operand, got 0")
    raises(TypeError, lambda: norm(X, X), "takes 1 operand, got 2")
    raises(TypeError, lambda: norm(X, ep=1.0), "no attribute 'ep'", "'eps'")
    raises(TypeError, lambda: norm(X, eps="small"), "'eps'", "f32")
    raises(TypeError, lambda: norm(X, eps=1.0, attrs={"eps": 2.0}), "twice")
    raises(TypeError, lambda: jax.jit(lambda e: norm(X, eps=e))(1.0), "traced")
    raises(TypeError, lambda: norm(jnp.float32(1)), "at least 1 dimension")
    raises(AttributeError, lambda: lib.rms_nrm, "rms_norm")
    given = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    if norm(X, result_shape_dtypes=given).shape != (2, 3) or len(norm(X, result_shape_dtypes=[given])) != 1:
        raise AssertionError("result_shape_dtypes")
    raises(TypeError, lambda: norm(X, result_shape_dtypes=[given, given]), "1 results")


def loads(path):
    if xla_ffi.load(path) is not xla_ffi.load(path):
        raise AssertionError("loading twice gives two objects")
    for kind in (xla_ffi.ManifestError, FileNotFoundError):
        raises(kind, lambda kind=kind: xla_ffi.load("/no/such/file.so"), "/no/such/file.so")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.so")
        with open(path, "rb") as source, open(copy, "wb") as target:
            target.write(source.read())
        # The same library from another file would take over its targets.
        raises(xla_ffi.LibraryError, lambda: xla_ffi.load(copy), "registered by", "prefix")
        if xla_ffi.load(copy, prefix="copied").rms_norm(X).shape != (2, 3):
            raise AssertionError("prefix")
        text = os.path.join(folder, "text.so")
        with open(text, "w") as target:
            target.write("not a library\n" * 100)
        raises(xla_ffi.ManifestError, lambda: xla_ffi.load(text), "no ELF")


def scalars_and_arrays():
    """Attributes that handlers see differently: jax compiles calls with equal parameters once."""
    same = [np.uint32(3), np.array(3, np.uint32), np.array([3], np.uint32), np.int32(3), 3, True]
    kinds = [np.dtype(name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(ml_dtypes, name)]
    same += [np.array(0x38, np.uint8).view(kind) for kind in kinds]
    frozen = [_primitive.Frozen(value) for value in same]
    if len(set(frozen)) != len(same) or any(_primitive.Frozen(value) != each for value, each in zip(same, frozen)):
        raise AssertionError("each equals itself alone")


def claims(path):
    """A library that is refused has taken no names: they are free for the next one."""
    library = sys.modules["xla_ffi._library"]
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(os.path.realpath(folder), name) for name in ("first.so", "second.so", "third.so")]
        for name in names:
            shutil.copy(path, name)
        before = dict(library._targets)
        _first, second, third = names
        taken = sorted(_manifest.read(path)["rms_norm"])[-1]
        library._targets[(f"claims.{taken}", "cpu")] = ("/another.so", "")
        raises(xla_ffi.LibraryError, lambda: xla_ffi.load(second, prefix="claims"), "registered by /another.so")
        del library._targets[(f"claims.{taken}", "cpu")]
        if library._targets != before:
            raise AssertionError(f"{set(library._targets) - set(before)} are still taken")
        # Neither does one that jaxlib refuses.
        register = library._jax.register

        def refuses(*_):
            raise RuntimeError("refused")

        library._jax.register = refuses
        try:
            raises(RuntimeError, lambda: xla_ffi.load(second, prefix="claims"), "refused")
        finally:
            library._jax.register = register
        if library._targets != before:
            raise AssertionError(f"{set(library._targets) - set(before)} are still taken")
        if xla_ffi.load(third, prefix="claims").rms_norm(X).shape != (2, 3):
            raise AssertionError("the next one")


def hostile_files(path):
    """Truncations of a real library, and damage in its manifest: an answer or a ManifestError."""
    with open(path, "rb") as file:
        whole = file.read()
    with tempfile.TemporaryDirectory() as folder:
        broken = os.path.join(folder, "broken.so")

        def read(data):
            with open(broken, "wb") as file:
                file.write(data)
            try:
                _manifest.read(broken)
            except xla_ffi.ManifestError:
                return False
            return True

        if not read(whole):
            raise AssertionError("the whole file has a manifest")
        for size in (0, 1, 63, 64, 65, len(whole) // 2):
            read(whole[:size])
        at = whole.find(b"XLAFFIMF")
        for value in (0xFFFFFFFF, 0x7FFFFFFF, 0):
            data = bytearray(whole)
            struct.pack_into("<I", data, at + 12, value)
            if read(bytes(data)):
                raise AssertionError(f"a payload of {value} bytes was accepted")
        data = bytearray(whole)
        struct.pack_into("<I", data, at + 8, 3)
        if read(bytes(data)):
            raise AssertionError("format 3 was accepted")


GOOD = {
    "library": "l",
    "handlers": [{
        "name": "h", "platforms": ["cpu"], "stages": {"execute": "h"}, "floor": "r0", "args": [], "rets": [],
        "attrs": [{"name": "a", "type": "[f32]"}], "unknown": 1,
    }],
}  # fmt: skip


def manifests():
    def payloads(*objects, version=1):
        data = b""
        for entry in objects:
            text = entry if isinstance(entry, bytes) else json.dumps(entry).encode()
            data += b"XLAFFIMF" + struct.pack("<II", version, len(text)) + text
            data += b"\0" * (-len(data) % 16)
        return _manifest.parsed(data, "f.so")

    if list(payloads(GOOD, {**GOOD, "library": "k"})) != ["l", "k"]:
        raise AssertionError("two manifests in one section")
    handler = GOOD["handlers"][0]
    for broken in [b"{", b"[]", b"\xff", b"[" * 100000, {"library": "l"}, {**GOOD, "handlers": ["h"]}, {**GOOD, "handlers": [{**handler, "rets": None}]}]:
        raises(xla_ffi.ManifestError, lambda broken=broken: payloads(broken), "f.so")
    raises(xla_ffi.ManifestError, lambda: _manifest.parsed(b"\0" * 16 + b"XLAFFIM?" + b"\0" * 8, "f.so"), "byte 16")
    raises(xla_ffi.ManifestError, lambda: payloads(GOOD, version=3), "f.so", "format 3", "1 and 2")
    wide = payloads({**GOOD, "handlers": [{**handler, "args": [{"name": "x", "kind": "buffer", "rank": 1024}]}]})
    if len(_signature.text(wide["l"][0]["h"])) > 1000:
        raise AssertionError("a word for each of many dimensions")
    # The second format: records are joined, and handlers say more.
    part = {"library": None, "handlers": [{**handler, "name": "g", "described": False, "args": None, "rets": None, "attrs": None}]}
    handlers = payloads(part, GOOD, version=2)["l"][0]
    if list(handlers) != ["g", "h"] or handlers["g"].described or handlers["g"].library != "l":
        raise AssertionError(handlers)
    for records in (part,), (part, GOOD, {**GOOD, "library": "k"}):
        raises(xla_ffi.ManifestError, lambda records=records: payloads(*records, version=2), "f.so", "names no library")
    said = payloads({**GOOD, "handlers": [{**handler, "gradient": {"vjp": "b", "residuals": ["x"]}, "batch": "none", "doc": "Hm."}]}, version=2)
    said = said["l"][0]["h"]
    if (said.gradient.vjp, said.gradient.residuals, said.batch, said.doc) != ("b", ("x",), "none", "Hm."):
        raise AssertionError(said)
    x = {"name": "x", "kind": "buffer", "dtypes": None, "rank": 2}
    for change in {"gradient": {}}, {"gradient": {"vjp": "b", "linear": True}}, {"batch": "sometimes"}, {"batch": ["leading"] * 9}, {"batch": {}}:
        broken = {**GOOD, "handlers": [{**handler, **change}]}
        raises(xla_ffi.ManifestError, lambda broken=broken: payloads(broken, version=2), "f.so")
    column = payloads({**GOOD, "handlers": [{**handler, "args": [{**x, "layout": "column"}, {**x, "name": "y", "layout": [1, 0]}]}]}, version=2)
    if [arg.layout for arg in column["l"][0]["h"].args] != ["column", (1, 0)]:
        raise AssertionError(column)
    # A dictionary that is not listed is declared by its members; one in a dictionary of its name holds what nobody declares.
    field = lambda name, inside, **more: {"name": name, "type": "i32", "from": inside, **more}
    for attrs, wanted in [
        ([{"name": "k", "type": "i8"}, field("lo", "range"), field("hi", "range", optional=True, default=9)], "k: i8, range: {lo: i32, hi: i32 = 9}"),
        ([field("hi", "range", optional=True)], "range: {hi: i32 = None} = None"),
        ([field("a", "a", type="dict")], "a: {a: dict}"), ([{"name": "a", "type": "dict"}, field("a", "a", type="dict")], "a: {a: dict}"),
    ]:  # fmt: skip
        spec = payloads({**GOOD, "handlers": [{**handler, "args": [], "attrs": attrs}]}, version=2)["l"][0]["h"]
        if f"(*, {wanted})" not in _signature.text(spec):
            raise AssertionError(f"{_signature.text(spec)}: {wanted}")
    spec = payloads({**GOOD, "handlers": [{**handler, "attrs": [field("lo", "range")]}]}, version=2)["l"][0]["h"]
    if _attributes.cast_all(spec, {"range": {"lo": 3}}) != {"range": {"lo": 3}}:
        raise AssertionError("a dictionary that is not listed")
    raises(TypeError, lambda: _attributes.cast_all(spec, {}), "attribute 'range' (dict) is missing")
    raises(TypeError, lambda: _attributes.cast_all(spec, {"range": {"lo": 2**31}}), "'range': its 'lo'")


def other_machines():
    """Libraries for macOS and Windows: their manifests are read, and they are refused by their machine."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "corpus" / "library"
    for name, machine in [("mach-o", "macOS on arm64"), ("fat", "macOS on arm64 and x86_64"), ("pe", "Windows on x86_64")]:
        path = str(folder / name)
        data = (folder / name).read_bytes()
        if list(_manifest.read(path)["sample"]) != ["handler"]:
            raise AssertionError(path)
        if _image.read(data, path).functions() != {"handler"}:
            raise AssertionError(_image.read(data, path).functions())
        raises(xla_ffi.LibraryError, lambda path=path: xla_ffi.load(path), f"is built for {machine}; this is")
        for size in 3, 100, 1000:
            raises(xla_ffi.ManifestError, lambda size=size: _image.read(data[:size], path), path)


def floors():
    """A handler that needs a newer runtime is refused in words, and only it."""
    versions = {"0.4.30": -1, "0.4.31": 0, "0.4.32": 1, "0.4.33": 1, "0.9.0.1": 7, "0.99.1": 10}
    if any(_revisions.of(version) != revision for version, revision in versions.items()):
        raise AssertionError("revisions")
    if [_revisions.version(revision) for revision in range(11)] != [0, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5]:
        raise AssertionError("versions")
    from xla_ffi import _handler

    spec = _manifest.HandlerSpec("l", "h", ("cpu",), {}, (), (), (), False, None, 11)
    refusal = _handler.refusal(spec)
    if "newer jaxlib" not in refusal:
        raise AssertionError(refusal)
    handler = _handler.Handler(spec, "l.h", "f.so", refusal)
    raises(xla_ffi.UnsupportedRuntimeError, handler, "l.h")


def before_first(path):
    """A jaxlib from before the first revision is refused by name, before anything of the library is loaded."""
    known = _jax.JAXLIB, _jax.REVISION
    _jax.JAXLIB, _jax.REVISION = "0.4.30", _revisions.of("0.4.30")
    try:
        load = lambda: xla_ffi.load(path, prefix="old")
        raises(xla_ffi.UnsupportedRuntimeError, load, "jaxlib 0.4.30", "before its first revision", "jaxlib 0.4.31")
    finally:
        _jax.JAXLIB, _jax.REVISION = known


def platforms(path):
    """Every platform's name reaches jax: as jaxlib calls it, or as it is where this package knows none."""
    from jaxlib import xla_client

    told, real = [], _jax._ffi.register_ffi_target

    def register(name, function, platform, **more):
        told.append((name, platform))
        return real(name, function, platform=platform, **more)

    _jax._ffi.register_ffi_target = register
    try:
        stages = {"execute": "rms_norm__rms_norm"}
        given = xla_ffi.Signature("(x: f32[...]) -> y: f32[...]", stages, ("rocm", "sycl", "elsewhere"))
        lib = xla_ffi.load(path, prefix="platforms", handlers={"everywhere": given})
    finally:
        _jax._ffi.register_ffi_target = real
    target = "platforms.everywhere"
    if told[-3:] != [(target, "ROCM"), (target, "sycl"), (target, "elsewhere")] or lib.everywhere.refused:
        raise AssertionError(told)
    # jaxlib keeps them until the platform's plugin is there.
    waiting = {platform for platform, entries in xla_client._custom_callback.items() if any(target in entry for entry in entries)}
    if not {"ROCM", "elsewhere"} <= waiting or not waiting & {"sycl", "SYCL"}:
        raise AssertionError(waiting)


def legacy(libraries):
    """Targets of the original custom calls: found in a library's list, called as the manifest says."""
    b, c = np.arange(1, 129, dtype=np.float32), np.arange(2048, dtype=np.float32)
    wanted = b[np.arange(2048) % 128] + c
    for language in ("rust", "c", "cpp"):
        path = next((path for key, path in libraries.items() if key.lower().replace("++", "pp") == f"{language}:11_legacy"), "")
        if not path:
            skip(f"no library of example 11 in {language}")
        lib = xla_ffi.load(path, prefix=language)
        target = lib.legacy["tiled_add_cpu"]
        if target.target != f"{language}.tiled_add_cpu" or target.api_version != 1:
            raise AssertionError(f"{target}: {target.api_version}")
        kwargs = {} if language == "rust" else {"result_shape_dtypes": jax.ShapeDtypeStruct((2048,), np.float32)}
        if not np.array_equal(target(b, c, **kwargs), wanted):
            raise AssertionError(f"{language}: wrong numbers")
        raises(TypeError, lambda target=target: target(b, c, api_version=2), "API version 1", "api_version=2")
        if language == "rust":
            # The manifest has the sizes, which calls of that kind do not carry.
            raises(TypeError, lambda target=target: target(c, c), "F32[128], F32[2048]", "got (F32[2048]")
            larger = jax.ShapeDtypeStruct((4096,), np.float32)
            raises(TypeError, lambda target=target: target(b, c, result_shape_dtypes=larger), "result", "got (F32[4096])")
            # jax has no tuples: it hands over what the first of these takes, leaves, and not the roots of the second.
            for got in lib.legacy["tiled_add_nested"](b, c), lib.legacy["tiled_add_two"](b, c):
                if not np.array_equal(got[0], wanted) or not np.array_equal(got[1], wanted + 1):
                    raise AssertionError("wrong numbers in a tuple")
            raises(TypeError, lambda: lib.legacy["tiled_add_tuples"](b, c), "takes tuples", "by roots")
        else:
            raises(TypeError, lambda target=target: target(b, c), "result_shape_dtypes")


def wheel():
    """The package builds without fetching anything."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(xla_ffi.__file__)))
    sys.path.insert(0, root)
    import zipfile

    import build_backend

    with tempfile.TemporaryDirectory() as folder:
        name = build_backend.build_wheel(folder)
        with zipfile.ZipFile(os.path.join(folder, name)) as archive:
            names = archive.namelist()
            wanted = {"xla_ffi/__init__.py", "xla_ffi/py.typed", "xla_ffi/include/xla_ffi/handler.h"}
            if archive.testzip() or not wanted.issubset(names) or not any(n.endswith("/RECORD") for n in names):
                raise AssertionError(names)
        # One with what was built finds the recorder in itself.
        built = os.path.join(folder, "built")
        raises(ValueError, lambda: build_backend.build_wheel(folder, {"prefix": built}), "platform=")
        for name in ("bin/xla-ffi", "lib/libxla_ffi_record.so"):
            os.makedirs(os.path.dirname(os.path.join(built, name)), exist_ok=True)
            with open(os.path.join(built, name), "wb") as file:
                file.write(b"built")
        name = build_backend.build_wheel(folder, {"prefix": built, "platform": "linux_x86_64"})
        installed = os.path.join(folder, "installed")
        with zipfile.ZipFile(os.path.join(folder, name)) as archive:
            archive.extractall(installed)
        code = "from xla_ffi import _record; print(_record._recorder_path())"
        environment = {key: value for key, value in os.environ.items() if key != "XLA_FFI_RECORDER"} | {"PYTHONPATH": installed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        if done.stdout.strip() != os.path.join(os.path.realpath(installed), "xla_ffi/lib/libxla_ffi_record.so"):
            raise AssertionError(done.stdout + done.stderr)
        build_backend.build_sdist(folder)


def package():
    """The package's names are those that type checkers read, and importing it imports no jax."""
    with open(xla_ffi.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    read = {alias.name: node.module for node in block.body for alias in node.names}
    if read != xla_ffi._HOMES or sorted(read) != xla_ffi.__all__:
        raise AssertionError(f"{read} {xla_ffi._HOMES} {xla_ffi.__all__}")
    for name in xla_ffi.__all__:
        getattr(xla_ffi, name)
    raises(AttributeError, lambda: xla_ffi.nothing, "nothing")
    without = "import sys, xla_ffi; xla_ffi.include(); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", without], check=True)


def in_one_call(path):
    """A call outside of jit is compiled once per set of keywords, and gives what it gives when traced anew each time."""
    lib = xla_ffi.load(path)
    x = jnp.asarray(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    same = lambda got, wanted: np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
    anew = lambda *args, **keywords: lib.rms_norm._call(*args, **keywords)
    handler = lib.rms_norm
    compiled = lambda: handler._compiled.cache_info()
    for eps in (1e-6, 1.0, 1, np.float32(2), 1e-6):
        for args in (x, x * 2, x[0], np.asarray(x), [1.0, 2.0]):
            same(handler(args, eps=eps), anew(args, eps=eps))
    if (compiled().misses, compiled().hits) != (4, 21):
        raise AssertionError(compiled())
    # Equal values of other types are other attributes, and what is wrong with one is told as ever.
    raises(TypeError, lambda: handler(x, eps=True), "eps")
    raises(TypeError, lambda: handler(x.astype(jnp.int32), eps=1.0), "x is to be F32, got S32")
    given = {"eps": 0.5}
    same(handler(x, attrs=given), anew(x, eps=0.5))
    given["eps"] = 4.0
    same(handler(x, attrs=given), anew(x, eps=4.0))
    same(handler(x[:1], attrs={"eps": 0.5}), anew(x[:1], eps=0.5))
    # What is traced is none of it.
    before = compiled()
    loss = lambda call: lambda x: call(x, eps=1.0).sum()
    same(jax.grad(loss(handler))(x), jax.grad(loss(anew))(x))
    same(jax.vmap(handler)(x), jax.vmap(anew)(x))
    text = lambda call: str(jax.make_jaxpr(lambda y: call(x) + y)(x))
    if text(handler) != text(anew) or compiled() != before:
        raise AssertionError(text(handler))
    donated = jax.jit(lambda x: handler(x, eps=1.0), donate_argnums=0)
    same(donated(x + 0), anew(x, eps=1.0))
    gone = x + 0
    gone.delete()
    raises(RuntimeError, lambda: handler(gone), "deleted")
    # The settings of jax at the time of a call hold.
    with jax.default_device(jax.devices()[-1]):
        if handler(np.asarray(x)).devices() != {jax.devices()[-1]}:
            raise AssertionError(handler(np.asarray(x)).devices())
    with jax.debug_nans(True):
        for operand in x * jnp.inf, np.full((2, 3), np.nan, np.float32):
            raises(FloatingPointError, lambda operand=operand: handler(operand), "rms_norm.rms_norm")
    jax.config.update("jax_enable_x64", True)
    same(handler(x, eps=1.0), anew(x, eps=1.0))
    jax.config.update("jax_enable_x64", False)
    with jax.disable_jit():
        same(handler(x, eps=1.0), anew(x, eps=1.0))
    for eps in range(200):
        handler(x, eps=float(eps))
    if compiled().currsize > 64:
        raise AssertionError(compiled())


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    check("shape contracts", contracts)
    check("attributes are cast", casts)
    check("manifests", manifests)
    check("scalars and arrays as attributes", scalars_and_arrays)
    check("libraries of other machines", other_machines)
    check("floors", floors)
    check("shapes that are given", given_shapes)
    check("sizes from attributes", lambda: sizes(xla_ffi.load(libraries["Rust:03_attributes"])))
    check("targets of the original custom calls", lambda: legacy(libraries))
    check("the wheel", wheel)
    check("the package", package)
    check("calls outside of jit", lambda: in_one_call(libraries["Rust:02_rms_norm"]))
    for language in ("Rust", "C"):
        path = libraries[f"{language}:02_rms_norm"]
        if not path:
            check(f"calls, {language}", lambda language=language: skip(f"no {language} compiler"))
            continue
        check(f"calls, {language}", lambda path=path: calls(xla_ffi.load(path, prefix=language)))
        check(f"damaged files, {language}", lambda path=path: hostile_files(path))
    check("a jaxlib from before the first revision", lambda: before_first(libraries["Rust:02_rms_norm"]))
    check("platforms", lambda: platforms(libraries["Rust:02_rms_norm"]))
    check("loading", lambda: loads(libraries["Rust:02_rms_norm"]))
    check("names of a refused library", lambda: claims(libraries["Rust:02_rms_norm"]))
    finish()


if __name__ == "__main__":
    main()
