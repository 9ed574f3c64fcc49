/* A program that hosts a handler without XLA: the handler is linked in, the embedded runtime calls
 * it. Build it with the handler's source (tiled_add.c) and libxla_ffi_runtime.a. */
#include <stdio.h>
#include <stdlib.h>

#include "xla_ffi/runtime.h"

XLA_FFI_Error* tiled_add(XLA_FFI_CallFrame* call_frame);

static void check(xffi_rt_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "error %d: %s\n", (int)xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  exit(1);
}

int main(void) {
  float b[3] = {1, 2, 3}, c[6] = {10, 20, 30, 40, 50, 60}, a[6] = {0}, other[6] = {0};
  const int64_t small = 3, large = 6;
  XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, tiled_add, NULL};
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  xffi_rt_status* status;
  int i;

  check(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  check(xffi_rt_register(runtime, "tiled_add", "Host", &bundle, 0));
  check(xffi_rt_call_create(runtime, "tiled_add", "cpu", NULL, &call));
  check(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &small, b));
  check(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &large, c));
  check(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &large, a));
  check(xffi_rt_call_run(call));
  /* The same call on other memory. */
  check(xffi_rt_call_set_ret_data(call, 0, other));
  check(xffi_rt_call_run(call));
  xffi_rt_call_destroy(call);

  /* Without operands the handler says what is missing. */
  check(xffi_rt_call_create(runtime, "tiled_add", "cpu", "{}", &call));
  status = xffi_rt_call_run(call);
  if (status == NULL) return 2;
  printf("%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);

  for (i = 0; i < 6; ++i) {
    if (other[i] != a[i]) return 3;
    printf("%g ", a[i]);
  }
  printf("\n");
  return 0;
}
