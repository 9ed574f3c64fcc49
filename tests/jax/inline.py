"""Tests handlers from source text: `xla_ffi.load_inline`.

usage: inline.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: the handlers are compiled here)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import check, finish, raises, skip
from xla_ffi import _inline

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


def texts(language, program):
    """Texts are compiled and cached. After ten edits, functions that were already jitted keep their code."""
    present(program)
    source = {"c": C, "cpp": CPP}[language]
    load = lambda amount: xla_ffi.load_inline(**{language: source % {"amount": f"{amount}."}}, handlers=ADD)
    first = load(1)
    adds(first.add, 1)
    if load(1) is not first:
        raise AssertionError("the same text, and another library")
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


def precompiled():
    """Edited C++ starts from a precompiled header. If the compiler refuses the precompiled header, the text is compiled
    without it."""
    present("c++")
    kept = lambda: sorted(pathlib.Path(os.environ["XLA_FFI_CACHE"]).glob("inline/header-*/ffi.h.gch"))

    def load(amount, flag="", before="#include <string>\n"):
        library = xla_ffi.load_inline(cpp=before + CPP % {"amount": f"{amount}."}, handlers=ADD, flags=["-DPRECOMPILED", f"-DX{flag}"])
        adds(library.add, amount)
        return {path: path.stat().st_mtime_ns for path in kept()}

    first = load(1)
    commands, compiled = [], _inline._compiled
    _inline._compiled = lambda command, *rest: commands.append(command) or compiled(command, *rest)
    try:
        again = load(2)
    finally:
        _inline._compiled = compiled
    # The first command expands the text for the digest, and the second command compiles the text.
    if not first or again != first or ["-include" in command for command in commands] != [False, True]:
        raise AssertionError(f"{first} {again} {commands}")
    for path in kept():
        path.write_bytes(b"damaged")
    damaged = load(3)
    # A macro before the header may change the header's meaning.
    if load(4, "_MACRO", "#define MACRO\n") != damaged:
        raise AssertionError(kept())
    for number in range(4):
        load(5 + number, number)
    if len(kept()) != 3:
        raise AssertionError(kept())


def other_processes():
    """A later process uses the libraries that an earlier process compiled."""
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
    """Compile errors have the line numbers of the text, and leave nothing in the cache."""
    present("cc")
    present("c++")
    folder = pathlib.Path(os.environ["XLA_FFI_CACHE"], "inline")
    kept = lambda: sorted(path.name for path in folder.glob("*") if not path.name.startswith("header-"))
    before = kept()
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c=C % {"amount": "nothing"}, handlers=ADD), "inline.c does not compile", "inline.c:6:", "nothingf")
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(cpp=CPP % {"amount": "nothing"}, handlers=ADD, name="mine"), "mine.cc:4:", "nothingf")
    raises(xla_ffi.CompileError, lambda: xla_ffi.load_inline(c=C % {"amount": "1."}, flags=["-no-such-flag"]), "no-such-flag")
    if kept() != before:
        raise AssertionError("something was left behind")
    raises(xla_ffi.ManifestError, lambda: xla_ffi.load_inline(c=C % {"amount": "1."}), "XFFI_LIBRARY", "handlers=")
    raises(TypeError, xla_ffi.load_inline, "one of c=, cpp= and rust=")
    raises(TypeError, lambda: xla_ffi.load_inline(c=C, cpp=CPP), "one of")
    raises(ValueError, lambda: xla_ffi.load_inline(c=C, name="../x"), "name=", "../x")


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


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_CACHE"] = folder
        check("C", lambda: texts("c", "cc"))
        check("C++", lambda: texts("cpp", "c++"))
        check("C++ headers that are compiled once", precompiled)
        check("a later process", other_processes)
        check("what does not compile", wrong)
        # Cargo's builds do not depend on jaxlib, so one jaxlib is enough.
        if "XLA_FFI_PYTHON" in os.environ:
            check("Rust", rust)
    finish()


if __name__ == "__main__":
    main()
