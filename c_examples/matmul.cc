// One handler for several element types: z[b] = x[b] y[b], batch by batch.
// x: f32 or f64 [b, n, k]; y: [b, k, m]; z: [b, n, m], all of one type.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
namespace match = xla::ffi::match;

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

XLA_FFI_LIBRARY(matmul, XLA_FFI_HANDLER(matmul));
