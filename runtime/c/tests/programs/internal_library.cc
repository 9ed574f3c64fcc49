// A handler of the internal API in a shared library: nobody but a runtime within that library may call it.
#include "xla/ffi/ffi.h"

namespace ffi = xla::ffi;

static ffi::Status Insider(ffi::Invocation call, ffi::Result<ffi::Buffer<ffi::S64, 0>> y) {
  *y->typed_data() = call.run_id();
  return ffi::OkStatus();
}
using Number = ffi::Buffer<ffi::S64, 0>;
XLA_FFI_DEFINE_HANDLER_SYMBOL(insider, Insider,
                              ffi::Ffi::Bind().Ctx<ffi::Invocation>().Ret<Number>("y"));

// What the library's own runtime says, where it has one: it is of the same image.
extern "C" __attribute__((visibility("default"))) int runs_at_home() {
  const XLA_FFI_Handler_Bundle bundle{nullptr, nullptr, nullptr, insider, nullptr};
  xffi_rt* runtime = nullptr;
  if (xffi_rt_create(XFFI_RT_NEWEST, &runtime) != nullptr) return 1;
  if (xffi_rt_register(runtime, "insider", "cpu", &bundle, 0) != nullptr) return 2;
  xffi_rt_call* call = nullptr;
  if (xffi_rt_call_create(runtime, "insider", "cpu", nullptr, &call) != nullptr) return 3;
  int64_t y = 0;
  if (xffi_rt_call_ret(call, XLA_FFI_DataType_S64, 0, nullptr, &y) != nullptr) return 4;
  if (xffi_rt_call_set_run_id(call, 9) != nullptr || xffi_rt_call_run(call) != nullptr) return 5;
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
  return y == 9 ? 0 : 6;
}
