/* Tests functions for long-running programs: cancellation, time limits, waiting for calls,
 * counters, logging, executors, changing shapes, and shutdown. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/program.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static void nap(void) {
  const struct timespec one = {0, 1000000};
  nanosleep(&one, NULL);
}

/* Set to 1 while a handler is running. */
static int begun = 0;
static void set_begun(int value) { __atomic_store_n(&begun, value, __ATOMIC_RELEASE); }
static int get_begun(void) { return __atomic_load_n(&begun, __ATOMIC_ACQUIRE); }

/* A handler that runs until the call is cancelled. */
static XLA_FFI_Error* endless_impl(xffi_call* call) {
  xffi_cancellation cancellation = xffi_cancellation_of(call->api, call->ctx);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  set_begun(1);
  while ((error = xffi_check_cancelled(call, &cancellation)) == NULL) nap();
  set_begun(0);
  return error;
}
XFFI_HANDLER(endless, endless_impl);

typedef struct job {
  xffi_promise* promise;
  xffi_cancellation cancellation;
} job;

/* Continues on a separate thread after the handler has returned, until the call is cancelled. */
static void* late_work(void* data) {
  job own = *(job*)data;
  int i;
  free(data);
  set_begun(1);
  while (!xffi_is_cancelled(&own.cancellation)) nap();
  /* After this delay, threads that wait for the call until the deadline have returned. */
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

/* Computes y[0] = the sum of x on the thread pool, and y[1] = the number of threads. */
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
  wrong((xffi_rt_call_run((xffi_rt_call*)data)), CANCELLED, "gave up");
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
  /* The error contains the name of the running handler. Then a different thread cancels the
   * call. */
  wrong(xffi_rt_wait_for_calls(runtime, 5), DEADLINE_EXCEEDED,
        "1 of 'endless' (the handler has not returned)");
  right(xffi_rt_canceller_cancel(canceller));
  CHECK(pthread_join(thread, NULL) == 0);
  right(xffi_rt_wait_for_calls(runtime, -1));
  wrong(xffi_rt_call_run(call), CANCELLED, "before it started");
  xffi_rt_canceller_destroy(canceller);
  xffi_rt_canceller_destroy(NULL);
  /* A handler that polls stops at its time limit, also in the next run. */
  right(xffi_rt_call_set_canceller(call, NULL));
  right(xffi_rt_call_set_time_limit(call, 300));
  wrong(xffi_rt_call_run(call), DEADLINE_EXCEEDED, "gave up");
  wrong(xffi_rt_call_run(call), DEADLINE_EXCEEDED, "gave up");
  xffi_rt_call_destroy(call);
  wrong(xffi_rt_canceller_cancel(NULL), INVALID_ARGUMENT, "canceller");
  wrong(xffi_rt_canceller_create(NULL), INVALID_ARGUMENT, "out-parameter");
}

static void open_past_its_time_limit(xffi_rt* runtime) {
  xffi_rt_call* call = call_of(runtime, late, "late");
  right(xffi_rt_call_set_time_limit(call, 300));
  wrong(xffi_rt_call_run(call), DEADLINE_EXCEEDED, "late (execute)");
  /* The time limit has cancelled the call. */
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
  uint64_t in_flight, succeeded, failed;
  int handlers;
} seen;

static void counted(void* user, const xffi_rt_handler_counts* counts) {
  seen* all = (seen*)user;
  if (strcmp(counts->name, "total") == 0) {
    all->in_flight = counts->in_flight;
    all->succeeded = counts->succeeded;
    all->failed = counts->failed[XLA_FFI_Error_Code_INVALID_ARGUMENT];
  }
  ++all->handlers;
}

static void observed(void* user, const xffi_rt_execution* execution) {
  int* all = (int*)user;
  if (strcmp(execution->handler, "total") != 0) return;
  CHECK(execution->run_id == 5 && execution->nanoseconds > 0);
  ++all[execution->code == XLA_FFI_Error_Code_OK];
}

static void own_threads_shapes_and_counters(xffi_rt* runtime) {
  xffi_rt_call* call = call_of(runtime, total, "total");
  float x[4] = {1, 2, 3, 4}, y[2] = {0, 0};
  const int64_t four = 4, three = 3, two = 2;
  seen all = {0, 0, 0, 0};
  int tasks = 0;
  static int observations[2] = {0, 0};
  right(xffi_rt_counts(runtime, counted, &all));
  CHECK(all.handlers == 0);
  right(xffi_rt_observe(runtime, 1, observed, observations));
  wrong(xffi_rt_observe(runtime, 1, observed, NULL), ALREADY_EXISTS, "observed");
  wrong(xffi_rt_observe(runtime, 1, NULL, NULL), INVALID_ARGUMENT, "told");
  right(xffi_rt_call_set_run_id(call, 5));
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
  /* The arguments of the next run have a different shape. */
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
  CHECK(all.handlers == 1 && all.succeeded == 3 && all.failed == 1 && all.in_flight == 0);
  CHECK(observations[0] == 1 && observations[1] == 3);
  wrong(xffi_rt_counts(runtime, NULL, NULL), INVALID_ARGUMENT, "told");
  xffi_rt_call_destroy(call);
}

static void logged(void* user, int level, const char* text) {
  char* all = (char*)user;
  CHECK(level == XFFI_RT_LOG_INFO);
  strncat(all, text, 1000 - strlen(all));
}

/* A logger that calls functions of the library, while a different thread waits for the end of
 * the logger's call. */
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

/* With XLA_FFI_PRINT_FRAMES, call frames are passed to the program's logger. */
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

static void set_flag(void* user) { __atomic_store_n((int*)user, 1, __ATOMIC_RELEASE); }

/* One thread starts many calls. Each call has one callback, at the end of the handler or at the
 * time limit. */
static void in_a_loop_of_events(xffi_rt* runtime) {
  xffi_rt_call* calls[8];
  int told[8] = {0, 0, 0, 0, 0, 0, 0, 0}, i;
  calls[0] = call_of(runtime, late, "late");
  for (i = 1; i < 8; ++i) right(xffi_rt_call_clone(calls[0], &calls[i]));
  for (i = 0; i < 8; ++i) {
    right(xffi_rt_call_set_time_limit(calls[i], 50));
    right(xffi_rt_call_run_async(calls[i], set_flag, &told[i]));
  }
  for (i = 0; i < 8; ++i) {
    while (!__atomic_load_n(&told[i], __ATOMIC_ACQUIRE)) nap();
    /* The handler of the call continues after the time limit. */
    wrong(xffi_rt_call_wait(calls[i], 0), DEADLINE_EXCEEDED, "late (execute)");
  }
  for (i = 0; i < 8; ++i) {
    wrong(xffi_rt_call_wait(calls[i], -1), ABORTED, "gave up late");
    xffi_rt_call_destroy(calls[i]);
  }
  calls[0] = call_of(runtime, endless, "endless");
  /* A synchronous handler has run when this function returns. A refused call has no callback. */
  right(xffi_rt_call_set_time_limit(calls[0], 0));
  wrong(xffi_rt_call_run_async(calls[0], set_flag, NULL), DEADLINE_EXCEEDED, "before the call started");
  wrong(xffi_rt_call_run_async(calls[0], NULL, NULL), INVALID_ARGUMENT, "null");
  xffi_rt_call_destroy(calls[0]);
}

/* Writes the program's number to y[0]. If the number is negative, runs until the call is
 * cancelled. */
static xffi_type number_type = XFFI_SHARED_TYPE("tests.number", NULL);
static XLA_FFI_Error* numbered_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  xffi_cancellation cancellation = xffi_cancellation_of(call->api, call->ctx);
  XLA_FFI_Error* error = xffi_decoded(call);
  void* number = NULL;
  if (error == NULL) error = xffi_find_user_data(call, &number_type, &number);
  if (error != NULL) return error;
  if (number == NULL) return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "no number");
  ((float*)y.data)[0] = *(const float*)number;
  if (*(const float*)number >= 0) return NULL;
  set_begun(1);
  while ((error = xffi_check_cancelled(call, &cancellation)) == NULL) nap();
  set_begun(0);
  return error;
}
XFFI_HANDLER(numbered, numbered_impl);

static void* cancel_soon(void* canceller) {
  while (!get_begun()) nap();
  right(xffi_rt_canceller_cancel((const xffi_rt_canceller*)canceller));
  return NULL;
}

/* Tests user data, a time limit and a canceller for one run of a program. */
static void programs_take_options_per_run(xffi_rt* runtime) {
  static const char* const names[] = {"numbered", "lost", "gone"};
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, numbered, NULL};
  xffi_rt_run_options options = XFFI_RT_RUN_OPTIONS_INIT;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* compiled = NULL;
  xffi_rt_user_data *seven = NULL, *endless_one = NULL;
  xffi_rt_canceller* canceller = NULL;
  float number = 7, negative = -1, y[1] = {0};
  void* rets[1];
  pthread_t thread;
  rets[0] = y;
  wrong(xffi_rt_require(runtime, "Host", names, 3), NOT_FOUND, "'numbered', 'lost', 'gone'");
  right(xffi_rt_register(runtime, "numbered", "Host", &bundle));
  right(xffi_rt_require(runtime, "cpu", names, 1));
  wrong(xffi_rt_require(runtime, "cpu", names, 2), NOT_FOUND, "whole-archive");
  right(xffi_rt_program_parse("HloModule m\nENTRY %e () -> f32[1] {\n  ROOT %c = f32[1]{0} custom-call(), "
                              "custom_call_target=\"numbered\", api_version=API_VERSION_TYPED_FFI\n}\n",
                              &program));
  right(xffi_rt_compile(runtime, program, NULL, &compiled));
  wrong(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, NULL), NOT_FOUND, "no number");
  right(xffi_rt_user_data_create(runtime, &seven));
  right(xffi_rt_user_data_add(seven, "tests.number", sizeof number, &number, NULL));
  right(xffi_rt_user_data_create(runtime, &endless_one));
  right(xffi_rt_user_data_add(endless_one, "tests.number", sizeof negative, &negative, NULL));
  options.user_data = seven;
  right(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, &options));
  CHECK(y[0] == 7);
  options.user_data = endless_one;
  options.milliseconds = 50;
  wrong(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, &options), DEADLINE_EXCEEDED, "gave up");
  options.milliseconds = 0;
  right(xffi_rt_canceller_create(&canceller));
  options.canceller = canceller;
  CHECK(pthread_create(&thread, NULL, cancel_soon, canceller) == 0);
  wrong(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, &options), CANCELLED, "gave up");
  CHECK(pthread_join(thread, NULL) == 0);
  options.user_data = seven;
  wrong(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, &options), CANCELLED, "before");
  options.struct_size = 3;
  wrong(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, &options), INVALID_ARGUMENT, "XFFI_RT_RUN_OPTIONS_INIT");
  xffi_rt_canceller_destroy(canceller);
  xffi_rt_user_data_destroy(seven);
  xffi_rt_user_data_destroy(endless_one);
  xffi_rt_compiled_destroy(compiled);
  xffi_rt_program_destroy(program);
}

static void* run_to_the_end(void* data) {
  xffi_rt_status* status = xffi_rt_call_run((xffi_rt_call*)data);
  wrong(status, UNAVAILABLE, "gave up");
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
  /* Both handlers are cancelled by the shutdown, and stop. */
  right(xffi_rt_shutdown(runtime, 20000));
  CHECK(pthread_join(thread, NULL) == 0);
  wrong(xffi_rt_call_wait(open, -1), ABORTED, "gave up late");
  wrong(xffi_rt_call_run(inside), UNAVAILABLE, "was shut down");
  wrong(xffi_rt_call_start(open), UNAVAILABLE, "was shut down");
  right(xffi_rt_shutdown(runtime, 0));
  xffi_rt_call_destroy(inside);
  xffi_rt_call_destroy(open);
  wrong(xffi_rt_shutdown(NULL, 0), INVALID_ARGUMENT, "runtime");
}

/* Threads of the program run the `async fn` handler of a Rust library: its first poll, and the
 * polls after it is woken. */
static int its_threads(xffi_rt* runtime, const char* path) {
  xffi_rt_library* library = NULL;
  xffi_rt_call* call = NULL;
  float x = 21, y = 0;
  int tasks = 0;
  right(xffi_rt_library_load(runtime, path, &library));
  right(xffi_rt_register_library(runtime, library));
  right(xffi_rt_call_create(runtime, "double_async", "Host", "{delay_ms = 5 : i64}", &call));
  right(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 0, NULL, &x));
  right(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 0, NULL, &y));
  right(xffi_rt_call_run(call));
  CHECK(y == 42 && tasks == 0);
  y = 0;
  right(xffi_rt_call_set_executor(call, on_my_thread, 4, &tasks));
  right(xffi_rt_call_run(call));
  CHECK(y == 42 && tasks >= 2);
  xffi_rt_call_destroy(call);
  xffi_rt_library_destroy(library);
  xffi_rt_destroy(runtime);
  printf("on my threads\n");
  return 0;
}

int main(int argc, char** argv) {
  xffi_rt* runtime = NULL;
  right(xffi_rt_create_with_threads(XFFI_RT_NEWEST, 3, &runtime));
  if (argc > 1 && strcmp(argv[1], "log") == 0) return its_log(runtime);
  if (argc > 1) return its_threads(runtime, argv[1]);
  own_threads_shapes_and_counters(runtime);
  cancelled(runtime);
  open_past_its_time_limit(runtime);
  in_a_loop_of_events(runtime);
  programs_take_options_per_run(runtime);
  ended(runtime);
  xffi_rt_destroy(runtime);
  printf("all ended\n");
  return 0;
}
