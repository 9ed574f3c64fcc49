// Calls a handler that is linked into the program.
#include <cstdio>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime.h"

namespace ffi = xla::ffi;
using Vector = ffi::Buffer<ffi::F32, 1>;

// y = x + 1
static ffi::Error Next(Vector x, ffi::Result<Vector> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kNext, Next,
                       ffi::Ffi::Bind().Arg<Vector>("x").Ret<Vector>("y").Shape(XLA_FFI_SHAPE("n -> n")));
// Registers the handler with xffi_rt_global() when the program starts.
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "next", "Host", kNext);

// Returns true for success. Otherwise prints and destroys the error.
static bool Ok(xffi_rt_status* status) {
  if (status == nullptr) return true;
  std::fprintf(stderr, "%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return false;
}

int main() {
  xffi_rt* const runtime = xffi_rt_global();
  const int64_t size = 2;
  float x[2] = {1, 2}, y[2];
  xffi_rt_call* call = nullptr;
  if (!Ok(xffi_rt_call_create(runtime, "next", "Host", nullptr, &call))) return 1;
  if (!Ok(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, &size, x))) return 1;
  if (!Ok(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &size, y))) return 1;
  if (!Ok(xffi_rt_call_run(call))) return 1;
  std::printf("%g %g\n", y[0], y[1]);
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
}
