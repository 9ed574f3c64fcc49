// A call that outlasts its time limit, as a C++ program owns it: the operands are freed by whoever is told
// that it is over, the call and the runtime before that.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime.h"

namespace ffi = xla::ffi;

static std::promise<void> release;

static ffi::Future Late(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, in = x.typed_data(), out = y->typed_data(), n = x.element_count()]() mutable {
    release.get_future().wait();
    for (size_t i = 0; i < n; ++i) out[i] = 2 * in[i];
    promise.SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(late, Late,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// A status, which has to be of this code.
static void Expect(xffi_rt_status* status, XLA_FFI_Error_Code code) {
  const std::unique_ptr<xffi_rt_status, decltype(&xffi_rt_status_destroy)> own(status,
                                                                                xffi_rt_status_destroy);
  if (xffi_rt_status_code(status) == code) return;
  std::fprintf(stderr, "%s\n", xffi_rt_status_message(status));
  std::exit(1);
}

// Operands that live until the call is over.
struct Operands {
  std::vector<float> x = std::vector<float>(1000, 21.0f), y = std::vector<float>(1000);
  std::promise<bool> over;

  static void Over(void* user) {
    const std::unique_ptr<Operands> own(static_cast<Operands*>(user));
    std::promise<bool> over = std::move(own->over);
    over.set_value(own->y.back() == 42.0f);
  }
};

int main() {
  xffi_rt* raw = nullptr;
  Expect(xffi_rt_create(XFFI_RT_NEWEST, &raw), XLA_FFI_Error_Code_OK);
  std::unique_ptr<xffi_rt, decltype(&xffi_rt_destroy)> runtime(raw, xffi_rt_destroy);
  const XLA_FFI_Handler_Bundle bundle = {nullptr, nullptr, nullptr, late, nullptr};
  Expect(xffi_rt_register(raw, "late", "Host", &bundle, 0), XLA_FFI_Error_Code_OK);
  xffi_rt_call* started = nullptr;
  Expect(xffi_rt_call_create(raw, "late", "cpu", nullptr, &started), XLA_FFI_Error_Code_OK);
  std::unique_ptr<xffi_rt_call, decltype(&xffi_rt_call_destroy)> call(started, xffi_rt_call_destroy);

  auto operands = std::make_unique<Operands>();
  const int64_t dims = 1000;
  Expect(xffi_rt_call_arg(started, XLA_FFI_DataType_F32, 1, &dims, operands->x.data()),
         XLA_FFI_Error_Code_OK);
  Expect(xffi_rt_call_ret(started, XLA_FFI_DataType_F32, 1, &dims, operands->y.data()),
         XLA_FFI_Error_Code_OK);
  Expect(xffi_rt_call_set_time_limit(started, 20), XLA_FFI_Error_Code_OK);
  Expect(xffi_rt_call_run(started), XLA_FFI_Error_Code_DEADLINE_EXCEEDED);
  if (!xffi_rt_call_is_open(started)) return 1;

  std::future<bool> over = operands->over.get_future();
  Expect(xffi_rt_call_on_end(started, Operands::Over, operands.release()), XLA_FFI_Error_Code_OK);
  call.reset();
  runtime.reset();
  release.set_value();
  if (!over.get()) return 2;
  std::printf("done\n");
  return 0;
}
