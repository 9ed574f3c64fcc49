"""Tests C and C++ libraries with a manifest, so that ``xla_ffi.load`` needs no signatures in Python.

usage: self_describing.py
"""

import inspect
import os
import re
import shutil
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import xla_ffi
from checks import check, finish, raises, skip
from jax.test_util import check_grads
from xla_ffi import _stubs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
X = jnp.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))

# y = a x², dx = 2 a x dy. There are two source files, each with its own record.
CPP = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;
static ffi::Error Square(Array x, ffi::Result<Array> y, std::optional<float> a) {
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = a.value_or(1) * x.typed_data()[i] * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(square, Square, ffi::Ffi::Bind().Arg<Array>("x").Ret<Array>("y")
    .Attr<std::optional<float>>("a").Shape(XLA_FFI_SHAPE("... -> ...")).HostOnly());

static ffi::Error Unnamed(ffi::BufferR1<ffi::S32> x, ffi::ResultBufferR1<ffi::S32> y) {
  std::copy_n(x.typed_data(), x.element_count(), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(unnamed, Unnamed, ffi::Ffi::BindOf(Unnamed).Shape(XLA_FFI_SHAPE("n -> n")));

// Its names are not known to the compiler: the caller has to tell.
static std::string name = "plus";
static ffi::Error Later(Array x, ffi::Result<Array> y, float plus) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + plus;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<Array>("x").Ret<Array>("y").Attr<float>(name));

struct Counter {
  static ffi::TypeId id;
  int32_t next;
};
ffi::TypeId Counter::id = {};
static ffi::ErrorOr<std::unique_ptr<Counter>> Start(int32_t start) {
  return std::unique_ptr<Counter>(new Counter{start});
}
static ffi::Error Count(Counter* counter, ffi::ResultBufferR0<ffi::S32> y, int32_t) {
  *y->typed_data() = counter->next++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_start, Start, ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind().Ctx<ffi::State<Counter>>()
    .Ret<ffi::BufferR0<ffi::S32>>("y").Attr<int32_t>("start").Shape(XLA_FFI_SHAPE("-> ()")));

XLA_FFI_LIBRARY(squares,
    XLA_FFI_HANDLER(square).Default("a", "1.0").Vjp("square_backward").Doc("a times the square of x."),
    XLA_FFI_HANDLER(unnamed), XLA_FFI_HANDLER(later), XLA_FFI_HANDLER(count, count_start));
"""
CPP_BACKWARD = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;
static ffi::Error Backward(Array x, Array dy, ffi::Result<Array> dx, std::optional<float> a) {
  for (size_t i = 0; i < x.element_count(); ++i)
    dx->typed_data()[i] = 2 * a.value_or(1) * x.typed_data()[i] * dy.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(square_backward, Backward, ffi::Ffi::Bind().Arg<Array>("x").Arg<Array>("dy")
    .Ret<Array>("dx").Attr<std::optional<float>>("a").Shape(XLA_FFI_SHAPE("..., ... -> ...")));

struct Range { int64_t lo; std::optional<int64_t> hi; };
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, ffi::StructMember<int64_t>("lo"), ffi::StructMember<std::optional<int64_t>>("hi"));
static ffi::Error Spread(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR2<ffi::F32> y, int64_t k, Range r,
                         ffi::Span<const float> w, std::string_view mode) {
  for (size_t i = 0; i < y->element_count(); ++i)
    y->typed_data()[i] = x.typed_data()[i / k] + r.lo + r.hi.value_or(0) + w[0] + mode.size();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(spread, Spread, ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>("x")
    .Ret<ffi::BufferR2<ffi::F32>>("y").Attr<int64_t>("k").Attr<Range>("r").Attr<ffi::Span<const float>>("w")
    .Attr<std::string_view>("mode").Shape(XLA_FFI_SHAPE("n -> n k")));
XLA_FFI_LIBRARY(squares, XLA_FFI_HANDLER(square_backward).Default("a", "1.0"),
                XLA_FFI_HANDLER(spread).Batch("sequential"));
"""

C = """
#include "xla_ffi/handler.h"
static XLA_FFI_Error* square_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float a = xffi_attr_f32_or(call, "a", 1);
  XLA_FFI_Error* error;
  int64_t i;
  xffi_shapes(call, "... -> ...");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = a * ((float*)x.data)[i] * ((float*)x.data)[i];
  return NULL;
}
XFFI_HOST_HANDLER(square, square_impl);
XFFI_LIBRARY(squares, XFFI_DESCRIBE(square, XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)), XFFI_RETS(XFFI_OPERAND("y", F32, ANY)),
    XFFI_ATTRS(XFFI_DEFAULT_ATTR("a", f32, 1.0)), XFFI_SHAPE("... -> ..."), XFFI_TRAITS("host_only"),
    XFFI_DOC("a times the square of x."), XFFI_VJP("square_backward")),
  XFFI_DESCRIBE(unnamed, XFFI_UNDESCRIBED));
static XLA_FFI_Error* unnamed_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_S32, 1), y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error == NULL) memcpy(y.data, x.data, xffi_size_bytes(&x));
  return error;
}
XFFI_HANDLER(unnamed, unnamed_impl);
"""
C_BACKWARD = """
#include "xla_ffi/handler.h"
static XLA_FFI_Error* backward(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer dy = xffi_arg(call, "dy", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer dx = xffi_ret(call, "dx", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float a = xffi_attr_f32_or(call, "a", 1);
  XLA_FFI_Error* error;
  int64_t i;
  xffi_shapes(call, "..., ... -> ...");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)dx.data)[i] = 2 * a * ((float*)x.data)[i] * ((float*)dy.data)[i];
  return NULL;
}
XFFI_HANDLER(square_backward, backward);
/* Doubles all arrays in place. It is called as something that a library in Python has already. */
static XLA_FFI_Error* digest_impl(xffi_call* call) {
  xffi_buffer all[8];
  XLA_FFI_Error* error;
  int64_t i;
  int n = 0;
  while (n < 8 && xffi_args_left(call) > 0) all[n++] = xffi_inout(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  if ((error = xffi_decoded(call)) != NULL) return error;
  while (n-- > 0) {
    for (i = 0; i < all[n].count; ++i) ((float*)all[n].data)[i] *= 2;
  }
  return NULL;
}
XFFI_HANDLER(digest, digest_impl);
XFFI_LIBRARY(squares, XFFI_DESCRIBE(digest, XFFI_ARGS(XFFI_OPERAND_WITH("x", XFFI_DTYPE(F32), XFFI_RANK(ANY), XFFI_VARIADIC)),
    XFFI_RETS(XFFI_OPERAND_WITH("x", XFFI_DTYPE(F32), XFFI_RANK(ANY), XFFI_VARIADIC, XFFI_INOUT)), XFFI_ATTRS()),
  XFFI_DESCRIBE(square_backward, XFFI_ARGS(XFFI_OPERAND("x", F32, ANY), XFFI_OPERAND("dy", F32, ANY)),
    XFFI_RETS(XFFI_OPERAND("dx", F32, ANY)), XFFI_ATTRS(XFFI_DEFAULT_ATTR("a", f32, 1.0)), XFFI_SHAPE("..., ... -> ...")));
"""


def build(folder, language):
    """Builds a library from two source files, linked like a release build, which removes unreferenced sections."""
    compiler, standard = (shutil.which("cc"), "-std=c99") if language == "c" else (shutil.which("c++"), "-std=c++17")
    if compiler is None:
        skip(f"no compiler for {language}")
    library, sources = os.path.join(folder, f"lib{language}.so"), []
    for stem, text in [("one", C if language == "c" else CPP), ("two", C_BACKWARD if language == "c" else CPP_BACKWARD)]:
        sources.append(os.path.join(folder, f"{stem}.{'c' if language == 'c' else 'cc'}"))
        with open(sources[-1], "w", encoding="utf-8") as file:
            file.write(text)
    options = ["-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-s"]
    command = [compiler, standard, *options, "-I", f"{ROOT}/include", *sources, "-o", library, "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return library


def same(got, wanted):
    if not np.allclose(got, wanted, rtol=1e-6):
        raise AssertionError(f"{got}, expected {wanted}")


def squares(lib):
    """Result types, defaults, gradients and batching follow from the library's description."""
    same(lib.square(X), X * X)
    same(jax.jit(lambda x: lib.square(x, a=3.0))(X), 3 * X * X)
    same(jax.vmap(lib.square)(X), X * X)
    same(jax.grad(lambda x: lib.square(x, a=2.0).sum())(X), 4 * X)
    check_grads(lambda x: lib.square(x, a=2.0), (X,), 1, modes=["rev"], rtol=1e-2, atol=1e-2)
    if "a times the square of x." not in inspect.getdoc(lib.square) or list(inspect.signature(lib.square).parameters)[:2] != ["x", "a"]:
        raise AssertionError(inspect.getdoc(lib.square))
    if lib.square.spec.library != "squares" or lib.square.spec.traits != ("host_only",):
        raise AssertionError(lib.square.spec)


def undescribed(path, symbol, text, call):
    """The caller describes handlers that the library only lists by symbol."""
    untold = xla_ffi.load(path, prefix=f"untold_{symbol}")
    raises(TypeError, lambda: getattr(untold, symbol)(X), symbol, "handlers=")
    call(xla_ffi.load(path, prefix=f"told_{symbol}", handlers={symbol: text}))


def whole(lib):
    """Attributes of every kind, operands without names in the source, and state work."""
    same(lib.unnamed(jnp.arange(3, dtype=np.int32)), [0, 1, 2])
    if [arg.name for arg in lib.unnamed.spec.args] != ["x0"] or [ret.name for ret in lib.unnamed.spec.rets] != ["y0"]:
        raise AssertionError(lib.unnamed.spec)
    if lib.count.spec.stages != {"execute": "count", "instantiate": "count_start"} or lib.count.spec.floor != 1:
        raise AssertionError(lib.count.spec)
    attrs = [(attr.name, attr.type, attr.optional, attr.inside) for attr in lib.spread.spec.attrs]
    if attrs != [("k", "i64", False, None), ("r", "dict", False, None), ("lo", "i64", False, "r"), ("hi", "i64", True, "r"), ("w", "[f32]", False, None), ("mode", "str", False, None)]:  # fmt: skip
        raise AssertionError(attrs)
    x = jnp.arange(2, dtype=np.float32)
    spread = lambda x: lib.spread(x, k=3, r={"lo": 1, "hi": 2}, w=np.ones(1, np.float32), mode="ab")
    version = jaxlib.version.__version__
    if version in ("0.4.31", "0.4.32", "0.4.33"):
        raises(Exception, lambda: jax.block_until_ready(jax.jit(spread)(x)), "Unsupported attribute type")
    else:
        same(jax.jit(spread)(x), np.repeat(np.asarray(x), 3).reshape(2, 3) + 6)
        same(jax.vmap(spread)(jnp.stack([x, x])), [np.repeat(np.asarray(x), 3).reshape(2, 3) + 6] * 2)
    if version in ("0.4.31", "0.4.32"):
        raises(Exception, lambda: jax.block_until_ready(lib.count(start=5)), "0.4.33")
        return
    count = jax.jit(lambda: lib.count(start=5))
    same([count(), count()], [5, 6])


def in_place(lib):
    """Each of many in-out operands has its own result.

    A handler that has the same name as an attribute of the library is available as an item.
    """
    doubled = lib["digest"]
    if not isinstance(lib.digest, str) or doubled is not lib["squares.digest"]:
        raise AssertionError("the library's own digest")
    raises(AttributeError, lambda: lib["path"], "`path`")
    for count in (1, 2, 3):
        given = [X + i for i in range(count)]
        types = [jax.ShapeDtypeStruct(X.shape, X.dtype)] * count
        for own in ({}, {"input_output_aliases": {i: i for i in range(count)}}):
            got = jax.jit(lambda *given, own=own, types=types: doubled(*given, result_shape_dtypes=types, **own))(*given)
            same(jnp.stack(got), 2 * jnp.stack(given))
    if re.search(r"^ *(def )?digest\b", _stubs.of(lib.path), re.MULTILINE):
        raise AssertionError("a stub file for an invalid attribute name")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_CACHE"] = folder
        for language in ("c", "cpp"):
            path = build(folder, language)
            lib = xla_ffi.load(path, prefix=language)
            name = {"c": "C", "cpp": "C++"}[language]
            check(f"{name}: squares", lambda lib=lib: squares(lib))
            if language == "c":
                check("C: in place", lambda lib=lib: in_place(lib))
        plus = lambda lib: same(lib.later(X, plus=1.0), X + 1)
        check("C++: undescribed", lambda: undescribed(path, "later", "(x: f32[...], *, plus: f32) -> y: f32[...]", plus))
        numbers = lambda lib: same(lib.unnamed(jnp.arange(3, dtype=np.int32)), [0, 1, 2])
        check("C: undescribed", lambda: undescribed(os.path.join(folder, "libc.so"), "unnamed", "(x: s32[n]) -> y: s32[n]", numbers))
        check("C++: all of it", lambda: whole(lib))
    finish()


main()
