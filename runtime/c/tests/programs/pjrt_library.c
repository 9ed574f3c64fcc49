/* A library that registers its handler when a host asks it to, as Rust's `library!` does. */
#include "xla_ffi/handler.h"

/* y = 9 */
static XLA_FFI_Error* nine_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  *(int64_t*)y.data = 9;
  return NULL;
}
XFFI_HANDLER(nine, nine_impl);

XLA_FFI_Error* xla_ffi_register(const XLA_FFI_Api* api, const char* platform);
XLA_FFI_Error* xla_ffi_register(const XLA_FFI_Api* api, const char* platform) {
  static const char name[] = "pjrt_library.nine";
  XLA_FFI_Handler_Register_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  args.name.ptr = name;
  args.name.len = strlen(name);
  args.platform.ptr = platform;
  args.platform.len = strlen(platform);
  args.bundle.execute = nine;
  return api->XLA_FFI_Handler_Register(&args);
}
