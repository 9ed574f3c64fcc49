/* What a handler does with the call that runs it: refused, or done when it returns. */
#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static xffi_rt_call* own;
static int mode, ran;

static XLA_FFI_Error* within_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t run_id, i;
  if (error != NULL) return error;
  if (mode == 0) {
    const char* words = "the call is running";
    const int64_t two = 2;
    xffi_rt_call* clone = NULL;
    CHECK(xffi_rt_call_is_open(own) == 1);
    wrong(xffi_rt_call_run(own), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_start(own), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_wait(own, 0), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_set_run_id(own, 7), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_clear_operands(own), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_set_arg_data(own, 0, y.data), FAILED_PRECONDITION, words);
    wrong(xffi_rt_call_arg(own, XLA_FFI_DataType_F32, 1, &two, y.data), FAILED_PRECONDITION, words);
    /* The same once more is another call. */
    right(xffi_rt_call_clone(own, &clone));
    mode = -1;
    right(xffi_rt_call_run(clone));
    CHECK(xffi_rt_call_is_open(clone) == 0);
    xffi_rt_call_destroy(clone);
  } else if (mode == 1) {
    xffi_rt_call_destroy(own);
    own = NULL;
  }
  error = xffi_run_id(call, &run_id);
  if (error != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = 2 * ((const float*)x.data)[i];
  ++ran;
  return NULL;
}
XFFI_HANDLER(within, within_impl);

int main(void) {
  const int64_t two = 2;
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, within, NULL};
  float x[2] = {1, 2}, y[2];
  xffi_rt* runtime = NULL;
  right(xffi_rt_create(-1, &runtime));
  right(xffi_rt_register(runtime, "within", "Host", &bundle, 0));
  for (mode = 0; mode < 2; ++mode) {
    const int now = mode;
    right(xffi_rt_call_create(runtime, "within", "Host", NULL, &own));
    right(xffi_rt_call_arg(own, XLA_FFI_DataType_F32, 1, &two, x));
    right(xffi_rt_call_ret(own, XLA_FFI_DataType_F32, 1, &two, y));
    y[0] = y[1] = 0;
    right(now == 0 ? xffi_rt_call_run(own) : xffi_rt_call_start(own));
    CHECK(y[0] == 2 && y[1] == 4);
    mode = now;
    if (now == 0) {
      /* And it goes on as before. */
      mode = -1;
      right(xffi_rt_call_set_run_id(own, 7));
      right(xffi_rt_call_run(own));
      CHECK(xffi_rt_call_is_open(own) == 0);
      xffi_rt_call_destroy(own);
      mode = now;
    }
  }
  CHECK(ran == 4);
  xffi_rt_destroy(runtime);
  printf("done\n");
  return 0;
}
