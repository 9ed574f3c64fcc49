/* What must not be done: data are freed while their call is open. The handler then reads and writes memory that is
 * nobody's, or somebody else's, and no status can tell; valgrind does. `freed` does it, `freed waits` does not. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

static int released = 0;

typedef struct job {
  xffi_promise* promise;
  const float* x;
  float* y;
} job;

static void* work(void* data) {
  const struct timespec one = {0, 1000000};
  job own = *(job*)data;
  free(data);
  while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE)) nanosleep(&one, NULL);
  *own.y = 2 * *own.x;
  xffi_promise_done(own.promise);
  return NULL;
}

static XLA_FFI_Error* late_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 0);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 0);
  XLA_FFI_Error* error = xffi_decoded(call);
  job own, *kept;
  pthread_t thread;
  if (error != NULL) return error;
  own.promise = xffi_promise_new(call);
  own.x = (const float*)x.data;
  own.y = (float*)y.data;
  kept = (job*)malloc(sizeof(*kept));
  if (kept == NULL || own.promise == NULL) abort();
  *kept = own;
  if (pthread_create(&thread, NULL, work, kept) != 0) abort();
  pthread_detach(thread);
  return xffi_promise_return(call, own.promise);
}
XFFI_HANDLER(late, late_impl);

int main(int argc, char** argv) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, late, NULL};
  float* x = (float*)calloc(4, sizeof(float));
  float* y = (float*)calloc(4, sizeof(float));
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  (void)argv;
  if (xffi_rt_create(XFFI_RT_NEWEST, &runtime) != NULL ||
      xffi_rt_register(runtime, "late", "Host", &bundle, 0) != NULL ||
      xffi_rt_call_create(runtime, "late", "cpu", NULL, &call) != NULL ||
      xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 0, NULL, x) != NULL ||
      xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 0, NULL, y) != NULL ||
      xffi_rt_call_start(call) != NULL || !xffi_rt_call_is_open(call)) {
    return 1;
  }
  if (argc == 1) { /* Too early. */
    free(x);
    free(y);
  }
  __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
  xffi_rt_call_destroy(call);
  if (xffi_rt_shutdown(runtime, 60000) != NULL) return 2;
  if (argc > 1) {
    free(x);
    free(y);
  }
  xffi_rt_destroy(runtime);
  printf("done\n");
  return 0;
}
