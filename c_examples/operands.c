/* Handlers for operands of one type and rank, operands that are updated in place, operands of several element types,
 * and sub-byte elements. */
#include "xla_ffi/handler.h"

/* The example of XLA's custom-call documents, A[i] = B[i % n] + C[i], for buffers of any size.
 * b: f32[n], c: f32[m], a: f32[m]. */
static XLA_FFI_Error* tiled_add_impl(xffi_call* call) {
  xffi_buffer b = xffi_arg(call, "b", XLA_FFI_DataType_F32, 1);
  xffi_buffer c = xffi_arg(call, "c", XLA_FFI_DataType_F32, 1);
  xffi_buffer a = xffi_ret(call, "a", XLA_FFI_DataType_F32, 1);
  const float *pb = (const float*)b.data, *pc = (const float*)c.data;
  float* pa = (float*)a.data;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "c", &c, "a", &a);
  if (b.present && b.count == 0 && c.count > 0) xffi_problem(call, "`b`: nothing to tile");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0, k = 0; i < a.count; ++i, k = k + 1 == b.count ? 0 : k + 1) {
    pa[i] = pb[k] + pc[i];
  }
  return NULL;
}

XFFI_HOST_HANDLER(tiled_add, tiled_add_impl);

/* An in-out operand, which is both argument and result: y = a x + y, in place. A call is refused unless argument 1 is
 * aliased with result 0. x, y: f32[n]; a: f32. */
static XLA_FFI_Error* axpy_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_inout(call, "y", XLA_FFI_DataType_F32, 1);
  const float a = xffi_attr_f32(call, "a");
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] += a * ((const float*)x.data)[i];
  }
  return NULL;
}

XFFI_HOST_HANDLER(axpy, axpy_impl);

/* A handler for several element types: the matrix products z[b] = x[b] y[b] of a batch.
 * x: f32 or f64 [b, n, k]; y: [b, k, m]; z: [b, n, m], all of the same type. */
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
    xffi_problem(call, "argument `x`: expected F32 or F64, got %s", xffi_dtype_name(x.dtype));
  }
  if (call->problems == 0) {
    if (y.dims[0] != x.dims[0] || y.dims[1] != x.dims[2]) {
      xffi_problem(call, "`y`: expected dimensions [%lld, %lld, m], got [%lld, %lld, m]",
                   (long long)x.dims[0], (long long)x.dims[2], (long long)y.dims[0],
                   (long long)y.dims[1]);
    }
    if (z.dims[0] != x.dims[0] || z.dims[1] != x.dims[1] || z.dims[2] != y.dims[2]) {
      xffi_problem(call, "`z`: expected dimensions [%lld, %lld, %lld]", (long long)x.dims[0],
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

/* A handler with sub-byte elements, the weights of a quantized layer: w[i, j] = scale[i] * q[i, j].
 * q: s4[n, m]; scale: f32[n]; w: f32[n, m]. */
static XLA_FFI_Error* dequantize_impl(xffi_call* call) {
  xffi_buffer q = xffi_arg(call, "q", XLA_FFI_DataType_S4, 2);
  xffi_buffer scale = xffi_arg(call, "scale", XLA_FFI_DataType_F32, 1);
  xffi_buffer w = xffi_ret(call, "w", XLA_FFI_DataType_F32, 2);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "q", &q, "w", &w);
  if (call->problems == 0 && scale.count != q.dims[0]) {
    xffi_problem(call, "`scale`: expected %lld elements, got %lld", (long long)q.dims[0],
                 (long long)scale.count);
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < q.count; ++i) {
    /* Each byte has two elements, the first in the low bits. */
    const int bits = ((const unsigned char*)q.data)[i / 2] >> (i % 2 * 4) & 15;
    const float value = (float)(bits < 8 ? bits : bits - 16);
    ((float*)w.data)[i] = ((const float*)scale.data)[i / q.dims[1]] * value;
  }
  return NULL;
}

XFFI_HOST_HANDLER(dequantize, dequantize_impl);

#define VECTOR(name) XFFI_OPERAND(name, F32, 1)
#define IN_PLACE(name) XFFI_OPERAND_WITH(name, XFFI_DTYPE(F32), XFFI_RANK(1), XFFI_INOUT)
#define MATRICES(name) XFFI_OPERAND_WITH(name, XFFI_DTYPES("F32", "F64"), XFFI_RANK(3))

/* The library's manifest, for tools and the JAX loader. The result of axpy shares memory with the argument of the same
 * name. Callers that use the manifest therefore alias the argument with the result. */
XFFI_LIBRARY(operands,
             XFFI_DESCRIBE(tiled_add, XFFI_ARGS(VECTOR("b"), VECTOR("c")), XFFI_RETS(VECTOR("a")),
                           XFFI_ATTRS(), XFFI_SHAPE("n, m -> m")),
             XFFI_DESCRIBE(axpy, XFFI_ARGS(VECTOR("x"), IN_PLACE("y")), XFFI_RETS(IN_PLACE("y")),
                           XFFI_ATTRS(XFFI_ATTR("a", f32)), XFFI_SHAPE("n, n -> n"),
                           XFFI_TRAITS("host_only")),
             XFFI_DESCRIBE(matmul, XFFI_ARGS(MATRICES("x"), MATRICES("y")),
                           XFFI_RETS(MATRICES("z")), XFFI_ATTRS(),
                           XFFI_SHAPE("b n k, b k m -> b n m"), XFFI_TRAITS("host_only")),
             XFFI_DESCRIBE(dequantize, XFFI_ARGS(XFFI_OPERAND("q", S4, 2), VECTOR("scale")),
                           XFFI_RETS(XFFI_OPERAND("w", F32, 2)), XFFI_ATTRS(),
                           XFFI_SHAPE("n m, n -> n m"), XFFI_TRAITS("host_only")));
