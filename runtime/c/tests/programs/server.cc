// Tests cancellation in C++ handlers, the log, and exceptions that leave deleters of the program. Each exception is
// logged, and the program continues.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/embedded.h"
#include "xla_ffi/invocation.h"
#include "xla_ffi/runtime.h"

namespace ffi = xla::ffi;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

static std::atomic<bool> begun{false}, hold{false};

static void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

static ffi::Error Endless(ffi::Cancellation cancellation) {
  ffi::Cancellation copy = cancellation;
  copy = cancellation;
  begun = true;
  while (copy.Check().success()) Nap();
  begun = false;
  return copy.Check();
}
XLA_FFI_DEFINE_HANDLER(endless, Endless, ffi::Ffi::Bind().Ctx<ffi::Cancellation>());

// Continues after the handler has returned, until the call is cancelled.
static ffi::Future Late(ffi::Cancellation cancellation) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise = std::move(promise), cancellation]() mutable {
    while (!cancellation.IsCancelled() || hold) Nap();
    promise.SetError(ffi::Error(ffi::ErrorCode::kAborted, "gave up late"));
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER(late, Late, ffi::Ffi::Bind().Ctx<ffi::Cancellation>());

static void Throws(void*) { throw 7; }

// Schedules a task that throws an exception on the thread pool.
static XLA_FFI_Error* Wild(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
    metadata->metadata->api_version.major_version = 0;
    metadata->metadata->api_version.minor_version = 1;
    return nullptr;
  }
  XLA_FFI_ThreadPool_Schedule_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  args.task = Throws;
  return frame->api->XLA_FFI_ThreadPool_Schedule(&args);
}

static void Is(xffi_rt_status* status, XLA_FFI_Error_Code code, const char* words) {
  if (xffi_rt_status_code(status) != code ||
      std::strstr(xffi_rt_status_message(status), words) == nullptr) {
    std::fprintf(stderr, "not '%s': %s\n", words, xffi_rt_status_message(status));
    std::exit(1);
  }
  xffi_rt_status_destroy(status);
}

static xffi_rt_call* CallOf(xffi_rt* runtime, XLA_FFI_Handler* handler, const char* name) {
  const XLA_FFI_Handler_Bundle bundle = {nullptr, nullptr, nullptr, handler, nullptr};
  xffi_rt_call* call = nullptr;
  CHECK(xffi_rt_register(runtime, name, "Host", &bundle) == nullptr);
  CHECK(xffi_rt_call_create(runtime, name, "cpu", nullptr, &call) == nullptr);
  return call;
}

static int object, kind;
static std::atomic<int> told{0};

static void ThrowsError(void*) { throw std::runtime_error("thrown on purpose"); }

static void Listen(void*, int, const char* text) {
  CHECK(std::strstr(text, "C++ exception") != nullptr);
  ++told;
}

static XLA_FFI_Error* Raises(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
    metadata->metadata->api_version.major_version = 0;
    metadata->metadata->api_version.minor_version = 3;
    return nullptr;
  }
  return xffi_rt_raise(XLA_FFI_Error_Code_INTERNAL, "raised", 6, nullptr, 0, &kind, &object, ThrowsError);
}

// Checks that an exception of a deleter neither ends the program nor prevents other work.
static void DeletersMayThrow() {
  CHECK(xffi_rt_set_logger(Listen, nullptr) == nullptr);
  xffi_rt* rt = nullptr;
  CHECK(xffi_rt_create(-1, &rt) == nullptr);
  XLA_FFI_Handler_Bundle bundle{};
  bundle.execute = Raises;
  CHECK(xffi_rt_register(rt, "raises", "Host", &bundle) == nullptr);
  xffi_rt_call* call = nullptr;
  CHECK(xffi_rt_call_create(rt, "raises", "Host", nullptr, &call) == nullptr);
  CHECK(xffi_rt_call_set_called_computation(call, &kind, &object, ThrowsError) == nullptr);
  CHECK(xffi_rt_call_set_called_computation(call, &kind, &object, Throws) == nullptr);
  CHECK(told == 1);
  Is(xffi_rt_call_run(call), XLA_FFI_Error_Code_INTERNAL, "raised");
  CHECK(told == 2);
  xffi_rt_call_destroy(call);
  CHECK(told == 3);
  xffi_rt_destroy(rt);
  CHECK(xffi_rt_set_logger(nullptr, nullptr) == nullptr);
}

int main() {
  std::string log;
  auto told = [](void* user, int level, const char* text) {
    CHECK(level == XFFI_RT_LOG_WARNING);
    *static_cast<std::string*>(user) += text;
  };
  CHECK(xffi_rt_set_logger(told, &log) == nullptr);

  xffi_rt* runtime = nullptr;
  CHECK(xffi_rt_create(XFFI_RT_NEWEST, &runtime) == nullptr);
  xffi_rt_call* call = CallOf(runtime, endless, "endless");
  xffi_rt_canceller* canceller = nullptr;
  CHECK(xffi_rt_canceller_create(&canceller) == nullptr);
  CHECK(xffi_rt_call_set_canceller(call, canceller) == nullptr);
  std::thread runs([&] { Is(xffi_rt_call_run(call), XLA_FFI_Error_Code_CANCELLED, "gave up"); });
  while (!begun) Nap();
  CHECK(xffi_rt_canceller_cancel(canceller) == nullptr);
  runs.join();
  xffi_rt_canceller_destroy(canceller);
  CHECK(xffi_rt_call_set_canceller(call, nullptr) == nullptr);
  CHECK(xffi_rt_call_set_time_limit(call, 20) == nullptr);
  Is(xffi_rt_call_run(call), XLA_FFI_Error_Code_DEADLINE_EXCEEDED, "gave up");
  xffi_rt_call_destroy(call);

  call = CallOf(runtime, late, "late");
  // The call is a future. The future is ready at the time limit, although the handler is still blocked.
  hold = true;
  CHECK(xffi_rt_call_set_time_limit(call, 20) == nullptr);
  auto ready = xla_ffi::RunAsync(call);
  CHECK(ready.ok() && ready->wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  Is(xffi_rt_call_wait(call, 0), XLA_FFI_Error_Code_DEADLINE_EXCEEDED, "late (execute)");
  CHECK(xla_ffi::RunAsync(call).status().code() == XLA_FFI_Error_Code_FAILED_PRECONDITION);
  hold = false;
  Is(xffi_rt_call_wait(call, -1), XLA_FFI_Error_Code_ABORTED, "gave up late");
  CHECK(xffi_rt_call_set_time_limit(call, -1) == nullptr);
  CHECK(xffi_rt_call_start(call) == nullptr);
  Is(xffi_rt_wait_for_calls(runtime, 1), XLA_FFI_Error_Code_DEADLINE_EXCEEDED,
     "1 of 'late' (its future is open)");
  CHECK(xffi_rt_shutdown(runtime, 20000) == nullptr);
  Is(xffi_rt_call_wait(call, -1), XLA_FFI_Error_Code_ABORTED, "gave up late");
  Is(xffi_rt_call_run(call), XLA_FFI_Error_Code_UNAVAILABLE, "was shut down");
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);

  // An exception outside all calls is logged when the runtime is destroyed.
  xffi_rt* other = nullptr;
  CHECK(xffi_rt_create_with_threads(XFFI_RT_NEWEST, 1, &other) == nullptr);
  xffi_rt_call* wild = CallOf(other, Wild, "wild");
  CHECK(xffi_rt_call_run(wild) == nullptr);
  xffi_rt_call_destroy(wild);
  xffi_rt_destroy(other);
  for (int i = 0; i < 5000 && log.find("left a thread-pool task") == std::string::npos; ++i) Nap();
  CHECK(xffi_rt_set_logger(nullptr, nullptr) == nullptr);
  CHECK(log.find("left a thread-pool task") != std::string::npos);
  DeletersMayThrow();
  std::puts("all ended");
  return 0;
}
