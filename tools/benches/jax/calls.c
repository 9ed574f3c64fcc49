/* The copying handlers of calls.rs in C, and the two loops over elements on the host's thread pool. With TVM defined,
 * the copying handlers are packed functions of TVM FFI, which jax-tvm-ffi calls. */
#ifdef TVM
#include <stdint.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static int copies(const TVMFFIAny* args, int32_t count) {
  for (int32_t i = 0; i < count / 2; ++i) {
    const DLTensor* x = args[i].v_ptr;
    const DLTensor* y = args[count / 2 + i].v_ptr;
    memcpy((char*)y->data + y->byte_offset, (const char*)x->data + x->byte_offset,
           (size_t)x->shape[0] * sizeof(float));
  }
  return 0;
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_copy_1(void* self, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  (void)self, (void)result;
  return copies(args, count);
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_copy_8(void* self, const TVMFFIAny* args, int32_t count,
                                        TVMFFIAny* result) {
  (void)self, (void)result;
  return copies(args, count);
}
#else
#include <string.h>

#include "xla_ffi/handler.h"

static XLA_FFI_Error* copies(xffi_call* call, int count) {
  static const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
  xffi_buffer x[8], y[8];
  XLA_FFI_Error* error;
  int i;
  for (i = 0; i < count; ++i) x[i] = xffi_arg(call, names[i], XLA_FFI_DataType_F32, 1);
  for (i = 0; i < count; ++i) y[i] = xffi_ret(call, names[count + i], XLA_FFI_DataType_F32, 1);
  for (i = 0; i < count; ++i) xffi_same_shape(call, names[i], &x[i], names[count + i], &y[i]);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < count; ++i) memcpy(y[i].data, x[i].data, (size_t)x[i].count * sizeof(float));
  return NULL;
}

static XLA_FFI_Error* copy_1_impl(xffi_call* call) { return copies(call, 1); }
static XLA_FFI_Error* copy_8_impl(xffi_call* call) { return copies(call, 8); }

XFFI_HOST_HANDLER(copy_1, copy_1_impl);
XFFI_HOST_HANDLER(copy_8, copy_8_impl);

typedef struct operands {
  const float* x;
  float* y;
} operands;

static void scale(void* data, int64_t begin, int64_t end) {
  const operands* own = (const operands*)data;
  int64_t i;
  for (i = begin; i < end; ++i) own->y[i] = 2.0f * own->x[i] + 1.0f;
}

static void newton(void* data, int64_t begin, int64_t end) {
  const operands* own = (const operands*)data;
  int64_t i;
  for (i = begin; i < end; ++i) {
    float root = own->x[i];
    int step;
    for (step = 0; step < 16; ++step) root = 0.5f * (root + own->x[i] / root);
    own->y[i] = root;
  }
}

static XLA_FFI_Error* loop(xffi_call* call, xffi_range_body* body) {
  const xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  operands own;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  own.x = (const float*)x.data;
  own.y = (float*)y.data;
  xffi_for_each_range(call, x.count, 16384, body, &own);
  return NULL;
}

static XLA_FFI_Error* scale_impl(xffi_call* call) { return loop(call, scale); }
static XLA_FFI_Error* newton_impl(xffi_call* call) { return loop(call, newton); }

XFFI_HOST_HANDLER(scale_host, scale_impl);
XFFI_HOST_HANDLER(newton_host, newton_impl);
#endif
