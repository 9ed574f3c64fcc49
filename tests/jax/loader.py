"""Tests the Python package `xla_ffi`: manifests, contracts, attributes and operands.

usage: loader.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
"""

import ast
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish, raises, skip
from xla_ffi import _abi, _image, _jax, _manifest, _signature
from xla_ffi._contract import Contract

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def contracts():
    """Runs the table that ffi/contract/tests/python.rs also runs with the Rust parser."""
    with open(os.path.join(os.path.dirname(__file__), "../fixtures/contracts.json")) as file:
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
    # Tokens have no shape, so the contract's shapes omit them.
    if Contract("token, ... -> token, ...").infer(["x"], [(2, 3)]) != [(2, 3)]:
        raise AssertionError("tokens")


def sizes(lib):
    """Result shapes follow from attributes, or are passed by the caller."""
    powers = lib.powers
    x = np.array([2, 3], np.float32)
    if powers(x).tolist() != [[1, 2, 4], [1, 3, 9]] or powers(x, degree=np.int8(3)).shape != (2, 4):
        raise AssertionError("a size from an attribute")
    if jax.jit(jax.vmap(lambda x: powers(x, degree=0)))(X).shape != (2, 3, 1):
        raise AssertionError("under vmap")
    raises(TypeError, lambda: powers(x, degree=-1), "attributes.powers", "attribute `degree`", "-1")
    for shapes in [(2, 3), [2, np.int64(3)], [(2, 3)], [None], lambda operands, attrs: (*operands[0], attrs["degree"] + 1)]:
        if powers(x, shapes=shapes).shape != (2, 3):
            raise AssertionError(f"{shapes!r}")
    raises(TypeError, lambda: powers(x, shapes=(2, 4)), "result `y`", "[2, 3]", "[2, 4]", "`n -> n degree+1`")
    given = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    raises(TypeError, lambda: powers(x, shapes=(2, 3), result_shape_dtypes=given), "shapes= or result_shape_dtypes=")
    for shapes, text in [
        ((2, -3), "-3 in (2, -3)"), ((2, True), "True in (2, True)"), ((2, 3.0), "3.0 in (2, 3.0)"), (7, "got int 7"),
        ([(2, 3), (2, 3)], "1 shape (`y`), got 2"), ([(2, 3), 4], "got int 4"), (lambda operands, attrs: None, "got None"),
    ]:  # fmt: skip
        raises(TypeError, lambda shapes=shapes: powers(x, shapes=shapes), "attributes.powers", "shapes=", text)


def calls(lib):
    norm = lib.rms_norm
    if norm(X).shape != (2, 3) or "eps" not in norm.__doc__ or "rms_norm" not in dir(lib):
        raise AssertionError(f"{norm!r}: {norm.__doc__}")
    if norm([1.0, 2.0]).dtype != jnp.float32:
        raise AssertionError("a list becomes the declared type")
    raises(TypeError, lambda: norm(X, eps=1.0, attrs={"eps": 2.0}), "attribute `eps`", "attrs=")
    raises(AttributeError, lambda: lib.rms_nrm, "rms_norm")
    given = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    if norm(X, result_shape_dtypes=given).shape != (2, 3) or len(norm(X, result_shape_dtypes=[given])) != 1:
        raise AssertionError("result_shape_dtypes")
    raises(TypeError, lambda: norm(X, result_shape_dtypes=[given, given]), "1 result (`y`), got 2")


def loads(path):
    if xla_ffi.load(path) is not xla_ffi.load(path):
        raise AssertionError("loading twice gives two objects")
    for kind in (xla_ffi.ManifestError, FileNotFoundError):
        raises(kind, lambda kind=kind: xla_ffi.load("/no/such/file.so"), "/no/such/file.so")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.so")
        with open(path, "rb") as source, open(copy, "wb") as target:
            target.write(source.read())
        # Loading the same library from a different file would replace its targets.
        raises(xla_ffi.LibraryError, lambda: xla_ffi.load(copy), "rms_norm.rms_norm", path, "prefix=")
        if xla_ffi.load(copy, prefix="copied").rms_norm(X).shape != (2, 3):
            raise AssertionError("prefix")
        if sys.platform == "linux":
            cut = os.path.join(folder, "cut.so")
            data = bytearray(pathlib.Path(path).read_bytes())
            struct.pack_into("<Q", data, 40, 0)  # the offset of the section headers (e_shoff)
            struct.pack_into("<HHH", data, 58, 64, 0, 0)  # the size and number of section headers
            pathlib.Path(cut).write_bytes(data)
            if xla_ffi.load(cut, prefix="cut").rms_norm(X).shape != (2, 3):
                raise AssertionError("without section headers")
            raises(xla_ffi.LibraryError, _image.read(data, cut).functions, "section headers")
        text = os.path.join(folder, "text.so")
        with open(text, "w") as target:
            target.write("not a library\n" * 100)
        raises(xla_ffi.ManifestError, lambda: xla_ffi.load(text), "text.so", "ELF")


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
    raises(xla_ffi.ManifestError, lambda: payloads(GOOD, version=3), "f.so", "1 and 2", "3")
    # In the second format of manifests, records are joined, and handlers have more properties.
    part = {"library": None, "handlers": [{**handler, "name": "g", "described": False, "args": None, "rets": None, "attrs": None}]}
    handlers = payloads(part, GOOD, version=2)["l"][0]
    if list(handlers) != ["g", "h"] or handlers["g"].described or handlers["g"].library != "l":
        raise AssertionError(handlers)
    for records in (part,), (part, GOOD, {**GOOD, "library": "k"}):
        raises(xla_ffi.ManifestError, lambda records=records: payloads(*records, version=2), "f.so", "without a library name")
    said = payloads({**GOOD, "handlers": [{**handler, "gradient": {"vjp": "b", "residuals": ["x"]}, "batch": "none", "doc": "Hm."}]}, version=2)
    said = said["l"][0]["h"]
    if (said.gradient.vjp, said.gradient.residuals, said.batch, said.doc) != ("b", ("x",), "none", "Hm."):
        raise AssertionError(said)
    column = payloads({**GOOD, "handlers": [{**handler, "args": [{"name": "x", "kind": "buffer", "layout": "column"}]}]}, version=2)
    if column["l"][0]["h"].args[0].layout != "column":
        raise AssertionError(column)
    # A dictionary that the manifest does not list is declared by its members' entries.
    field = lambda name, inside, **more: {"name": name, "type": "i32", "from": inside, **more}
    attrs = [{"name": "k", "type": "i8"}, field("lo", "range"), field("hi", "range", optional=True, default=9)]
    spec = payloads({**GOOD, "handlers": [{**handler, "attrs": attrs}]}, version=2)["l"][0]["h"]
    if "(*, k: i8, range: {lo: i32, hi: i32 = 9})" not in _signature.text(spec):
        raise AssertionError(_signature.text(spec))


def other_machines():
    """Manifests of libraries for macOS and Windows are read, but the libraries are refused because of their system."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "tools/fuzz/corpus" / "library"
    for name, machine in [("mach-o", "macOS on arm64"), ("fat", "macOS on arm64 and x86_64"), ("pe", "Windows on x86_64")]:
        path = str(folder / name)
        data = (folder / name).read_bytes()
        if list(_manifest.read(path)["sample"]) != ["handler"]:
            raise AssertionError(path)
        if _image.read(data, path).functions() != {"handler"}:
            raise AssertionError(_image.read(data, path).functions())
        raises(xla_ffi.LibraryError, lambda path=path: xla_ffi.load(path), f"got one for {machine}")
        for size in 3, 100, 1000:
            raises(xla_ffi.ManifestError, lambda size=size: _image.read(data[:size], path), path)


def floors():
    """A handler that needs a newer runtime raises an error when it is called. Other handlers of the library work."""
    versions = {"0.4.30": -1, "0.4.31": 0, "0.4.32": 1, "0.4.33": 1, "0.9.0.1": 7, "0.99.1": 10}
    if any(_abi.revision_of(version) != revision for version, revision in versions.items()):
        raise AssertionError("revisions")
    if [_abi.minor_version(revision) for revision in range(11)] != [0, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5]:
        raise AssertionError("versions")
    # The version number of a nightly or vendor build does not determine the revision. The header in its wheel does.
    for number in "0.4.31.dev1", "0.99.0", "0.9.1+vendor":
        code = f"import jax, jaxlib.version as v; v.__version__ = {number!r}; import xla_ffi._jax as j; print(j.REVISION)"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        if _abi.REVISIONS[int(told)][1:] != _abi.REVISIONS[_jax.REVISION][1:]:
            raise AssertionError(f"{number}: {told}")
    if _abi.revision_of("0.9.1.dev1", "/no/such/c_api.h") != 8:
        raise AssertionError("without a header, the number decides")
    if _abi.revision_of("0.9.1", __file__) != 8:
        raise AssertionError("the header of a published release is not read")
    from xla_ffi import _handler

    spec = _manifest.HandlerSpec("l", "h", ("cpu",), {}, (), (), (), False, None, 11)
    refusal = _handler.refusal(spec)
    if "newer jaxlib" not in refusal:
        raise AssertionError(refusal)
    handler = _handler.Handler(spec, "l.h", "f.so", refusal)
    raises(xla_ffi.UnsupportedRuntimeError, handler, "l.h")


def before_first(path):
    """A jaxlib older than the first revision is refused before any part of the library is loaded."""
    known = _jax.JAXLIB, _jax.REVISION
    _jax.JAXLIB, _jax.REVISION = "0.4.30", _abi.revision_of("0.4.30")
    try:
        load = lambda: xla_ffi.load(path, prefix="old")
        raises(xla_ffi.UnsupportedRuntimeError, load, "jaxlib 0.4.31", "0.4.30")
    finally:
        _jax.JAXLIB, _jax.REVISION = known


def legacy(libraries):
    """Targets of the original custom calls are found in a library's list, and called as the manifest declares."""
    b, c = np.arange(1, 129, dtype=np.float32), np.arange(2048, dtype=np.float32)
    wanted = b[np.arange(2048) % 128] + c
    for language in ("rust", "c", "cpp"):
        path = next((path for key, path in libraries.items() if key.lower().replace("++", "pp") == f"{language}:legacy"), "")
        if not path:
            skip(f"no library of example 11 in {language}")
        lib = xla_ffi.load(path, prefix=language)
        target = lib.legacy["tiled_add_cpu"]
        if target.target != f"{language}.tiled_add_cpu" or target.api_version != 1:
            raise AssertionError(f"{target}: {target.api_version}")
        kwargs = {} if language == "rust" else {"result_shape_dtypes": jax.ShapeDtypeStruct((2048,), np.float32)}
        if not np.array_equal(target(b, c, **kwargs), wanted):
            raise AssertionError(f"{language}: wrong numbers")
        raises(TypeError, lambda target=target: target(b, c, api_version=2), "API version 1, ", "api_version=")
        if language == "rust":
            # The manifest has the sizes, because these calls do not pass them.
            raises(TypeError, lambda target=target: target(c, c), "argument 0", "float32[128]", "float32[2048]")
            larger = jax.ShapeDtypeStruct((4096,), np.float32)
            raises(TypeError, lambda target=target: target(b, c, result_shape_dtypes=larger), "result 0", "float32[2048]", "float32[4096]")
            for got in lib.legacy["tiled_add_nested"](b, c), lib.legacy["tiled_add_two"](b, c):
                if not np.array_equal(got[0], wanted) or not np.array_equal(got[1], wanted + 1):
                    raise AssertionError("wrong numbers in a tuple")
        else:
            raises(TypeError, lambda target=target: target(b, c), "result_shape_dtypes")


def wheel():
    """Both packages build offline and have no file in common. The second package contains the recorder."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(xla_ffi.__file__)))
    sys.path.insert(0, os.path.join(root, "tools"))
    import zipfile

    import tools_backend

    build_backend = tools_backend.build_backend

    with tempfile.TemporaryDirectory() as folder:
        name = build_backend.build_wheel(folder)
        with zipfile.ZipFile(os.path.join(folder, name)) as archive:
            names = archive.namelist()
            cmake = "xla_ffi/lib/cmake/xla_ffi/xla_ffi-config.cmake"
            wanted = {"xla_ffi/__init__.py", "xla_ffi/py.typed", "xla_ffi/include/xla_ffi/handler.h", cmake}
            if archive.testzip() or not wanted.issubset(names) or not any(n.endswith("/RECORD") for n in names):
                raise AssertionError(names)
            installed = os.path.join(folder, "installed")
            archive.extractall(installed)
        built = os.path.join(folder, "built")
        for name in ("bin/xla-ffi", "lib/libxla_ffi_record.so", cmake.removeprefix("xla_ffi/")):
            os.makedirs(os.path.dirname(os.path.join(built, name)), exist_ok=True)
            with open(os.path.join(built, name), "wb") as file:
                file.write(b"built")
        environment = {key: value for key, value in os.environ.items() if key != "XLA_FFI_RECORDER"} | {"PYTHONPATH": installed}

        def says(code, *wanted):
            done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
            if not all(text in done.stdout + done.stderr for text in wanted):
                raise AssertionError(done.stdout + done.stderr)

        recorder = "from xla_ffi import _record; print(_record._recorder_path())"
        says(recorder, "pip install 'xla-ffi[tools]'")
        says("import runpy, sys; sys.argv[1:] = ['--lib-dir']; runpy.run_module('xla_ffi', run_name='__main__')", "pip install 'xla-ffi[tools]'")
        name = tools_backend.build_wheel(folder, {"prefix": built, "platform": "linux_x86_64"})
        with zipfile.ZipFile(os.path.join(folder, name)) as archive:
            if not set(names).isdisjoint(archive.namelist()):
                raise AssertionError(archive.namelist())
            archive.extractall(installed)
        says(recorder, os.path.join(os.path.realpath(installed), "xla_ffi/lib/libxla_ffi_record.so"))
        build_backend.build_sdist(folder)


def package():
    """The package exports the names that type checkers see, and importing it does not import jax."""
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


def fast_to_load(path):
    """Loading a plain library imports no unused modules. The number of modules is checked, the time only reported."""
    code = (
        "import sys, time, jax; known = set(sys.modules); begin = time.perf_counter()\n"
        f"import xla_ffi; xla_ffi.load({path!r})\n"
        "print(round(1000 * (time.perf_counter() - begin)), *set(sys.modules) - known)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    milliseconds, *modules = done.stdout.split()
    own = [name for name in modules if name.startswith("xla_ffi")]
    unused = {f"xla_ffi.{name}" for name in ("_export", "_gradient", "_inline", "_legacy", "_needs", "_user_signature")}
    if len(own) > 23 or not unused.isdisjoint(own):
        raise AssertionError(f"{len(own)} modules of xla_ffi: {sorted(own)}")
    # jax.extend imports Pallas, which takes longer than this whole package. Only early versions of jax need jax.extend
    # for FFI.
    others = sorted(set(modules).difference(own))
    if len(others) > 5 and _jax.REVISION > 3:
        raise AssertionError(f"jax had not imported {others}")
    print(f"{len(own)} modules of xla_ffi, {len(others)} others, {milliseconds} ms")


def in_one_call(path):
    """A call outside of jit is compiled once per set of keywords. Its results equal those of a newly traced call."""
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
    # Equal values of different types are different attributes. Errors are the same as in other calls.
    raises(TypeError, lambda: handler(x, eps=True), "eps")
    raises(TypeError, lambda: handler(x.astype(jnp.int32), eps=1.0), "`x`", "int32")
    given = {"eps": 0.5}
    same(handler(x, attrs=given), anew(x, eps=0.5))
    given["eps"] = 4.0
    same(handler(x, attrs=given), anew(x, eps=4.0))
    same(handler(x[:1], attrs={"eps": 0.5}), anew(x[:1], eps=0.5))
    # The settings of jax at the time of the call apply.
    with jax.default_device(jax.devices()[-1]):
        if handler(np.asarray(x)).devices() != {jax.devices()[-1]}:
            raise AssertionError(handler(np.asarray(x)).devices())
    with jax.debug_nans(True):
        raises(FloatingPointError, lambda: handler(x * jnp.inf), "rms_norm.rms_norm")
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
    check("manifests", manifests)
    check("libraries of other machines", other_machines)
    check("floors", floors)
    check("sizes from attributes", lambda: sizes(xla_ffi.load(libraries["Rust:attributes"])))
    check("targets of the original custom calls", lambda: legacy(libraries))
    check("the wheel", wheel)
    check("the package", package)
    check("loading takes few modules", lambda: fast_to_load(libraries["Rust:rms_norm"]))
    check("calls outside of jit", lambda: in_one_call(libraries["Rust:rms_norm"]))
    for language in ("Rust", "C"):
        path = libraries[f"{language}:rms_norm"]
        if not path:
            check(f"calls, {language}", lambda language=language: skip(f"no {language} compiler"))
            continue
        check(f"calls, {language}", lambda path=path: calls(xla_ffi.load(path, prefix=language)))
    check("a jaxlib from before the first revision", lambda: before_first(libraries["Rust:rms_norm"]))
    check("loading", lambda: loads(libraries["Rust:rms_norm"]))
    finish()


if __name__ == "__main__":
    main()
