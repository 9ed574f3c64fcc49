/* Elements of less than a byte: w[i, j] = scale[i] * q[i, j], the weights of a quantized layer.
 * q: s4[n, m]; scale: f32[n]; w: f32[n, m]. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* dequantize_impl(xffi_call* call) {
  xffi_buffer q = xffi_arg(call, "q", XLA_FFI_DataType_S4, 2);
  xffi_buffer scale = xffi_arg(call, "scale", XLA_FFI_DataType_F32, 1);
  xffi_buffer w = xffi_ret(call, "w", XLA_FFI_DataType_F32, 2);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "q", &q, "w", &w);
  if (call->problems == 0 && scale.count != q.dims[0]) {
    xffi_problem(call, "'scale': expected %lld elements, got %lld", (long long)q.dims[0],
                 (long long)scale.count);
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < q.count; ++i) {
    /* Two elements a byte, the first in its low bits. */
    const int bits = ((const unsigned char*)q.data)[i / 2] >> (i % 2 * 4) & 15;
    const float value = (float)(bits < 8 ? bits : bits - 16);
    ((float*)w.data)[i] = ((const float*)scale.data)[i / q.dims[1]] * value;
  }
  return NULL;
}

XFFI_HOST_HANDLER(dequantize, dequantize_impl);
