// A server whose handlers use the embedded runtime's own types, through xla/ffi/ffi.h instead of
// xla/ffi/api/ffi.h. Such handlers are compiled and linked with the runtime, and refuse all other hosts.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "xla/ffi/execution_context.h"
#include "xla/ffi/ffi.h"

namespace ffi = xla::ffi;

using Vector = ffi::Buffer<ffi::F32, 1>;

// With xla/ffi/ffi.h, any C++ type can be state or user data, without a type id or a registration.
struct Table {
  explicit Table(float by) : factor(by) {}
  float factor;
};
struct Log {
  std::string text;
};

static ffi::StatusOr<std::unique_ptr<Table>> Load(float factor) {
  if (factor == 0) {
#if XLA_FFI_ABSEIL
    absl::Status status = ffi::DataLossError("the table is empty");
    status.SetPayload("my_server/cause", absl::Cord("no file"));  // the caller receives the payload with the status
    return status;
#else
    return ffi::DataLossError("the table is empty").WithSource(ffi::NotFoundError("no file"));
#endif
  }
  return std::make_unique<Table>(factor);
}
XLA_FFI_DEFINE_HANDLER(kLoad, Load, ffi::Ffi::BindInstantiate().Attr<float>("factor"));

// y = factor * x, on the stream.
static ffi::Status Scale(Table* table, Log* log, ffi::Invocation call, ffi::Stream stream, float, Vector x,
                         ffi::Result<Vector> y) {
  if (x.shape() != y->shape()) return ffi::InvalidArgumentError("x and y differ");
  log->text = "run " + std::to_string(call.run_id());
  // Buffers end with the call, their memory does not.
  ffi::Status status = stream.Enqueue(
      [in = x.typed_data(), out = y->typed_data(), n = x.element_count(), by = table->factor] {
        for (size_t i = 0; i < n; ++i) out[i] = by * in[i];
      });
  return status.ok() ? stream.BlockHostUntilDone() : status;
}
XLA_FFI_DEFINE_HANDLER(kScale, Scale,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<Table>>()
                           .Ctx<ffi::UserData<Log>>()
                           .Ctx<ffi::Invocation>()
                           .Ctx<ffi::Stream>()
                           .Attr<float>("factor")
                           .Arg<Vector>("x")
                           .Ret<Vector>("y"));
static constexpr XLA_FFI_Handler_Bundle kBundle = {kLoad, nullptr, nullptr, kScale, nullptr};
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "my_server.scale", "Host", kBundle);

template <auto kDestroy>
struct With {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

// Evaluates a C function of the runtime, and returns from the enclosing function if the status is an error.
#define RETURN_IF_ERROR(expression)                                        \
  if (ffi::Status failed = ffi::TakeStatus(expression); !failed.ok()) return failed

static ffi::Status Serve(float factor) {
  const std::unique_ptr<xffi_rt, With<xffi_rt_destroy>> runtime(xffi_rt_global());
  const std::string attributes = "{factor = " + std::to_string(factor) + " : f32}";
  xffi_rt_call* made = nullptr;
  RETURN_IF_ERROR(
      xffi_rt_call_create(runtime.get(), "my_server.scale", "Host", attributes.c_str(), &made));
  const std::unique_ptr<xffi_rt_call, With<xffi_rt_call_destroy>> call(made);
  xffi_rt_stream* opened = nullptr;
  RETURN_IF_ERROR(xffi_rt_stream_create(&opened));
  const std::unique_ptr<xffi_rt_stream, With<xffi_rt_stream_destroy>> stream(opened);

  const int64_t three = 3;
  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
  ffi::ExecutionContext context(runtime.get());
  ffi::Status attached = context.Emplace<Log>();
  if (!attached.ok()) return attached;
  RETURN_IF_ERROR(xffi_rt_call_arg(made, XLA_FFI_DataType_F32, 1, &three, x));
  RETURN_IF_ERROR(xffi_rt_call_ret(made, XLA_FFI_DataType_F32, 1, &three, y));
  RETURN_IF_ERROR(xffi_rt_call_set_user_data(made, context.data()));
  RETURN_IF_ERROR(xffi_rt_call_set_stream(made, xffi_rt_stream_handle(opened)));
  RETURN_IF_ERROR(xffi_rt_call_set_run_id(made, 7));
  RETURN_IF_ERROR(xffi_rt_call_run(made));
  std::printf("%g %g %g (%s)\n", y[0], y[1], y[2], (*context.Lookup<Log>())->text.c_str());
  return ffi::OkStatus();
}

// Returns the cause that the handler attached to its error.
static std::string Cause(const ffi::Status& status) {
#if XLA_FFI_ABSEIL
  return std::string(*status.GetPayload("my_server/cause"));
#else
  return status.source()->message();
#endif
}

int main() {
  ffi::Status served = Serve(3);
  if (!served.ok()) {
    std::fprintf(stderr, "%s\n", std::string(served.message()).c_str());
    return 1;
  }
  ffi::Status refused = Serve(0);
  std::printf("%s: %s\n", std::string(refused.message()).c_str(), Cause(refused).c_str());
  std::printf("statuses: %s\n", XLA_FFI_ABSEIL ? "Abseil" : "plain");
  return 0;
}
