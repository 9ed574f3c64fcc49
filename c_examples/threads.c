/* A loop on the host's thread pool: y = exp(x) / sum(exp(x)), over the last dimension. Nobody waits
 * for the tasks, the last of them completes the call. x, y: f32[..., n]. */
#include <math.h>

#include "xla_ffi/handler.h"

typedef struct work {
  xffi_promise* promise;
  const float* x;
  float* y;
  int64_t rows, n;
  int64_t next, left; /* tasks to begin, tasks to finish */
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
  if (x.present && x.rank == 0) xffi_problem(call, "argument 'x': expected rank 1 or more, got 0");
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
    run_task(own); /* no pool, or one that takes no more: do it here */
  }
  return xffi_promise_return(call, promise);
}

XFFI_HOST_HANDLER(softmax, softmax_impl);
