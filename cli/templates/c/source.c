/* y = factor x, element by element. x, y: f32[...]; factor: f32. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* scale_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float factor = xffi_attr_f32(call, "factor");
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) ((float*)y.data)[i] = factor * ((const float*)x.data)[i];
  return NULL;
}

XFFI_HOST_HANDLER(scale, scale_impl);

/* Tools and the JAX loader read this description. */
XFFI_LIBRARY(@NAME@,
             XFFI_DESCRIBE(scale, XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)), XFFI_RETS(XFFI_OPERAND("y", F32, ANY)),
                           XFFI_ATTRS(XFFI_ATTR("factor", f32)), XFFI_SHAPE("... -> ..."), XFFI_TRAITS("host_only")));
