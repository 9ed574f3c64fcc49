/* What tests/wording.rs asks of the C headers. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* run_id_impl(xffi_call* call) {
  int64_t id;
  XLA_FFI_Error* error = xffi_run_id(call, &id);
  return error != NULL ? error : xffi_decoded(call);
}
XFFI_HANDLER(run_id, run_id_impl);

static XLA_FFI_Error* device_ordinal_impl(xffi_call* call) {
  int32_t ordinal;
  XLA_FFI_Error* error = xffi_device_ordinal(call, &ordinal);
  return error != NULL ? error : xffi_decoded(call);
}
XFFI_HANDLER(device_ordinal, device_ordinal_impl);

/* Fails with the code that the host's own error is told to have. */
static XLA_FFI_Error* code_impl(xffi_call* call) {
  const XLA_FFI_TypeId unknown = {4711};
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_OK;
  XLA_FFI_Error* error;
  void* data;
  error = xffi_user_data(call, unknown, &data);
  if (error == NULL) return NULL;
  xffi_error_details(call->api, error, &code);
  xffi_error_free(call->api, error);
  return xffi_error(call, XLA_FFI_Error_Code_ABORTED, "code %d", (int)code);
}
XFFI_HANDLER(code, code_impl);
