/* Cancellation of calls, the only extension that this SDK defines. The embedded runtime provides it from r9 on
 * (<xla_ffi/runtime.h>: xffi_rt_canceller, time limits, shutdown). All other hosts never cancel calls.
 * Part of <xla_ffi/handler.h> and, for C++, of <xla/ffi/api/ffi.h>.
 *
 *   xffi_cancellation cancellation = xffi_cancellation_of(call->api, call->ctx);
 *   while (more_to_do) {
 *     if ((error = xffi_check_cancelled(call, &cancellation)) != NULL) return error;
 *     ...
 *   }
 *
 * An asynchronous handler retains the object before it returns, and releases it when it is done.
 */
#ifndef XLA_FFI_CANCELLATION_H_
#define XLA_FFI_CANCELLATION_H_

#include "xla_ffi/host.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* The extension's type: the bytes "XFFI", followed by the number 1. */
#define XFFI_EXTENSION_CANCELLATION_ INT64_C(0x5846464900000001)

/* The extension as provided by a host. The extension struct lives as long as the context; `object` lives until its last
 * release. The functions may be called from any thread. */
typedef struct xffi_cancellation_extension_ {
  XLA_FFI_Extension extension;
  const void* object;
  int32_t (*is_cancelled)(const void* object);
  void (*retain)(const void* object);
  void (*release)(const void* object);
} xffi_cancellation_extension_;

/* A cancellation handle, which a handler polls. All fields are null if the host does not support cancellation. */
typedef struct xffi_cancellation {
  const void* object;
  int32_t (*is_cancelled)(const void* object);
  void (*retain)(const void* object);
  void (*release)(const void* object);
} xffi_cancellation;

/* Returns the cancellation handle of the current call. The handle is valid until the handler returns, or longer if it
 * is retained. */
static inline xffi_cancellation xffi_cancellation_of(const XLA_FFI_Api* api,
                                                     XLA_FFI_InvokeContext* ctx) {
  XLA_FFI_InvokeContext_FindExtension_Args args;
  xffi_cancellation found;
  XLA_FFI_Error* error;
  memset(&found, 0, sizeof(found));
  if (!XFFI_HOST_HAS_(api, XLA_FFI_InvokeContext_FindExtension)) return found;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE;
  args.ctx = ctx;
  args.extension_type = XFFI_EXTENSION_CANCELLATION_;
  error = api->XLA_FFI_InvokeContext_FindExtension(&args);
  if (error != NULL) {
    xffi_error_free(api, error);
    return found;
  }
  if (args.extension != NULL && args.extension->id.major_version == 0 &&
      args.extension->struct_size >= sizeof(xffi_cancellation_extension_)) {
    const xffi_cancellation_extension_* extension =
        (const xffi_cancellation_extension_*)(const void*)args.extension;
    found.object = extension->object;
    found.is_cancelled = extension->is_cancelled;
    found.retain = extension->retain;
    found.release = extension->release;
  }
  return found;
}

/* Returns 1 if the call is cancelled, otherwise 0. */
static inline int xffi_is_cancelled(const xffi_cancellation* cancellation) {
  return cancellation->is_cancelled != NULL &&
         cancellation->is_cancelled(cancellation->object) != 0;
}

/* Returns the reason for the cancellation, as the code of the error to return: CANCELLED by a canceller,
 * DEADLINE_EXCEEDED after the time limit, UNAVAILABLE after a shutdown. Returns OK if the call is not cancelled. */
static inline XLA_FFI_Error_Code xffi_cancelled_code(const xffi_cancellation* cancellation) {
  if (cancellation->is_cancelled == NULL) return XLA_FFI_Error_Code_OK;
  return (XLA_FFI_Error_Code)cancellation->is_cancelled(cancellation->object);
}

/* Returns the text of a reason that xffi_cancelled_code returned. */
static inline const char* xffi_cancelled_reason(XLA_FFI_Error_Code code) {
  if (code == XLA_FFI_Error_Code_DEADLINE_EXCEEDED) return "gave up, because the time limit is over";
  if (code == XLA_FFI_Error_Code_UNAVAILABLE) return "gave up, because the runtime shuts down";
  return "gave up, because the call was cancelled";
}

/* Keeps a handle valid after the handler returns, until it is released. */
static inline void xffi_cancellation_retain(const xffi_cancellation* cancellation) {
  if (cancellation->retain != NULL) cancellation->retain(cancellation->object);
}

/* Releases a handle that was retained. */
static inline void xffi_cancellation_release(const xffi_cancellation* cancellation) {
  if (cancellation->release != NULL) cancellation->release(cancellation->object);
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_CANCELLATION_H_ */
