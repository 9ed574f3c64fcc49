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

enum { XFFI_PROMISE_OPEN_ = 0, XFFI_PROMISE_BOUND_ = 1, XFFI_PROMISE_DONE_ = 2 };

/* A promise. Complete it exactly once; that ends its life. */
typedef struct xffi_promise {
  const XLA_FFI_Api* api;
  XLA_FFI_Future* future; /* set before the state becomes BOUND */
  XLA_FFI_Error_Code code;
  char* message; /* null, or owned */
  long state;
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

/* A new promise, or null where there is no memory. */
XFFI_INLINE xffi_promise* xffi_promise_new(const xffi_call* call) {
  xffi_promise* promise = (xffi_promise*)calloc(1, sizeof(*promise));
  if (promise != NULL) promise->api = call->api;
  return promise;
}

/* Ends a promise that nobody was given. */
XFFI_INLINE void xffi_promise_free(xffi_promise* promise) {
  free(promise->message);
  free(promise);
}

XFFI_COLD void xffi_promise_signal(xffi_promise* promise) {
  const XLA_FFI_Api* api = promise->api;
  const size_t slot = xffi_future_slot(api);
  XLA_FFI_Error* error;
  if (promise->code == XLA_FFI_Error_Code_OK) {
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
    args.error = xffi_error_new(api, promise->code,
                                promise->message != NULL ? promise->message : "(no message)");
    xffi_slot(api, slot + 2, &set);
    error = set(&args);
  }
  if (error != NULL) xffi_error_free(api, error); /* nobody is left to be told */
}

/* Swaps in DONE and signals where the handler has returned already. */
XFFI_INLINE void xffi_promise_complete(xffi_promise* promise) {
  if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_DONE_) == XFFI_PROMISE_BOUND_) {
    xffi_promise_signal(promise);
    xffi_promise_free(promise);
  }
}

/* Completes a promise with success, from any thread. */
XFFI_INLINE void xffi_promise_done(xffi_promise* promise) {
  promise->code = XLA_FFI_Error_Code_OK;
  xffi_promise_complete(promise);
}

/* Completes a promise with an error, from any thread. */
XFFI_COLD void xffi_promise_fail(xffi_promise* promise, XLA_FFI_Error_Code code,
                                 const char* message) {
  const size_t size = strlen(message) + 1;
  promise->message = (char*)malloc(size);
  if (promise->message != NULL) memcpy(promise->message, message, size);
  promise->code = code == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL : code;
  xffi_promise_complete(promise);
}

XFFI_COLD XLA_FFI_Error* xffi_promise_result(xffi_promise* promise) {
  XLA_FFI_Error* error = NULL;
  if (promise->code != XLA_FFI_Error_Code_OK) {
    error = xffi_error_new(promise->api, promise->code,
                           promise->message != NULL ? promise->message : "(no message)");
  }
  xffi_promise_free(promise);
  return error;
}

/* Ends an asynchronous handler: `return xffi_promise_return(call, promise);`. Whoever was given the
 * promise completes it, before or after. */
XFFI_INLINE XLA_FFI_Error* xffi_promise_return(const xffi_call* call, xffi_promise* promise) {
  const size_t slot = xffi_future_slot(call->api);
  /* Future_Create expects struct_size 16 and writes `future` behind it. */
  XLA_FFI_Future_Create_Args args;
  XLA_FFI_Future_Create* create;
  XLA_FFI_Error* error;
  if (XFFI_LOAD_(&promise->state) == XFFI_PROMISE_DONE_) return xffi_promise_result(promise);
  if (slot != 0) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
    xffi_slot(call->api, slot, &create);
    error = create(&args);
    if (error == NULL) {
      promise->future = args.future;
      call->frame->future = args.future;
      if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_BOUND_) == XFFI_PROMISE_DONE_) {
        xffi_promise_signal(promise); /* completed while the future was made */
        xffi_promise_free(promise);
      }
      return NULL;
    }
    xffi_error_free(call->api, error); /* fall back to waiting */
  }
  while (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) XFFI_YIELD_();
  return xffi_promise_result(promise);
}

#endif  /* XLA_FFI_FUTURE_H_ */
