"""Handlers from source text: `xla_ffi.load_inline`.

usage: inline.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: the handlers are compiled here)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish, raises, skip
from xla_ffi import _jax

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
X = jnp.arange(4, dtype=np.float32)

C = """#include "xla_ffi/handler.h"
static XLA_FFI_Error* add_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1), y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  for (int64_t i = 0; i < y.count; ++i) ((float*)y.data)[i] = ((const float*)x.data)[i] + %(amount)sf;
  return NULL;
}
XFFI_HANDLER(add, add_impl);
"""

CPP = """#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Add(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + %(amount)sf;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add, Add,
    ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>());
"""

RUST = """use xla_ffi::prelude::*;

/// Adds a constant.
#[xla_ffi::handler(shape = "... n -> ... n")]
fn add(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    for (x, y) in x.rows().zip(y.rows_uninit()) {
        for (x, y) in x.iter().zip(y) {
            y.write(x + %(amount)s);
        }
    }
    Ok(())
}

xla_ffi::library! { add }
"""

ADD = {"add": "(x: f32[n]) -> y: f32[n]"}


def adds(function, amount):
    got = np.asarray(function(X))
    if not np.array_equal(got, np.arange(4, dtype=np.float32) + np.float32(amount)):
        raise AssertionError(f"expected {amount} more, got {got.tolist()}")


def present(program):
    if shutil.which(program) is None:
        skip(f"no {program}")


def texts(language, program, most):
    """Compiled, cached, edited ten times; what was jitted before keeps its code."""
    present(program)
    source = {"c": C, "cpp": CPP}[language]
    load = lambda amount: xla_ffi.load_inline(**{language: source % {"amount": f"{amount}."}}, handlers=ADD)
    start, before = time.perf_counter(), os.times()
    first = load(1)
    cold, after = time.perf_counter() - start, os.times()
    # The compiler's: the clock knows what else runs on the machine.
    own = after.children_user - before.children_user + after.children_system - before.children_system
    adds(first.add, 1)
    start = time.perf_counter()
    again = load(1)
    cached = time.perf_counter() - start
    if again is not first:
        raise AssertionError("the same text, and another library")
    print(f"{language}: {cold:.2f} s cold ({own:.2f} s of processor time), {cached * 1000:.1f} ms cached", file=sys.stderr)
    if own > most or cached > 5:
        raise AssertionError(f"{own:.2f} s of processor time cold, {cached:.3f} s cached")
    earlier = []
    for amount in range(1, 11 if language == "c" else 3):
        library = load(amount)
        jitted = jax.jit(library.add)
        adds(jitted, amount)
        earlier.append((library, jitted, amount))
        for old, old_jitted, was in earlier:
            adds(old_jitted, was)
            adds(old.add, was)
    if len({library.add.target for library, *_ in earlier}) != len(earlier):
        raise AssertionError("targets")
    if xla_ffi.load_inline(**{language: source % {"amount": "1."}}, handlers=ADD, flags=["-DOTHER"]) is first:
        raise AssertionError("other flags, and the same library")


def other_processes():
    """A later process takes what an earlier one compiled."""
    present("cc")
    code = f"import xla_ffi, numpy as np; print(xla_ffi.load_inline(c={C % {'amount': '7.'}!r}, handlers={ADD!r}).add(np.float32([1])))"
    for path in (os.environ["PATH"], os.environ["PATH"] + ":/nowhere"):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
        if done.stdout.strip() != "[8.]":
            raise AssertionError(done.stderr)
    folders = os.listdir(os.path.join(os.environ["XLA_FFI_CACHE"], "inline"))
    if any(folder.startswith("making-") for folder in folders):
        raise AssertionError(folders)


def wrong():
    """What does not compile is told with the lines of the text; nothing is left in the cache."""
    present("cc")
    present("c++")
    os.makedirs(os.path.join(os.environ["XLA_FFI_CACHE"], "inline"), exist_ok=True)
    before = os.listdir(os.path.join(os.environ["XLA_FFI_CACHE"], "inline"))
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c=C % {"amount": "nothing"}, handlers=ADD), "inline.c does not compile", "inline.c:6:", "nothingf")
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(cpp=CPP % {"amount": "nothing"}, handlers=ADD, name="mine"), "mine.cc:4:", "nothingf")
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c="\n".join(f"int x{n} = y{n};" for n in range(200))), "lines more")
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c=C % {"amount": "1."}, flags=["-no-such-flag"]), "no-such-flag")
    if sorted(os.listdir(os.path.join(os.environ["XLA_FFI_CACHE"], "inline"))) != sorted(before):
        raise AssertionError("something was left behind")
    raises(xla_ffi.ManifestError, lambda: xla_ffi.load_inline(c=C % {"amount": "1."}), "has no manifest", "handlers=")
    raises(TypeError, xla_ffi.load_inline, "one of c=, cpp= and rust=")
    raises(TypeError, lambda: xla_ffi.load_inline(c=C, cpp=CPP), "one of")
    raises(ValueError, lambda: xla_ffi.load_inline(c=C, name="../x"), "no name")
    text = C % {"amount": "1."}
    for more, kind, words in [
        ({"flags": None}, TypeError, "a list of str, as in ['-DN=3'], got None"), ({"flags": "-DVAL=3"}, TypeError, "got str '-DVAL=3'"), ({"flags": [1]}, TypeError, "flags= is to be"),
        ({"c": b"int x;"}, TypeError, "c= is to be a str, the text of a file, got bytes"), ({"name": 3}, TypeError, "name= is to be a str, got int 3"),
    ]:  # fmt: skip
        raises(kind, lambda more=more: xla_ffi.load_inline(**{"c": text, "handlers": ADD, **more}), words)
    compiler = os.environ.get("CC")
    os.environ["CC"] = "/no/compiler"
    try:
        raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c=C % {"amount": "1."}, handlers=ADD), "/no/compiler")
    finally:
        del os.environ["CC"]
        if compiler is not None:
            os.environ["CC"] = compiler


def included(language, program):
    """What a text includes is looked at, too; an edition that was compiled before is not compiled again."""
    present(program)
    source = '#include "amount of $ it.h"\n' + {"c": C, "cpp": CPP}[language].replace("%(amount)sf", "AMOUNT")
    with tempfile.TemporaryDirectory() as folder:
        header, inner = (pathlib.Path(folder, name) for name in ("amount of $ it.h", "inner.h"))
        header.write_text('#include "inner.h"\n')
        load = lambda: xla_ffi.load_inline(**{language: source}, handlers=ADD, flags=[f"-I{folder}"])
        earlier = []
        for amount in (1, 2, 3):
            inner.write_text(f"#define AMOUNT {amount}.0f\n")
            library = load()
            adds(library.add, amount)
            earlier.append(library)
            if load() is not library:
                raise AssertionError("nothing was edited")
        if len({library.add.target for library in earlier}) != 3:
            raise AssertionError("targets")
        inner.write_text("#define AMOUNT 1.0f\n")
        if load() is not earlier[0]:
            raise AssertionError("as at first, and compiled again")
        for amount, library in enumerate(earlier, 1):
            adds(library.add, amount)
        inner.unlink()
        raises(xla_ffi.CompileError, load, "inner.h")
        before = os.environ.get("CPATH")
        try:
            for amount in (5, 6):
                other = pathlib.Path(folder, str(amount))
                other.mkdir()
                (other / "inner.h").write_text(f"#define AMOUNT {amount}.0f\n")
                os.environ["CPATH"] = str(other)
                adds(load().add, amount)
        finally:
            os.environ.pop("CPATH")
            if before is not None:
                os.environ["CPATH"] = before


def types():
    """What a text leaves to be registered: XLA gives the type a number, in each edition of the text its own."""
    present("cc")
    if not _jax.registers_types():
        skip("this jaxlib registers no types for Python")
    source = """#include "xla_ffi/handler.h"
    XLA_FFI_TypeId kept = {0};
    static void drop(void* object) { (void)object; }
    XLA_FFI_TypeInfo kept_info = {.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE, .deleter = drop};
    static XLA_FFI_Error* number_impl(xffi_call* call) {
      xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
      XLA_FFI_Error* error = xffi_decoded(call);
      if (error == NULL) *(int32_t*)y.data = (int32_t)kept.type_id;
      return error;
    }
    XFFI_HANDLER(number, number_impl);
    """
    named = {"Kept": "kept, kept_info" if _jax.TYPES_HAVE_INFO else "kept"}
    load = lambda text: xla_ffi.load_inline(c=text, handlers={"number": "() -> y: s32[]"}, types=named)
    first, second = (int(load(text).number()) for text in (source, source + "/* edited */"))
    if not 0 < first != second > 0:
        raise AssertionError((first, second))
    raises(xla_ffi.LibraryError, lambda: xla_ffi.load_inline(c=source, types={"Kept": ""}, handlers=ADD), "symbols of its id")


def rust():
    present("cargo")
    load = lambda amount: xla_ffi.load_inline(rust=RUST % {"amount": amount}, name="inline_rust")
    first = load("1.0")
    jitted = jax.jit(first.add)
    adds(jitted, 1)
    if "Adds a constant." not in first.add.__doc__:
        raise AssertionError(first.add.__doc__)
    adds(load("2.0").add, 2)
    adds(jitted, 1)
    raises(xla_ffi.CompileError, lambda: load("nothing_"), "inline_rust.rs:8:", "nothing_")


def installed():
    """The wheel has the headers."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import build_backend

    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(os.path.join(folder, build_backend.build_wheel(folder))) as archive:
            archive.extractall(folder)
        code = "import xla_ffi; print(xla_ffi.include())"
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.stdout.strip() != os.path.join(os.path.realpath(folder), "xla_ffi", "include"):
            raise AssertionError(done.stdout + done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_CACHE"] = folder
        # Seconds of processor time.
        check("C", lambda: texts("c", "cc", 5))
        check("C++", lambda: texts("cpp", "c++", 5))
        check("what a text in C includes", lambda: included("c", "cc"))
        check("what a text in C++ includes", lambda: included("cpp", "c++"))
        check("a later process", other_processes)
        check("what does not compile", wrong)
        check("types", types)
        # One jaxlib is enough for what cargo does.
        if "XLA_FFI_PYTHON" in os.environ:
            check("Rust", rust)
        check("the headers of the wheel", installed)
    finish()


if __name__ == "__main__":
    main()
