/* One handler that calls a library's registration entry with the api of its own call frame: how
 * xla_ffi_register is tried on a real jaxlib. See tests/jax/README.md. */
#include <stdint.h>
#include <string.h>

#include "xla_ffi/handler.h"

typedef XLA_FFI_Error* (*register_entry)(const XLA_FFI_Api* api, const char* platform);

static XLA_FFI_Error* bootstrap_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 0);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 0);
  const int64_t entry = xffi_attr_i64(call, "entry");
  register_entry function;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, x.data, sizeof(float));
  memcpy(&function, &entry, sizeof(function));
  return function(call->api, "cpu");
}

XFFI_HANDLER(bootstrap, bootstrap_impl);
