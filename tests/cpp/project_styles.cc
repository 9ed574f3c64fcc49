// Tests of handlers in the styles of real projects: linear algebra wrappers, kernel launchers, message passing,
// callbacks, plug-ins in headers. See operands.cc for the RUN lines.
#include <mutex>
#include <unordered_map>

#include "common.h"

// Handlers in these styles cause the warnings with any headers.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace linalg {
enum class Side : uint8_t { kLeft = 'L', kRight = 'R' };
}
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(::linalg::Side);

// A linear algebra library: checks with early returns, batch dimensions, a template for all element types, and dispatch
// with a switch.
namespace linalg {

namespace ffi = ::xla::ffi;

#define STYLE_RETURN_IF_ERROR(...)                \
  do {                                            \
    ::xla::ffi::Error style_error = (__VA_ARGS__); \
    if (style_error.failure()) return style_error; \
  } while (false)
#define STYLE_CAT_(a, b) a##b
#define STYLE_CAT(a, b) STYLE_CAT_(a, b)
#define STYLE_REMOVE_PARENS(...) __VA_ARGS__
#define STYLE_ASSIGN_OR_RETURN(lhs, rhs) STYLE_ASSIGN_(STYLE_CAT(style_value_, __LINE__), lhs, rhs)
#define STYLE_ASSIGN_(value, lhs, rhs)        \
  auto value = (rhs);                         \
  if (value.has_error()) return value.error(); \
  STYLE_REMOVE_PARENS lhs = (*std::move(value))

static ffi::ErrorOr<std::tuple<int64_t, int64_t, int64_t>> SplitBatch2D(
    ffi::AnyBuffer::Dimensions dims) {
  if (dims.size() < 2) {
    return ffi::Unexpected<ffi::Error>(
        ffi::Error(ffi::ErrorCode::kInvalidArgument, "a matrix has two dimensions or more"));
  }
  const ffi::Span<const int64_t> batch = dims.first(dims.size() - 2);
  return std::make_tuple(
      std::accumulate(batch.begin(), batch.end(), int64_t{1}, std::multiplies<int64_t>()),
      dims[dims.size() - 2], dims.back());
}

static ffi::Error CheckShape(ffi::Span<const int64_t> dims, const std::vector<int64_t>& expected,
                             std::string_view name, std::string_view function) {
  if (dims == ffi::Span<const int64_t>(expected)) return ffi::Error::Success();
  std::ostringstream text;
  text << function << ": " << name << " has rank " << dims.size();
  return ffi::Error::InvalidArgument(text.str());
}

template <typename To, typename From>
static ffi::ErrorOr<To> MaybeCast(From value) {
  if (static_cast<From>(static_cast<To>(value)) != value) {
    return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kOutOfRange, "too large"));
  }
  return static_cast<To>(value);
}

template <ffi::DataType T>
struct always_false : std::false_type {};
template <ffi::DataType T>
struct Name {
  static_assert(always_false<T>::value, "unsupported");
};
template <>
struct Name<ffi::F32> {
  static constexpr char value[] = "s";
};
template <>
struct Name<ffi::C64> {
  static constexpr char value[] = "c";
};

template <ffi::DataType DataType>
struct Trace {
  using Value = ffi::NativeType<DataType>;
  using Real = ffi::NativeType<ffi::ToReal(DataType)>;
  static_assert(ffi::IsComplexType<DataType>() != std::is_same_v<Value, Real>);
  static_assert(ffi::ByteWidth(ffi::ToComplex(ffi::ToReal(DataType))) == 2 * sizeof(Real));
  static_assert(Name<DataType>::value[1] == '\0');

  static ffi::Error Kernel(int64_t batch, int64_t n, ffi::AnyBuffer x,
                           ffi::Result<ffi::AnyBuffer> out) {
    const Value* from = x.typed_data<Value>();
    Real* to = out->typed_data<Real>();
    for (int64_t b = 0; b < batch; ++b) {
      Value sum{};
      for (int64_t i = 0; i < n; ++i) sum += from[(b * n + i) * n + i];
      to[b] = std::real(sum);
    }
    return ffi::Error::Success();
  }
};

static ffi::Error TraceDispatch(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> out,
                                ffi::Result<ffi::Buffer<ffi::S32>> info, Side side,
                                std::string_view mode, bool check) {
  const auto dtype = x.element_type();
  if (ffi::ToReal(dtype) != out->element_type()) {
    return ffi::Error::InvalidArgument("trace: the result has another type");
  }
  STYLE_ASSIGN_OR_RETURN((auto [batch, rows, cols]), SplitBatch2D(x.dimensions()));
  STYLE_ASSIGN_OR_RETURN((int32_t n), MaybeCast<int32_t>(cols));
  if (rows != cols) return ffi::Error::InvalidArgument("trace: the matrix is not square");
  if (check) STYLE_RETURN_IF_ERROR(CheckShape(out->dimensions(), {batch}, "out", "trace"));
  *info->typed_data() = side == Side::kLeft && mode == "auto" ? n : -n;
  switch (dtype) {
    case ffi::F32:
      return Trace<ffi::F32>::Kernel(batch, cols, x, out);
    case ffi::DataType::C64:
      return Trace<ffi::C64>::Kernel(batch, cols, x, out);
    default: {
      std::ostringstream text;
      text << "trace: unsupported dtype " << dtype;
      return ffi::Error(ffi::ErrorCode::kUnimplemented, text.str());
    }
  }
}

// RUN style_trace {check = true, mode = "auto", side = 76 : ui8} f32[2,2,2]=1,2,3,4,5,6,7,8 -> f32[2] s32[] == 5,13; 2
// RUN style_trace {check = true, mode = "never", side = 76 : ui8} f32[2,2]=1,2,3,4 -> f32[1] s32[] == 5; -2
// RUN style_trace {check = true, mode = "auto", side = 76 : ui8} f32[2,3]=iota -> f32[1] s32[] !! INVALID_ARGUMENT trace: the matrix is not square
// RUN style_trace {check = true, mode = "auto", side = 76 : ui8} f32[3]=iota -> f32[1] s32[] !! INVALID_ARGUMENT a matrix has two dimensions or more
// RUN style_trace {check = true, mode = "auto", side = 76 : ui8} f32[2,2]=iota -> f32[1,1] s32[] !! INVALID_ARGUMENT trace: out has rank 2
// RUN style_trace {check = false, mode = "auto", side = 76 : ui8} f64[2,2]=iota -> f64[1] s32[] !! UNIMPLEMENTED trace: unsupported dtype F64
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_trace, TraceDispatch,
                              ::xla::ffi::Ffi::Bind()
                                  .Arg<::xla::ffi::AnyBuffer>(/*x*/)
                                  .Ret<::xla::ffi::AnyBuffer>(/*out*/)
                                  .Ret<::xla::ffi::Buffer<::xla::ffi::S32>>(/*info*/)
                                  .Attr<Side>("side")
                                  .Attr<std::string_view>("mode")
                                  .Attr<bool>("check")  // the last attribute
);
}  // namespace linalg

// All names are imported at global scope. A scratch allocator is passed by reference, and the stream is a void*.
namespace imported {
using namespace xla::ffi;

static Error Allocate(ScratchAllocator& scratch, size_t bytes, void*& out) {
  std::optional<void*> memory = scratch.Allocate(bytes, 16);
  if (!memory) return Error(ErrorCode::kResourceExhausted, "no scratch memory");
  out = *memory;
  return Error::Success();
}
static Error Imported(void* stream, ScratchAllocator scratch, AnyBuffer input,
                      Result<AnyBuffer> output) {
  void* work = nullptr;
  if (Error error = Allocate(scratch, input.size_bytes(), work); error.failure()) return error;
  std::memcpy(work, input.untyped_data(), input.size_bytes());
  std::memcpy((*output).untyped_data(), work, output->size_bytes());
  return stream != nullptr ? Error::Success() : Error::Internal("no stream");
}
XLA_FFI_DEFINE_HANDLER(kImported, Imported,
                       Ffi::Bind()
                           .Ctx<PlatformStream<void*>>()
                           .Ctx<ScratchAllocator>()
                           .Arg<AnyBuffer>()
                           .Ret<AnyBuffer>());
static void* Address() { return reinterpret_cast<void*>(imported::kImported); }
}  // namespace imported
// RUN style_imported stream=4096 scratch {} s32[3]=1,2,3 -> s32[3] == 1,2,3
XLA_FFI_DECLARE_HANDLER_SYMBOL(style_imported);
XLA_FFI_Error* style_imported(XLA_FFI_CallFrame* frame) {
  return reinterpret_cast<XLA_FFI_Handler*>(imported::Address())(frame);
}

// Names are imported individually. ErrorOr values are compared and converted to bool.
namespace passing {
namespace ffi = xla::ffi;
using ffi::Buffer, ffi::AnyBuffer;
using ffi::Result, ffi::RemainingArgs, ffi::RemainingRets;
using Int = Buffer<ffi::S32, 0>;

template <typename T>
static ffi::ErrorOr<T> Constant(const char* name) {
  if (name == std::string_view("none")) return ffi::Error::InvalidArgument("no such constant");
  return static_cast<T>(1);
}
static ffi::Error Rank(Int comm, Result<Int> rank, RemainingArgs requests, RemainingRets statuses) {
  auto one = Constant<int>("one");
  if (one.has_error()) return one.error();
  if (!one || !static_cast<bool>(one)) return ffi::Error::Internal("a value is true");
  if (requests.size() != statuses.size()) return ffi::Error::InvalidArgument("unequal numbers");
  for (size_t i = 0; i < requests.size(); ++i) {
    auto request = requests.get<AnyBuffer>(i);
    if (!request) return std::move(request).error();
    auto status = statuses.get<AnyBuffer>(i);
    if (!status.has_value()) return status.error();
    ffi::Result<AnyBuffer> into = *status;
    if (into->size_bytes() != request->size_bytes()) return ffi::Error::Internal("sizes");
    std::memcpy((*statuses.get<AnyBuffer>(i))->untyped_data(),
                requests.get<AnyBuffer>(i)->untyped_data(), request->size_bytes());
  }
  if (!requests.empty() && requests.isa<Int>(0) && !statuses.isa<Int>(0)) {
    return ffi::Error::Internal("kinds");
  }
  *rank->typed_data() = *comm.typed_data() + one.value();
  return Constant<int>("none").error().message().empty() ? ffi::Error::Internal("no message")
                                                          : ffi::Error::Success();
}
// RUN style_rank {} s32[]=4 -> s32[] == 5
// RUN style_rank {} s32[]=4 s32[]=7 f32[2]=1,2 -> s32[] s32[] f32[2] == 5; 7; 1,2
// RUN style_rank {} s32[]=4 s32[]=7 -> s32[] !! INVALID_ARGUMENT unequal numbers
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_rank, Rank,
                              xla::ffi::Ffi::Bind()
                                  .Arg<Int>()
                                  .Ret<Int>()
                                  .RemainingArgs()
                                  .RemainingRets());
}  // namespace passing

// State is a class template with an id per element type. A macro defines the handlers.
namespace solver {
template <ffi::DataType T>
struct State {
  static ffi::TypeId id;
  int64_t calls = 0;
  ffi::NativeType<T> last{};
};
template <>
ffi::TypeId State<ffi::F32>::id = {};
template <>
ffi::TypeId State<ffi::F64>::id = {};

template <ffi::DataType T>
static ffi::ErrorOr<std::unique_ptr<State<T>>> Instantiate(const int64_t start) {
  if (start < 0) throw std::invalid_argument("start is negative");
  auto state = std::make_unique<State<T>>();
  state->calls = start;
  return ffi::ErrorOr<std::unique_ptr<State<T>>>(std::move(state));
}
template <ffi::DataType T>
static ffi::Error Execute(State<T>* state, const ffi::Buffer<T> x, ffi::ResultBuffer<T> y,
                          [[maybe_unused]] const int64_t start) {
  y->typed_data()[0] = static_cast<ffi::NativeType<T>>(++state->calls) * x.typed_data()[0];
  return ffi::Error::Success();
}
#define STYLE_SOLVER(Suffix, Type)                                                          \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(style_solver_new_##Suffix, Instantiate<Type>,               \
                                ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));        \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(style_solver_##Suffix, Execute<Type>,                       \
                                ffi::Ffi::Bind()                                            \
                                    .Ctx<ffi::State<State<Type>>>()                         \
                                    .Arg<ffi::Buffer<Type>>()                               \
                                    .Ret<ffi::Buffer<Type>>()                               \
                                    .Attr<int64_t>("start"),                                \
                                {ffi::Traits::kCmdBufferCompatible});                       \
  XLA_FFI_DECLARE_TYPE_ID_SYMBOL(style_solver_##Suffix##_type_id);                          \
  ffi::TypeId* style_solver_##Suffix##_type_id() { return &State<Type>::id; }               \
  XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(style_solver_##Suffix##_type_info);                      \
  const ffi::TypeInfo* style_solver_##Suffix##_type_info() {                                \
    static constexpr ffi::TypeInfo kInfo = ffi::MakeTypeInfo<State<Type>>();                \
    return &kInfo;                                                                          \
  }
STYLE_SOLVER(f32, ffi::F32)
STYLE_SOLVER(f64, ffi::F64)
}  // namespace solver
// RUN instantiate=style_solver_new_f32,execute=style_solver_f32 type=style_solver_f32 calls=2 from=r1 {start = 3 : i64} f32[1]=10 -> f32[1] == 50
// RUN instantiate=style_solver_new_f64,execute=style_solver_f64 type=style_solver_f64 calls=1 from=r1 {start = 0 : i64} f64[1]=10 -> f64[1] == 10
// RUN-OURS instantiate=style_solver_new_f64,execute=style_solver_f64 type=style_solver_f64 from=r1 {start = -1 : i64} f64[1]=10 -> f64[1] !! INTERNAL start is negative
// TRAITS style_solver_f32 1

// A namespaced struct with attributes of all kinds, and a configuration whose defaults the handler reads from a
// dictionary.
namespace config {
enum class Padding : int32_t { kValid = 0, kSame = 1 };
struct Window {
  ffi::Span<const int64_t> size;
  ffi::Span<const int64_t> stride;
  Padding padding;
  float scale;
  std::string_view name;
  ffi::Dictionary more;
};
static ffi::Error Convolve(Window w, ffi::ResultBufferR1<ffi::S64> y) {
  auto dilation = w.more.get<int64_t>("dilation");
  const int64_t extra = w.more.contains("extra") ? 1 : 0;
  Put(y, {w.size[0] * w.stride[w.stride.size() - 1], static_cast<int64_t>(w.padding),
          static_cast<int64_t>(w.scale), Int(w.name.size()), dilation.has_value() ? *dilation : 1, extra});
  return ffi::Error::Success();
}
}  // namespace config
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(::config::Padding);
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(::config::Window,
                                      StructMember<Span<const int64_t>>("size"),
                                      StructMember<Span<const int64_t>>("stride"),
                                      StructMember<::config::Padding>("padding"),
                                      StructMember<float>("scale"),
                                      StructMember<std::string_view>("name"),
                                      StructMember<Dictionary>("more"));
// RUN style_window {w = {more = {dilation = 5 : i64}, name = "abc", padding = 1 : i32, scale = 2.0 : f32, size = array<i64: 2, 3>, stride = array<i64: 1, 4>}} -> s64[6] == 8,1,2,3,5,0
// RUN style_window {w = {more = {extra = 1 : i64}, name = "", padding = 0 : i32, scale = 2.0 : f32, size = array<i64: 2>, stride = array<i64: 7>}} -> s64[6] == 14,0,2,0,1,1
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    style_window, config::Convolve,
    ffi::Ffi::Bind().Attr<config::Window>("w").Ret<ffi::BufferR1<ffi::S64>>());
// RUN style_window_attrs {more = {}, name = "ab", padding = 0 : i32, scale = 1.0 : f32, size = array<i64: 3>, stride = array<i64: 3>} -> s64[6] == 9,0,1,2,1,0
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    style_window_attrs, config::Convolve,
    ffi::Ffi::Bind().Attrs<config::Window>().Ret<ffi::BufferR1<ffi::S64>>());

// A kernel launcher: variadic operands, metadata in array attributes, ids from the context, and handlers as class
// constants in a static registration list.
namespace launcher {
static std::unordered_map<int64_t, int64_t>& Counts() {
  static auto* counts = new std::unordered_map<int64_t, int64_t>;
  return *counts;
}
static std::mutex mutex;
static ffi::Error Launch(ffi::RunId, ffi::RemainingArgs args, ffi::RemainingRets rets,
                         ffi::Span<const int32_t> kinds, ffi::Span<const int64_t> scalars,
                         int64_t key) {
  if (kinds.size() != scalars.size()) return ffi::Error::InvalidArgument("unequal lengths");
  const std::lock_guard<std::mutex> lock(mutex);
  ++Counts()[key];
  std::vector<void*> pointers;
  pointers.reserve(args.size() + rets.size());
  for (size_t i = 0; i < args.size(); ++i) {
    auto maybe = args.get<ffi::AnyBuffer>(i);
    if (maybe.has_error()) return maybe.error();
    pointers.push_back(maybe.value().untyped_data());
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    auto maybe = rets.get<ffi::AnyBuffer>(i);
    if (maybe.has_error()) return maybe.error();
    pointers.push_back(maybe.value()->untyped_data());
  }
  int64_t sum = 0;
  for (const int64_t scalar : scalars) sum += scalar;
  for (auto kind : kinds) sum += kind;
  *static_cast<int64_t*>(pointers.back()) = sum + Int(pointers.size());
  return ffi::Error::Success();
}
struct Registry {
  XLA_FFI_DEFINE_HANDLER(kLaunch, Launch,
                         ffi::Ffi::Bind<ffi::ExecutionStage::kExecute>()
                             .Ctx<ffi::RunId>()
                             .RemainingArgs()
                             .RemainingRets()
                             .Attr<ffi::Span<const int32_t>>("kinds")
                             .Attr<ffi::Span<const int64_t>>("scalars")
                             .Attr<int64_t>("key"));
  struct Entry {
    const char* name;
    XLA_FFI_Handler_Bundle bundle;
  };
  static std::vector<Entry> All() {
    return {{"launch", {nullptr, nullptr, nullptr, kLaunch}},
            {"again", {/*instantiate=*/nullptr, /*prepare=*/nullptr, /*initialize=*/nullptr,
                       /*execute=*/kLaunch, /*record=*/nullptr}}};
  }
};
template <typename T>
static void* Capsule(T* function) {
  static_assert(std::is_invocable_r_v<XLA_FFI_Error*, T, XLA_FFI_CallFrame*>,
                "a handler is expected");
  return reinterpret_cast<void*>(function);
}
}  // namespace launcher
// RUN style_launch from=r4 {key = 1 : i64, kinds = array<i32: 1, 2>, scalars = array<i64: 10, 20>} f32[1]=1 s32[2]=1,2 -> s64[1] == 36
// RUN style_launch from=r4 {key = 1 : i64, kinds = array<i32: 1>, scalars = array<i64: 10, 20>} -> s64[1] !! INVALID_ARGUMENT unequal lengths
XLA_FFI_DECLARE_HANDLER_SYMBOL(style_launch);
XLA_FFI_Error* style_launch(XLA_FFI_CallFrame* frame) {
  const auto all = launcher::Registry::All();
  return reinterpret_cast<XLA_FFI_Handler*>(launcher::Capsule(all[1].bundle.execute))(frame);
}

// Lambdas as handlers, dispatch through a template with a non-type parameter, and static and dynamic ranks.
template <ffi::DataType dtype, size_t rank, bool reverse>
static ffi::Error Copy(ffi::Buffer<dtype, rank> x, ffi::ResultBuffer<dtype, rank> y) {
  static_assert(rank == ffi::kDynamicRank || rank < 3);
  using T = ffi::NativeType<dtype>;
  if constexpr (reverse) {
    std::reverse_copy(x.typed_data(), x.typed_data() + x.element_count(), y->typed_data());
  } else {
    std::copy_n(static_cast<const T*>(x.untyped_data()), x.element_count(), y->typed_data());
  }
  return ffi::Error();
}
// RUN style_reverse {} s32[3]=1,2,3 -> s32[3] == 3,2,1
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_reverse, (Copy<ffi::S32, 1, true>),
                              (ffi::Ffi::Bind()
                                   .Arg<ffi::Buffer<ffi::S32, 1>>()
                                   .Ret<ffi::Buffer<ffi::S32, 1>>()));
// RUN style_copy_auto {} f64[2]=1,2 -> f64[2] == 1,2
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_copy_auto, (Copy<ffi::F64, ffi::kDynamicRank, false>));
// RUN style_lambda {n = 3 : i64} -> s64[1] == 6
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    style_lambda,
    [](int64_t n, ffi::Result<ffi::BufferR1<ffi::S64>> y) -> ffi::Error {
      y->typed_data()[0] = 2 * n;
      return ffi::Error::Success();
    },
    ffi::Ffi::Bind().Attr<int64_t>("n").Ret<ffi::BufferR1<ffi::S64>>());

// Work is passed to a queue with its promise. The future is constructed last or stored as a member.
namespace queue {
struct Job {
  ffi::Promise promise;
  float* to;
  size_t count;
};
static void Work(std::shared_ptr<Job> job) {
  for (size_t i = 0; i < job->count; ++i) job->to[i] += 1;
  job->promise.SetAvailable();
}
static ffi::Future Write(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, bool fails) {
  std::copy_n(x.typed_data(), x.element_count(), y->typed_data());
  auto job = std::make_shared<Job>(Job{ffi::Promise(), y->typed_data(), y->element_count()});
  if (fails) {
    job->promise.SetError(ffi::Error(ffi::ErrorCode::kDataLoss, "the disk is full"));
    return ffi::Future(job->promise);
  }
  std::thread(Work, job).detach();
  return ffi::Future(job->promise);
}
}  // namespace queue
// RUN style_queue {fails = false} f32[3]=1,2,3 -> f32[3] == 2,3,4
// RUN style_queue {fails = true} f32[3]=1,2,3 -> f32[3] !! DATA_LOSS the disk is full
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_queue, queue::Write,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<bool>("fails"));

// A handler that a pragma exports from a source with hidden visibility by default
#pragma GCC visibility push(default)
// RUN style_pushed {} -> ==
XLA_FFI_DEFINE_HANDLER_SYMBOL(style_pushed, [] { return ffi::Error::Success(); }, ffi::Ffi::Bind());
#pragma GCC visibility pop

// Iteration over the names of a dictionary, `int` and `long long` attributes, copies of values
static ffi::Error Walk(ffi::Dictionary attrs, ffi::ResultBufferR1<ffi::S64> y) {
  int64_t sum = 0;
  for (std::string_view name : attrs) {
    if (name == "list") continue;
    auto value = attrs.get<int>(name);
    if (value.has_error()) return value.error();
    sum += value.value();
  }
  const ffi::ErrorOr<ffi::Span<const float>> list = attrs.get<ffi::Span<const float>>("list");
  const std::vector<float> copy(list->begin(), list->end());
  Put(y, {sum, Int(attrs.size()), static_cast<int64_t>(copy.at(1))});
  return ffi::Error::Success();
}
// RUN style_walk {a = 1 : i32, b = 2 : i32, list = array<f32: 1.0, 4.0>} -> s64[3] == 3,3,4
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    style_walk, Walk, ffi::Ffi::Bind().Attrs<ffi::Dictionary>().Ret<ffi::BufferR1<ffi::S64>>());
