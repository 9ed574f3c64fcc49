/* y = x / sqrt(mean(x^2) + eps), over the last dimension. x, y: f32[..., n]; eps: f32. */
#include <math.h>

#include "xla_ffi/handler.h"

static XLA_FFI_Error* rms_norm_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float eps = xffi_attr_f32_or(call, "eps", 1e-5f);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if (x.present && x.rank == 0) xffi_problem(call, "argument 'x': expected rank 1 or more, got 0");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t n = x.dims[x.rank - 1], row = 0; row + n <= x.count && n > 0; row += n) {
    const float* in = (const float*)x.data + row;
    float* out = (float*)y.data + row;
    float sum = 0, scale;
    for (int64_t i = 0; i < n; ++i) sum += in[i] * in[i];
    scale = 1 / sqrtf(sum / (float)n + eps);
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] * scale;
  }
  return NULL;
}

XFFI_HANDLER(rms_norm, rms_norm_impl);

XFFI_MANIFEST(
    rms_norm,
    "{\"library\": \"rms_norm\", \"sdk\": \"0.1.0\", \"register\": null, \"handlers\": ["
    "{\"name\": \"rms_norm\", \"platforms\": [\"cpu\"], \"stages\": {\"execute\": \"rms_norm\"},"
    " \"args\": [{\"name\": \"x\", \"kind\": \"buffer\", \"dtypes\": [\"F32\"], \"rank\": null,"
    " \"optional\": false, \"variadic\": false}],"
    " \"rets\": [{\"name\": \"y\", \"kind\": \"buffer\", \"dtypes\": [\"F32\"], \"rank\": null,"
    " \"optional\": false, \"variadic\": false}],"
    " \"attrs\": [{\"name\": \"eps\", \"type\": \"f32\", \"optional\": true, \"default\": 1e-5,"
    " \"narrow\": false}], \"open_attrs\": false, \"shape\": \"... n -> ... n\", \"context\": [],"
    " \"traits\": [], \"async\": false, \"state\": null, \"floor\": \"r0\"}]}");
