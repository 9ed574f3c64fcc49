/* Whether a call's operands lie in host memory. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_PLACE_H_
#define XLA_FFI_PLACE_H_

#include <string.h>

#include "xla_ffi/host.h"
#include "xla_ffi/frame.h"

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Function tables of hosts whose calls have no stream, the newest first: most processes have one or two. */
#define XLA_FFI_SDK_HOSTS_ 8
typedef const XLA_FFI_Api* volatile xla_ffi_sdk_host;

/* Asks the host for the call's stream. A host that has none makes an error object, which no call but the first can afford. */
XLA_FFI_SDK_MEMORY_SLOW int xla_ffi_sdk_ask_for_stream(const XLA_FFI_CallFrame* frame,
                                                       xla_ffi_sdk_host* hosts) {
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_Stream_Get_Args args;
  XLA_FFI_Error* error;
  int i;
  for (i = 1; i < XLA_FFI_SDK_HOSTS_; ++i) {
    if (XLA_FFI_SDK_LOAD_(&hosts[i]) == api) return 1;
  }
  if (api->XLA_FFI_Stream_Get != NULL) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    error = api->XLA_FFI_Stream_Get(&args);
    if (error == NULL && args.stream != NULL) return 0;
    xffi_error_free(api, error);
  }
  /* GPU hosts have no stream in their early stages: those prove nothing. */
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return 1;
  /* Of two threads at once the last stays: the other host is asked again. */
  for (i = XLA_FFI_SDK_HOSTS_ - 1; i > 0; --i) {
    const XLA_FFI_Api* newer = XLA_FFI_SDK_LOAD_(&hosts[i - 1]);
    XLA_FFI_SDK_STORE_(&hosts[i], newer);
  }
  XLA_FFI_SDK_STORE_(&hosts[0], api);
  return 1;
}

XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_is_on_host(const XLA_FFI_CallFrame* frame) {
  static xla_ffi_sdk_host hosts[XLA_FFI_SDK_HOSTS_];
  return XLA_FFI_SDK_MEMORY_LIKELY(XLA_FFI_SDK_LOAD_(&hosts[0]) == frame->api) ||
         xla_ffi_sdk_ask_for_stream(frame, hosts);
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_PLACE_H_ */
