/* Whether a call's operands lie in host memory. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_PLACE_H_
#define XLA_FFI_PLACE_H_

#include <string.h>

#include "xla_ffi/memory.h"

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Function tables of hosts whose calls have no stream: the first that was found, which in most processes is the
 * only one, and sets of four for those that came later. A server may make hosts and drop them for ever: in a set the
 * longest unasked makes room for the next. */
#define XLA_FFI_SDK_HOST_SETS_ 32
#define XLA_FFI_SDK_HOSTS_OF_SET_ 4
typedef const XLA_FFI_Api* volatile xla_ffi_sdk_host;

/* The set of a function table, by the upper five bits of its address, mixed. */
XLA_FFI_SDK_MEMORY_SLOW xla_ffi_sdk_host* xla_ffi_sdk_host_set(const XLA_FFI_Api* api, xla_ffi_sdk_host* hosts) {
  const uint64_t mixed = ((uint64_t)(uintptr_t)api >> 4) * 0x9E3779B97F4A7C15u;
  return hosts + 1 + XLA_FFI_SDK_HOSTS_OF_SET_ * (size_t)(mixed >> 59);
}

/* Asks the host for the call's stream. Where it has none it makes an error object to say so, which no
 * call but the first can afford. 0 also for a host that takes no errors: what a table lacks is looked for
 * once as well. */
XLA_FFI_SDK_MEMORY_SLOW int xla_ffi_sdk_ask_for_stream(const XLA_FFI_CallFrame* frame,
                                                       xla_ffi_sdk_host* hosts) {
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_Stream_Get_Args args;
  XLA_FFI_Error* error;
  xla_ffi_sdk_host* set = xla_ffi_sdk_host_set(api, hosts);
  int i;
  for (i = 0; i < XLA_FFI_SDK_HOSTS_OF_SET_; ++i) {
    if (XLA_FFI_SDK_LOAD_(&set[i]) == api) return 1;
  }
  if (api->XLA_FFI_Error_Create == NULL) return 0;
  if (api->XLA_FFI_Stream_Get != NULL) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    error = api->XLA_FFI_Stream_Get(&args);
    if (error == NULL && args.stream != NULL) return 0;
    if (error != NULL && api->XLA_FFI_Error_Destroy != NULL) {
      XLA_FFI_Error_Destroy_Args destroy;
      memset(&destroy, 0, sizeof(destroy));
      destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
      destroy.error = error;
      api->XLA_FFI_Error_Destroy(&destroy);
    }
  }
  /* GPU hosts have no stream in their early stages: those prove nothing. */
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return 1;
  /* Of two threads at once the last stays: the other is asked again. */
  if (XLA_FFI_SDK_LOAD_(&hosts[0]) == NULL) {
    XLA_FFI_SDK_STORE_(&hosts[0], api);
    return 1;
  }
  for (i = XLA_FFI_SDK_HOSTS_OF_SET_ - 1; i > 0; --i) {
    const XLA_FFI_Api* newer = XLA_FFI_SDK_LOAD_(&set[i - 1]);
    XLA_FFI_SDK_STORE_(&set[i], newer);
  }
  XLA_FFI_SDK_STORE_(&set[0], api);
  return 1;
}

XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_is_on_host(const XLA_FFI_CallFrame* frame) {
  static xla_ffi_sdk_host hosts[1 + XLA_FFI_SDK_HOST_SETS_ * XLA_FFI_SDK_HOSTS_OF_SET_];
  return XLA_FFI_SDK_MEMORY_LIKELY(XLA_FFI_SDK_LOAD_(&hosts[0]) == frame->api) ||
         xla_ffi_sdk_ask_for_stream(frame, hosts);
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_PLACE_H_ */
