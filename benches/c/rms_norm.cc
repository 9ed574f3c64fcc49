// A usual file of a user: root-mean-square normalization with its gradient, three handlers.
#include <cmath>
#include <cstdint>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;
using Output = ffi::ResultBuffer<ffi::F32>;

// Elements in all, and of one row.
static std::pair<int64_t, int64_t> Sizes(const Array& x) {
  const auto dims = x.dimensions();
  if (dims.size() == 0) return {0, 0};
  return {static_cast<int64_t>(x.element_count()), dims.back()};
}

static float Scale(const float* x, int64_t n, float eps) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return 1 / std::sqrt(sum / static_cast<float>(n) + eps);
}

static ffi::Error Norm(float eps, Array x, Output y) {
  const auto [total, n] = Sizes(x);
  if (n == 0) return ffi::Error::InvalidArgument("rms_norm: x has no last dimension");
  for (int64_t at = 0; at < total; at += n) {
    const float scale = Scale(x.typed_data() + at, n, eps);
    for (int64_t i = at; i < at + n; ++i) y->typed_data()[i] = scale * x.typed_data()[i];
  }
  return ffi::Error::Success();
}

static ffi::Error Forward(float eps, Array x, Output y, Output scales) {
  const auto [total, n] = Sizes(x);
  if (n == 0) return ffi::Error::InvalidArgument("rms_norm: x has no last dimension");
  for (int64_t at = 0, row = 0; at < total; at += n, ++row) {
    const float scale = scales->typed_data()[row] = Scale(x.typed_data() + at, n, eps);
    for (int64_t i = at; i < at + n; ++i) y->typed_data()[i] = scale * x.typed_data()[i];
  }
  return ffi::Error::Success();
}

static ffi::Error Backward(Array scales, Array x, Array dy, Output dx) {
  const auto [total, n] = Sizes(x);
  if (n == 0) return ffi::Error::InvalidArgument("rms_norm: x has no last dimension");
  for (int64_t at = 0, row = 0; at < total; at += n, ++row) {
    const float scale = scales.typed_data()[row];
    float dot = 0;
    for (int64_t i = at; i < at + n; ++i) dot += x.typed_data()[i] * dy.typed_data()[i];
    const float factor = dot * scale * scale * scale / static_cast<float>(n);
    for (int64_t i = at; i < at + n; ++i) {
      dx->typed_data()[i] = scale * dy.typed_data()[i] - factor * x.typed_data()[i];
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rms_norm, Norm, ffi::Ffi::Bind().Attr<float>("eps").Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rms_norm_forward, Forward,
    ffi::Ffi::Bind().Attr<float>("eps").Arg<Array>().Ret<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rms_norm_backward, Backward,
    ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>());
