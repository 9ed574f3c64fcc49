// Handlers of the internal API on hosts that they must refuse. The arguments of the program are libraries with a
// handler `insider`. The program is linked with the static or the shared library of the runtime. If LIBRARY is
// defined, this source is such a library, whose handler accepts only a runtime within the library.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "xla/ffi/ffi.h"

namespace ffi = xla::ffi;

#ifdef LIBRARY

static ffi::Status Insider(ffi::Invocation call, ffi::Result<ffi::Buffer<ffi::S64, 0>> y) {
  *y->typed_data() = call.run_id();
  return ffi::OkStatus();
}
using Number = ffi::Buffer<ffi::S64, 0>;
XLA_FFI_DEFINE_HANDLER_SYMBOL(insider, Insider,
                              ffi::Ffi::Bind().Ctx<ffi::Invocation>().Ret<Number>("y"));

// Returns 0 if the runtime in this library accepts the library's handler.
extern "C" __attribute__((visibility("default"))) int runs_at_home() {
  const XLA_FFI_Handler_Bundle bundle{nullptr, nullptr, nullptr, insider, nullptr};
  xffi_rt* runtime = nullptr;
  if (xffi_rt_create(XFFI_RT_NEWEST, &runtime) != nullptr) return 1;
  if (xffi_rt_register(runtime, "insider", "cpu", &bundle) != nullptr) return 2;
  xffi_rt_call* call = nullptr;
  if (xffi_rt_call_create(runtime, "insider", "cpu", nullptr, &call) != nullptr) return 3;
  int64_t y = 0;
  if (xffi_rt_call_ret(call, XLA_FFI_DataType_S64, 0, nullptr, &y) != nullptr) return 4;
  if (xffi_rt_call_set_run_id(call, 9) != nullptr || xffi_rt_call_run(call) != nullptr) return 5;
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
  return y == 9 ? 0 : 6;
}

#else

static ffi::Status Insider(ffi::Invocation) { return ffi::OkStatus(); }
XLA_FFI_DEFINE_HANDLER(kInsider, Insider, ffi::Ffi::Bind().Ctx<ffi::Invocation>());

// Prints the error of a registration; an empty text if the registration succeeds.
static void Tell(const char* what, xffi_rt_status* status) {
  std::printf("%s: %d %s\n", what, static_cast<int>(xffi_rt_status_code(status)), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
}

int main(int argc, char** argv) {
  const XLA_FFI_Handler_Bundle own{nullptr, nullptr, nullptr, kInsider, nullptr};
  for (int revision : {XFFI_RT_NEWEST, 9, 3}) {
    xffi_rt* runtime = nullptr;
    if (xffi_rt_create(revision, &runtime) != nullptr) return 1;
    Tell("own", xffi_rt_register(runtime, "own", "cpu", &own));
    for (int i = 1; i < argc; ++i) {
      void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        std::printf("%s\n", dlerror());
        return 2;
      }
      XLA_FFI_Handler_Bundle bundle{};
      void* symbol = dlsym(library, "insider");
      std::memcpy(&bundle.execute, &symbol, sizeof(symbol));
      Tell(argv[i], xffi_rt_register(runtime, argv[i], "cpu", &bundle));
      if (void* home = dlsym(library, "runs_at_home")) {
        int (*runs)();
        std::memcpy(&runs, &home, sizeof(home));
        std::printf("at home: %d\n", runs());
      }
    }
    xffi_rt_destroy(runtime);
  }
  return 0;
}

#endif
