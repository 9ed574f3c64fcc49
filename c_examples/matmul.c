/* One handler for several element types: z[b] = x[b] y[b], batch by batch.
 * x: f32 or f64 [b, n, k]; y: [b, k, m]; z: [b, n, m], all of one type. */
#include "xla_ffi/handler.h"

#define PRODUCT(T)                                                                        \
  for (int64_t row = 0; row < b * n; ++row) {                                             \
    const T *left = (const T*)x.data + row * k, *right = (const T*)y.data + row / n * k * m; \
    for (int64_t column = 0; column < m; ++column) {                                      \
      T sum = 0;                                                                          \
      for (int64_t i = 0; i < k; ++i) sum += left[i] * right[i * m + column];             \
      ((T*)z.data)[row * m + column] = sum;                                               \
    }                                                                                     \
  }

static XLA_FFI_Error* matmul_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XFFI_ANY_DTYPE, 3);
  xffi_buffer y = xffi_arg(call, "y", x.dtype, 3);
  xffi_buffer z = xffi_ret(call, "z", x.dtype, 3);
  int64_t b, n, k, m;
  XLA_FFI_Error* error;
  if (x.present && x.dtype != XLA_FFI_DataType_F32 && x.dtype != XLA_FFI_DataType_F64) {
    xffi_problem(call, "argument 'x': expected dtype F32 or F64, got %s", xffi_dtype_name(x.dtype));
  }
  if (call->problems == 0) {
    if (y.dims[0] != x.dims[0] || y.dims[1] != x.dims[2]) {
      xffi_problem(call, "'y': expected dimensions [%lld, %lld, m], got [%lld, %lld, m]",
                   (long long)x.dims[0], (long long)x.dims[2], (long long)y.dims[0],
                   (long long)y.dims[1]);
    }
    if (z.dims[0] != x.dims[0] || z.dims[1] != x.dims[1] || z.dims[2] != y.dims[2]) {
      xffi_problem(call, "'z': expected dimensions [%lld, %lld, %lld]", (long long)x.dims[0],
                   (long long)x.dims[1], (long long)y.dims[2]);
    }
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  b = x.dims[0], n = x.dims[1], k = x.dims[2], m = y.dims[2];
  if (x.dtype == XLA_FFI_DataType_F32) {
    PRODUCT(float)
  } else {
    PRODUCT(double)
  }
  return NULL;
}

XFFI_HOST_HANDLER(matmul, matmul_impl);
