/* Asynchronous handlers: a promise that another thread completes after the handler has returned.
 * Part of <xla_ffi/handler.h>.
 *
 * Only the memory behind the buffers' data pointers stays until the promise is completed. The
 * frame, the dims, the attributes and the context end with the call: copy what you need first.
 * Where the host has no futures (before r2) the handler waits for the promise before it returns.
 */
#ifndef XLA_FFI_FUTURE_H_
#define XLA_FFI_FUTURE_H_

#include "xla_ffi/state.h"

enum { XFFI_PROMISE_OPEN_ = 0, XFFI_PROMISE_BOUND_ = 1, XFFI_PROMISE_DONE_ = 2, XFFI_PROMISE_LOST_ = 3 };

/* A promise. Complete it exactly once; that ends its life. Whoever completes, returns or frees it again is not heard, or told,
 * as long as few promises have ended since: see xffi_promise_end_. */
typedef struct xffi_promise {
  const XLA_FFI_Api* api;
  XLA_FFI_Future* future; /* set before the state becomes BOUND */
  XLA_FFI_Error_Code code;
  char* message; /* null, or owned */
  long state;
  long claimed; /* whether somebody completes it: he alone writes code and message, before the state becomes DONE */
  long taken;   /* whether it was returned or freed, or the call has ended without */
  xffi_call* call;           /* until it is returned */
  struct xffi_promise* next; /* of the same call */
  const char* kept_back_by;  /* null, or the handler that did not return it; set before the state becomes BOUND */
} xffi_promise;

/* The function at an index of the table, which reaches that far. */
XFFI_INLINE void xffi_slot(const XLA_FFI_Api* api, size_t index, void* function) {
  memcpy(function, (const char*)api + offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) + 8 * index, 8);
}

/* Index of the first of the three future functions in the table; 0 where one of them is missing. They
 * moved by one between r2 and r3, which both call themselves 0.1. */
XFFI_INLINE size_t xffi_future_slot(const XLA_FFI_Api* api) {
  const xffi_revision host = xffi_host_revision(api);
  const size_t head = offsetof(XLA_FFI_Api, XLA_FFI_Error_Create);
  const size_t newest = (offsetof(XLA_FFI_Api, XLA_FFI_Future_Create) - head) / 8;
  const size_t first = host >= XFFI_R3 ? newest : newest - 1;
  void (*functions[3])(void);
  size_t i;
  if (host < XFFI_R2 || head + 8 * (first + 3) > xffi_host_size(api)) return 0;
  for (i = 0; i < 3; ++i) {
    xffi_slot(api, first + i, &functions[i]);
    if (functions[i] == NULL) return 0;
  }
  return first;
}

XFFI_COLD XLA_FFI_Error* xffi_promises_left_(xffi_call* call, XLA_FFI_Error* error);

/* A new promise, or null where there is no memory. The handler returns it by xffi_promise_return, or frees it. */
XFFI_INLINE xffi_promise* xffi_promise_new(xffi_call* call) {
  xffi_promise* promise = (xffi_promise*)calloc(1, sizeof(*promise));
  if (promise != NULL) {
    promise->api = call->api;
    promise->call = call;
    promise->next = call->promises;
    call->promises = promise;
    call->end = xffi_promises_left_;
  }
  return promise;
}

/* The last promises that have ended: their memory is no other promise's so far. */
#define XFFI_ENDED_PROMISES_ 64
typedef struct xffi_ended_promises {
  void* promises[XFFI_ENDED_PROMISES_];
  long next;
} xffi_ended_promises;
static xffi_ended_promises xffi_ended_promises_;

/* Frees a promise after XFFI_ENDED_PROMISES_ others. One that is completed again would write into freed memory at once, or
 * complete the promise of another call, which is at work. */
XFFI_INLINE void xffi_promise_end_(xffi_promise* promise) {
  const unsigned long turn = (unsigned long)XFFI_ADD_(&xffi_ended_promises_.next, 1);
  free(promise->message);
  promise->message = NULL;
  XFFI_STORE_(&promise->state, XFFI_PROMISE_DONE_);
  free(XFFI_SWAP_POINTER_(&xffi_ended_promises_.promises[turn % XFFI_ENDED_PROMISES_], promise));
}

/* The call has nothing to do with the promise from here on. */
XFFI_INLINE void xffi_promise_unlink_(xffi_promise* promise) {
  xffi_promise** at;
  if (promise->call == NULL) return;
  for (at = &promise->call->promises; *at != NULL; at = &(*at)->next) {
    if (*at != promise) continue;
    *at = promise->next;
    break;
  }
  promise->call = NULL;
}

/* Whether the caller is the first to complete a promise, and so the one who does. There is nothing to complete where there
 * was no memory for one. */
XFFI_INLINE int xffi_promise_claim_(xffi_promise* promise) {
  return promise != NULL && XFFI_SWAP_(&promise->claimed, 1) == 0;
}

/* Ends a promise that nobody was given; null is fine, and so is one that was returned, which is left as it is. */
XFFI_INLINE void xffi_promise_free(xffi_promise* promise) {
  if (promise == NULL || XFFI_SWAP_(&promise->taken, 1) != 0) return;
  xffi_promise_unlink_(promise);
  if (!xffi_promise_claim_(promise)) { /* whoever completes it is not through with it */
    while (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) XFFI_YIELD_();
  }
  xffi_promise_end_(promise);
}

/* What a promise came to, as an error, or null. */
XFFI_COLD XLA_FFI_Error* xffi_promise_error_(const xffi_promise* promise) {
  const char* message = promise->message != NULL ? promise->message : "(no message)";
  if (promise->kept_back_by != NULL) {
    return xffi_error_format(promise->api, XLA_FFI_Error_Code_INTERNAL,
                             "%s: a promise was made and not returned: `return xffi_promise_return(call, promise);`, or "
                             "xffi_promise_free where nobody was given it",
                             promise->kept_back_by);
  }
  if (promise->code == XLA_FFI_Error_Code_OK) return NULL;
  return xffi_error_new(promise->api, promise->code, message);
}

XFFI_COLD void xffi_promise_signal(xffi_promise* promise) {
  const XLA_FFI_Api* api = promise->api;
  const size_t slot = xffi_future_slot(api);
  XLA_FFI_Error* error = xffi_promise_error_(promise);
  if (error == NULL) {
    XLA_FFI_Future_SetAvailable* set;
    XLA_FFI_Future_SetAvailable_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
    args.future = promise->future;
    xffi_slot(api, slot + 1, &set);
    error = set(&args);
  } else {
    XLA_FFI_Future_SetError* set;
    XLA_FFI_Future_SetError_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
    args.future = promise->future;
    args.error = error;
    xffi_slot(api, slot + 2, &set);
    error = set(&args);
  }
  if (error != NULL) xffi_error_free(api, error); /* nobody is left to be told */
}

/* Swaps in DONE and signals where the handler has returned already. */
XFFI_INLINE void xffi_promise_complete(xffi_promise* promise) {
  const long before = XFFI_SWAP_(&promise->state, XFFI_PROMISE_DONE_);
  if (before == XFFI_PROMISE_BOUND_) xffi_promise_signal(promise);
  if (before == XFFI_PROMISE_BOUND_ || before == XFFI_PROMISE_LOST_) xffi_promise_end_(promise);
}

/* Completes a promise with success, from any thread. */
XFFI_INLINE void xffi_promise_done(xffi_promise* promise) {
  if (xffi_promise_claim_(promise)) xffi_promise_complete(promise); /* without a code it is OK */
}

/* Completes a promise with an error, from any thread. */
XFFI_COLD void xffi_promise_fail(xffi_promise* promise, XLA_FFI_Error_Code code,
                                 const char* message) {
  size_t size;
  if (!xffi_promise_claim_(promise)) return;
  if (message == NULL) message = "(no message)";
  size = strlen(message) + 1;
  promise->message = (char*)malloc(size);
  if (promise->message != NULL) memcpy(promise->message, message, size);
  promise->code = code == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL : code;
  xffi_promise_complete(promise);
}

XFFI_MUST_USE_ XFFI_COLD XLA_FFI_Error* xffi_promise_result(xffi_promise* promise) {
  XLA_FFI_Error* error = xffi_promise_error_(promise);
  xffi_promise_end_(promise);
  return error;
}

/* Whether a promise was returned already: a call has one future. */
XFFI_INLINE int xffi_has_future_(const xffi_call* call) {
  return xffi_future_slot(call->api) != 0 && call->frame->future != NULL;
}

/* The error of a promise that was returned or freed before. It ends the call whatever future that has, so nobody may be at
 * work then: a future that is open is taken back, waited for, and signaled here. */
XFFI_MUST_USE_ XFFI_COLD XLA_FFI_Error* xffi_promise_taken_(const xffi_call* call, xffi_promise* promise) {
  if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_OPEN_) == XFFI_PROMISE_BOUND_) {
    while (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) XFFI_YIELD_();
    xffi_promise_signal(promise);
    xffi_promise_end_(promise);
  } else {
    XFFI_STORE_(&promise->state, XFFI_PROMISE_DONE_);
  }
  return xffi_error_format(call->api, XLA_FFI_Error_Code_INTERNAL,
                           "%s: a promise was returned that had been returned or freed before: return it once", call->handler);
}

/* Ends an asynchronous handler: `return xffi_promise_return(call, promise);`. Whoever was given the
 * promise completes it, before or after. In a stage that is not execute, in a call that is refused, and where another
 * promise was returned before, this waits for it. */
XFFI_MUST_USE_ XFFI_INLINE XLA_FFI_Error* xffi_promise_return(const xffi_call* call, xffi_promise* promise) {
  /* Future_Create expects struct_size 16 and writes `future` behind it. */
  XLA_FFI_Future_Create_Args args;
  XLA_FFI_Future_Create* create;
  XLA_FFI_Error* error;
  size_t slot;
  if (promise == NULL) {
    return xffi_error_new(call->api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for a promise");
  }
  if (XFFI_SWAP_(&promise->taken, 1) != 0) return xffi_promise_taken_(call, promise);
  xffi_promise_unlink_(promise);
  if (XFFI_LOAD_(&promise->state) == XFFI_PROMISE_DONE_) return xffi_promise_result(promise);
  slot = xffi_future_slot(call->api);
  if (slot != 0 && call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE && xffi_is_decoded_(call) &&
      !xffi_has_future_(call)) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
    xffi_slot(call->api, slot, &create);
    error = create(&args);
    if (error == NULL) {
      promise->future = args.future;
      call->frame->future = args.future;
      if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_BOUND_) == XFFI_PROMISE_DONE_) {
        xffi_promise_signal(promise); /* completed while the future was made */
        xffi_promise_end_(promise);
      }
      return NULL;
    }
    xffi_error_free(call->api, error); /* fall back to waiting */
  }
  while (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) XFFI_YIELD_();
  return xffi_promise_result(promise);
}

/* The end of a handler that has made promises and returned none of them: who was given one may be at work. The call waits
 * for the first all the same, so that no memory goes under his hands, and its end is an error. Beside an error nobody can
 * wait: that one is told on stderr, and ends with its completion. */
XFFI_COLD XLA_FFI_Error* xffi_promises_left_(xffi_call* call, XLA_FFI_Error* error) {
  while (call->promises != NULL) {
    xffi_promise* promise = call->promises;
    if (error == NULL && !xffi_has_future_(call)) {
      promise->kept_back_by = call->handler;
      if (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) {
        fprintf(stderr, "xla-ffi: %s: a promise was made and not returned; the call waits for it\n", call->handler);
      }
      error = xffi_promise_return(call, promise);
      continue;
    }
    XFFI_STORE_(&promise->taken, 1);
    xffi_promise_unlink_(promise);
    if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_LOST_) == XFFI_PROMISE_DONE_) {
      xffi_promise_end_(promise);
    } else {
      fprintf(stderr, "xla-ffi: %s: a promise was neither returned nor freed, and nobody waits for who was given it\n",
              call->handler);
    }
  }
  return error;
}

#endif  /* XLA_FFI_FUTURE_H_ */
