"""Tests that handlers called in place of a different handler (`batch_with`, `forward`, parts of a gradient) use the
caller's options.

The options are aliases, result types, defaults and the batching method. This file also tests aliases in batches.

usage: derived_calls.py [LANGUAGE:EXAMPLE=LIBRARY…] (not used: the handlers are compiled here)
"""

import dataclasses
import os
import tempfile

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import xla_ffi  # noqa: E402
from checks import check, finish, raises  # noqa: E402
from xla_ffi import Signature, _jax  # noqa: E402

X = jnp.arange(3, dtype=np.float32)
ROWS = jnp.arange(6, dtype=np.float32).reshape(2, 3)
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")

# `put` and the handlers that replace `put` write only the first element of each row. The other elements keep the
# contents of the result's memory.
CPP = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;
static ffi::Error Put(Array x, ffi::Result<Array> y) {
  for (size_t i = 0; i < x.element_count(); i += x.dimensions().back()) y->typed_data()[i] = x.typed_data()[i] + 100;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(put, Put, ffi::Ffi::Bind().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(put_each, Put, ffi::Ffi::Bind().Arg<Array>().Ret<Array>());
static ffi::Error Twice(Array x, ffi::Result<Array> y) {
  for (size_t i = 0; i < x.element_count(); i += x.dimensions().back()) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice, Twice, ffi::Ffi::Bind().Arg<Array>().Ret<Array>());
static ffi::Error Counted(Array x, ffi::Result<Array> y, ffi::ResultBufferR0<ffi::S32> rows) {
  *rows->typed_data() = static_cast<int>(x.element_count() / x.dimensions().back());
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(counted, Counted, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Ret<ffi::BufferR0<ffi::S32>>());
static ffi::Error Whole(Array x, ffi::Result<Array> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(whole, Whole, ffi::Ffi::Bind().Arg<Array>().Ret<Array>());
static ffi::Error Grown(Array x, Array before, ffi::Result<Array> sum, ffi::Result<Array> copy) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    const float of_x = x.typed_data()[i];
    sum->typed_data()[i] = of_x + before.typed_data()[i];
    copy->typed_data()[i] = of_x;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(grown, Grown, ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Ret<Array>().Ret<Array>());
static ffi::Error PutAhead(Array x, ffi::Result<Array> y, ffi::Result<Array> twos) {
  for (size_t i = 0; i < x.element_count(); ++i) twos->typed_data()[i] = 2;
  return Put(x, y);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(put_ahead, PutAhead, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Ret<Array>());
static ffi::Error Times(Array a, Array b, ffi::Result<Array> y) {
  for (size_t i = 0; i < y->element_count(); ++i)
    y->typed_data()[i] = a.typed_data()[i % a.element_count()] * b.typed_data()[i % b.element_count()];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(times, Times, ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(rows, Times, ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Ret<Array>());

static double Get(const ffi::AnyBuffer& x, size_t i) {
  return x.element_type() == ffi::F32 ? x.typed_data<float>()[i] : x.typed_data<double>()[i];
}
static ffi::Error Copy(const ffi::AnyBuffer& x, ffi::Result<ffi::AnyBuffer>& y, double by) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    if (y->element_type() == ffi::F32) y->typed_data<float>()[i] = by * Get(x, i);
    else y->typed_data<double>()[i] = by * Get(x, i);
  }
  return ffi::Error::Success();
}
static ffi::Error As(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) { return Copy(x, y, 1); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(as, As, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
static ffi::Error AsAhead(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y, ffi::ResultBufferR0<ffi::F32> one) {
  *one->typed_data() = 1;
  return Copy(x, y, 1);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(as_ahead, AsAhead,
    ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Ret<ffi::BufferR0<ffi::F32>>());
static ffi::Error AsBack(ffi::BufferR0<ffi::F32> one, ffi::AnyBuffer g, ffi::Result<ffi::AnyBuffer> dx) {
  return Copy(g, dx, *one.typed_data());
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(as_back, AsBack,
    ffi::Ffi::Bind().Arg<ffi::BufferR0<ffi::F32>>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// An omitted value is 3 for `scale`, and 7 for the handlers in its place.
static float Factor(ffi::Dictionary attrs, float without) {
  auto options = attrs.get<ffi::Dictionary>("options");
  auto by = options.has_value() ? options->get<float>("by") : attrs.get<float>("by");
  return by.has_value() ? *by : without;
}
static ffi::Error Scale(Array x, ffi::Result<Array> y, ffi::Dictionary attrs) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = Factor(attrs, 3) * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(options, Scale, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Attrs());
static ffi::Error ScaleEach(Array x, ffi::Result<Array> y, ffi::Dictionary attrs) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = Factor(attrs, 7) * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale_each, ScaleEach, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(options_back, ScaleEach, ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Attrs());

"""

HANDLERS = {
    "put": Signature(
        "(x: f32[n]) -> y: f32[n]",
        batch={"handler": "put_each"},
        gradient={"vjp": "times", "forward": "put_ahead", "residuals": ["twos"]},
    ),
    "counted": Signature("(x: f32[... n]) -> (y: f32[... n], rows: s32[])", gradient={"linear": True, "transpose": "twice_of"}, batch="sequential"),
    "twice_of": Signature("(g: f32[... n]) -> x: f32[... n]", stages={"execute": "whole"}, gradient={"linear": True}),
    "grown": "(x: f32[n], inout sum: f32[n]) -> (inout sum: f32[n], copy: f32[n])",
    "twice": Signature("(x: f32[... n]) -> y: f32[... n]", gradient={"linear": True}),
    "put_each": "(x: f32[m n]) -> y: f32[m n]",
    "put_ahead": "(x: f32[... n]) -> (y: f32[... n], twos: f32[... n])",
    "times": "(a: f32[... n], b: f32[... n]) -> y: f32[... n]",
    "rows": Signature("(a: f32[... n], b: f32[n]) -> y: f32[... n]", batch=["leading", "shared"]),
    "as": Signature(
        "(x: f32|f64[n]) -> y: f32|f64[n]", gradient={"vjp": "as_back", "forward": "as_ahead", "residuals": ["one"]}
    ),
    "as_ahead": "(x: f32|f64[n]) -> (y: f32|f64[n], one: f32[])",
    "as_back": "(one: f32[], g: f32|f64[n]) -> dx: f32|f64[n]",
    "scale": Signature("(x: f32[n], *, by: f32 = 3.0) -> y: f32[n]", batch={"handler": "scale_each"}),
    "scale_each": "(x: f32[m n], *, by: f32 = 7.0, **others) -> y: f32[m n]",
    "options": Signature(
        "(x: f32[...], *, options: {by: f32 = 3.0, name: str = 'x'}) -> y: f32[...]",
        gradient={"linear": True, "transpose": "options_back"},
    ),
    "options_back": "(g: f32[...], *, options: {by: f32 = 7.0}) -> dx: f32[...]",
}


class Pairs(dict):
    """A dict of aliases that is hashable, so that jit accepts the dict as a static argument."""

    def __hash__(self):
        return hash(tuple(self.items()))


def close(got, wanted):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


def calls(function, *args):
    return [line for line in jax.jit(function).lower(*args).as_text().splitlines() if "custom_call @" in line]


def aliases(lib):
    """A result that aliases an operand keeps the operand's elements, independently of the handler that computes the
    result."""
    put = lambda x: lib.put(x, input_output_aliases={0: 0})
    row, rows = np.asarray([100, 1, 2]), np.asarray([[100, 1, 2], [103, 4, 5]])
    close(put(X), row)
    for function in (jax.vmap(put), jax.jit(jax.vmap(put)), lambda x: jax.vjp(jax.vmap(put), x)[0]):
        close(function(ROWS), rows)
    for function in (lambda x: jax.vjp(put, x)[0], jax.jit(lambda x: jax.linearize(put, x)[0]), lambda x: jax.vjp(jax.checkpoint(put), x)[0]):
        close(function(X), row)
    close(jax.vmap(lambda x: jax.vjp(put, x)[0])(ROWS), rows)
    close(jax.vmap(jax.grad(lambda x: put(x).sum()))(ROWS), np.full((2, 3), 2))
    for function in (jax.vmap(put), lambda x: jax.vjp(put, x[0])[0]):
        if not all("output_operand_alias" in call for call in calls(function, ROWS)):
            raise AssertionError(calls(function, ROWS))
    twice = lambda x: lib.twice(x, input_output_aliases={0: 0})
    for got in (jax.jvp(twice, (X,), (X + 1,))[1], jax.jit(lambda x: jax.linearize(twice, x)[1](x + 1))(X)):
        close(got, [2, 2, 3])
    close(jax.vmap(lambda x: jax.jvp(twice, (x,), (x + 1,))[1])(ROWS), [[2, 2, 3], [8, 5, 6]])
    close(jax.jvp(jax.vmap(twice), (ROWS,), (ROWS + 1,))[1], [[2, 2, 3], [8, 5, 6]])
    if any("output_operand_alias" in call for call in calls(jax.vmap(lib.put), ROWS)):
        raise AssertionError("an alias that nobody wrote")
    for function in (lib.times, jax.jit(lib.times, static_argnames="input_output_aliases")):
        both = lambda: function(X, X + 1, input_output_aliases=Pairs({0: 0, 1: 0}))
        raises(ValueError, both, "input_output_aliases=")
    raises(ValueError, lambda: lib.grown(X, X, input_output_aliases={0: 0}), "input_output_aliases=")
    raises(ValueError, lambda: lib.grown(X, X, input_output_aliases={1: 1}), "input_output_aliases=")
    close(lib.grown(X, X, input_output_aliases={1: 0, 0: 1})[0], 2 * X)


def aliases_in_batches(lib):
    """If the elements of a batch share an aliased operand, the operand is copied for each element before results
    overwrite it."""
    wanted = np.asarray(ROWS) * np.asarray(X)
    for method in METHODS:
        for alias, axes, args in [({1: 0}, (0, None), (ROWS, X)), ({0: 0}, (None, 0), (X, ROWS)), ({1: 0}, (0, 0), (ROWS, jnp.stack([X, X])))]:
            times = lambda a, b: lib.times(a, b, input_output_aliases=alias, vmap_method=method)
            close(jax.vmap(times, axes)(*args), wanted)
            close(jax.jit(jax.vmap(times, axes, 1))(*args), wanted.T)
    for alias, loop in [({0: 0}, False), ({1: 0}, True)]:
        rows = jax.vmap(lambda a, b: lib.rows(a, b, input_output_aliases=alias), (0, None))
        close(rows(ROWS, X), wanted)
        if ("while" in jax.jit(rows).lower(ROWS, X).as_text()) != loop:
            raise AssertionError(f"{alias}: loop {not loop}")


def types(lib):
    """The caller's result types also apply to `forward`."""
    for dtype in (np.float32, np.float64):
        wide = lambda x: getattr(lib, "as")(x, result_shape_dtypes=jax.ShapeDtypeStruct((3,), dtype))
        for found in (wide(X), jax.vjp(wide, X)[0], jax.jit(lambda x: jax.linearize(wide, x)[0])(X), jax.vmap(lambda x: jax.vjp(wide, x)[0])(ROWS)):
            if found.dtype != dtype:
                raise AssertionError(f"{found.dtype}, not {np.dtype(dtype)}")
        close(jax.grad(lambda x: (wide(x) * 2).sum())(X), np.full(3, 2))
    says = jax.ShapeDtypeStruct((3,), np.float64)
    y, one = lib.as_ahead(X, result_shape_dtypes=[says, None])
    if (y.dtype, one.dtype, one.shape) != (np.float64, np.float32, ()):
        raise AssertionError(f"{y.dtype}, {one.dtype}{one.shape}")
    if [each.dtype for each in lib.as_ahead(X, result_shape_dtypes=[None, None])] != [np.float32, np.float32]:
        raise AssertionError("not as the handler says")


def results_without_tangents(lib):
    """In forward mode, a linear handler also returns results that are not differentiable. These results are ignored."""
    counted = lambda x: lib.counted(x)
    (y, rows), (slope, none) = jax.jvp(counted, (X,), (X + 1,))
    close(y, 2 * X), close(rows, 1), close(slope, 2 * (X + 1))
    if none.dtype != jax.dtypes.float0:
        raise AssertionError(none)
    (y, rows), (slope, _) = jax.vmap(lambda x: jax.jvp(counted, (x,), (x + 1,)))(ROWS)
    close(slope, 2 * (ROWS + 1)), close(rows, [1, 1])
    close(jax.jvp(jax.vmap(counted), (ROWS,), (ROWS + 1,))[1][0], 2 * (ROWS + 1))
    for derivative in (jax.jacfwd, jax.jacrev):
        close(derivative(lambda x: counted(x)[0])(X), 2 * np.eye(3))
    close(jax.hessian(lambda x: (counted(x)[0] ** 2).sum())(X), 8 * np.eye(3))


def batch_of_forward(lib):
    """`vmap_method=` also applies when `forward` is batched."""
    put = lambda method: jax.vmap(lambda x: jax.vjp(lambda x: lib.put(x, vmap_method=method), x)[0])
    (call,) = calls(put("sequential"), ROWS)
    if "tensor<2x3xf32>" in call or "put_ahead" not in call:
        raise AssertionError(call)
    raises(NotImplementedError, lambda: put(None)(ROWS), "put_ahead", "vmap_method=")


def defaults(lib):
    """Missing attributes, and missing members of dictionaries, get the defaults of the handler that the user
    called."""
    for handler in (lib.scale, lib.options):  # these values are the handlers' own defaults
        handler.spec = dataclasses.replace(handler.spec, states_defaults=False)
    lib.scale.batch = dataclasses.replace(lib.scale.batch, spec=lib.scale.spec)
    lib.options.gradient._own = lib.options
    close(lib.scale(X), 3 * X)
    close(jax.vmap(lib.scale)(ROWS), 3 * ROWS)
    close(jax.vmap(lambda x: lib.scale(x, by=2.0))(ROWS), 2 * ROWS)
    if _jax.REVISION < 1:
        return  # this revision does not support dictionaries
    for given, by in [({}, 3), ({"by": 2.0}, 2), ({"by": 2.0, "name": "y"}, 2)]:
        close(lib.options(X, options=given), by * X)
        close(jax.grad(lambda x: lib.options(x, options=given).sum())(X), np.full(3, by))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FFI_CACHE"] = folder
        lib = xla_ffi.load_inline(cpp=CPP, name="standins", handlers=HANDLERS)
        for work in (aliases, aliases_in_batches, types, results_without_tangents, batch_of_forward, defaults):
            check(f"stand-ins, {work.__name__}", lambda work=work: work(lib))
    finish()


if __name__ == "__main__":
    main()
