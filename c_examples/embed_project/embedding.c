/* A program that links a handler and calls it from threads, without XLA. See docs/embedding.md; the
 * CMakeLists.txt and Makefile in this folder build it with an installed SDK. */
#include <pthread.h>
#include <stdio.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

/* --- a handler --------------------------------------------------------------------------------- */

/* User data that the program passes to its handlers. Change the type's name if the layout changes. */
typedef struct factor {
  float by;
} factor;
static xffi_type factor_type = XFFI_SHARED_TYPE("my_server.factor.v1", NULL);

/* Computes y = by * x. */
static XLA_FFI_Error* scale_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  void* object = NULL;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_find_user_data(call, &factor_type, &object)) != NULL) return error;
  if (object == NULL) return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "no factor");
  for (int64_t i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] = ((const factor*)object)->by * ((const float*)x.data)[i];
  }
  return NULL;
}
XFFI_HOST_HANDLER(scale, scale_impl);

/* Blocks the handler `late` until the program's time limit has expired. */
static pthread_mutex_t patience = PTHREAD_MUTEX_INITIALIZER;

static void* end_late(void* promise) {
  pthread_mutex_lock(&patience);
  pthread_mutex_unlock(&patience);
  xffi_promise_done((xffi_promise*)promise);
  return NULL;
}

static XLA_FFI_Error* late_impl(xffi_call* call) {
  XLA_FFI_Error* error = xffi_decoded(call);
  xffi_promise* promise;
  pthread_t thread;
  if (error != NULL) return error;
  promise = xffi_promise_new(call);
  if (promise == NULL || pthread_create(&thread, NULL, end_late, promise) != 0) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no thread");
  }
  pthread_detach(thread);
  return xffi_promise_return(call, promise);
}
XFFI_HOST_HANDLER(late, late_impl);

/* --- the program ------------------------------------------------------------------------------- */

/* Returns 1 for success; otherwise prints and destroys the error, and returns 0. */
static int ok(xffi_rt_status* status) {
  if (status == NULL) return 1;
  fprintf(stderr, "error %d: %s\n", (int)xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return 0;
}

enum { THREADS = 4, CALLS = 25000 };

/* A thread's data. Only one thread at a time may use a call, so each thread has a clone with its own
 * memory. */
typedef struct worker {
  xffi_rt_call* call;
  float x[2], y[2];
  int failed;
} worker;

static void* work(void* data) {
  worker* own = (worker*)data;
  own->failed = !ok(xffi_rt_call_set_arg_data(own->call, 0, own->x)) ||
                !ok(xffi_rt_call_set_ret_data(own->call, 0, own->y));
  for (int i = 0; i < CALLS && !own->failed; ++i) {
    own->x[0] = (float)i;
    own->failed = !ok(xffi_rt_call_run(own->call)) || own->y[0] != 3 * (float)i;
  }
  return NULL;
}

int main(void) {
  const XLA_FFI_Handler_Bundle scales = {NULL, NULL, NULL, scale, NULL};
  const XLA_FFI_Handler_Bundle lates = {NULL, NULL, NULL, late, NULL};
  const int64_t two = 2;
  factor three = {3};
  float x[2] = {1, 2}, y[2] = {0, 0};
  xffi_rt* runtime = NULL;
  xffi_rt_user_data* data = NULL;
  xffi_rt_call* call = NULL;
  xffi_rt_status* status;
  worker workers[THREADS] = {{NULL, {0, 0}, {0, 0}, 0}};
  pthread_t threads[THREADS];

  /* Registers the handlers. The runtime makes the same metadata queries as a real XLA. */
  if (!ok(xffi_rt_create(XFFI_RT_NEWEST, &runtime))) return 1;
  if (!ok(xffi_rt_register(runtime, "my_server.scale", "Host", &scales))) return 1;
  if (!ok(xffi_rt_register(runtime, "my_server.late", "Host", &lates))) return 1;

  /* Creates a call with fixed shapes, which can run many times. */
  if (!ok(xffi_rt_call_create(runtime, "my_server.scale", "Host", NULL, &call))) return 2;
  if (!ok(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &two, x))) return 2;
  if (!ok(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &two, y))) return 2;

  /* A failed run returns a status with a code and a message. */
  status = xffi_rt_call_run(call);
  if (xffi_rt_status_code(status) != XLA_FFI_Error_Code_NOT_FOUND) return 3;
  printf("as expected: %s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);

  /* Adds user data without a deleter, because the program owns the object. */
  if (!ok(xffi_rt_user_data_create(runtime, &data))) return 4;
  if (!ok(xffi_rt_user_data_add(data, "my_server.factor.v1", sizeof three, &three, NULL))) return 4;
  if (!ok(xffi_rt_call_set_user_data(call, data))) return 4;
  xffi_rt_user_data_destroy(data); /* the call keeps the data */
  if (!ok(xffi_rt_call_run(call)) || y[0] != 3 || y[1] != 6) return 4;

  /* Each thread runs its own clone of the call. */
  for (int i = 0; i < THREADS; ++i) {
    if (!ok(xffi_rt_call_clone(call, &workers[i].call))) return 5;
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) return 5;
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    xffi_rt_call_destroy(workers[i].call);
    if (workers[i].failed) return 5;
  }
  xffi_rt_call_destroy(call);

  /* At the time limit, xffi_rt_call_run returns an error, but the call stays open until its handler is
   * done. */
  if (!ok(xffi_rt_call_create(runtime, "my_server.late", "Host", NULL, &call))) return 6;
  if (!ok(xffi_rt_call_set_time_limit(call, 100))) return 6;
  pthread_mutex_lock(&patience);
  status = xffi_rt_call_run(call);
  if (xffi_rt_status_code(status) != XLA_FFI_Error_Code_DEADLINE_EXCEEDED) return 6;
  xffi_rt_status_destroy(status);
  if (!xffi_rt_call_is_open(call)) return 6;
  pthread_mutex_unlock(&patience);
  if (!ok(xffi_rt_call_wait(call, -1))) return 6;
  xffi_rt_call_destroy(call);

  xffi_rt_destroy(runtime);
  printf("%d calls from %d threads\n", THREADS * CALLS, THREADS);
  return 0;
}
