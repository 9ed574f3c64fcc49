/* Handlers for features that JAX on CPU does not support. */
#include <string.h>

#include "xla_ffi/handler.h"

static XLA_FFI_Error* scratch_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  void *first, *second;
  XLA_FFI_Error *error, *other;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_scratch(call, 64, 64, &first)) != NULL) return error;
  if ((error = xffi_scratch(call, 8, 8, &second)) == NULL) {
    memset(first, 7, 64);
    memset(second, 7, 8);
    *(int64_t*)y.data = ((char*)first)[63] + ((char*)second)[7];
    error = xffi_scratch_free(call, second, 8);
  }
  other = xffi_scratch_free(call, first, 64);
  if (error == NULL) return other;
  if (other != NULL) xffi_error_free(call->api, other);
  return error;
}
XFFI_HANDLER(scratch, scratch_impl);

static xffi_type number_type = XFFI_SHARED_TYPE("torture.number", NULL);

static XLA_FFI_Error* user_data_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  void* number;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_find_user_data(call, &number_type, &number)) != NULL) return error;
  *(int64_t*)y.data = number != NULL ? *(const int64_t*)number : -1;
  return NULL;
}
XFFI_HANDLER(user_data, user_data_impl);
