/* Any number of operands: y = sum of weights[k] * xs[k], for arrays of one shape.
 * xs, y: f32 of one shape; weights: [f32]. */
#include "xla_ffi/handler.h"

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
  call->next_arg = first; /* all is checked: take them once more */
  for (int64_t k = 0; k < count; ++k) {
    xffi_buffer x = xffi_arg(call, "xs", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
    for (int64_t i = 0; i < y.count; ++i) {
      ((float*)y.data)[i] += weights.data[k] * ((const float*)x.data)[i];
    }
  }
  return NULL;
}

XFFI_HOST_HANDLER(weighted_sum, weighted_sum_impl);
