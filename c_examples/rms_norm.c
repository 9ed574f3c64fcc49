/* Handlers for RMS normalisation over the last dimension, and for its gradient. x, y, g, dx: f32[..., n];
 * eps: f32, default 1e-5. */
#include <math.h>

#include "xla_ffi/handler.h"

static float mean_product(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum / (float)n;
}

/* Computes y = x / sqrt(mean(x^2) + eps). */
static XLA_FFI_Error* rms_norm_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float eps = xffi_attr_f32_or(call, "eps", 1e-5f);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if (x.present && x.rank == 0) xffi_problem(call, "argument `x`: expected rank 1 or more, got 0");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t n = x.dims[x.rank - 1], row = 0; row < x.count; row += n) {
    const float* in = (const float*)x.data + row;
    float* out = (float*)y.data + row;
    const float scale = 1 / sqrtf(mean_product(in, in, n) + eps);
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] * scale;
  }
  return NULL;
}

/* Computes the gradient dx = s (g - x s^2 mean(g x)), with s = 1 / sqrt(mean(x^2) + eps) and the gradient g
 * of y. */
static XLA_FFI_Error* rms_norm_backward_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer g = xffi_arg(call, "g", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer dx = xffi_ret(call, "dx", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float eps = xffi_attr_f32_or(call, "eps", 1e-5f);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "g", &g);
  xffi_same_shape(call, "x", &x, "dx", &dx);
  if (x.present && x.rank == 0) xffi_problem(call, "argument `x`: expected rank 1 or more, got 0");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t n = x.dims[x.rank - 1], row = 0; row < x.count; row += n) {
    const float *in = (const float*)x.data + row, *slope = (const float*)g.data + row;
    float* out = (float*)dx.data + row;
    const float scale = 1 / sqrtf(mean_product(in, in, n) + eps);
    const float pull = scale * scale * mean_product(in, slope, n);
    for (int64_t i = 0; i < n; ++i) out[i] = scale * (slope[i] - in[i] * pull);
  }
  return NULL;
}

XFFI_HOST_HANDLER(rms_norm, rms_norm_impl);
XFFI_HOST_HANDLER(rms_norm_backward, rms_norm_backward_impl);

#define ARRAY(name) XFFI_OPERAND(name, F32, ANY)
#define EPS XFFI_ATTRS(XFFI_DEFAULT_ATTR("eps", f32, 1e-5))

/* The library's manifest, for tools and the JAX loader. Without a manifest, callers must name the symbol of
 * each handler. */
XFFI_LIBRARY(rms_norm,
             XFFI_DESCRIBE(rms_norm, XFFI_ARGS(ARRAY("x")), XFFI_RETS(ARRAY("y")), EPS,
                           XFFI_SHAPE("... n -> ... n"), XFFI_VJP("rms_norm_backward")),
             XFFI_DESCRIBE(rms_norm_backward, XFFI_ARGS(ARRAY("x"), ARRAY("g")),
                           XFFI_RETS(ARRAY("dx")), EPS, XFFI_SHAPE("... n, ... n -> ... n")));
