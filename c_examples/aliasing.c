/* An operand that is argument and result at once: y = a x + y, in place. A call in which argument 1 is not
 * aliased with result 0 is refused. x, y: f32[n]; a: f32. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* axpy_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_inout(call, "y", XLA_FFI_DataType_F32, 1);
  const float a = xffi_attr_f32(call, "a");
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] += a * ((const float*)x.data)[i];
  }
  return NULL;
}

XFFI_HOST_HANDLER(axpy, axpy_impl);

/* The result is the memory of the argument of its name: whoever calls by this description aliases the two. */
XFFI_LIBRARY(aliasing,
             XFFI_DESCRIBE(axpy,
                           XFFI_ARGS(XFFI_OPERAND("x", F32, 1),
                                     XFFI_OPERAND_WITH("y", XFFI_DTYPE(F32), XFFI_RANK(1), XFFI_INOUT)),
                           XFFI_RETS(XFFI_OPERAND_WITH("y", XFFI_DTYPE(F32), XFFI_RANK(1), XFFI_INOUT)),
                           XFFI_ATTRS(XFFI_ATTR("a", f32)), XFFI_SHAPE("n, n -> n"),
                           XFFI_TRAITS("host_only")));
