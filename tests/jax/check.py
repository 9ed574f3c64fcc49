"""Tests `xla_ffi.check` and `xla-ffi check`: the expected check fails for each of twelve wrong handlers, and all checks
pass for their correct twins.

usage: check.py [--in-jax] [LANGUAGE:EXAMPLE=LIBRARY…] (not used: the handlers are compiled here)

`--in-jax` omits tests that are the same on every jaxlib: those on the embedded runtime, and all twins except one.

Needs the command line (`XLA_FFI_CLI`, or `target/debug/xla-ffi`).
"""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import xla_ffi
from checks import Skip, check, finish, folder, raises
from xla_ffi import _check

ROOT = pathlib.Path(__file__).resolve().parents[2]
X = jnp.asarray(np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 4)

# `N` is the length of a row. Each wrong handler NAME has a correct twin NAME_twin, for which `R` is 1.
SOURCE = r"""
#include "xla_ffi/handler.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static XLA_FFI_Error* places(xffi_call* call, const xffi_buffer* x, const xffi_buffer* y) {
  const char *a = (const char*)x->data, *b = (const char*)y->data;
  if (((uintptr_t)a | (uintptr_t)b) % sizeof(float)) xffi_problem(call, "an operand is not aligned");
  if (a < b + 4 * y->count && b < a + 4 * x->count) xffi_problem(call, "'y' lies within 'x'");
  return xffi_decoded(call);
}

#define HANDLER(NAME, R, ...)                                              \
  static XLA_FFI_Error* NAME##_impl(xffi_call* call) {                     \
    xffi_buffer in = xffi_arg(call, "x", XLA_FFI_DataType_F32, -1);        \
    xffi_buffer out = xffi_ret(call, "y", XLA_FFI_DataType_F32, -1);       \
    const int right = R;                                                   \
    if (strncmp(#NAME, "transposed", 10)) xffi_same_shape(call, "x", &in, "y", &out); \
    XLA_FFI_Error* error = xffi_decoded(call);                             \
    if (error == NULL) error = places(call, &in, &out);                    \
    if (error != NULL) return error;                                       \
    const float* x = (const float*)in.data;                                \
    float* y = (float*)out.data;                                           \
    const int64_t count = in.count, n = in.rank ? in.dims[in.rank - 1] : 1; \
    (void)right, (void)n;                                                  \
    __VA_ARGS__ return NULL;                                               \
  }                                                                        \
  XFFI_HANDLER(NAME, NAME##_impl);
#define BOTH(NAME, ...) HANDLER(NAME, 0, __VA_ARGS__) HANDLER(NAME##_twin, 1, __VA_ARGS__)
#define EACH for (int64_t i = 0; i < count; ++i)

BOTH(tail, { for (int64_t i = 0; i < count - !right; ++i) y[i] = 2 * x[i]; })
BOTH(operand, { EACH y[i] = 2 * x[i]; if (!right && count) ((float*)x)[0] = 7; })
BOTH(transposed, {
  int64_t rows = in.dims[right ? in.rank - 2 : 0], columns = in.dims[right ? in.rank - 1 : 1];
  int64_t all = right ? count : rows * columns;
  for (int64_t b = 0; rows * columns > 0 && b < all / (rows * columns); ++b)
    for (int64_t i = 0; i < rows * columns; ++i)
      y[b * rows * columns + i % columns * rows + i / columns] = x[b * rows * columns + i];
})
BOTH(leak, {
  float sum = 0;
  EACH { if (right && i % n == 0) sum = 0; y[i] = sum += x[i]; }
})
BOTH(whole, {
  float most = 0;
  EACH { if (i % n == 0 && right) most = 0; if (i % n == 0 || !right) for (int64_t j = right ? i : 0; j < (right ? i + n : count); ++j) if (x[j] > most) most = x[j]; y[i] = x[i] - most; }
})
BOTH(hangs, { while (!right && n == 7) usleep(1000); EACH y[i] = 2 * x[i]; })
static int calls;
BOTH(global, { if (!right) ++calls; EACH y[i] = 2 * x[i] + (float)calls * !right; })
static float shared[4096];
BOTH(race, {
  float* own = right ? (float*)malloc(count * 4 + 1) : shared;
  EACH own[i % 4096] = x[i];
  if (!right) usleep(100);
  EACH y[i] = 2 * own[i % 4096];
  if (right) free(own);
})
BOTH(nans, { EACH y[i] = right || x[i] == x[i] ? 2 * x[i] : 0; })
BOTH(aborts, { if (!right && n == 7) abort(); EACH y[i] = 2 * x[i]; })
BOTH(zero, { volatile int64_t rows = right && !n ? 0 : count / n; (void)rows; EACH y[i] = 2 * x[i]; })
BOTH(square, { EACH y[i] = x[i] * x[i]; })
HANDLER(picky, 1, {
  EACH if (x[i % n] > x[n - 1]) return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "the last is to be the largest");
  EACH y[i] = 2 * x[i];
})

/* What does not look at its operand's type, and what does not look where it lies. */
static XLA_FFI_Error* blind(xffi_call* call) {
  XLA_FFI_CallFrame* frame = call->frame;
  XLA_FFI_Buffer *in = (XLA_FFI_Buffer*)frame->args.args[0], *out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  int64_t count = 1;
  for (int64_t i = 0; i < in->rank; ++i) count *= in->dims[i];
  for (int64_t i = 0; i < count; ++i) ((float*)out->data)[i] = 2 * ((float*)in->data)[i];
  return NULL;
}
XFFI_HANDLER(dtype, blind);
/* It looks at operands as many do: at their types, and not where they lie. */
static XLA_FFI_Error* anywhere(xffi_call* call) {
  XLA_FFI_CallFrame* frame = call->frame;
  XLA_FFI_Buffer *in = (XLA_FFI_Buffer*)frame->args.args[0], *out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  if (in->dtype != XLA_FFI_DataType_F32 || out->dtype != XLA_FFI_DataType_F32) {
    return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "expected F32");
  }
  return blind(call);
}
XFFI_HANDLER(unaligned, anywhere);
HANDLER(dtype_twin, 1, { EACH y[i] = 2 * x[i]; })
HANDLER(unaligned_twin, 1, { EACH y[i] = 2 * x[i]; })

/* Cotangents of squares. */
#define BACKWARD(NAME, FACTOR)                                                                  \
  static XLA_FFI_Error* NAME##_impl(xffi_call* call) {                                          \
    xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, -1);                              \
    xffi_buffer g = xffi_arg(call, "g", XLA_FFI_DataType_F32, -1);                              \
    xffi_buffer d = xffi_ret(call, "d", XLA_FFI_DataType_F32, -1);                              \
    XLA_FFI_Error* error = xffi_decoded(call);                                                  \
    if (error != NULL) return error;                                                            \
    for (int64_t i = 0; i < x.count; ++i) ((float*)d.data)[i] = FACTOR * ((float*)x.data)[i] * ((float*)g.data)[i]; \
    return NULL;                                                                                \
  }                                                                                             \
  XFFI_HANDLER(NAME, NAME##_impl)
BACKWARD(backward, 3);
BACKWARD(backward_twin, 2);
"""

NAMES = ("tail", "operand", "transposed", "dtype", "leak", "whole", "global", "race", "nans", "unaligned", "aborts", "zero")

#: The check that must fail for each wrong handler.
CAUGHT = {
    "tail": "embedded: written", "operand": "operands", "transposed": "vmap", "dtype": "embedded: wrong-types", "leak": "vmap", "whole": "vmap",
    "global": "repeats", "race": "threads", "nans": "nan", "unaligned": "embedded: misaligned", "aborts": "embedded: odd-sizes",
    # XLA removes calls with empty results, so JAX never calls this handler.
    "zero": "embedded: zero-sizes",
}  # fmt: skip
SAYS = {
    "tail": "element 5", "operand": "changes its operand `x`", "aborts": "SIGABRT",
    "zero": "SIGFPE", "unaligned": "`x` one byte past an aligned address", "nans": "reaches no result",
}  # fmt: skip


def operand(name):
    return {"name": name, "kind": "buffer", "dtypes": ["F32"], "rank": None, "optional": False, "variadic": False}


def handler(name, args=("x",), ret="y", **more):
    contract = "... m n -> ... n m" if name.startswith("transposed") else "... n" + ", ... n" * (len(args) - 1) + " -> ... n"
    return {
        "name": name, "platforms": ["cpu"], "stages": {"execute": name}, "args": [operand(arg) for arg in args],
        "rets": [operand(ret)], "attrs": [], "open_attrs": False, "shape": contract, "context": [], "traits": [],
        "async": False, "state": None, "floor": "r0", **more,
    }  # fmt: skip


def library(name, version, handlers):
    """Compiles and loads a library with these handlers in its manifest."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Skip("no C compiler")
    payload = json.dumps({"library": name, "sdk": "0.1.0", "register": None, "handlers": handlers}).encode()
    manifest = b"XLAFFIMF" + struct.pack("<II", version, len(payload)) + payload
    section = '__attribute__((section(".xla_ffi_manifest"), used, aligned(16))) const unsigned char described[] = {'
    source = folder() / "lib.c"
    source.write_text(SOURCE + section + ",".join(map(str, manifest)) + "};\n")
    path = source.with_name(f"lib{name}.so")
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-I", ROOT / "include"]
    subprocess.run([compiler, *flags, source, "-o", path, "-pthread", "-lm"], check=True)
    return xla_ffi.load(path)


def twelve():
    names = [twin for name in NAMES for twin in (name, f"{name}_twin")]
    picky = handler("picky")
    picky["args"][0]["dtypes"] = picky["rets"][0]["dtypes"] = ["F32", "F64"]
    return library("twelve", 1, [*map(handler, names), picky, handler("hangs")])


def others(name):
    """Returns the names of the checks that are skipped to save time."""
    return [other for other in _check.NAMES if other not in ("runs", CAUGHT.get(name))]


def caught(lib, name):
    line = CAUGHT[name]
    skip = others(name) if line.startswith("embedded") else [*others(name), "embedded"]
    # For `leak`, use a single row, because the rows of a batch leak into each other.
    report = xla_ffi.check(lib[name], X[0] if name == "leak" else X, skip=skip)
    found = report[line]
    if found.status != "failed" or SAYS.get(name, "") not in found.text or report:
        raise AssertionError(repr(report))


def passes(lib, name):
    report = xla_ffi.check(lib[f"{name}_twin"], X)
    if not report or report["runs"].status != "passed" or report["embedded: written"].status != "passed":
        raise AssertionError(repr(report))


def wrong_vjp():
    """check_grads detects a wrong vjp and accepts the correct one"""
    forward = lambda name: handler(f"square{name}", gradient={"vjp": f"backward{name}", "residuals": ["x"]})
    handlers = [forward(name) for name in ("", "_twin")]
    lib = library("squares", 2, [*handlers, *(handler(f"backward{name}", ("x", "g"), "d") for name in ("", "_twin"))])
    try:
        jax.grad(lambda x: lib.square_twin(x).sum())(X)
    except Exception as error:
        raise Skip(f"this loader has no gradients: {type(error).__name__}") from error
    # Before version 2 of the manifest, the command line cannot read the manifest.
    report = xla_ffi.check(lib.square, X, skip=[*(name for name in _check.NAMES if name not in ("runs", "gradient")), "embedded"])
    # The message has two numbers for the tolerances, and further numbers for the values and their difference.
    if report["gradient"].status != "failed" or len(re.findall(r"\d\.\d*", report["gradient"].text)) < 4:
        raise AssertionError(repr(report))
    report = xla_ffi.check(lib.square_twin, X, skip=["embedded"])
    if not report or report["gradient"].status != "passed":
        raise AssertionError(repr(report))


def panics():
    """a Rust handler that panics, and a Rust handler that does not"""
    path = ROOT / "target/release/examples/libconformance.so"
    if not path.exists():
        raise Skip(f"{path} is not built")
    lib = xla_ffi.load(path)
    result = jax.ShapeDtypeStruct(X.shape, X.dtype)
    report = xla_ffi.check(lib.panic, X, message="no more", result_shape_dtypes=result)
    if "panicked: no more" not in report["runs"].text or report["jit"].text != "the call fails" or report:
        raise AssertionError(repr(report))
    report = xla_ffi.check(lib.scale, X, factor=2.0)
    if not report or "failed" in repr(report):
        raise AssertionError(repr(report))


def kept(lib, in_jax):
    """an operand that accepts only some values and determines the result's type"""
    skip = [name for name in _check.NAMES if name not in ("runs", "vmap", "shard_map", "threads")]
    report = xla_ffi.check(lib.picky, X[0], skip=[*skip, "embedded"])
    if any(report[name].status != "failed" for name in ("vmap", "threads")):
        raise AssertionError(repr(report))
    report = xla_ffi.check(lib.picky, X[0], keep=["x"], skip=skip)
    if report["vmap"].status != "passed" or report["threads"].status != "passed":
        raise AssertionError(repr(report))
    if not in_jax and report["embedded: written"].status != "passed":
        raise AssertionError(repr(report))
    raises(ValueError, lambda: xla_ffi.check(lib.picky, X[0], keep=["z"]), "no operand 'z'")


def hangs(lib):
    """a handler that does not return; the time limit applies to all checks together"""
    begun = time.monotonic()
    report = xla_ffi.check(lib.hangs, jnp.ones((2, 7)), time_limit=10)
    if time.monotonic() - begun > 45 or (report["runs"].status, report["jit"].status) != ("failed", "skipped"):
        raise AssertionError(repr(report))


def reports(lib):
    """the text and the JSON of a report; arguments of `check` that are refused"""
    skip = [name for name in _check.NAMES if name != "runs"]
    report = xla_ffi.check(lib.tail_twin, X, skip=[*skip, "embedded"])
    read = json.loads(report.to_json())
    if not read["passed"] or read["checks"][0] != {"name": "runs", "status": "passed", "text": "y: float32[2, 3]"}:
        raise AssertionError(read)
    if "1 passed" not in repr(report) or "skipped jit: by skip=" not in repr(report):
        raise AssertionError(repr(report))
    raises(TypeError, lambda: xla_ffi.check(lambda x: x, X), "expected a handler")
    raises(ValueError, lambda: xla_ffi.check(lib.tail, X, skip=["jitt"]), "'jitt'")
    tool = subprocess.run([_check.command_line(), "check", "x.so", "--skip=jitt"], capture_output=True, text=True)
    if tuple(re.search(r"possible values: (.*)\]", tool.stderr)[1].split(", ")) != _check.EMBEDDED:
        raise AssertionError(tool.stderr)
    failing = xla_ffi.check(lib.tail_twin, jnp.float32(1), skip=["embedded"])
    if failing or failing["runs"].status != "failed" or "argument `x`: expected" not in failing["runs"].text:
        raise AssertionError(repr(failing))


def main():
    def all_twelve():
        nonlocal lib
        lib = twelve()

    in_jax = "--in-jax" in sys.argv
    wrong = [name for name in NAMES if not (in_jax and CAUGHT[name].startswith("embedded"))]
    lib = None
    check("the wrong handlers and their twins are built", all_twelve)
    if lib is not None:
        for name in wrong:
            check(f"{name}: caught by {CAUGHT[name]}", lambda name=name: caught(lib, name))
        for name in ["leak"] if in_jax else NAMES:
            check(f"{name}: its twin passes", lambda name=name: passes(lib, name))
        check(f"reports: {reports.__doc__}", lambda: reports(lib))
        check(f"hangs: {hangs.__doc__}", lambda: hangs(lib))
        check(f"keep: {kept.__doc__}", lambda: kept(lib, in_jax))
        check(f"vjp: {wrong_vjp.__doc__}", wrong_vjp)
    check(f"panic: {panics.__doc__}", panics)
    finish()


if __name__ == "__main__":
    main()
