// Handlers of the internal API where they may not be: in a library beside the runtime, and in a program beside a shared
// one. Arguments: libraries with `insider`.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "xla/ffi/ffi.h"

namespace ffi = xla::ffi;

static ffi::Status Insider(ffi::Invocation) { return ffi::OkStatus(); }
XLA_FFI_DEFINE_HANDLER(kInsider, Insider, ffi::Ffi::Bind().Ctx<ffi::Invocation>());

// What registering says; empty where nothing stands against it.
static void Tell(const char* what, xffi_rt_status* status) {
  std::printf("%s: %d %s\n", what, static_cast<int>(xffi_rt_status_code(status)), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
}

int main(int argc, char** argv) {
  const XLA_FFI_Handler_Bundle own{nullptr, nullptr, nullptr, kInsider, nullptr};
  for (int revision : {XFFI_RT_NEWEST, 9, 3}) {
    xffi_rt* runtime = nullptr;
    if (xffi_rt_create(revision, &runtime) != nullptr) return 1;
    Tell("own", xffi_rt_register(runtime, "own", "cpu", &own, 0));
    for (int i = 1; i < argc; ++i) {
      void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        std::printf("%s\n", dlerror());
        return 2;
      }
      XLA_FFI_Handler_Bundle bundle{};
      void* symbol = dlsym(library, "insider");
      std::memcpy(&bundle.execute, &symbol, sizeof(symbol));
      Tell(argv[i], xffi_rt_register(runtime, argv[i], "cpu", &bundle, 0));
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
