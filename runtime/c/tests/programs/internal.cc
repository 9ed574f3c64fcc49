// Handlers that use every feature of the internal API, in a program that is linked with the runtime. The program is
// built with and without Abseil, and with and without exceptions.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "xla/client/xla_builder.h"
#include "xla/ffi/execution_context.h"
#include "xla/ffi/ffi.h"
#include "xla_ffi/embedded.h"

namespace ffi = xla::ffi;

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

static void Right(const ffi::Status& status, int line) {
  if (status.ok()) return;
  std::fprintf(stderr, "line %d: %s\n", line, std::string(status.message()).c_str());
  std::exit(1);
}
#define RIGHT(status) Right((status), __LINE__)

static bool Has(const ffi::Status& status, const char* words) {
  const bool has = !status.ok() && std::string(status.message()).find(words) != std::string::npos;
  if (!has) std::fprintf(stderr, "'%s' is not in: %s\n", words, std::string(status.message()).c_str());
  return has;
}

using Number = ffi::Buffer<ffi::S64, 0>;
using Numbers = ffi::Buffer<xla::S64, 1>;  // The element types of the runtime.

// --- the context ---------------------------------------------------------------------------------

struct Plan {
  explicit Plan(int64_t n) : steps(n) { ++living; }
  ~Plan() { --living; }
  int64_t steps;
  static std::atomic<int> living;
};
std::atomic<int> Plan::living{0};

struct Offset {  // User data whose type is not registered.
  explicit Offset(int64_t n) : by(n) { ++living; }
  ~Offset() { --living; }
  int64_t by;
  static std::atomic<int> living;
};
std::atomic<int> Offset::living{0};

// Writes the call's run id, device ordinal, number of threads, offset and revision, the result of a thread-pool task,
// and the name of the called computation.
static ffi::Status Rich(ffi::Invocation call, ffi::ThreadPool pool, ffi::Called called, Offset* offset,
                        const XLA_FFI_Api* api, ffi::RunId run_id, int32_t ordinal, Numbers x,
                        ffi::Result<Numbers> y) {
  const int64_t* computation = called.get<int64_t>();
  if (computation == nullptr) return ffi::NotFoundError("no computation");
  if (called.get<float>() != nullptr) return ffi::InternalError("it is not a float");
  std::promise<int64_t> promise;
  std::future<int64_t> from_pool = promise.get_future();
  ffi::Status status = call.Schedule([&promise] { promise.set_value(42); });
  if (!status.ok()) return status;
  std::promise<int64_t> other;
  std::future<int64_t> from_tag = other.get_future();
  pool.Schedule([&other] { other.set_value(43); });
  ffi::StatusOr<size_t> threads = call.num_threads();
  if (!threads.ok()) return threads.status();
  ffi::StatusOr<Offset*> found = call.Lookup<Offset>();
  if (!found.ok() || *found != offset) return ffi::InternalError("two offsets");
  if (call.Lookup<Plan>().ok()) return ffi::InternalError("no plan was attached");
  if (call.Get<ffi::Stream>().ok()) return ffi::InternalError("no stream was given");
  if (run_id.run_id != call.run_id() || ordinal != call.device_ordinal()) return ffi::InternalError("ids");
  if (xffi_rt_api(call.runtime().get()) != api) return ffi::InternalError("another runtime's table");
  if (call.stage() != ffi::ExecutionStage::kExecute) return ffi::InternalError("another stage");
  const xla::Shape shape = x.shape();
  if (shape.ToString() != "s64[2]" || x.element_type() != xla::S64) return ffi::InternalError("another shape");
  ffi::Span<const int64_t> dims = x.dimensions();
  const int64_t values[] = {call.run_id(), call.device_ordinal(), static_cast<int64_t>(*threads), from_pool.get(),
                            from_tag.get(), *computation, offset->by, dims[0], x.typed_data()[1]};
  if (y->element_count() != 9) return ffi::InvalidArgumentError("y is to have 9 elements");
  for (int i = 0; i < 9; ++i) y->typed_data()[i] = values[i];
  return ffi::OkStatus();
}
XLA_FFI_DEFINE_HANDLER(kRich, Rich,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::Invocation>()
                           .Ctx<ffi::IntraOpThreadPool>()
                           .Ctx<ffi::CalledComputation>()
                           .Ctx<ffi::UserData<Offset>>()
                           .Ctx<ffi::FfiApi>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .Arg<Numbers>("x")
                           .Ret<Numbers>("y"));

// A handler without an explicit binding, which is deduced from the parameter types.
static ffi::Status Auto(ffi::Invocation call, ffi::Called called, ffi::ThreadPool pool, ffi::Result<Number> y) {
  std::promise<int64_t> promise;
  pool.Schedule([&promise] { promise.set_value(10); });
  *y->typed_data() = promise.get_future().get() + call.run_id() + static_cast<int64_t>(called.size());
  return ffi::OkStatus();
}
XLA_FFI_DEFINE_HANDLER(kAuto, Auto);

// A handler that uses a stream and an allocator: computes y = x + 1 through device memory, on the stream's thread.
static ffi::Status OnDevice(ffi::Stream stream, ffi::DeviceAllocator allocator, void* platform, Number x,
                            ffi::Result<Number> y) {
  if (platform != stream.platform_specific_handle()) return ffi::InternalError("another stream");
  ffi::StatusOr<void*> memory = allocator.Allocate(sizeof(int64_t));
  if (!memory.ok()) return memory.status();
  int64_t* scratch = static_cast<int64_t*>(*memory);
  const int64_t* in = x.typed_data();
  int64_t* out = y->typed_data();
  ffi::Status status = stream.Enqueue([=] { *scratch = *in + 1; });
  if (status.ok()) status = stream.Enqueue([=] { *out = *scratch; });
  if (status.ok()) status = stream.BlockHostUntilDone();
  allocator.Deallocate(scratch, sizeof(int64_t));
  if (allocator.Allocate(0).ok() || allocator.Allocate(8, 3).ok()) return ffi::InternalError("no such memory");
  return status;
}
XLA_FFI_DEFINE_HANDLER(kOnDevice, OnDevice,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::Stream>()
                           .Ctx<ffi::Allocator>()
                           .Ctx<ffi::PlatformStream<void*>>()
                           .Arg<Number>("x")
                           .Ret<Number>("y"));

// --- state and errors ----------------------------------------------------------------------------

static ffi::StatusOr<std::unique_ptr<Plan>> Make(int64_t steps) {
  if (steps < 0) return ffi::OutOfRangeError("no plan goes back");
  return std::make_unique<Plan>(steps);
}
XLA_FFI_DEFINE_HANDLER(kMake, Make, ffi::Ffi::BindInstantiate().Attr<int64_t>("steps"));

static ffi::Status Follow(Plan* plan, int64_t, ffi::Result<Number> y) {
  *y->typed_data() = plan->steps;
  return ffi::OkStatus();
}
XLA_FFI_DEFINE_HANDLER(kFollow, Follow,
                       ffi::Ffi::Bind().Ctx<ffi::State<Plan>>().Attr<int64_t>("steps").Ret<Number>("y"));

// A handler with variadic operands and attributes. Errors in decoding them are statuses.
static ffi::Status Sum(ffi::RemainingArgs args, ffi::Dictionary attrs, ffi::Result<Number> y) {
  int64_t sum = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    ffi::StatusOr<Number> x = args.get<Number>(i);
    if (!x.ok()) return x.status();
    sum += *x->typed_data();
  }
  auto by = attrs.get<int64_t>("by");
  if (!by.ok()) return by.status();
  ffi::StatusOr<ffi::Span<const int64_t>> more = attrs.get<ffi::Span<const int64_t>>("more");
  if (!more.ok()) return more.status();
  for (int64_t n : *more) sum += n;
  *y->typed_data() = sum * *by;
  return {};
}
XLA_FFI_DEFINE_HANDLER(kSum, Sum, ffi::Ffi::Bind().RemainingArgs().Attrs().Ret<Number>("y"));

static ffi::Status Whole() {
#if XLA_FFI_ABSEIL
  absl::Status status = absl::DataLossError("the file cannot be read");
  status.SetPayload("my.program/cause", absl::Cord("the disk is on fire"));
  return status;
#else
  return ffi::DataLossError("the file cannot be read")
      .WithSource(ffi::UnavailableError("no disk").WithSource(ffi::InternalError("the disk is on fire")));
#endif
}
static ffi::Status Fails(ffi::Result<Number>) { return Whole(); }
XLA_FFI_DEFINE_HANDLER(kFails, Fails, ffi::Ffi::Bind().Ret<Number>("y"));

static void CheckWhole(const ffi::Status& status) {
  CHECK(std::string(status.message()) == "the file cannot be read");
#if XLA_FFI_ABSEIL
  CHECK(absl::IsDataLoss(status) && *status.GetPayload("my.program/cause") == "the disk is on fire");
#else
  CHECK(status.code() == XLA_FFI_Error_Code_DATA_LOSS && status.source()->message() == "no disk");
  CHECK(status.source()->code() == XLA_FFI_Error_Code_UNAVAILABLE);
  CHECK(status.source()->source()->message() == "the disk is on fire");
#endif
}

// The name of the computation that a program's custom call may run, and the literal of that call.
static std::string called_name;
static ffi::Error Calls(ffi::Called called, ffi::Result<Number> y) {
  if (called.size() != 1) return ffi::Error::Internal("one computation");
  called_name = *called.computation(0)->ToHloText();
  if (called.computation(1).ok()) return ffi::Error::Internal("no second one");
  ffi::StatusOr<xla::Literal> literal = called.literal();
  *y->typed_data() = literal.ok() ? literal->data<int64_t>()[0] : -1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kCalls, Calls, ffi::Ffi::Bind().Ctx<ffi::CalledComputation>().Ret<Number>("y"));
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "internal.calls", "Host", kCalls);

// --- the program ---------------------------------------------------------------------------------

struct Destroy {
  void operator()(xffi_rt* p) const { xffi_rt_destroy(p); }
  void operator()(xffi_rt_call* p) const { xffi_rt_call_destroy(p); }
  void operator()(xffi_rt_stream* p) const { xffi_rt_stream_destroy(p); }
};
template <typename T>
using Own = std::unique_ptr<T, Destroy>;

static Own<xffi_rt_call> Call(xffi_rt* runtime, const char* name, const char* attributes = nullptr) {
  xffi_rt_call* call = nullptr;
  RIGHT(ffi::TakeStatus(xffi_rt_call_create(runtime, name, "Host", attributes, &call)));
  return Own<xffi_rt_call>(call);
}
static ffi::Status Run(xffi_rt_call* call) { return ffi::TakeStatus(xffi_rt_call_run(call)); }

static void Register(xffi_rt* runtime, const char* name, XLA_FFI_Handler* execute,
                     XLA_FFI_Handler* instantiate = nullptr) {
  const XLA_FFI_Handler_Bundle bundle{instantiate, nullptr, nullptr, execute, nullptr};
  RIGHT(ffi::TakeStatus(xffi_rt_register(runtime, name, "Host", &bundle)));
}

static void TheContext(xffi_rt* runtime) {
  Register(runtime, "rich", kRich);
  const int64_t two = 2, nine = 9;
  int64_t x[2] = {5, 6}, y[9] = {};
  {
    const Own<xffi_rt_call> call = Call(runtime, "rich");
    RIGHT(ffi::TakeStatus(xffi_rt_call_arg(call.get(), XLA_FFI_DataType_S64, 1, &two, x)));
    RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 1, &nine, y)));
    RIGHT(ffi::TakeStatus(xffi_rt_call_set_run_id(call.get(), 7)));
    RIGHT(ffi::TakeStatus(xffi_rt_call_set_device_ordinal(call.get(), 3)));
    CHECK(Has(Run(call.get()), "user data"));
    {
      ffi::ExecutionContext context(runtime);
      RIGHT(context.Emplace<Offset>(100));
      CHECK(Has(context.Emplace<Offset>(101), "user data"));  // A second object is refused and destroyed.
      static double borrowed = 0.5;
      RIGHT(context.Insert(&borrowed));
      CHECK((*context.Lookup<Offset>())->by == 100 && **context.Lookup<double>() == 0.5);
      CHECK(!context.Lookup<float>().ok());
      RIGHT(ffi::TakeStatus(xffi_rt_call_set_user_data(call.get(), context.data())));
      CHECK(Has(context.Insert(std::make_unique<int>(1)), "calls have this user data already"));
    }
    CHECK(Offset::living == 1);  // Only the object in the call remains.
    CHECK(Has(Run(call.get()), "no computation"));
    RIGHT(ffi::SetCalledComputation(call.get(), std::make_unique<float>(1.0f)));
    CHECK(Has(Run(call.get()), "no computation"));
    RIGHT(ffi::SetCalledComputation(call.get(), std::make_unique<const int64_t>(55)));
    RIGHT(Run(call.get()));
    const int64_t wanted[9] = {7, 3, 2, 42, 43, 55, 100, 2, 6};
    for (int i = 0; i < 9; ++i) CHECK(y[i] == wanted[i]);
  }
  CHECK(Offset::living == 0);
  ffi::ExecutionContext none(nullptr);
  CHECK(none.data() == nullptr && Has(none.Emplace<Offset>(1), "null pointer") && Offset::living == 0);
  CHECK(Has(ffi::SetCalledComputation(nullptr, std::make_unique<int>(1)), "null pointer"));
}

static std::atomic<int> allocated{0};

static void TheDevice(xffi_rt* runtime) {
  Register(runtime, "on_device", kOnDevice);
  int64_t x = 41, y = 0;
  xffi_rt_stream* made = nullptr;
  RIGHT(ffi::TakeStatus(xffi_rt_stream_create(&made)));
  const Own<xffi_rt_stream> stream(made);
  const Own<xffi_rt_call> call = Call(runtime, "on_device");
  RIGHT(ffi::TakeStatus(xffi_rt_call_arg(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &x)));
  RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
  CHECK(Has(Run(call.get()), "this call's context has no stream"));
  RIGHT(ffi::TakeStatus(xffi_rt_call_set_stream(call.get(), xffi_rt_stream_handle(made))));
  CHECK(Has(Run(call.get()), "this call's context has no device allocator"));
  RIGHT(ffi::TakeStatus(xffi_rt_call_set_allocator(
      call.get(),
      [](void*, size_t size, size_t alignment) {
        ++allocated;
        return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
      },
      [](void*, void* data, size_t) {
        --allocated;
        std::free(data);
      },
      nullptr)));
  RIGHT(Run(call.get()));
  CHECK(y == 42 && allocated == 0);
  // The stream belongs to the program, so the runtime knows only its handle.
  RIGHT(ffi::TakeStatus(xffi_rt_call_set_stream(call.get(), &x)));
  CHECK(Has(Run(call.get()), "the platform's functions"));
  CHECK(allocated == 0);
}

static void StateAndErrors(xffi_rt* runtime) {
  int64_t y = 0, a = 1, b = 2;
  Register(runtime, "follow", kFollow, kMake);
  {
    const Own<xffi_rt_call> call = Call(runtime, "follow", "{steps = 3 : i64}");
    CHECK(Plan::living == 1);
    RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
    RIGHT(Run(call.get()));
    CHECK(y == 3);
  }
  CHECK(Plan::living == 0);
  xffi_rt_call* never = nullptr;
  CHECK(Has(ffi::TakeStatus(xffi_rt_call_create(runtime, "follow", "Host", "{steps = -1 : i64}", &never)),
            "no plan goes back"));

  Register(runtime, "auto", kAuto);
  {
    const Own<xffi_rt_call> call = Call(runtime, "auto");
    RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
    RIGHT(ffi::TakeStatus(xffi_rt_call_set_run_id(call.get(), 5)));
    RIGHT(Run(call.get()));
    CHECK(y == 15);
  }

  Register(runtime, "sum", kSum);
  Own<xffi_rt_call> call = Call(runtime, "sum", "{by = 10 : i64, more = array<i64: 3, 4>}");
  RIGHT(ffi::TakeStatus(xffi_rt_call_arg(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &a)));
  RIGHT(ffi::TakeStatus(xffi_rt_call_arg(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &b)));
  RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
  RIGHT(Run(call.get()));
  CHECK(y == 100);
  call = Call(runtime, "sum", "{more = array<i64: 3>}");
  RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
  CHECK(Has(Run(call.get()), "missing attribute `by`"));

  Register(runtime, "fails", kFails);
  call = Call(runtime, "fails");
  RIGHT(ffi::TakeStatus(xffi_rt_call_ret(call.get(), XLA_FFI_DataType_S64, 0, nullptr, &y)));
  CheckWhole(Run(call.get()));
  // In C, the text of each cause can be read.
  xffi_rt_status* status = xffi_rt_call_run(call.get());
  CHECK(xffi_rt_status_code(status) == XLA_FFI_Error_Code_DATA_LOSS);
#if XLA_FFI_ABSEIL
  CHECK(xffi_rt_status_cause(status, 0) == nullptr);
#else
  CHECK(std::string(xffi_rt_status_cause(status, 1)) == "the disk is on fire");
  CHECK(xffi_rt_status_cause(status, 2) == nullptr);
  CHECK(xla::Status(status).source()->source()->message() == "the disk is on fire");
  status = xffi_rt_call_run(call.get());
#endif
  CHECK(xffi_rt_status_object(status, &status) == nullptr && xffi_rt_status_object(nullptr, nullptr) == nullptr);
  xffi_rt_status_destroy(status);
  // Errors about operands have the same text as in the external API, `xla/ffi/api/ffi.h`.
  call = Call(runtime, "fails");
  CHECK(Has(Run(call.get()), "missing result"));
}

static void Programs() {
  xla::XlaBuilder inner("inner");
  xla::Parameter(&inner, 0, xla::ShapeUtil::MakeShape(xla::S64, {}), "x");
  const xla::XlaComputation computation = inner.Build().value();
  xla::Literal literal(xla::ShapeUtil::MakeShape(xla::S64, {}));
  literal.data<int64_t>()[0] = 77;
  xla::XlaBuilder b("calls");
  xla::CustomCallWithComputation(&b, "internal.calls", {}, computation, xla::ShapeUtil::MakeShape(xla::S64, {}), "",
                                 /*has_side_effect=*/false, {}, &literal, xla::SCHEDULE_NONE,
                                 xla::API_VERSION_TYPED_FFI);
  xla::StatusOr<xla::Literal> result = xla_ffi::Run(b.Build().value(), {});
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  CHECK(result.ok() && result->data<int64_t>()[0] == 77);
  CHECK(called_name.find("HloModule inner") == 0);
}

static void Nulls() {
  const xffi_rt_invocation* call = nullptr;
  CHECK(xffi_rt_refuse(nullptr, XFFI_RT_IMAGE) != nullptr && xffi_rt_refuse(nullptr, nullptr) != nullptr);
  CHECK(xffi_rt_refuse(XLA_FFI_GetApi(), XFFI_RT_IMAGE) == nullptr);
  CHECK(Has(ffi::TakeStatus(xffi_rt_invocation_of(XLA_FFI_GetApi(), nullptr, XFFI_RT_IMAGE, &call)), "ctx is null"));
  CHECK(Has(ffi::TakeStatus(xffi_rt_invocation_of(XLA_FFI_GetApi(), nullptr, &call, &call)), "a different image"));
  CHECK(!ffi::TakeStatus(xffi_rt_invocation_of(XLA_FFI_GetApi(), nullptr, XFFI_RT_IMAGE, nullptr)).ok());
  CHECK(xffi_rt_invocation_runtime(nullptr) == nullptr && xffi_rt_invocation_stream(nullptr) == nullptr);
  CHECK(xffi_rt_invocation_stage(nullptr) == XLA_FFI_ExecutionStage_EXECUTE);
  CHECK(xffi_rt_invocation_run_id(nullptr) == 0 && xffi_rt_invocation_device_ordinal(nullptr) == 0);
  CHECK(xffi_rt_invocation_allocator(nullptr) == nullptr && xffi_rt_invocation_called(nullptr, &call) == nullptr);
  CHECK(xffi_rt_invocation_called_count(nullptr) == 0 && xffi_rt_device_stream_handle(nullptr) == nullptr);
  size_t threads = 0;
  void* data = nullptr;
  xffi_rt_program* program = nullptr;
  xffi_rt_array array;
  for (xffi_rt_status* status :
       {xffi_rt_invocation_num_threads(nullptr, &threads), xffi_rt_invocation_spawn(nullptr, nullptr, nullptr),
        xffi_rt_device_stream_enqueue(nullptr, nullptr, nullptr), xffi_rt_device_stream_synchronize(nullptr),
        xffi_rt_allocator_allocate(nullptr, 1, 1, &data), xffi_rt_invocation_called_program(nullptr, 0, &program),
        xffi_rt_invocation_literal(nullptr, &array)}) {
    CHECK(Has(ffi::TakeStatus(status), "null pointer"));
  }
  xffi_rt_device_stream_destroy(nullptr);
  xffi_rt_allocator_destroy(nullptr);
  xffi_rt_allocator_free(nullptr, nullptr, 0);
}

// Checks that XLA refuses to register handlers of the internal API. `path` is that of a PJRT plugin.
static void RealXla(const char* path) {
  const xla_ffi::Client client = xla_ffi::Client::Open(path).value();
  const xla::Status status = client.Register("internal.rich", kRich);
  CHECK(!status.ok() && status.message().find("works only with the embedded runtime") != std::string::npos);
}

int main(int argc, char** argv) {
  for (int revision : {XFFI_RT_NEWEST, 9}) {
    xffi_rt* made = nullptr;
    RIGHT(ffi::TakeStatus(xffi_rt_create_with_threads(revision, 2, &made)));
    const Own<xffi_rt> runtime(made);
    TheContext(made);
    TheDevice(made);
    StateAndErrors(made);
  }
  Programs();
  Nulls();
  if (argc > 1) RealXla(argv[1]);
  std::printf("done, %s\n", XLA_FFI_ABSEIL ? "Abseil" : "plain");
  return 0;
}
