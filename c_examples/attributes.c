/* Handlers with attributes: arrays, an enumeration, a dictionary, and optional attributes. */
#include "xla_ffi/handler.h"

enum { EDGE_ZERO, EDGE_CLAMP, EDGE_WRAP };

static float at(const xffi_buffer* x, int64_t i, int edge) {
  const float* data = (const float*)x->data;
  if (i >= 0 && i < x->count) return data[i];
  switch (edge) {
    case EDGE_CLAMP: return data[i < 0 ? 0 : x->count - 1];
    case EDGE_WRAP: return data[(i % x->count + x->count) % x->count];
    default: return 0;
  }
}

/* y[i] = gain * sum of weights[k] * x[i + k - len(weights) / 2] + offset
 * x, y: f32[n]; weights: [f32]; edge: i32, selects the values of x outside 0 to n - 1, default 0;
 * scale: {gain: f32, offset: optional f32}, optional. */
static XLA_FFI_Error* filter_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  const xffi_f32_array weights = xffi_attr_f32_array(call, "weights");
  const int32_t edge = xffi_attr_i32_or(call, "edge", EDGE_ZERO);
  float gain = 1, offset = 0;
  XLA_FFI_Error* error;
  if (xffi_has_attr(call, "scale")) {
    xffi_dict scale = xffi_attr_dict(call, "scale");
    gain = xffi_dict_f32(call, &scale, "gain");
    offset = xffi_dict_f32_or(call, &scale, "offset", 0);
    xffi_dict_done(call, &scale);
  }
  xffi_same_shape(call, "x", &x, "y", &y);
  if (call->problems == 0 && weights.size == 0) xffi_problem(call, "'weights' is empty");
  if (edge < EDGE_ZERO || edge > EDGE_WRAP) {
    xffi_problem(call, "attribute `edge`: expected 0 to 2, got %d", (int)edge);
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) {
    float sum = 0;
    for (int64_t k = 0, n = (int64_t)weights.size; k < n; ++k) {
      sum += weights.data[k] * at(&x, i + k - n / 2, edge);
    }
    ((float*)y.data)[i] = gain * sum + offset;
  }
  return NULL;
}

XFFI_HOST_HANDLER(filter, filter_impl);

/* A handler with an attribute that determines the size of the result: y[i, k] = x[i] to the power of k.
 * x: f32[n]; y: f32[n, degree + 1]; degree: i64, default 2. */
static XLA_FFI_Error* powers_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 2);
  const int64_t degree = xffi_attr_i64_or(call, "degree", 2);
  float* power = (float*)y.data;
  XLA_FFI_Error* error;
  if (degree < 0 || degree == INT64_MAX) {
    xffi_problem(call, "attribute `degree`: expected a size, got %lld", (long long)degree);
  } else if (call->problems == 0 && (y.dims[0] != x.count || y.dims[1] != degree + 1)) {
    xffi_problem(call, "result `y`: expected dimensions [%lld, %lld], got [%lld, %lld]",
                 (long long)x.count, (long long)degree + 1, (long long)y.dims[0],
                 (long long)y.dims[1]);
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) {
    float value = 1;
    for (int64_t k = 0; k <= degree; ++k, value *= ((const float*)x.data)[i]) *power++ = value;
  }
  return NULL;
}

XFFI_HOST_HANDLER(powers, powers_impl);

/* A weighted sum of any number of arguments, with one weight per argument: y = sum of weights[k] * xs[k].
 * xs, y: f32, all of the same shape; weights: [f32]. */
static XLA_FFI_Error* weighted_sum_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const xffi_f32_array weights = xffi_attr_f32_array(call, "weights");
  const int64_t first = call->next_arg, count = xffi_args_left(call);
  XLA_FFI_Error* error;
  if (count != (int64_t)weights.size) {
    xffi_problem(call, "%lld arrays, but %lld 'weights'", (long long)count,
                 (long long)weights.size);
  }
  while (xffi_args_left(call) > 0) {
    xffi_buffer x = xffi_arg(call, "xs", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
    xffi_same_shape(call, "xs", &x, "y", &y);
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < y.count; ++i) ((float*)y.data)[i] = 0;
  call->next_arg = first; /* fetch the arguments again, now that all are known to be valid */
  for (int64_t k = 0; k < count; ++k) {
    xffi_buffer x = xffi_arg(call, "xs", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
    for (int64_t i = 0; i < y.count; ++i) {
      ((float*)y.data)[i] += weights.data[k] * ((const float*)x.data)[i];
    }
  }
  return NULL;
}

XFFI_HOST_HANDLER(weighted_sum, weighted_sum_impl);
