/* A[i] = B[i % n] + C[i]: the example of XLA's custom-call documents, sizes taken from the buffers.
 * b: f32[n], c: f32[m], a: f32[m]. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* tiled_add_impl(xffi_call* call) {
  xffi_buffer b = xffi_arg(call, "b", XLA_FFI_DataType_F32, 1);
  xffi_buffer c = xffi_arg(call, "c", XLA_FFI_DataType_F32, 1);
  xffi_buffer a = xffi_ret(call, "a", XLA_FFI_DataType_F32, 1);
  const float *pb = (const float*)b.data, *pc = (const float*)c.data;
  float* pa = (float*)a.data;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "c", &c, "a", &a);
  if (b.present && b.count == 0 && c.count > 0) xffi_problem(call, "'b': nothing to tile");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0, k = 0; i < a.count; ++i, k = k + 1 == b.count ? 0 : k + 1) {
    pa[i] = pb[k] + pc[i];
  }
  return NULL;
}

XFFI_HOST_HANDLER(tiled_add, tiled_add_impl);

XFFI_LIBRARY(tiled_add,
             XFFI_DESCRIBE(tiled_add,
                           XFFI_ARGS(XFFI_OPERAND("b", F32, 1), XFFI_OPERAND("c", F32, 1)),
                           XFFI_RETS(XFFI_OPERAND("a", F32, 1)), XFFI_ATTRS(),
                           XFFI_SHAPE("n, m -> m")));
