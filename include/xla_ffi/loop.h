/* Loops that the calling thread and the host's thread pool share. Part of <xla_ffi/handler.h>. */
#ifndef XLA_FFI_LOOP_H_
#define XLA_FFI_LOOP_H_

#include "xla_ffi/atomic.h"
#include "xla_ffi/context.h"

/* What a loop does: elements `begin` to `end`, which is the one behind the last. */
typedef void xffi_range_body(void* data, int64_t begin, int64_t end);

/* One loop. It is there for as long as a task of the pool may come: one that comes late finds the gate closed, and
 * touches neither `body` nor `data`. */
typedef struct xffi_loop_ {
  xffi_range_body* body;
  void* data;
  int64_t count, grain;
  int64_t step;     /* elements that a thread takes at once: as many ranges as keep `turns` small */
  long turns, next; /* steps in all, and steps taken */
  long inside;      /* tasks at work; XFFI_GATE_CLOSED_ more when none may begin */
  long users;       /* the caller, and tasks that have not ended */
} xffi_loop_;

#define XFFI_MOST_TURNS_ (1L << 29)
#define XFFI_GATE_CLOSED_ (1L << 29)

/* The ranges from `begin` to `end`. */
XFFI_INLINE void xffi_loop_ranges_(const xffi_loop_* loop, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t next = end - begin > loop->grain ? begin + loop->grain : end;
    loop->body(loop->data, begin, next);
    begin = next;
  }
}

/* Takes steps until none is left. */
XFFI_INLINE void xffi_loop_work_(xffi_loop_* loop) {
  for (;;) {
    const long turn = XFFI_ADD_(&loop->next, 1);
    int64_t begin;
    if (turn >= loop->turns) return;
    begin = turn * loop->step;
    xffi_loop_ranges_(loop, begin, loop->count - begin > loop->step ? begin + loop->step : loop->count);
  }
}

XFFI_INLINE void xffi_loop_leave_(xffi_loop_* loop, long users) {
  if (XFFI_ADD_(&loop->users, -users) == users) free(loop);
}

XFFI_INLINE void xffi_loop_help_(void* data) {
  xffi_loop_* const loop = (xffi_loop_*)data;
  if (XFFI_ADD_(&loop->inside, 1) < XFFI_GATE_CLOSED_) xffi_loop_work_(loop);
  XFFI_ADD_(&loop->inside, -1);
  xffi_loop_leave_(loop, 1);
}

/* Calls `body(data, begin, end)` for ranges of at most `grain` elements that together cover 0 to `count`, each once, on
 * this thread and on the host's thread pool at the same time. It returns when all are done, and waits only for ranges
 * that another thread has begun: so it works with a pool of one thread, when the pool's tasks run late or never, and
 * where there is no pool (before r1) or no memory, on this thread alone. With a `grain` of 0 or less each thread gets
 * about four ranges. `body` is called by several threads at once, and must not throw. */
XFFI_INLINE void xffi_for_each_range(const xffi_call* call, int64_t count, int64_t grain, xffi_range_body* body,
                                     void* data) {
  int64_t threads = 0, each, ranges, helpers;
  xffi_loop_ whole;
  xffi_loop_* loop = NULL;
  XLA_FFI_Error* error;
  if (count <= 0) return;
  if (XFFI_HOST_HAS(call->api, XLA_FFI_ThreadPool_Schedule) &&
      (error = xffi_num_threads(call, &threads)) != NULL) {
    /* Before r3 hosts do not tell. A task too many finds nothing to do. */
    xffi_error_free(call->api, error);
    threads = 16;
  }
  if (threads > 1024) threads = 1024;
  each = threads > 0 ? threads * 4 : 1;
  if (grain <= 0) grain = (count - 1) / each + 1;
  ranges = (count - 1) / grain + 1;
  memset(&whole, 0, sizeof(whole));
  whole.body = body;
  whole.data = data;
  whole.count = count;
  whole.grain = grain;
  whole.step = grain * ((ranges - 1) / XFFI_MOST_TURNS_ + 1);
  whole.turns = (long)((count - 1) / whole.step + 1);
  helpers = whole.turns - 1 < threads ? whole.turns - 1 : threads;
  if (helpers > 0) loop = (xffi_loop_*)malloc(sizeof(*loop));
  if (loop == NULL) {
    xffi_loop_ranges_(&whole, 0, count);
    return;
  }
  *loop = whole;
  loop->users = (long)helpers + 1;
  for (; helpers > 0; --helpers) {
    error = xffi_schedule(call, xffi_loop_help_, loop);
    if (error == NULL) continue;
    /* A pool that takes no more. */
    xffi_error_free(call->api, error);
    xffi_loop_leave_(loop, (long)helpers);
    break;
  }
  xffi_loop_work_(loop);
  XFFI_ADD_(&loop->inside, XFFI_GATE_CLOSED_);
  while (XFFI_LOAD_(&loop->inside) != XFFI_GATE_CLOSED_) XFFI_YIELD_();
  xffi_loop_leave_(loop, 1);
}

#endif /* XLA_FFI_LOOP_H_ */
