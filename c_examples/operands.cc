// Handlers for operands of one type and rank, operands that are updated in place, operands of several element types,
// and sub-byte elements.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
namespace match = xla::ffi::match;

using Vector = ffi::BufferR1<ffi::F32>;

// The example of XLA's custom-call documents, A[i] = B[i % n] + C[i], for buffers of any size.
// b: f32[n], c: f32[m], a: f32[m].
static ffi::Error TiledAdd(Vector b, Vector c, ffi::Result<Vector> a) {
  const size_t n = b.element_count(), m = c.element_count();
  if (ffi::Error error = ffi::Verify("a", *a, ffi::match::Buffer().WithShapeOf(c));
      error.failure()) {
    return error;
  }
  if (n == 0 && m > 0) return ffi::Error::InvalidArgument("`b`: nothing to tile");
  for (size_t i = 0, k = 0; i < m; ++i, k = k + 1 == n ? 0 : k + 1) {
    a->typed_data()[i] = b.typed_data()[k] + c.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(tiled_add, TiledAdd,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("b")
                                  .Arg<Vector>("c")
                                  .Ret<Vector>("a")
                                  .Shape(XLA_FFI_SHAPE("n, m -> m"))
                                  .HostOnly());

// An in-out operand, which is both argument and result: y = a x + y, in place. A call is refused unless argument 1 is
// aliased with result 0. x, y: f32[n]; a: f32.
static ffi::Error Axpy(Vector x, ffi::InOut<Vector> y, float a) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] += a * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("x")
                                  .InOut<Vector>("y")
                                  .Attr<float>("a")
                                  .Shape(XLA_FFI_SHAPE("n, n -> n"))
                                  .HostOnly());

// A handler for several element types: the matrix products z[b] = x[b] y[b] of a batch.
// x: f32 or f64 [b, n, k]; y: [b, k, m]; z: [b, n, m], all of the same type.
template <typename T>
static void Product(const T* x, const T* y, T* z, int64_t b, int64_t n, int64_t k, int64_t m) {
  for (int64_t row = 0; row < b * n; ++row) {
    const T* factor = y + row / n * k * m;
    for (int64_t column = 0; column < m; ++column) {
      T sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += x[row * k + i] * factor[i * m + column];
      z[row * m + column] = sum;
    }
  }
}

static ffi::Error Matmul(ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::Result<ffi::AnyBuffer> z) {
  int64_t b, n, k, m;
  const auto typed = match::Buffer().WithDType<ffi::F32, ffi::F64>();
  ffi::Error error = ffi::Verify("x", x, typed.WithDims(&b, &n, &k));
  if (error.failure()) return error;
  error = ffi::Verify("y", y, match::Buffer().Like(x).WithDims(b, k, &m));
  if (error.failure()) return error;
  error = ffi::Verify("z", *z, match::Buffer().Like(x).WithDims(b, n, m));
  if (error.failure()) return error;
  if (x.element_type() == ffi::F32) {
    Product(x.typed_data<float>(), y.typed_data<float>(), z->typed_data<float>(), b, n, k, m);
  } else {
    Product(x.typed_data<double>(), y.typed_data<double>(), z->typed_data<double>(), b, n, k, m);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(matmul, Matmul,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>("x")
                                  .Arg<ffi::AnyBuffer>("y")
                                  .Ret<ffi::AnyBuffer>("z")
                                  .Shape(XLA_FFI_SHAPE("b n k, b k m -> b n m"))
                                  .HostOnly());

// A handler with sub-byte elements, the weights of a quantized layer: w[i, j] = scale[i] * q[i, j].
// q: s4[n, m]; scale: f32[n]; w: f32[n, m].
static ffi::Error Dequantize(ffi::BufferR2<ffi::S4> q, ffi::BufferR1<ffi::F32> scale,
                             ffi::ResultBufferR2<ffi::F32> w) {
  const int64_t n = q.dimensions()[0], m = q.dimensions()[1];
  for (ffi::Error error : {ffi::Verify("scale", scale, match::Buffer().WithDims(n)),
                           ffi::Verify("w", *w, match::Buffer().WithDims(n, m))}) {
    if (error.failure()) return error;
  }
  const ffi::Span<uint8_t> packed = q.packed_data();
  for (int64_t i = 0; i < n * m; ++i) {
    // Each byte has two elements, the first in the low bits.
    const int bits = packed[static_cast<size_t>(i / 2)] >> (i % 2 * 4) & 15;
    w->typed_data()[i] = scale.typed_data()[i / m] * static_cast<float>(bits < 8 ? bits : bits - 16);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(dequantize, Dequantize,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR2<ffi::S4>>("q")
                                  .Arg<ffi::BufferR1<ffi::F32>>("scale")
                                  .Ret<ffi::BufferR2<ffi::F32>>("w")
                                  .Shape(XLA_FFI_SHAPE("n m, n -> n m"))
                                  .HostOnly());

XLA_FFI_LIBRARY(operands, XLA_FFI_HANDLER(tiled_add), XLA_FFI_HANDLER(axpy), XLA_FFI_HANDLER(matmul),
                XLA_FFI_HANDLER(dequantize));
