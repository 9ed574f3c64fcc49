/* Handlers whose promises go astray: tests/c_promises.rs calls them. */
#define _DEFAULT_SOURCE /* usleep */
#include <pthread.h>
#include <unistd.h>

#include "xla_ffi/handler.h"

/* What becomes of a promise is in the low byte of `how`: 0 it is returned, 1 it is not, 2 it is freed, 3 there is an error in
 * its place, 4 one behind it, 5 there are two, 6 it is null, 7 it fails and is done, 8 it is done and fails twice, 9 that of
 * the call before is completed again, too, 10 two threads fail it at once, 11 it is returned twice, 12 it is returned and
 * freed, 13 it is freed and returned, 14 it is done and freed. A thread writes y and completes it: after a while (0x100),
 * with an error (0x200), before the handler returns (0x400). With 0x800 xffi_decoded is not asked. */
enum { RETURNED, KEPT_BACK, FREED, ERROR_IN_PLACE, ERROR_BEHIND, TWO, NO_PROMISE, FAILED_FIRST, DONE_FIRST, AGAIN,
       AT_THE_SAME_TIME, RETURNED_TWICE, FREED_BEHIND, FREED_BEFORE, DONE_AND_FREED };
enum { LATE = 0x100, FAILS = 0x200, AT_ONCE = 0x400, NOT_ASKED = 0x800 };

typedef struct work {
  xffi_promise* promise;
  int32_t* y;
  int32_t how;
} work;

static void* write_y(void* data) {
  work* own = (work*)data;
  if (own->how & LATE) usleep(100000);
  *(volatile int32_t*)own->y = 7;
  if (own->how & FAILS) {
    xffi_promise_fail(own->promise, XLA_FFI_Error_Code_ABORTED, "as it was told to");
  } else {
    xffi_promise_done(own->promise);
  }
  free(own);
  return NULL;
}

static void give(xffi_promise* promise, const xffi_buffer* y, int32_t how) {
  work* own = (work*)malloc(sizeof(*own));
  pthread_t thread;
  if (own == NULL) return;
  own->promise = promise;
  own->y = (int32_t*)y->data;
  own->how = how;
  if (how & AT_ONCE) {
    own->how &= ~LATE;
    write_y(own);
  } else if (pthread_create(&thread, NULL, write_y, own) == 0) {
    pthread_detach(thread);
  } else {
    free(own);
  }
}

/* Two threads that wait for each other, and then fail one promise, each with a code and a message of its own, which takes a
 * while to copy. */
enum { LONG = 1 << 20 };
typedef struct race {
  xffi_promise* promise;
  long waiting, left;
} race;

static void fail_at_the_same_time(race* own, XLA_FFI_Error_Code code, char letter) {
  char* message = (char*)malloc(LONG + 1);
  if (message == NULL) abort();
  memset(message, letter, LONG);
  message[LONG] = '\0';
  XFFI_ADD_(&own->waiting, -1);
  while (XFFI_LOAD_(&own->waiting) > 0) {
  }
  xffi_promise_fail(own->promise, code, message);
  free(message);
  if (XFFI_ADD_(&own->left, -1) == 1) free(own);
}

static void* work_fails(void* data) {
  fail_at_the_same_time((race*)data, XLA_FFI_Error_Code_ABORTED, 'w');
  return NULL;
}

static void* watch_fails(void* data) {
  fail_at_the_same_time((race*)data, XLA_FFI_Error_Code_DEADLINE_EXCEEDED, 'l');
  return NULL;
}

static void give_two(xffi_promise* promise) {
  race* own = (race*)calloc(1, sizeof(*own));
  pthread_t threads[2];
  if (own == NULL) abort();
  own->promise = promise;
  own->waiting = own->left = 2;
  if (pthread_create(&threads[0], NULL, work_fails, own) != 0) abort();
  if (pthread_create(&threads[1], NULL, watch_fails, own) != 0) abort();
  pthread_detach(threads[0]);
  pthread_detach(threads[1]);
}

static XLA_FFI_Error* astray_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const int32_t how = xffi_attr_i32(call, "how");
  xffi_promise *promise, *other;
  XLA_FFI_Error* error;
  if (!(how & NOT_ASKED) && (error = xffi_decoded(call)) != NULL) return error;
  if ((how & 0xff) == NO_PROMISE) return xffi_promise_return(call, NULL);
  promise = xffi_promise_new(call);
  if (promise == NULL) return xffi_promise_return(call, promise);
  if ((how & 0xff) == FREED) {
    xffi_promise_free(NULL);
    xffi_promise_free(promise);
    *(int32_t*)y.data = 7;
    return NULL;
  }
  if ((how & 0xff) == FAILED_FIRST || (how & 0xff) == DONE_FIRST) {
    *(int32_t*)y.data = 7;
    if ((how & 0xff) == DONE_FIRST) xffi_promise_done(promise);
    xffi_promise_fail(promise, XLA_FFI_Error_Code_ABORTED, "the first");
    xffi_promise_done(promise);
    xffi_promise_fail(promise, XLA_FFI_Error_Code_NOT_FOUND, "the second");
    return xffi_promise_return(call, promise);
  }
  if ((how & 0xff) == AGAIN) {
    static xffi_promise* before;
    if (before != NULL) {
      xffi_promise_done(before);
      xffi_promise_fail(before, XLA_FFI_Error_Code_ABORTED, NULL);
    }
    before = promise;
  }
  if ((how & 0xff) == AT_THE_SAME_TIME) {
    *(int32_t*)y.data = 7;
    give_two(promise);
    return xffi_promise_return(call, promise);
  }
  if ((how & 0xff) == FREED_BEFORE) {
    *(int32_t*)y.data = 7;
    xffi_promise_free(promise);
    xffi_promise_free(promise);
    xffi_promise_done(promise);
    return xffi_promise_return(call, promise);
  }
  give(promise, &y, how);
  switch (how & 0xff) {
    case AGAIN:
    case RETURNED:
      return xffi_promise_return(call, promise);
    case RETURNED_TWICE:
      error = xffi_promise_return(call, promise);
      return error != NULL ? error : xffi_promise_return(call, promise);
    case FREED_BEHIND:
      error = xffi_promise_return(call, promise);
      xffi_promise_free(promise);
      xffi_promise_free(promise);
      return error;
    case DONE_AND_FREED:
      xffi_promise_free(promise);
      return NULL;
    case KEPT_BACK:
      return NULL;
    case ERROR_IN_PLACE:
      return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "nothing there");
    case ERROR_BEHIND:
      error = xffi_promise_return(call, promise);
      if (error != NULL) xffi_error_free(call->api, error);
      return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "nothing there");
    default: /* TWO */
      other = xffi_promise_new(call);
      if (other != NULL) give(other, &y, how);
      error = xffi_promise_return(call, promise);
      if (other == NULL || error != NULL) return error;
      return xffi_promise_return(call, other);
  }
}
XFFI_HANDLER(astray, astray_impl);

static XLA_FFI_Error* early_impl(xffi_call* call) {
  xffi_promise* promise = xffi_promise_new(call);
  static int32_t place;
  xffi_buffer y;
  memset(&y, 0, sizeof(y));
  y.data = &place;
  if (promise != NULL) give(promise, &y, LATE);
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER_WITH(early, early_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, NULL);
