#include "xla_ffi/handler.h"

static XLA_FFI_Error* scale_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float by = xffi_attr_f32_or(call, "by", 2.0f);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] = by * ((const float*)x.data)[i];
  }
  return NULL;
}

XFFI_HOST_HANDLER(scale, scale_impl);
