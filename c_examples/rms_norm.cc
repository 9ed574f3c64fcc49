// Handlers for RMS normalisation over the last dimension, and for its gradient. x, y, g, dx: f32[..., n];
// eps: f32, default 1e-5.
#include <cmath>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32>;

// Returns the length of the rows of `x`. The shape contract ensures that `x` has a last dimension.
static size_t RowSize(Array x) { return static_cast<size_t>(x.dimensions().back()); }

static float MeanProduct(const float* a, const float* b, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum / static_cast<float>(n);
}

// Computes y = x / sqrt(mean(x^2) + eps).
static ffi::Error RmsNorm(Array x, ffi::Result<Array> y, std::optional<float> eps) {
  const size_t n = RowSize(x);
  for (size_t row = 0; row < x.element_count(); row += n) {
    const float* in = x.typed_data() + row;
    float* out = y->typed_data() + row;
    const float scale = 1 / std::sqrt(MeanProduct(in, in, n) + eps.value_or(1e-5f));
    for (size_t i = 0; i < n; ++i) out[i] = in[i] * scale;
  }
  return ffi::Error::Success();
}

// Computes the gradient dx = s (g - x s^2 mean(g x)), with s = 1 / sqrt(mean(x^2) + eps) and the gradient g
// of y.
static ffi::Error RmsNormBackward(Array x, Array g, ffi::Result<Array> dx,
                                  std::optional<float> eps) {
  const size_t n = RowSize(x);
  for (size_t row = 0; row < x.element_count(); row += n) {
    const float *in = x.typed_data() + row, *slope = g.typed_data() + row;
    float* out = dx->typed_data() + row;
    const float scale = 1 / std::sqrt(MeanProduct(in, in, n) + eps.value_or(1e-5f));
    const float pull = scale * scale * MeanProduct(in, slope, n);
    for (size_t i = 0; i < n; ++i) out[i] = scale * (slope[i] - in[i] * pull);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm, RmsNorm,
                              ffi::Ffi::Bind()
                                  .Arg<Array>("x")
                                  .Ret<Array>("y")
                                  .Attr<std::optional<float>>("eps")
                                  .Shape(XLA_FFI_SHAPE("... n -> ... n"))
                                  .HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm_backward, RmsNormBackward,
                              ffi::Ffi::Bind()
                                  .Arg<Array>("x")
                                  .Arg<Array>("g")
                                  .Ret<Array>("dx")
                                  .Attr<std::optional<float>>("eps")
                                  .Shape(XLA_FFI_SHAPE("... n, ... n -> ... n"))
                                  .HostOnly());

// The library's manifest, for tools and the JAX loader. Without a manifest, callers must name the symbol of
// each handler.
XLA_FFI_LIBRARY(rms_norm,
                XLA_FFI_HANDLER(rms_norm).Default("eps", "1e-5").Vjp("rms_norm_backward"),
                XLA_FFI_HANDLER(rms_norm_backward).Default("eps", "1e-5"));
