/* A handler that returns before its result is there: y = 2 x, written by another thread.
 * x, y: f32 of one shape; delay_ms: i64. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <pthread.h>
#include <time.h>

#include "xla_ffi/handler.h"

/* What the thread needs. Of a call only the memory behind `data` stays after the handler returned. */
typedef struct job {
  xffi_promise* promise;
  const float* x;
  float* y;
  int64_t count;
  struct timespec delay;
} job;

static void* run(void* data) {
  job* own = (job*)data;
  nanosleep(&own->delay, NULL);
  for (int64_t i = 0; i < own->count; ++i) own->y[i] = 2 * own->x[i];
  xffi_promise_done(own->promise);
  free(own);
  return NULL;
}

static XLA_FFI_Error* double_later_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const int64_t ms = xffi_attr_i64(call, "delay_ms");
  xffi_promise* promise;
  job* own;
  pthread_t thread;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if (ms < 0) xffi_problem(call, "'delay_ms' is negative");
  if ((error = xffi_decoded(call)) != NULL) return error;
  promise = xffi_promise_new(call);
  own = (job*)malloc(sizeof(*own));
  if (promise != NULL && own != NULL) {
    const job filled = {promise, (const float*)x.data, (float*)y.data, x.count,
                        {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}};
    *own = filled;
    if (pthread_create(&thread, NULL, run, own) == 0) {
      pthread_detach(thread);
      return xffi_promise_return(call, promise);
    }
  }
  if (promise != NULL) xffi_promise_free(promise);
  free(own);
  return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory or no thread");
}

XFFI_HOST_HANDLER(double_later, double_later_impl);
