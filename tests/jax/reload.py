"""Tests libraries that are rebuilt and loaded again in one process: each object runs the code of its own build.

usage: reload.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: the handlers are compiled here)
"""

import copy
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
X = jnp.arange(4, dtype=np.float32)

C = """
#include "xla_ffi/handler.h"
%(before)s
static XLA_FFI_Error* add_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1), y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  for (int64_t i = 0; i < y.count; ++i) ((float*)y.data)[i] = ((const float*)x.data)[i] + (float)(%(amount)s);
  return NULL;
}
XFFI_HANDLER(add, add_impl);
XFFI_LIBRARY(reloaded, XFFI_DESCRIBE_WITH("%(name)s", XFFI_PLATFORMS("cpu"), XFFI_STAGES(XFFI_STAGE(execute, add)), XFFI_FLOOR(r0),
    XFFI_ARGS(XFFI_OPERAND("x", F32, 1)), XFFI_RETS(XFFI_OPERAND("y", F32, 1)), XFFI_ATTRS(), XFFI_SHAPE("n -> n")));
"""

# The C++ compiler makes `amount` a symbol that exists once per process (STB_GNU_UNIQUE).
CPP = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct Amount { float value; Amount(float v) : value(v) {} };
inline Amount amount{%(amount)s};
inline Amount& of_the_function() { static Amount once{%(amount)s}; return once; }
static ffi::Error Add(ffi::BufferR1<ffi::F32> x, ffi::Result<ffi::BufferR1<ffi::F32>> y) {
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = x.typed_data()[i] + (amount.value + of_the_function().value) / 2;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add, Add,
    ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>("x").Ret<ffi::BufferR1<ffi::F32>>("y").Shape(XLA_FFI_SHAPE("n -> n")));
XLA_FFI_LIBRARY(reloaded, XLA_FFI_HANDLER(add).Name("%(name)s"));
"""


def build(path, amount, name="add", language="c", before="", options=()):
    """Compiles the handler that adds ``amount`` and replaces the library's file, as a build does."""
    compiler = shutil.which("cc" if language == "c" else "c++")
    if compiler is None:
        skip(f"no compiler for {language}")
    source = f"{path}.{language}"
    with open(source, "w") as file:
        file.write((C if language == "c" else CPP) % {"amount": amount, "name": name, "before": before})
    standard = "-std=c99" if language == "c" else "-std=c++17"
    command = [compiler, standard, "-O1", "-shared", "-fPIC", "-I", f"{ROOT}/include", source, "-o", f"{path}.new", *options, "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    os.replace(f"{path}.new", path)


def adds(function, amount):
    got = np.asarray(function(X))
    if not np.array_equal(got, np.arange(4, dtype=np.float32) + amount):
        raise AssertionError(f"expected {amount} more than {X.tolist()}, got {got.tolist()}")


def many_times(folder, language, times):
    """After many edits and reloads, objects and functions made with an earlier build keep running that build."""
    path = os.path.join(folder, f"libten_{language}.so")
    name = f"add_{language}" if language == "cc" else "add"
    earlier = []
    for amount in range(1, times + 1):
        build(path, amount, name, language)
        library = xla_ffi.load(path, prefix=f"ten_{language}")
        handler = library[name]
        if xla_ffi.load(path, prefix=f"ten_{language}") is not library or any(library is other for other, *_ in earlier):
            raise AssertionError(f"build {amount}: {library} beside {earlier}")
        jitted = jax.jit(handler)
        adds(jitted, amount)
        earlier.append((library, handler, jitted, amount))
        for _library, old, old_jitted, was in earlier:
            adds(old_jitted, was)
            adds(old, was)
            adds(jax.jit(lambda x, old=old: old(x)), was)
    if len({handler.target for _, handler, _, _ in earlier}) != times:
        raise AssertionError([handler.target for _, handler, _, _ in earlier])
    first, last = earlier[0][1], earlier[-1][1]
    adds(jax.jit(lambda x: last(first(x))), 1 + times)
    left = [file for file in os.listdir(folder) if file.startswith(".")]
    if left:
        raise AssertionError(f"{left} were left behind")


def same_contents(folder):
    """A file with a new modification time but the same contents, or with its old contents again, is the same
    library."""
    path = os.path.join(folder, "libsame.so")
    build(path, 1)
    first = xla_ffi.load(path, prefix="same")
    if xla_ffi.load(os.fsencode(path), prefix="same") is not first:
        raise AssertionError("a path of bytes, and another library")
    os.utime(path, ns=(1, 1))
    if xla_ffi.load(path, prefix="same") is not first:
        raise AssertionError("touched, and another library")
    shutil.copy(path, f"{path}.kept")
    build(path, 2)
    # Some tools set all modification times to the same value. The file still counts as changed.
    os.utime(path, ns=(1, 1))
    second = xla_ffi.load(path, prefix="same")
    adds(second.add, 2)
    os.replace(f"{path}.kept", path)
    if xla_ffi.load(path, prefix="same") is not first:
        raise AssertionError("the old contents again, and another library")
    adds(first.add, 1)


def pickled(folder):
    """Unpickling returns a handler of the current file."""
    path = os.path.join(folder, "libpickled.so")
    build(path, 1)
    old = xla_ffi.load(path, prefix="pickled")
    data = pickle.dumps(old.add)
    if pickle.loads(data) is not old.add:
        raise AssertionError("unpickled from an unchanged file")
    build(path, 2)
    # Unlike unpickling, copying returns the same object, because structures may copy the handlers in them.
    for whole in (old, old.add):
        if copy.copy(whole) is not whole or copy.deepcopy([whole])[0] is not whole:
            raise AssertionError("a copy is another build")
    adds(pickle.loads(data), 2)
    adds(old.add, 1)
    new = xla_ffi.load(path, prefix="pickled")
    if pickle.loads(pickle.dumps(new)) is not new:
        raise AssertionError("the new library")
    code = "import pickle, sys, numpy as np; print(pickle.loads(bytes.fromhex(sys.argv[1]))(np.float32([5])).tolist())"
    done = subprocess.run([sys.executable, "-c", code, pickle.dumps(new.add).hex()], capture_output=True, text=True, check=False)
    if done.stdout.strip() != "[7.0]":
        raise AssertionError(done)


def broken_build(folder):
    """A build that is not a valid library raises an error, and the old library keeps working."""
    path = os.path.join(folder, "libbroken.so")
    build(path, 1)
    old = xla_ffi.load(path, prefix="broken")
    with open(f"{path}.half", "wb") as half, open(path, "rb") as whole:
        half.write(whole.read()[:2000])
    os.replace(f"{path}.half", path)
    raises(xla_ffi.LibraryError, lambda: xla_ffi.load(path, prefix="broken"), path)
    adds(old.add, 1)
    build(path, 2)
    adds(xla_ffi.load(path, prefix="broken").add, 2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        check("rebuilt ten times, C", lambda: many_times(folder, "c", 10))
        check("rebuilt three times, C++", lambda: many_times(folder, "cc", 3))
        for work in (same_contents, pickled, broken_build):
            check(f"rebuilt: {work.__name__}", lambda work=work: work(folder))
    finish()


if __name__ == "__main__":
    main()
