/* Handlers with state between executions, results that are written after the handler has returned, and loops on the
 * host's thread pool. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L /* declares nanosleep */
#include <pthread.h>
#include <time.h>
#endif
#include <math.h>

#include "xla_ffi/handler.h"

/* A handler with state, which is created when a program is compiled and destroyed with the program. It counts the
 * executions of one call site: start, start + 1, start + 2 … y: s32[]; start: i32. */
/* The state type. The library registers it with each copy of XLA in the process. */
static xffi_type counter_type = XFFI_TYPE("counter_c.Counter", free);

/* Creates the state, once per call site of a compiled program. */
static XLA_FFI_Error* instantiate_impl(xffi_call* call) {
  const int32_t start = xffi_attr_i32(call, "start");
  int32_t* next;
  XLA_FFI_Error* error;
  if (start < 0) xffi_problem(call, "'start' is %d", (int)start);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((next = (int32_t*)malloc(sizeof(*next))) == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  }
  *next = start;
  return xffi_set_state(call, &counter_type, next);
}

/* Runs in each execution, possibly on several threads at once. Every stage receives all attributes. */
static XLA_FFI_Error* counter_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  void* next;
  XLA_FFI_Error* error;
  xffi_attr_i32(call, "start");
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_get_state(call, &counter_type, XLA_FFI_ExecutionStage_INSTANTIATE, &next);
  if (error != NULL) return error;
  *(int32_t*)y.data = __atomic_fetch_add((int32_t*)next, 1, __ATOMIC_RELAXED);
  return NULL;
}

XFFI_HOST_HANDLER_WITH(counter_instantiate, instantiate_impl, XLA_FFI_ExecutionStage_INSTANTIATE,
                  XFFI_R1, 0, &counter_type);
XFFI_HOST_HANDLER_WITH(counter, counter_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, NULL);

#ifndef _WIN32
/* An asynchronous handler: y = 2 x, written by a separate thread after the handler has returned.
 * x, y: f32, both of the same shape; delay_ms: i64. */
/* The data of the thread. After the handler has returned, it may only use the elements at x and y. */
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
#endif

/* A loop on the host's thread pool: y = exp(x) / sum(exp(x)), over the last dimension. No thread waits for the tasks;
 * the last task to finish completes the call. x, y: f32[..., n]. */
typedef struct work {
  xffi_promise* promise;
  const float* x;
  float* y;
  int64_t rows, n;
  int64_t next, left; /* the next task to start, and the number of unfinished tasks */
  int64_t tasks;
} work;

static void softmax_row(const float* x, float* y, int64_t n) {
  float max = x[0], sum = 0;
  int64_t i;
  for (i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  for (i = 0; i < n; ++i) sum += y[i] = expf(x[i] - max);
  for (i = 0; i < n; ++i) y[i] /= sum;
}

static void run_task(void* data) {
  work* own = (work*)data;
  const int64_t task = __atomic_fetch_add(&own->next, 1, __ATOMIC_RELAXED);
  int64_t row = own->rows * task / own->tasks;
  for (; row < own->rows * (task + 1) / own->tasks; ++row) {
    softmax_row(own->x + row * own->n, own->y + row * own->n, own->n);
  }
  if (__atomic_sub_fetch(&own->left, 1, __ATOMIC_ACQ_REL) == 0) {
    xffi_promise_done(own->promise);
    free(own);
  }
}

static XLA_FFI_Error* softmax_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const int64_t n = x.present && x.rank > 0 ? x.dims[x.rank - 1] : 0;
  const int64_t rows = n > 0 ? x.count / n : 0, tasks = rows < 16 ? rows : 16;
  xffi_promise* promise;
  work* own;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if (x.present && x.rank == 0) xffi_problem(call, "argument `x`: expected rank 1 or more, got 0");
  if ((error = xffi_decoded(call)) != NULL) return error;
  if (tasks == 0) return NULL;
  promise = xffi_promise_new(call);
  own = (work*)malloc(sizeof(*own));
  if (promise == NULL || own == NULL) {
    if (promise != NULL) xffi_promise_free(promise);
    free(own);
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  }
  {
    const work filled = {promise, (const float*)x.data, (float*)y.data, rows, n, 0, tasks, tasks};
    *own = filled;
  }
  for (int64_t task = 0; task < tasks; ++task) {
    error = xffi_schedule(call, run_task, own);
    if (error == NULL) continue;
    xffi_error_free(call->api, error);
    run_task(own); /* the host has no pool or a full queue, so the calling thread runs the task */
  }
  return xffi_promise_return(call, promise);
}

XFFI_HOST_HANDLER(softmax, softmax_impl);
