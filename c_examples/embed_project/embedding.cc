// The C++ version of embedding.c: handlers are bound with ffi.h, register themselves when the program starts, and are
// called through the C functions of runtime.h.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/runtime.h"

namespace ffi = xla::ffi;

using Vector = ffi::Buffer<ffi::F32, 1>;

// User data that the program passes to its handlers. Change the type's name if the layout changes.
struct Factor {
  static ffi::TypeId id;
  float by;
};
ffi::TypeId Factor::id = {};
XLA_FFI_REGISTER_TYPE(XLA_FFI_GetApi(), "my_server.Factor.v1", &Factor::id, nullptr);

static ffi::Error Scale(Factor* factor, Vector x, ffi::Result<Vector> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = factor->by * x.typed_data()[i];
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kScale, Scale,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::UserData<Factor>>()
                           .Arg<Vector>("x")
                           .Ret<Vector>("y"));
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "my_server.scale", "Host", kScale);

// Returns true for success; otherwise prints and destroys the status.
static bool Ok(xffi_rt_status* status) {
  if (status == nullptr) return true;
  std::fprintf(stderr, "error %d: %s\n", static_cast<int>(xffi_rt_status_code(status)),
               xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return false;
}

template <auto kDestroy>
struct With {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Runtime = std::unique_ptr<xffi_rt, With<xffi_rt_destroy>>;
using Call = std::unique_ptr<xffi_rt_call, With<xffi_rt_call_destroy>>;
using UserData = std::unique_ptr<xffi_rt_user_data, With<xffi_rt_user_data_destroy>>;

static Call Clone(const Call& call) {
  xffi_rt_call* clone = nullptr;
  return Call(Ok(xffi_rt_call_clone(call.get(), &clone)) ? clone : nullptr);
}

int main() {
  const Runtime runtime(xffi_rt_global());
  const int64_t two = 2;
  float x[2] = {1, 2}, y[2] = {0, 0};
  xffi_rt_call* made = nullptr;
  if (!Ok(xffi_rt_call_create(runtime.get(), "my_server.scale", "Host", nullptr, &made))) return 1;
  const Call call(made);
  if (!Ok(xffi_rt_call_arg(call.get(), XLA_FFI_DataType_F32, 1, &two, x))) return 1;
  if (!Ok(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_F32, 1, &two, y))) return 1;

  // A failed run returns a status with a code and a message.
  xffi_rt_status* status = xffi_rt_call_run(call.get());
  if (status == nullptr) return 2;
  std::printf("as expected: %s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);

  // Creates user data that the runtime destroys after the last call that uses it.
  xffi_rt_user_data* objects = nullptr;
  if (!Ok(xffi_rt_user_data_create(runtime.get(), &objects))) return 3;
  const UserData data(objects);
  auto factor = std::make_unique<Factor>();
  factor->by = 3;
  if (!Ok(xffi_rt_user_data_add(data.get(), "my_server.Factor.v1", sizeof(Factor), factor.get(),
                                [](void* object) { delete static_cast<Factor*>(object); }))) {
    return 3;
  }
  factor.release();
  if (!Ok(xffi_rt_call_set_user_data(call.get(), data.get()))) return 3;
  if (!Ok(xffi_rt_call_run(call.get())) || y[1] != 6) return 3;

  // Each thread runs its own clone of the call, with its own operand memory.
  constexpr int kThreads = 4, kCalls = 25000;
  std::vector<std::thread> threads;
  std::vector<int> wrong(kThreads, 0);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&call, &wrong, i] {
      const Call own = Clone(call);
      float in[2] = {0, 0}, out[2] = {0, 0};
      wrong[i] = own == nullptr || !Ok(xffi_rt_call_set_arg_data(own.get(), 0, in)) ||
                 !Ok(xffi_rt_call_set_ret_data(own.get(), 0, out));
      for (int n = 0; n < kCalls && !wrong[i]; ++n) {
        in[0] = static_cast<float>(n);
        wrong[i] = !Ok(xffi_rt_call_run(own.get())) || out[0] != 3 * in[0];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int failed : wrong) {
    if (failed) return 4;
  }
  std::printf("%d calls from %d threads\n", kThreads * kCalls, kThreads);
  return 0;
}
