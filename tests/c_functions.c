/* Handlers that call what examples in C have no use for: tests/c_functions.rs calls them. */
#include "xla_ffi/handler.h"

/* y = x + m, where there is an m; told is 1 then, where it is asked for. */
static XLA_FFI_Error* optional_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer m = xffi_optional_arg(call, "m", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  xffi_buffer told = xffi_optional_ret(call, "told", XLA_FFI_DataType_S32, 0);
  XLA_FFI_Error* error;
  int64_t i;
  if (m.present) xffi_same_shape(call, "x", &x, "m", &m);
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] = ((const float*)x.data)[i] + (m.present ? ((const float*)m.data)[i] : 0.0f);
  }
  if (told.present) *(int32_t*)told.data = m.present;
  return NULL;
}
XFFI_HANDLER(optional, optional_impl);

/* y = x + y in place, and the sum of y. */
static XLA_FFI_Error* in_place_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_inout(call, "y", XLA_FFI_DataType_F32, 1);
  xffi_buffer sum = xffi_ret(call, "sum", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error;
  float total = 0;
  int64_t i;
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) total += ((float*)y.data)[i] += ((const float*)x.data)[i];
  ((float*)sum.data)[0] = total;
  return NULL;
}
XFFI_HANDLER(in_place, in_place_impl);

/* y = -x. */
static XLA_FFI_Error* negated_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error;
  int64_t i;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = -((const float*)x.data)[i];
  return NULL;
}
XFFI_HANDLER(negated, negated_impl);

/* The length of a text, which is "none" unless it is given, and its first byte. */
static XLA_FFI_Error* words_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  const XLA_FFI_ByteSpan text = xffi_attr_str_or(call, "text", "none");
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  ((int32_t*)y.data)[0] = (int32_t)text.len;
  ((int32_t*)y.data)[1] = text.len > 0 ? text.ptr[0] : 0;
  return NULL;
}
XFFI_HANDLER(words, words_impl);

/* z = x y, for matrices. */
static XLA_FFI_Error* product_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 2);
  xffi_buffer y = xffi_arg(call, "y", XLA_FFI_DataType_F32, 2);
  xffi_buffer z = xffi_ret(call, "z", XLA_FFI_DataType_F32, 2);
  XLA_FFI_Error* error;
  int64_t i, j, k;
  xffi_shapes(call, "n k, k m -> n m");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.dims[0]; ++i) {
    for (j = 0; j < y.dims[1]; ++j) {
      float sum = 0;
      for (k = 0; k < x.dims[1]; ++k) {
        sum += ((const float*)x.data)[i * x.dims[1] + k] * ((const float*)y.data)[k * y.dims[1] + j];
      }
      ((float*)z.data)[i * z.dims[1] + j] = sum;
    }
  }
  return NULL;
}
XFFI_HANDLER(product, product_impl);

/* The stream's address, and whether scratch memory is writable. */
static XLA_FFI_Error* device_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 1);
  void *stream, *scratch;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_stream(call, &stream)) != NULL) return error;
  if ((error = xffi_scratch(call, 4096, 64, &scratch)) != NULL) return error;
  memset(scratch, 7, 4096);
  ((int64_t*)y.data)[0] = (int64_t)(intptr_t)stream;
  ((int64_t*)y.data)[1] = ((unsigned char*)scratch)[4095] + ((uintptr_t)scratch % 64 == 0);
  return xffi_scratch_free(call, scratch, 4096);
}
XFFI_HANDLER(device, device_impl);

/* Whether the context has an extension of a type that nobody has. */
static XLA_FFI_Error* extension_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const XLA_FFI_Extension* found;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_extension(call, 77, &found)) != NULL) return error;
  *(int32_t*)y.data = found != NULL;
  return NULL;
}
XFFI_HANDLER(extension, extension_impl);

/* What the host says of user data of a type that it does not know. */
static XLA_FFI_Error* nobodys_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  XLA_FFI_TypeId nobodys = {4711};
  XLA_FFI_Error_Code code;
  XLA_FFI_Error* error;
  void* data;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_user_data(call, nobodys, &data)) == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "there is user data of a type that nobody has");
  }
  *(int32_t*)y.data = strlen(xffi_error_details(call->api, error, &code)) > 0;
  xffi_error_free(call->api, error);
  return NULL;
}
XFFI_HANDLER(nobodys, nobodys_impl);
