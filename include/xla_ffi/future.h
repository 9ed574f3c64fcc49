/* Asynchronous handlers: a promise that another thread completes after the handler has returned. Part of
 * <xla_ffi/handler.h>.
 *
 * After the handler has returned, only the elements of the buffers stay valid, until the promise is completed. The
 * call frame, dimensions, attributes and context become invalid, so copy their values. If the host has no futures
 * (before r2), xffi_promise_return waits for the completion.
 */
#ifndef XLA_FFI_FUTURE_H_
#define XLA_FFI_FUTURE_H_

#include "xla_ffi/state.h"

enum { XFFI_PROMISE_OPEN_ = 0, XFFI_PROMISE_BOUND_ = 1, XFFI_PROMISE_DONE_ = 2 };

/* A promise. Complete it exactly once, and return it from the handler with xffi_promise_return. The later of these two
 * operations frees the promise. */
typedef struct xffi_promise {
  const XLA_FFI_Api* api;
  const char *handler, *stage; /* for error messages */
  XLA_FFI_Future* future; /* set before `state` becomes XFFI_PROMISE_BOUND_ */
  XLA_FFI_Error_Code code;
  char* message; /* owned by the promise; may be null */
  long state;
} xffi_promise;

/* Creates a promise; returns null if memory is exhausted. The handler must pass the promise to xffi_promise_return or
 * free it. */
XFFI_INLINE_ xffi_promise* xffi_promise_new(xffi_call* call) {
  xffi_promise* promise = (xffi_promise*)calloc(1, sizeof(*promise));
  if (promise == NULL) return NULL;
  promise->api = call->api;
  promise->handler = call->handler;
  promise->stage = xffi_stage_name_(call->frame->stage);
  return promise;
}

/* Frees a promise that was neither given to another thread nor returned. Accepts null. */
XFFI_INLINE_ void xffi_promise_free(xffi_promise* promise) {
  if (promise == NULL) return;
  free(promise->message);
  free(promise);
}

/* Returns a completed promise's error, or null on success. */
XFFI_COLD_ XLA_FFI_Error* xffi_promise_error_(const xffi_promise* promise) {
  if (promise->code == XLA_FFI_Error_Code_OK) return NULL;
  return xffi_error_from_(promise->api, promise->code, promise->handler, promise->stage, promise->message);
}

XFFI_COLD_ void xffi_promise_signal_(xffi_promise* promise) {
  const XLA_FFI_Api* api = promise->api;
  const size_t slot = xffi_future_slot_(api);
  XLA_FFI_Error* error = xffi_promise_error_(promise);
  if (error == NULL) {
    XLA_FFI_Future_SetAvailable* set;
    XLA_FFI_Future_SetAvailable_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
    args.future = promise->future;
    xffi_load_slot_(api, slot + 1, &set);
    error = set(&args);
  } else {
    XLA_FFI_Future_SetError* set;
    XLA_FFI_Future_SetError_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
    args.future = promise->future;
    args.error = error;
    xffi_load_slot_(api, slot + 2, &set);
    error = set(&args);
  }
  if (error != NULL) xffi_error_free(api, error); /* the error can no longer be reported */
}

/* Completes a promise with success, from any thread. If the handler has already returned, notifies the host. */
XFFI_INLINE_ void xffi_promise_done(xffi_promise* promise) {
  if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_DONE_) == XFFI_PROMISE_BOUND_) {
    xffi_promise_signal_(promise);
    xffi_promise_free(promise);
  }
}

/* Completes a promise with an error, from any thread. */
XFFI_COLD_ void xffi_promise_fail(xffi_promise* promise, XLA_FFI_Error_Code code,
                                 const char* message) {
  const size_t size = message != NULL ? strlen(message) + 1 : 0;
  promise->message = size != 0 ? (char*)malloc(size) : NULL;
  if (promise->message != NULL) memcpy(promise->message, message, size);
  promise->code = code == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL : code;
  xffi_promise_done(promise);
}

XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_promise_result_(xffi_promise* promise) {
  XLA_FFI_Error* error = xffi_promise_error_(promise);
  xffi_promise_free(promise);
  return error;
}

/* Ends an asynchronous handler: `return xffi_promise_return(call, promise);`. Other threads may complete the promise
 * before or after this call. In stages other than execute, and if the call is refused, this function waits for the
 * completion. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_promise_return(const xffi_call* call, xffi_promise* promise) {
  /* XLA_FFI_Future_Create expects struct_size 16, and writes `future` after those 16 bytes. */
  XLA_FFI_Future_Create_Args args;
  XLA_FFI_Future_Create* create;
  XLA_FFI_Error* error;
  size_t slot;
  if (promise == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for a promise");
  }
  if (XFFI_LOAD_(&promise->state) == XFFI_PROMISE_DONE_) return xffi_promise_result_(promise);
  slot = xffi_future_slot_(call->api);
  if (slot != 0 && call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE && xffi_is_decoded_(call)) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
    xffi_load_slot_(call->api, slot, &create);
    error = create(&args);
    if (error == NULL) {
      promise->future = args.future;
      call->frame->future = args.future;
      if (XFFI_SWAP_(&promise->state, XFFI_PROMISE_BOUND_) == XFFI_PROMISE_DONE_) {
        xffi_promise_signal_(promise); /* the promise was completed while the future was created */
        xffi_promise_free(promise);
      }
      return NULL;
    }
    xffi_error_free(call->api, error); /* without a future, wait for the completion */
  }
  while (XFFI_LOAD_(&promise->state) != XFFI_PROMISE_DONE_) XFFI_YIELD_();
  return xffi_promise_result_(promise);
}

#endif  /* XLA_FFI_FUTURE_H_ */
