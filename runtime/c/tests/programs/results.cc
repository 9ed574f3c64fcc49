// Tests the results of programs. Unwritten elements are an error if the caller requests it. Data that a late handler
// reads and writes is kept, whether the library or the caller allocated it.
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "xla/client/xla_builder.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/embedded.h"

namespace ffi = xla::ffi;

static std::promise<void> go_on;
static const std::shared_future<void> may_go_on = go_on.get_future().share();

static ffi::Future Late(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, in = x.typed_data(), out = y->typed_data(), n = x.element_count()]() mutable {
    may_go_on.wait();
    float sum = 0;
    for (size_t i = 0; i < n; ++i) sum += out[i] = 2 * in[i];
    if (sum == 42.0f * n) {
      promise.SetAvailable();
    } else {
      promise.SetError(ffi::Error(ffi::ErrorCode::kDataLoss, "the argument is gone"));
    }
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(late, Late,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "late", "Host", late);

// Returns both an error and a future.
static XLA_FFI_Error* Beside(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = late(frame);
  if (error != nullptr || frame->future == nullptr) return error;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = "beside its future";
  args.errc = XLA_FFI_Error_Code_NOT_FOUND;
  return frame->api->XLA_FFI_Error_Create(&args);
}
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "beside", "Host", Beside);

// The memory of a failed call must be freed.
static ffi::Error Fails(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>) {
  return ffi::Error(ffi::ErrorCode::kNotFound, "not here");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fails, Fails,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "fails", "Host", fails);

#if defined(__SANITIZE_ADDRESS__)
constexpr long kMost = 1000;  // The sanitizer does not reuse freed memory.
#else
constexpr long kMost = 100;
#endif

// Returns the resident memory of this process in MiB.
static long Resident() {
  long all = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident / 256;
}

// A runtime whose destructor runs when the last static is destroyed.
struct Last {
  ~Last() {
    xffi_rt_status* status = xffi_rt_wait_for_calls(xla_ffi::runtime(), 0);
    std::printf("%s", status == nullptr ? "" : xffi_rt_status_message(status));
    xffi_rt_status_destroy(status);
  }
};
static const Last last;

static xla::XlaComputation Program(const char* target, const xla::Shape& shape) {
  xla::XlaBuilder b("late");
  xla::CustomCall(&b, target, {xla::Parameter(&b, 0, shape, "x")}, shape, "", false, {}, nullptr,
                  xla::CustomCallSchedule::SCHEDULE_NONE, xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  return b.Build().value();
}

static size_t errors = 0;

static void half(void* out, const void**) { std::memset(out, 0, 8); }
XLA_REGISTER_CUSTOM_CALL_TARGET(half, "Host");

// Returns true if unwritten elements are reported if requested, and otherwise accepted.
static bool ReportsUnwritten() {
  xla::XlaBuilder b("unwritten");
  xla::CustomCall(&b, "half", {}, xla::ShapeUtil::MakeShape(xla::F32, {4}));
  const xla::XlaComputation program = b.Build().value();
  if (!xla_ffi::Run(program, {}).ok()) return false;
  auto checked = xla_ffi::Executable::Compile(program, "Host", XFFI_RT_TUPLES_TODAY,
                                              /*with_device=*/false, /*check_unwritten=*/true);
  const xla::Status status = checked->Run({}).status();
  return !status.ok() && status.message().find("never wrote elements 2 to 3") != std::string::npos;
}

int main() {
  if (!ReportsUnwritten()) return 11;
  const xla::Shape shape = xla::ShapeUtil::MakeShape(xla::F32, {1000});
  const xla::XlaComputation program = Program("late", shape);
  xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
  options.milliseconds = 20;
  auto executable = xla_ffi::Executable::CompileWith(program, options);
  if (!executable.ok()) return 1;
  xla::Literal x(shape);
  for (float& value : x.data<float>()) value = 21;
  const std::vector<xla::Literal> own = {x};
  for (const xla::Status& status : {executable->Run({x}).status(), executable->Run(own).status()}) {
    if (status.ok() || status.message().find("was not completed") == std::string::npos) return 2;
  }
  auto beside = xla_ffi::Executable::CompileWith(Program("beside", shape), options);
  if (!beside.ok()) return 6;
  for (const xla::Status& status : {beside->Run({x}).status(), beside->Run(own).status()}) {
    if (status.code() != XLA_FFI_Error_Code_NOT_FOUND || status.message() != "beside its future") return 7;
  }
  // Results must not be freed while late calls are running.
  const xla::Shape large = xla::ShapeUtil::MakeShape(xla::F32, {1 << 18});
  const auto failing = xla_ffi::Executable::Compile(Program("fails", large));
  if (!failing.ok()) return 8;
  const long before = Resident();
  for (int run = 0; run < 100; ++run) {
    std::vector<xla::Literal> arguments;
    arguments.emplace_back(large);
    if (failing->Run(std::move(arguments)).status().code() != XLA_FFI_Error_Code_NOT_FOUND) return 9;
  }
  if (Resident() - before > kMost) return 10;
  go_on.set_value();
  if (xffi_rt_wait_for_calls(xla_ffi::runtime(), 20000) != nullptr) return 3;
  xffi_rt_counts(
      xla_ffi::runtime(),
      [](void*, const xffi_rt_handler_counts* it) {
        if (it->name[0] != 'l' && it->name[0] != 'b') return;
        const auto code = it->name[0] == 'l' ? XLA_FFI_Error_Code_DEADLINE_EXCEEDED : XLA_FFI_Error_Code_NOT_FOUND;
        errors += it->in_flight + it->succeeded + (it->failed[code] != 2);
      },
      nullptr);
  if (errors != 0) return 4;
  // With a negative time limit, the run waits forever.
  options.milliseconds = -1;
  executable = xla_ffi::Executable::CompileWith(program, options);
  if (!executable.ok() || executable->Run(own)->data<float>()[999] != 42.0f) return 5;
  // The run has a canceller and a time limit.
  xffi_rt_run_options run = XFFI_RT_RUN_OPTIONS_INIT;
  xffi_rt_canceller* canceller = nullptr;
  if (xffi_rt_canceller_create(&canceller) != nullptr) return 12;
  if (xffi_rt_canceller_cancel(canceller) != nullptr) return 12;
  run.canceller = canceller;
  if (executable->Run(own, &run).status().code() != XLA_FFI_Error_Code_CANCELLED) return 12;
  xffi_rt_canceller_destroy(canceller);
  run.canceller = nullptr;
  run.milliseconds = 20000;
  if (!executable->Run(own, &run).ok()) return 12;
  // The registration check finds missing names, and existing names of handlers and of legacy targets.
  const xla::Status missing = xla_ffi::Require({"late", "lost"});
  if (missing.code() != XLA_FFI_Error_Code_NOT_FOUND || missing.message().find("'lost'") == std::string::npos) {
    return 13;
  }
  if (!xla_ffi::Require({"late", "beside"}).ok()) return 13;
  std::printf("done\n");
  return 0;
}
