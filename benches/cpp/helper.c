/* The same handlers through xla_ffi/handler.h. */
#include "xla_ffi/handler.h"

#define F32 XLA_FFI_DataType_F32
#define DATA(b) ((float*)(b).data)
#define HANDLER(name)                                    \
  static XLA_FFI_Error* name##_impl(xffi_call* call);    \
  XFFI_HANDLER(name, name##_impl);                       \
  static XLA_FFI_Error* name##_impl(xffi_call* call)
#define DONE()                                           \
  do {                                                   \
    XLA_FFI_Error* error = xffi_decoded(call);           \
    if (error != NULL) return error;                     \
  } while (0)

HANDLER(helper_one_buffer) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  call->open_attrs = 1;
  DONE();
  DATA(y)[0] = DATA(x)[0];
  return NULL;
}

HANDLER(helper_ten_buffers) {
  xffi_buffer a = xffi_arg(call, "a", F32, 1), b = xffi_arg(call, "b", F32, 1);
  xffi_buffer c = xffi_arg(call, "c", F32, 1), d = xffi_arg(call, "d", F32, 1);
  xffi_buffer e = xffi_arg(call, "e", F32, 1), f = xffi_arg(call, "f", F32, 1);
  xffi_buffer g = xffi_arg(call, "g", F32, 1), h = xffi_arg(call, "h", F32, 1);
  xffi_buffer y = xffi_ret(call, "y", F32, 1), z = xffi_ret(call, "z", F32, 1);
  call->open_attrs = 1;
  DONE();
  DATA(y)[0] = DATA(a)[0] + DATA(b)[0] + DATA(c)[0] + DATA(d)[0];
  DATA(z)[0] = DATA(e)[0] + DATA(f)[0] + DATA(g)[0] + DATA(h)[0];
  return NULL;
}

HANDLER(helper_four_attrs) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  const float eps = xffi_attr_f32(call, "epsilon");
  const int32_t axis = xffi_attr_i32(call, "axis");
  const int64_t size = xffi_attr_i64(call, "size");
  const int flag = xffi_attr_bool(call, "flag") != 0;
  DONE();
  DATA(y)[0] = DATA(x)[0] + eps + (float)(axis + size + flag);
  return NULL;
}

HANDLER(helper_arrays) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  const xffi_i64_array shape = xffi_attr_i64_array(call, "shape");
  const XLA_FFI_ByteSpan mode = xffi_attr_str(call, "mode");
  DONE();
  DATA(y)[0] = DATA(x)[0] + (float)shape.data[0] + (float)mode.len;
  return NULL;
}

HANDLER(helper_stream) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  void* stream;
  XLA_FFI_Error* error;
  call->open_attrs = 1;
  DONE();
  if ((error = xffi_stream(call, &stream)) != NULL) return error;
  DATA(y)[0] = DATA(x)[0] + (stream != NULL);
  return NULL;
}

HANDLER(helper_remaining) {
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  float sum = 0;
  while (xffi_args_left(call) > 0) {
    xffi_buffer x = xffi_arg(call, "xs", F32, XFFI_ANY_RANK);
    if (x.present) sum += DATA(x)[0];
  }
  call->open_attrs = 1;
  DONE();
  DATA(y)[0] = sum;
  return NULL;
}

HANDLER(helper_dictionary) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  const float eps = xffi_attr_f32(call, "epsilon");
  const int64_t size = xffi_attr_i64(call, "size");
  call->open_attrs = 1;
  DONE();
  DATA(y)[0] = DATA(x)[0] + eps + (float)size;
  return NULL;
}
