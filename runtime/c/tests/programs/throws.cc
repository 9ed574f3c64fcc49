// Exceptions that leave deleters of the program's. The logger is told each; the program goes on.
#include <atomic>
#include <stdexcept>

#include "checks.h"
#include "xla_ffi/invocation.h"

static int object, kind;
static std::atomic<int> told{0};

static void Throws(void*) { throw std::runtime_error("thrown on purpose"); }
static void ThrowsInt(void*) { throw 7; }

static void Listen(void*, int, const char* text) {
  CHECK(strstr(text, "C++ exception") != nullptr);
  ++told;
}

static XLA_FFI_Error* Raises(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
    metadata->metadata->api_version.major_version = 0;
    metadata->metadata->api_version.minor_version = 3;
    return nullptr;
  }
  return xffi_rt_raise(XLA_FFI_Error_Code_INTERNAL, "raised", 6, nullptr, 0, &kind, &object, Throws);
}

int main() {
  right(xffi_rt_set_logger(Listen, nullptr));
  xffi_rt* rt = nullptr;
  right(xffi_rt_create(-1, &rt));
  XLA_FFI_Handler_Bundle bundle{};
  bundle.execute = Raises;
  right(xffi_rt_register(rt, "raises", "Host", &bundle, 0));
  xffi_rt_call* call = nullptr;
  right(xffi_rt_call_create(rt, "raises", "Host", nullptr, &call));
  right(xffi_rt_call_set_called_computation(call, &kind, &object, Throws));
  right(xffi_rt_call_set_called_computation(call, &kind, &object, ThrowsInt));
  CHECK(told == 1);
  wrong(xffi_rt_call_run(call), INTERNAL, "raised");
  CHECK(told == 2);
  xffi_rt_call_destroy(call);
  CHECK(told == 3);
  xffi_rt_destroy(rt);
  std::printf("%d told\n", told.load());
}
