// Any number of operands: y = sum of weights[k] * xs[k], for arrays of one shape.
// xs, y: f32 of one shape; weights: [f32].
#include <algorithm>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error WeightedSum(ffi::RemainingArgs xs, ffi::ResultBuffer<ffi::F32> y,
                              ffi::Span<const float> weights) {
  if (xs.size() != weights.size()) {
    return ffi::Error::InvalidArgument(std::to_string(xs.size()) + " arrays, but " +
                                       std::to_string(weights.size()) + " 'weights'");
  }
  float* out = y->typed_data();
  std::fill(out, out + y->element_count(), 0.0f);
  for (size_t k = 0; k < xs.size(); ++k) {
    const auto x = xs.get<ffi::Buffer<ffi::F32>>(k);
    if (x.has_error()) return x.error();
    if (ffi::Error error = ffi::Verify("xs", *x, ffi::match::Buffer().WithShapeOf(*y));
        error.failure()) {
      return error;
    }
    for (size_t i = 0; i < y->element_count(); ++i) out[i] += weights[k] * x->typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(weighted_sum, WeightedSum,
                              ffi::Ffi::Bind()
                                  .RemainingArgs("xs")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Attr<ffi::Span<const float>>("weights")
                                  .Shape(XLA_FFI_SHAPE("...* -> ..."))
                                  .HostOnly());

XLA_FFI_LIBRARY(variadic, XLA_FFI_HANDLER(weighted_sum));
