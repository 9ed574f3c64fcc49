// A C++ program whose handlers register themselves at program start through XLA_FFI_GetApi, like handlers that are
// linked into XLA.

#include <cstdint>
#include <cstdio>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime.h"

namespace ffi = xla::ffi;

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi() { return XLA_FFI_GetApi(); }
}  // namespace xla::ffi

using F32 = ffi::Buffer<ffi::DataType::F32>;

static ffi::Error Double(F32 x, ffi::Result<F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kDouble, Double, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_REGISTER_HANDLER(ffi::GetXlaFfiApi(), "double", "Host", kDouble);

int main() {
  float x[2] = {1.5f, 4}, y[2] = {};
  const int64_t two = 2;
  xffi_rt* runtime = xffi_rt_global();
  xffi_rt_call* call = nullptr;
  xffi_rt_status* status = xffi_rt_call_create(runtime, "double", "cpu", nullptr, &call);
  if (status == nullptr) status = xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &two, x);
  if (status == nullptr) status = xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &two, y);
  if (status == nullptr) status = xffi_rt_call_run(call);
  if (status != nullptr) {
    std::fprintf(stderr, "%s\n", xffi_rt_status_message(status));
    return 1;
  }
  std::printf("%g %g\n", y[0], y[1]);
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
  return 0;
}
