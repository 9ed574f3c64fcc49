/* Handlers that return a promise, and a handler that loops on the thread pool. tests/c/threads.rs calls these handlers.
 */
#define _DEFAULT_SOURCE /* for usleep */
#include <pthread.h>
#include <unistd.h>

#include "xla_ffi/handler.h"

/* How the handler treats its promise: 0 returns it, 1 frees it, 2 returns null. A thread writes y and completes the
 * promise: after a delay (0x100), with an error (0x200), or before the handler returns (0x400). With 0x800,
 * xffi_decoded is not called. */
enum { RETURNED, FREED, NO_PROMISE, LATE = 0x100, FAILS = 0x200, AT_ONCE = 0x400, NOT_ASKED = 0x800 };

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

static void give(xffi_promise* promise, int32_t* y, int32_t how) {
  work* own = (work*)malloc(sizeof(*own));
  pthread_t thread;
  if (own == NULL) abort();
  own->promise = promise;
  own->y = y;
  own->how = how;
  if (how & AT_ONCE) {
    write_y(own);
  } else if (pthread_create(&thread, NULL, write_y, own) == 0) {
    pthread_detach(thread);
  } else {
    abort();
  }
}

static XLA_FFI_Error* promised_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const int32_t how = xffi_attr_i32(call, "how");
  xffi_promise* promise;
  XLA_FFI_Error* error;
  if (!(how & NOT_ASKED) && (error = xffi_decoded(call)) != NULL) return error;
  if ((how & 0xff) == NO_PROMISE) return xffi_promise_return(call, NULL);
  promise = xffi_promise_new(call);
  if ((how & 0xff) == FREED) {
    xffi_promise_free(promise);
    *(int32_t*)y.data = 7;
    return NULL;
  }
  if (promise != NULL) give(promise, (int32_t*)y.data, how);
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER(promised, promised_impl);

static XLA_FFI_Error* early_impl(xffi_call* call) {
  static int32_t place;
  xffi_promise* promise = xffi_promise_new(call);
  if (promise != NULL) give(promise, &place, LATE);
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER_WITH(early, early_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, NULL);

/* A loop on the thread pool. y[i] counts the ranges that contained element i. The struct also has the number of ranges,
 * their total length, and the length of the longest range. */
typedef struct seen {
  int64_t* y;
  int64_t room, ranges, elements, longest;
} seen;

static void see(void* data, int64_t begin, int64_t end) {
  seen* all = (seen*)data;
  const int64_t length = end - begin;
  int64_t longest = __atomic_load_n(&all->longest, __ATOMIC_RELAXED), i;
  __atomic_fetch_add(&all->ranges, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&all->elements, length, __ATOMIC_RELAXED);
  while (length > longest &&
         !__atomic_compare_exchange_n(&all->longest, &longest, length, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  for (i = begin; i < end && i < all->room; ++i) __atomic_fetch_add(&all->y[i], 1, __ATOMIC_RELAXED);
}

static XLA_FFI_Error* cover_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 1);
  xffi_buffer told = xffi_ret(call, "told", XLA_FFI_DataType_S64, 1);
  const int64_t count = xffi_attr_i64(call, "count"), grain = xffi_attr_i64(call, "grain");
  seen all;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  memset(&all, 0, sizeof(all));
  all.y = (int64_t*)y.data;
  all.room = y.count;
  xffi_for_each_range(call, count, grain, see, &all);
  ((int64_t*)told.data)[0] = all.ranges;
  ((int64_t*)told.data)[1] = all.elements;
  ((int64_t*)told.data)[2] = all.longest;
  return NULL;
}
XFFI_HANDLER(cover, cover_impl);
