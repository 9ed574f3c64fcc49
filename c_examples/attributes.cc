// Handlers with attributes: arrays, an enumeration, a dictionary, and optional attributes.
#include <algorithm>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

enum class Edge : int32_t { kZero, kClamp, kWrap };
XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(Edge, Edge::kZero, Edge::kWrap);

struct Scale {
  float gain;
  std::optional<float> offset;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Scale, ffi::StructMember<float>("gain"),
                                      ffi::StructMember<std::optional<float>>("offset"));

using Vector = ffi::BufferR1<ffi::F32>;

static float At(Vector x, int64_t i, Edge edge) {
  const auto n = static_cast<int64_t>(x.element_count());
  if (i >= 0 && i < n) return x.typed_data()[i];
  switch (edge) {
    case Edge::kClamp: return x.typed_data()[i < 0 ? 0 : n - 1];
    case Edge::kWrap: return x.typed_data()[(i % n + n) % n];
    default: return 0;
  }
}

// y[i] = gain * sum of weights[k] * x[i + k - len(weights) / 2] + offset
// x, y: f32[n]; weights: [f32]; edge: i32, selects the values of x outside 0 to n - 1, default 0;
// scale: {gain: f32, offset: optional f32}, optional.
static ffi::Error Filter(Vector x, ffi::Result<Vector> y, ffi::Span<const float> weights,
                         std::optional<Edge> edge, std::optional<Scale> scale) {
  if (ffi::Error error = ffi::Verify("y", *y, ffi::match::Buffer().WithShapeOf(x));
      error.failure()) {
    return error;
  }
  if (weights.size() == 0) return ffi::Error::InvalidArgument("'weights' is empty");
  const float gain = scale ? scale->gain : 1, offset = scale ? scale->offset.value_or(0) : 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    const auto first = static_cast<int64_t>(i) - static_cast<int64_t>(weights.size() / 2);
    float sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      sum += weights[k] * At(x, first + static_cast<int64_t>(k), edge.value_or(Edge::kZero));
    }
    y->typed_data()[i] = gain * sum + offset;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(filter, Filter,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("x")
                                  .Ret<Vector>("y")
                                  .Attr<ffi::Span<const float>>("weights")
                                  .Attr<std::optional<Edge>>("edge")
                                  .Attr<std::optional<Scale>>("scale")
                                  .Shape(XLA_FFI_SHAPE("n -> n"))
                                  .HostOnly());

// A handler with an attribute that determines the size of the result: y[i, k] = x[i] to the power of k.
// x: f32[n]; y: f32[n, degree + 1]; degree: i64, default 2.
static ffi::Error Powers(Vector x, ffi::Result<ffi::BufferR2<ffi::F32>> y,
                         std::optional<int64_t> degree) {
  const int64_t last = degree.value_or(2);
  if (last < 0 || last == INT64_MAX) return ffi::Error::InvalidArgument("'degree' is not a size");
  const auto n = static_cast<int64_t>(x.element_count());
  if (ffi::Error error = ffi::Verify("y", *y, ffi::match::Buffer().WithDims(n, last + 1));
      error.failure()) {
    return error;
  }
  float* power = y->typed_data();
  for (int64_t i = 0; i < n; ++i) {
    float value = 1;
    for (int64_t k = 0; k <= last; ++k, value *= x.typed_data()[i]) *power++ = value;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(powers, Powers,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("x")
                                  .Ret<ffi::BufferR2<ffi::F32>>("y")
                                  .Attr<std::optional<int64_t>>("degree")
                                  .Shape(XLA_FFI_SHAPE("n -> n degree+1"))
                                  .HostOnly());

// A weighted sum of any number of arguments, with one weight per argument: y = sum of weights[k] * xs[k].
// xs, y: f32, all of the same shape; weights: [f32].
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

XLA_FFI_LIBRARY(attributes, XLA_FFI_HANDLER(filter),
                XLA_FFI_HANDLER(powers).Default("degree", "2"),
                XLA_FFI_HANDLER(weighted_sum));
