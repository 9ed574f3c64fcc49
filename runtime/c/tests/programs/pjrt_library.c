/* Libraries with a handler that writes 9. With REGISTERS, the library exports
 * `xla_ffi_register`, like Rust's `library!`. Otherwise, it has a manifest with two handlers:
 * one for this platform, with a state, and one for a different platform. With WRONGLY, the
 * handlers are refused. With ELSEWHERE, no handler is for this platform. With SILENT, the
 * library has no manifest. */
#include "xla_ffi/handler.h"

#if defined(REGISTERS)
/* Writes 9 to the result. */
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
#else
static xffi_type nine_type = XFFI_TYPE("described_c.Nine", free);

static XLA_FFI_Error* make_impl(xffi_call* call) {
  XLA_FFI_Error* error;
  int64_t* nine;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((nine = (int64_t*)malloc(sizeof(*nine))) == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  }
  *nine = 9;
  return xffi_set_state(call, &nine_type, nine);
}
XFFI_HANDLER_WITH(make_nine, make_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, &nine_type);

/* Writes 9 to the result. */
static XLA_FFI_Error* nine_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  void* nine = NULL;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_get_state(call, &nine_type, XLA_FFI_ExecutionStage_INSTANTIATE, &nine);
  if (error != NULL) return error;
  *(int64_t*)y.data = *(int64_t*)nine;
  return NULL;
}
XFFI_HANDLER_WITH(nine, nine_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, NULL);

#define NINE(name, platform, symbol)                                                                 \
  XFFI_DESCRIBE_WITH(name, XFFI_PLATFORMS("CUDA", platform),                                          \
                     XFFI_STAGES(XFFI_STAGE(instantiate, make_nine), XFFI_STAGE(execute, symbol)),    \
                     XFFI_FLOOR(r1), XFFI_ARGS(), XFFI_RETS(XFFI_OPERAND("y", S64, 0)), XFFI_ATTRS())
#if defined(WRONGLY)
XFFI_LIBRARY(described_c, NINE("wrongly.nowhere", "Host", nowhere), NINE("wrongly.nine", "Host", nine),
             NINE("pjrt_library.nine", "Host", nine));
#elif defined(ELSEWHERE)
XFFI_LIBRARY(described_c, NINE("described.nine", "ROCM", nine));
#elif !defined(SILENT)
XFFI_LIBRARY(described_c, NINE("described.nine", "Host", nine), NINE("described.elsewhere", "ROCM", nine));
#endif
#endif
