// y = x / sqrt(mean(x^2) + eps), over the last dimension. x, y: f32[..., n]; eps: f32, 1e-5 if absent.
#include <cmath>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error RmsNorm(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                          std::optional<float> eps) {
  if (ffi::Error error = ffi::Verify("y", *y, ffi::match::Buffer().WithShapeOf(x));
      error.failure()) {
    return error;
  }
  if (x.dimensions().empty()) {
    return ffi::Error::InvalidArgument("argument 'x': expected rank 1 or more, got 0");
  }
  const size_t n = static_cast<size_t>(x.dimensions().back()), count = x.element_count();
  for (size_t row = 0; n > 0 && row < count; row += n) {
    const float* in = x.typed_data() + row;
    float* out = y->typed_data() + row;
    float sum = 0;
    for (size_t i = 0; i < n; ++i) sum += in[i] * in[i];
    const float scale = 1 / std::sqrt(sum / static_cast<float>(n) + eps.value_or(1e-5f));
    for (size_t i = 0; i < n; ++i) out[i] = in[i] * scale;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm, RmsNorm,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Attr<std::optional<float>>("eps"));
