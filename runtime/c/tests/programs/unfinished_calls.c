/* Tests calls that exceed their time limit: when the caller may free the operands' data. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

/* State shared with the handlers' threads: how far the handlers may continue, and the number of
 * calls whose end was reported. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int released = 0, told = 0;

static void set(int* what, int value) {
  pthread_mutex_lock(&mutex);
  *what = value;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static void await(const int* what, int value) {
  pthread_mutex_lock(&mutex);
  while (*what < value) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

/* A handler's work: a different thread writes y = 2 x when the test allows it. The work fails if
 * x[0] is negative. */
typedef struct job {
  xffi_promise* promise;
  const float* x;
  float* y;
  int64_t count;
} job;

static void* work(void* data) {
  job own = *(job*)data;
  int64_t i;
  free(data);
  await(&released, 1);
  for (i = 0; i < own.count; ++i) own.y[i] = 2 * own.x[i];
  if (own.x[0] < 0) {
    xffi_promise_fail(own.promise, XLA_FFI_Error_Code_ABORTED, "too late");
  } else {
    xffi_promise_done(own.promise);
  }
  return NULL;
}

static XLA_FFI_Error* late_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  xffi_promise* promise;
  pthread_t thread;
  job* own;
  if (error != NULL) return error;
  own = (job*)malloc(sizeof(*own));
  promise = xffi_promise_new(call);
  CHECK(own != NULL && promise != NULL);
  own->promise = promise;
  own->x = (const float*)x.data;
  own->y = (float*)y.data;
  own->count = x.count;
  CHECK(pthread_create(&thread, NULL, work, own) == 0);
  pthread_detach(thread);
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER(late, late_impl);

/* A call that has exceeded its time limit, with its operands on the heap. */
typedef struct open {
  xffi_rt* runtime;
  xffi_rt_call* call;
  float *x, *y;
} open;

static open start(float first) {
  XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, late, NULL};
  const int64_t dims = 1000;
  open it = {NULL, NULL, NULL, NULL};
  int i;
  set(&released, 0);
  it.x = (float*)malloc(1000 * sizeof(float));
  it.y = (float*)malloc(1000 * sizeof(float));
  CHECK(it.x != NULL && it.y != NULL);
  for (i = 0; i < 1000; ++i) it.x[i] = first + (float)i;
  right(xffi_rt_create(XFFI_RT_NEWEST, &it.runtime));
  right(xffi_rt_register(it.runtime, "late", "Host", &bundle));
  right(xffi_rt_call_create(it.runtime, "late", "cpu", NULL, &it.call));
  right(xffi_rt_call_arg(it.call, XLA_FFI_DataType_F32, 1, &dims, it.x));
  right(xffi_rt_call_ret(it.call, XLA_FFI_DataType_F32, 1, &dims, it.y));
  right(xffi_rt_call_set_time_limit(it.call, 20));
  CHECK(!xffi_rt_call_is_open(it.call));
  right(xffi_rt_call_wait(it.call, -1)); /* The call is not open, so there is no wait. */
  wrong(xffi_rt_call_run(it.call), DEADLINE_EXCEEDED, "late (execute)");
  CHECK(xffi_rt_call_is_open(it.call));
  return it;
}

static void end(open it) {
  CHECK(it.y[0] == 2 * it.x[0] && it.y[999] == 2 * it.x[999]);
  xffi_rt_call_destroy(it.call);
  xffi_rt_destroy(it.runtime);
  free(it.x);
  free(it.y);
}

/* The handler no longer uses the operands, so they are freed immediately. */
static void free_data(void* data) {
  open* it = (open*)data;
  CHECK(it->y[999] == 2 * it->x[999]);
  free(it->x);
  free(it->y);
  set(&told, told + 1);
}

/* Waits for all calls, including the call that has just ended. A time limit ensures that the
 * test ends. */
static void wait_for_calls(void* data) {
  right(xffi_rt_wait_for_calls(((open*)data)->runtime, 20000));
  set(&told, told + 1);
}

static void shut_down(void* data) {
  right(xffi_rt_shutdown(((open*)data)->runtime, 20000));
  set(&told, told + 1);
}

static void count(void* data) {
  CHECK(data == NULL);
  set(&told, told + 1);
}

int main(void) {
  float other[1000];
  open it;

  /* After a successful wait, the call can run again. */
  it = start(1);
  wrong(xffi_rt_call_run(it.call), FAILED_PRECONDITION, "not over");
  wrong(xffi_rt_call_wait(it.call, 0), DEADLINE_EXCEEDED, "late (execute)");
  wrong(xffi_rt_call_wait(it.call, 5), DEADLINE_EXCEEDED, "is open");
  right(xffi_rt_call_on_end(it.call, count, NULL));
  CHECK(told == 0);
  set(&released, 1);
  right(xffi_rt_call_wait(it.call, -1));
  await(&told, 1);
  CHECK(!xffi_rt_call_is_open(it.call));
  right(xffi_rt_call_wait(it.call, 0));
  right(xffi_rt_call_on_end(it.call, count, NULL));
  CHECK(told == 2);
  right(xffi_rt_call_set_time_limit(it.call, -1)); /* This limit applies to the next runs. */
  right(xffi_rt_call_run(it.call));
  end(it);

  /* A handler's error that occurs after the time limit is returned by the next wait. */
  it = start(-1);
  set(&released, 1);
  wrong(xffi_rt_call_wait(it.call, -1), ABORTED, "too late");
  end(it);

  /* The next run uses new operands. */
  it = start(1);
  right(xffi_rt_call_set_ret_data(it.call, 0, other));
  wrong(xffi_rt_call_run(it.call), FAILED_PRECONDITION, "open");
  wrong(xffi_rt_call_set_run_id(it.call, 1), FAILED_PRECONDITION, "open");
  set(&released, 1);
  right(xffi_rt_call_wait(it.call, -1));
  CHECK(it.y[999] == 2 * it.x[999]);
  right(xffi_rt_call_set_time_limit(it.call, -1));
  right(xffi_rt_call_run(it.call));
  CHECK(other[999] == 2 * it.x[999]);
  end(it);

  /* The call is destroyed before its handler has written the result. The operands must exist
   * until the callback; other data is kept by the library. */
  it = start(1);
  right(xffi_rt_call_on_end(it.call, free_data, &it));
  told = 0;
  xffi_rt_call_destroy(it.call);
  xffi_rt_destroy(it.runtime);
  set(&released, 1);
  await(&told, 1);

  /* A callback may wait for the data of calls that were destroyed while open, in any order of
   * the callbacks. */
  it = start(1);
  right(xffi_rt_call_on_end(it.call, wait_for_calls, &it));
  right(xffi_rt_call_on_end(it.call, shut_down, &it));
  told = 0;
  xffi_rt_call_destroy(it.call);
  set(&released, 1);
  await(&told, 2);
  CHECK(it.y[999] == 2 * it.x[999]);
  xffi_rt_destroy(it.runtime);
  free(it.x);
  free(it.y);

  /* The library frees its data of the call, and other calls continue. */
  it = start(1);
  set(&released, 1);
  right(xffi_rt_call_wait(it.call, -1));
  end(it);

  wrong(xffi_rt_call_wait(NULL, 0), INVALID_ARGUMENT, "call");
  wrong(xffi_rt_call_on_end(NULL, count, NULL), INVALID_ARGUMENT, "call");
  CHECK(!xffi_rt_call_is_open(NULL));
  printf("done\n");
  return 0;
}
