/* Calls a handler that is linked into the program. */
#include <stdio.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

/* y = x + 1 */
static XLA_FFI_Error* next_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) ((float*)y.data)[i] = ((const float*)x.data)[i] + 1;
  return NULL;
}
XFFI_HOST_HANDLER(next, next_impl);

/* Returns 1 for success. Otherwise prints and destroys the error. */
static int ok(xffi_rt_status* status) {
  if (status == NULL) return 1;
  fprintf(stderr, "%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return 0;
}

int main(void) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, next, NULL};
  const int64_t size = 2;
  float x[2] = {1, 2}, y[2];
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  if (!ok(xffi_rt_create(XFFI_RT_NEWEST, &runtime))) return 1;
  if (!ok(xffi_rt_register(runtime, "next", "Host", &bundle))) return 1;
  if (!ok(xffi_rt_call_create(runtime, "next", "Host", NULL, &call))) return 1;
  if (!ok(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &size, x))) return 1;
  if (!ok(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &size, y))) return 1;
  if (!ok(xffi_rt_call_run(call))) return 1;
  printf("%g %g\n", y[0], y[1]);
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
  return 0;
}
