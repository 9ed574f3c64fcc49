/* What a program needs that runs for long: cancellation, time limits, waiting for calls, counters, its log, its own
 * threads, other shapes, and an end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static void nap(void) {
  const struct timespec one = {0, 1000000};
  nanosleep(&one, NULL);
}

/* 1 while a handler is inside. */
static int begun = 0;
static void set_begun(int value) { __atomic_store_n(&begun, value, __ATOMIC_RELEASE); }
static int get_begun(void) { return __atomic_load_n(&begun, __ATOMIC_ACQUIRE); }

/* Works until nobody wants the result any more. */
static XLA_FFI_Error* endless_impl(xffi_call* call) {
  xffi_cancellation cancellation = xffi_cancellation_of(call->api, call->ctx);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  set_begun(1);
  while (!xffi_is_cancelled(&cancellation)) nap();
  set_begun(0);
  return xffi_error(call, XLA_FFI_Error_Code_ABORTED, "gave up");
}
XFFI_HANDLER(endless, endless_impl);

typedef struct job {
  xffi_promise* promise;
  xffi_cancellation cancellation;
} job;

/* As above, on a thread of its own, after the handler has returned. */
static void* late_work(void* data) {
  job own = *(job*)data;
  int i;
  free(data);
  set_begun(1);
  while (!xffi_is_cancelled(&own.cancellation)) nap();
  /* Whoever waited until the deadline has gone by then. */
  for (i = 0; i < 200; ++i) nap();
  xffi_cancellation_release(&own.cancellation);
  set_begun(0);
  xffi_promise_fail(own.promise, XLA_FFI_Error_Code_ABORTED, "gave up late");
  return NULL;
}

static XLA_FFI_Error* late_impl(xffi_call* call) {
  XLA_FFI_Error* error = xffi_decoded(call);
  xffi_promise* promise;
  pthread_t thread;
  job* own;
  if (error != NULL) return error;
  own = (job*)malloc(sizeof(*own));
  promise = xffi_promise_new(call);
  CHECK(own != NULL && promise != NULL);
  own->promise = promise;
  own->cancellation = xffi_cancellation_of(call->api, call->ctx);
  xffi_cancellation_retain(&own->cancellation);
  CHECK(pthread_create(&thread, NULL, late_work, own) == 0);
  pthread_detach(thread);
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER(late, late_impl);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

typedef struct sums {
  const float* x;
  int64_t count;
  float sum;
  int finished;
} sums;

static void add_up(void* data) {
  sums* own = (sums*)data;
  int64_t i;
  pthread_mutex_lock(&lock);
  for (i = 0; i < own->count; ++i) own->sum += own->x[i];
  own->finished = 1;
  pthread_cond_broadcast(&done);
  pthread_mutex_unlock(&lock);
}

/* y = the sum of x, on the thread pool; y[1] = how many threads it has. */
static XLA_FFI_Error* total_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t threads;
  sums own = {NULL, 0, 0, 0};
  if (error != NULL) return error;
  if ((error = xffi_num_threads(call, &threads)) != NULL) return error;
  own.x = (const float*)x.data;
  own.count = x.count;
  if ((error = xffi_schedule(call, add_up, &own)) != NULL) return error;
  pthread_mutex_lock(&lock);
  while (!own.finished) pthread_cond_wait(&done, &lock);
  pthread_mutex_unlock(&lock);
  ((float*)y.data)[0] = own.sum;
  ((float*)y.data)[1] = (float)threads;
  return NULL;
}
XFFI_HANDLER(total, total_impl);

static xffi_rt_call* call_of(xffi_rt* runtime, XLA_FFI_Handler* handler, const char* name) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, handler, NULL};
  xffi_rt_call* call = NULL;
  right(xffi_rt_register(runtime, name, "Host", &bundle));
  right(xffi_rt_call_create(runtime, name, "cpu", NULL, &call));
  return call;
}

static void* run_and_be_cancelled(void* data) {
  wrong((xffi_rt_call_run((xffi_rt_call*)data)), ABORTED, "gave up");
  return NULL;
}

static void cancelled(xffi_rt* runtime) {
  xffi_rt_call* call = call_of(runtime, endless, "endless");
  xffi_rt_canceller* canceller = NULL;
  pthread_t thread;
  right(xffi_rt_canceller_create(&canceller));
  right(xffi_rt_call_set_canceller(call, canceller));
  CHECK(pthread_create(&thread, NULL, run_and_be_cancelled, call) == 0);
  while (!get_begun()) nap();
  /* It is named, and cancelled from another thread. */
  wrong(xffi_rt_wait_for_calls(runtime, 5), DEADLINE_EXCEEDED,
        "1 of 'endless' (the handler has not returned)");
  right(xffi_rt_canceller_cancel(canceller));
  CHECK(pthread_join(thread, NULL) == 0);
  right(xffi_rt_wait_for_calls(runtime, -1));
  wrong(xffi_rt_call_run(call), CANCELLED, "before it started");
  xffi_rt_canceller_destroy(canceller);
  xffi_rt_canceller_destroy(NULL);
  /* A handler that does not return sees its time limit, and so does the next run. */
  right(xffi_rt_call_set_canceller(call, NULL));
  right(xffi_rt_call_set_time_limit(call, 300));
  wrong(xffi_rt_call_run(call), ABORTED, "gave up");
  wrong(xffi_rt_call_run(call), ABORTED, "gave up");
  xffi_rt_call_destroy(call);
  wrong(xffi_rt_canceller_cancel(NULL), INVALID_ARGUMENT, "canceller");
  wrong(xffi_rt_canceller_create(NULL), INVALID_ARGUMENT, "out-parameter");
}

static void open_past_its_time_limit(xffi_rt* runtime) {
  xffi_rt_call* call = call_of(runtime, late, "late");
  right(xffi_rt_call_set_time_limit(call, 300));
  wrong(xffi_rt_call_run(call), DEADLINE_EXCEEDED, "late (execute)");
  /* The time limit has cancelled it. */
  wrong(xffi_rt_call_wait(call, -1), ABORTED, "gave up late");
  xffi_rt_call_destroy(call);
}

static void* task_thread(void* data) {
  void** both = (void**)data;
  XLA_FFI_Task* task;
  memcpy(&task, &both[0], sizeof(task));
  task(both[1]);
  free(both);
  return NULL;
}

static void on_my_thread(void* user, XLA_FFI_Task* task, void* data) {
  void** both = (void**)malloc(2 * sizeof(void*));
  pthread_t thread;
  CHECK(both != NULL);
  memcpy(&both[0], &task, sizeof(task));
  both[1] = data;
  ++*(int*)user;
  CHECK(pthread_create(&thread, NULL, task_thread, both) == 0);
  pthread_detach(thread);
}

typedef struct seen {
  uint64_t calls, errors, nanoseconds;
  int handlers;
} seen;

static void counted(void* user, const char* name, uint64_t calls, uint64_t errors,
                    uint64_t nanoseconds) {
  seen* all = (seen*)user;
  if (strcmp(name, "total") == 0) {
    all->calls = calls;
    all->errors = errors;
    all->nanoseconds = nanoseconds;
  }
  ++all->handlers;
}

static void own_threads_shapes_and_counters(xffi_rt* runtime) {
  xffi_rt_call* call = call_of(runtime, total, "total");
  float x[4] = {1, 2, 3, 4}, y[2] = {0, 0};
  const int64_t four = 4, three = 3, two = 2;
  seen all = {0, 0, 0, 0};
  int tasks = 0;
  right(xffi_rt_counts(runtime, counted, &all));
  CHECK(all.handlers == 0);
  right(xffi_rt_count_calls(runtime, 1));
  right(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &four, x));
  right(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &two, y));
  right(xffi_rt_call_run(call));
  CHECK(y[0] == 10 && y[1] == 3 && tasks == 0);
  wrong(xffi_rt_call_set_executor(call, on_my_thread, 0, &tasks), INVALID_ARGUMENT, "0 threads");
  wrong(xffi_rt_call_set_executor(call, on_my_thread, (size_t)1 << 40, &tasks), INVALID_ARGUMENT,
        "there are 1 to 1024");
  right(xffi_rt_call_set_executor(call, on_my_thread, 7, &tasks));
  right(xffi_rt_call_run(call));
  CHECK(y[0] == 10 && y[1] == 7 && tasks == 1);
  /* Another shape. */
  wrong(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &three, x), FAILED_PRECONDITION,
        "xffi_rt_call_clear_operands");
  right(xffi_rt_call_clear_operands(call));
  right(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &three, x));
  right(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &two, y));
  right(xffi_rt_call_run(call));
  CHECK(y[0] == 6 && tasks == 2);
  wrong(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &three, x), FAILED_PRECONDITION, "added");
  right(xffi_rt_call_clear_operands(call));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  wrong(xffi_rt_call_clear_operands(NULL), INVALID_ARGUMENT, "call");
  right(xffi_rt_counts(runtime, counted, &all));
  CHECK(all.handlers == 1 && all.calls == 4 && all.errors == 1 && all.nanoseconds > 0);
  right(xffi_rt_count_calls(runtime, 0));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  right(xffi_rt_counts(runtime, counted, &all));
  CHECK(all.calls == 4);
  wrong(xffi_rt_counts(runtime, NULL, NULL), INVALID_ARGUMENT, "told");
  xffi_rt_call_destroy(call);
}

static void logged(void* user, int level, const char* text) {
  char* all = (char*)user;
  CHECK(level == XFFI_RT_LOG_INFO);
  strncat(all, text, 1000 - strlen(all));
}

/* A logger that uses the library, while another thread waits for it to be over. */
typedef struct {
  xffi_rt* runtime;
  pthread_t other;
  int times;
} nested;

static void* set_no_logger(void* data) {
  (void)data;
  right(xffi_rt_set_logger(NULL, NULL));
  return NULL;
}

static void logs_itself(void* user, int level, const char* text) {
  nested* own = (nested*)user;
  const struct timespec nap = {0, 100000000};
  xffi_rt_call* call = NULL;
  (void)level;
  (void)text;
  CHECK(++own->times == 1);
  CHECK(pthread_create(&own->other, NULL, set_no_logger, NULL) == 0);
  nanosleep(&nap, NULL);
  wrong(xffi_rt_set_logger(NULL, NULL), FAILED_PRECONDITION, "its own call");
  right(xffi_rt_call_create(own->runtime, "total", "cpu", NULL, &call));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  xffi_rt_call_destroy(call);
}

/* Frames are told, as XLA_FFI_PRINT_FRAMES asks, to whom the program names. */
static int its_log(xffi_rt* runtime) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, total, NULL};
  xffi_rt_call* call = NULL;
  char text[1024] = "";
  nested own = {NULL, 0, 0};
  own.runtime = runtime;
  right(xffi_rt_register(runtime, "total", "Host", &bundle));
  right(xffi_rt_call_create(runtime, "total", "cpu", NULL, &call));
  right(xffi_rt_set_logger(logged, text));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  CHECK(strstr(text, "call frame, execute stage") != NULL);
  text[0] = '\0';
  right(xffi_rt_set_logger(NULL, NULL));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  CHECK(text[0] == '\0');
  right(xffi_rt_set_logger(logs_itself, &own));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "`x`");
  CHECK(pthread_join(own.other, NULL) == 0 && own.times == 1);
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
  printf("logged\n");
  return 0;
}

static void* run_to_the_end(void* data) {
  xffi_rt_status* status = xffi_rt_call_run((xffi_rt_call*)data);
  wrong(status, ABORTED, "gave up");
  return NULL;
}

static void ended(xffi_rt* runtime) {
  xffi_rt_call* inside = call_of(runtime, endless, "endless");
  xffi_rt_call* open = call_of(runtime, late, "late");
  pthread_t thread;
  wrong(xffi_rt_shutdown(runtime, -1), INVALID_ARGUMENT, "a limit");
  right(xffi_rt_call_start(open));
  CHECK(xffi_rt_call_is_open(open));
  while (!get_begun()) nap();
  set_begun(0);
  CHECK(pthread_create(&thread, NULL, run_to_the_end, inside) == 0);
  while (!get_begun()) nap();
  wrong(xffi_rt_wait_for_calls(runtime, 0), DEADLINE_EXCEEDED,
        "1 of 'endless' (the handler has not returned), 1 of 'late' (its future is open)");
  /* Both are told, and both give up. */
  right(xffi_rt_shutdown(runtime, 20000));
  CHECK(pthread_join(thread, NULL) == 0);
  wrong(xffi_rt_call_wait(open, -1), ABORTED, "gave up late");
  wrong(xffi_rt_call_run(inside), FAILED_PRECONDITION, "was shut down");
  wrong(xffi_rt_call_start(open), FAILED_PRECONDITION, "was shut down");
  right(xffi_rt_shutdown(runtime, 0));
  xffi_rt_call_destroy(inside);
  xffi_rt_call_destroy(open);
  wrong(xffi_rt_shutdown(NULL, 0), INVALID_ARGUMENT, "runtime");
}

int main(int argc, char** argv) {
  xffi_rt* runtime = NULL;
  right(xffi_rt_create_with_threads(XFFI_RT_NEWEST, 3, &runtime));
  if (argc > 1 && strcmp(argv[1], "log") == 0) return its_log(runtime);
  own_threads_shapes_and_counters(runtime);
  cancelled(runtime);
  open_past_its_time_limit(runtime);
  ended(runtime);
  xffi_rt_destroy(runtime);
  printf("all ended\n");
  return 0;
}
