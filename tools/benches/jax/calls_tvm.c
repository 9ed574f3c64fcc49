/* The copies of calls.rs as packed functions of TVM's FFI, which jax-tvm-ffi calls. */
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
