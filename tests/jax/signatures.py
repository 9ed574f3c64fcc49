"""Tests the texts that describe a handler in Python: signature, help, table, stub files, and names in programs and
profiles.

usage: signatures.py LANGUAGE:EXAMPLE=LIBRARY… (as in examples.py)
"""

import contextlib
import dataclasses
import glob
import gzip
import inspect
import io
import json
import os
import pydoc
import re
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import xla_ffi
import xla_ffi.__main__
import xla_ffi.typing
from checks import check, finish, raises, skip
from xla_ffi import _handler, _jax, _manifest, _signature, _stubs

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def operand(name, dtypes=("F32",), rank=None, **more):
    return _manifest.Operand(name, **{"token": False, "dtypes": dtypes, "rank": rank, "optional": False, "variadic": False, "inout": False, **more})


def attribute(name, kind, default=None, optional=False, inside=None, doc=""):
    return _manifest.Attribute(name, kind, optional or default is not None, default, inside, doc)


def spec(**changes):
    plain = _manifest.HandlerSpec("lib", "h", ("cpu",), {"execute": "h"}, (operand("x"),), (operand("y"),), (), False, None, 0)
    return dataclasses.replace(plain, **changes)


def texts():
    """The text of a signature is one line with operands, attributes and results."""
    members = (attribute("scale", "dict", optional=True), attribute("lo", "f64", inside="scale"), attribute("hi", "f64", 1.0, inside="scale"))
    cases = [
        (spec(), "(x: f32) -> y: f32"),
        (spec(shape="... n -> ... n"), "(x: f32[... n]) -> y: f32[... n]"),
        (spec(shape="() -> ()"), "(x: f32[]) -> y: f32[]"),
        (spec(args=(operand("x", None, 2),)), "(x: any[_ _]) -> y: f32"),
        (spec(args=(operand("x", ("F32", "BF16")), operand("z", optional=True)), shape="n, m? -> n"), "(x: f32|bf16[n], z: f32[m] = None) -> y: f32[n]"),
        (spec(args=(operand("xs", variadic=True),), attrs=(attribute("n", "i64"),), shape="...* -> ..."), "(*xs: f32[...], n: i64) -> y: f32[...]"),
        (spec(attrs=(attribute("eps", "f32", 1e-5), attribute("edge", "i32", optional=True))), "(x: f32, *, eps: f32 = 1e-05, edge: i32 = None) -> y: f32"),
        (spec(attrs=members), "(x: f32, *, scale: {lo: f64, hi: f64 = 1.0} = None) -> y: f32"),
        (spec(args=(), rets=(), open_attrs=True), "(**others) -> ()"),
        (spec(args=(operand("t", None, 0, token=True), operand("x", inout=True)), rets=(operand("x", inout=True), operand("z", layout="column"))),
         "(t: token, inout x: f32) -> (inout x: f32, z: f32 column)"),
    ]  # fmt: skip
    for each, wanted in cases:
        if _signature.text(each) != wanted:
            raise AssertionError(f"{_signature.text(each)}, expected {wanted}")


def python_signatures():
    """A Python signature binds operands by position and attributes by keyword, with types and defaults."""
    options = _handler.options()
    if set(options) != set(xla_ffi.typing.Options.__annotations__):
        raise AssertionError(f"typing.Options has {set(xla_ffi.typing.Options.__annotations__)}, handlers take {set(options)}")
    attrs = (attribute("eps", "f32", 1e-5), attribute("n", "i64"), attribute("w", "[f32]", optional=True), attribute("flag", "bool"), attribute("name", "str"))
    signature = _signature.signature(spec(attrs=attrs), options, jax.Array)
    if str(signature) != "(x: jax.Array, /, *, eps: float = 1e-05, n: int, w: list = None, flag: bool, name: str, **options) -> jax.Array":
        raise AssertionError(signature)
    bound = signature.bind(1, n=2, flag=True, name="x")
    bound.apply_defaults()
    if bound.arguments["eps"] != 1e-5 or bound.arguments["x"] != 1:
        raise AssertionError(bound)
    raises(TypeError, lambda: signature.bind(x=1, n=2, flag=True, name="x"), "x")
    raises(TypeError, lambda: signature.bind(1, 1e-5, n=2, flag=True, name="x"), "positional")
    raises(TypeError, lambda: signature.bind(1, flag=True, name="x"), "'n'")


DOCUMENTED = spec(
    name="norm",
    doc='Root mean square over the last dimension.\n\nA "quoted" \\ second paragraph, with """ in it.',
    args=(dataclasses.replace(operand("x"), doc="what is normalised"),),
    attrs=(attribute("eps", "f32", 1e-5, doc="added to the mean,\nagainst zero"), attribute("lambda", "f32", optional=True)),
    shape="... n -> ... n",
    gradient=_manifest.Gradient("norm_backward", None, None, None, False, ("x",)),
    batch="leading",
    traits=("command_buffer_compatible",),
)


def shown(lib):
    norm = lib.rms_norm
    if str(inspect.signature(norm)) != "(x: jax.Array, /, *, eps: float = 1e-05, **options) -> jax.Array":
        raise AssertionError(inspect.signature(norm))
    text = pydoc.render_doc(norm, renderer=pydoc.plaintext)
    if "rms_norm(x: f32[... n], *, eps: f32 = 1e-05) -> y: f32[... n]" not in text or "Platforms: cpu" not in text:
        raise AssertionError(text)
    lines = repr(lib).split("\n")
    if not re.search(r"librms_norm[^/]*\.so: \d handlers?>$|rms_norm[^/]*: \d handlers?>$", lines[0]) or not any(
        re.fullmatch(r"  rms_norm +\(x: f32\[\.\.\. n\], \*, eps: f32 = 1e-05\) -> y: f32\[\.\.\. n\] +cpu", line) for line in lines[1:]
    ):
        raise AssertionError(repr(lib))


def names(lib):
    """A handler's name is in the program's metadata, with the line of the user's code, and in the profile.

    In the profile, jax has an event with the name per call. From jaxlib 0.8.0 on, XLA has an event with the name per
    execution, because XLA names instructions after operations.
    """
    function = jax.jit(lambda x: lib.rms_norm(x))
    text = function.lower(X).compile().as_text()
    (call,) = [line for line in text.split("\n") if "custom_call_target=" in line]
    name, target = lib.rms_norm.__qualname__, lib.rms_norm.target
    if f'/{name}/{target}"' not in call:
        raise AssertionError(call)
    instruction = call.split("=")[0].strip().lstrip("%")
    of_xla = "custom-call" if _jax.REVISION < 6 else target.replace(".", "_")
    if not re.fullmatch(rf"{of_xla}(\.\d+)?", instruction.removeprefix("ROOT ").lstrip("%")):
        raise AssertionError(call)
    # Calls that batching and differentiation make also have the handler's name.
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: lib.rms_norm(x).sum()))).lower(X).compile().as_text()
    if f'/{target}_backward"' not in slopes or "xla_ffi_call" in slopes:
        raise AssertionError(slopes)
    if "source_file" in call and os.path.basename(__file__) not in call:
        raise AssertionError(f"the source is not the caller's: {call}")
    eager = lib.rms_norm
    eager(X).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stderr(io.StringIO()), jax.profiler.trace(folder):
            eager(X).block_until_ready()
            function(X).block_until_ready()
        (trace,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        with gzip.open(trace) as file:
            events = {event.get("name") for event in json.load(file)["traceEvents"]}
    if eager.__qualname__ not in events or _jax.REVISION >= 6 and not any(event and event.startswith(f"{of_xla}.") for event in events):
        raise AssertionError(f"{eager.__qualname__} is not among {sorted(filter(None, events))}")


USER = """
from norm import lib
import numpy as np

x = np.ones((2, 3), np.float32)
y = lib.{handler}(x, eps=1e-3)
print(y.shape, lib.{handler}([[1.0, 2.0]], vmap_method="sequential").ndim, lib.{handler}.target, lib["{handler}"].refused)
print(lib.{handler}(np.ones(3, np.float32), eps=np.float32(2), attrs={{}}) + y)
"""

WRONG = [
    ("lib.{handler}(x, epsilon=1.0)", "epsilon"),
    ("lib.{handler}(x, 1.0)", "positional"),
    ("lib.{handler}(x, eps='small')", "eps"),
    ("lib.{handler}('text')", "text"),
    ("lib.{handler}s(x)", "{handler}s"),
    ("lib.{handler}(x, vmap_metod='sequential')", "vmap_metod"),
]


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def stub_texts(path):
    """Stubs are valid Python for any names and texts in the manifest.

    The command line and the Python function write the same stubs.
    """
    odd = (attribute("scale", "dict"), attribute("lo", "f32", inside="scale"), attribute("in", "f32", 1.0, inside="scale"))
    hard = [
        DOCUMENTED,
        spec(name="odd", attrs=(*odd, attribute("text", "str", 'a"\\\n'), attribute("big", "f64", float("inf")), attribute("list", "[i8]"))),
        spec(name="none", args=(), rets=()),
        spec(name="many", args=(operand("t", None, 0, token=True), operand("b", optional=True)), rets=(operand("y"), operand("z"))),
        spec(name="var", args=(operand("xs", variadic=True),), rets=(operand("ys", variadic=True),), open_attrs=True),
        spec(name="class"),
    ]
    read = _manifest.read
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.pyi")
        if xla_ffi.__main__.main(["stubs", path, "-o", out]) != 0:
            raise AssertionError("the command line")
        with open(out, encoding="utf-8") as file:
            compile(file.read(), out, "exec")
        with open(out, encoding="utf-8") as file:
            if file.read() != _stubs.of(path):
                raise AssertionError("the command line writes something else")
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            status = xla_ffi.__main__.main(["stubs", out])
        if status != 1 or "error: " not in errors.getvalue() or "ELF" not in errors.getvalue():
            raise AssertionError(errors.getvalue())
        try:
            _manifest.read = lambda _path: {"3-d.norm": {each.name: each for each in hard}}
            text = _stubs.of("/lib/lib\x07norm.so")
            compile(text, "hard.pyi", "exec")
            for wanted in ("class Library3DNorm(xla_ffi.Library):", "-> None:", "tuple[jax.Array, jax.Array]", "'NotRequired' if", "text: str = "):
                if (wanted in text) == wanted.startswith("'"):
                    raise AssertionError(f"{wanted!r}:\n{text}")
            _manifest.read = lambda _path: {"l": {"class": hard[-1]}}
            raises(xla_ffi.LibraryError, lambda: _stubs.of("f.so"), "f.so")
        finally:
            _manifest.read = read
    return text


def checkers(path, handler, hard):
    """mypy and basedpyright accept the stubs in strict mode, and report mistakes of a caller."""
    packages = os.environ.get("XLA_FFI_TYPE_CHECKERS")
    if not packages:
        skip("no XLA_FFI_TYPE_CHECKERS: mypy and basedpyright are not at hand")
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{os.path.dirname(os.path.dirname(xla_ffi.__file__))}"}

    def run(folder, *command):
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    with tempfile.TemporaryDirectory() as folder:
        write(folder, "norm.py", f"import xla_ffi\n\nlib = xla_ffi.load({path!r})\n")
        write(folder, "norm.pyi", _stubs.of(path))
        write(folder, "hard.pyi", hard)
        write(folder, "user.py", USER.format(handler=handler))
        write(folder, "pyrightconfig.json", json.dumps({"typeCheckingMode": "strict"}))
        mypy = ("mypy", "--strict", "--no-error-summary", "--cache-dir", os.path.join(folder, "cache"))
        pyright = ("basedpyright", "--pythonpath", sys.executable)
        for command in ((*mypy, "norm.pyi", "hard.pyi", "user.py"), (*pyright, "norm.pyi", "hard.pyi", "user.py")):
            status, text = run(folder, *command)
            if status != 0:
                raise AssertionError(f"{command[0]}: {text}")
        done = subprocess.run([sys.executable, "user.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "(2, 3)" not in done.stdout:
            raise AssertionError(f"what the checkers accept does not run: {done.stderr}")
        head = "from norm import lib\nimport numpy as np\n\nx = np.ones(3, np.float32)\n"
        wrong = [line.format(handler=handler) for line, _ in WRONG]
        write(folder, "wrong.py", head + "\n".join(wrong) + "\n")
        first = head.count("\n") + 1
        for command in ((*mypy, "wrong.py"), (*pyright, "wrong.py")):
            _status, text = run(folder, *command)
            found = {int(line) for line in re.findall(r"wrong\.py:(\d+)[^\n]*error", text)}
            if found != set(range(first, first + len(wrong))):
                raise AssertionError(f"{command[0]} finds mistakes in lines {sorted(found)}: {text}")


def main():
    libraries = dict(argument.split("=", 1) for argument in sys.argv[1:])
    check("texts of signatures", texts)
    check("Python's signatures", python_signatures)
    for language in ("Rust", "C"):
        path = libraries[f"{language}:rms_norm"]
        if not path:
            check(f"a library shown, {language}", lambda language=language: skip(f"no {language} compiler"))
            continue
        lib = xla_ffi.load(path, prefix=language)
        check(f"a library shown, {language}", lambda lib=lib: shown(lib))
    path = libraries["Rust:rms_norm"]
    check("names in programs and profiles", lambda: names(xla_ffi.load(path)))
    hard = []
    check("texts of stubs", lambda: hard.append(stub_texts(path)))
    # Stubs do not depend on jaxlib, so one jaxlib is enough.
    if "XLA_FFI_PYTHON" in os.environ:
        check("stubs and type checkers", lambda: checkers(path, "rms_norm", hard[0]))
    finish()


if __name__ == "__main__":
    main()
