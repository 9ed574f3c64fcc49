// Handlers for each behaviour that XLA's tests name, with the headers of jaxlib 0.12.0. tests/differential.rs calls
// them on the embedded runtime and in JAX, as listed in behaviours.txt. tests/behaviours.rs tests behaviours that
// need more than one call.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using ffi::DataType;
using ffi::Error;
using ffi::ErrorCode;
using F32 = ffi::Buffer<DataType::F32>;
using S64Out = ffi::Result<ffi::BufferR0<DataType::S64>>;

static Error Ok() { return Error::Success(); }
static Error Failed(std::string why) { return Error(ErrorCode::kInternal, std::move(why)); }

#define HANDLER(name, implementation, ...) XLA_FFI_DEFINE_HANDLER_SYMBOL(name, implementation, ffi::Ffi::__VA_ARGS__)

// --- the headers alone ----------------------------------------------------------------------------

static Error Constants() {
  if (static_cast<int>(DataType::F32) != XLA_FFI_DataType_F32) return Failed("DataTypeEnumValue");
  if (static_cast<int>(DataType::U2) != XLA_FFI_DataType_U2) return Failed("DataTypeEnumValue");
  if (ffi::ByteWidth(DataType::C128) != 16 || ffi::ByteWidth(DataType::PRED) != 1) return Failed("DataTypeByteWidth");
  if (static_cast<int>(ErrorCode::kDataLoss) != XLA_FFI_Error_Code_DATA_LOSS) return Failed("ErrorEnumValue");
  ffi::ErrorOr<int> good = 5, bad = ffi::Unexpected(Error::Internal("no"));
  if (!good.has_value() || *good != 5 || bad.has_value() || bad.error().message() != "no") return Failed("Expected");
  return Ok();
}
HANDLER(constants, Constants, Bind());

// --- arguments and results ------------------------------------------------------------------------

static Error Any(ffi::AnyBuffer x, S64Out y) {
  *y->typed_data() = static_cast<int64_t>(x.element_type()) * 1000 + static_cast<int64_t>(x.dimensions().size());
  return Ok();
}
HANDLER(any_buffer, Any, Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Ranked(ffi::BufferR2<DataType::F32> x, S64Out y) {
  *y->typed_data() = x.dimensions()[0] * 100 + x.dimensions()[1];
  return Ok();
}
HANDLER(ranked, Ranked, Bind().Arg<ffi::BufferR2<DataType::F32>>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Complex(ffi::Buffer<DataType::C64> x, ffi::Result<ffi::Buffer<DataType::C64>> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * std::complex<float>(0, 1);
  return Ok();
}
HANDLER(complex_buffer, Complex, Bind().Arg<ffi::Buffer<DataType::C64>>().Ret<ffi::Buffer<DataType::C64>>());

static Error AnyResult(ffi::Result<ffi::AnyBuffer> y) {
  if (y->element_type() != DataType::F32) return Failed("no F32");
  static_cast<float*>(y->untyped_data())[0] = 7;
  return Ok();
}
HANDLER(any_result, AnyResult, Bind().Ret<ffi::AnyBuffer>());

static Error Token(ffi::Token, ffi::Result<ffi::Token>) { return Ok(); }
HANDLER(token, Token, Bind().Arg<ffi::Token>().Ret<ffi::Token>());

static Error RemainingArgs(F32, ffi::RemainingArgs rest, S64Out y) {
  int64_t good = 0;
  for (size_t i = 0; i < rest.size(); ++i) good += rest.get<F32>(i).has_value();
  if (rest.get<F32>(rest.size()).has_value()) return Failed("past the end");
  *y->typed_data() = static_cast<int64_t>(rest.size()) * 10 + good;
  return Ok();
}
HANDLER(remaining_args, RemainingArgs, Bind().Arg<F32>().RemainingArgs().Ret<ffi::BufferR0<DataType::S64>>());

static Error RemainingRets(S64Out y, ffi::RemainingRets rest) {
  *y->typed_data() = static_cast<int64_t>(rest.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    auto z = rest.get<F32>(i);
    if (!z.has_value()) return Failed("no F32");
    (*z)->typed_data()[0] = static_cast<float>(i);
  }
  return Ok();
}
HANDLER(remaining_rets, RemainingRets, Bind().Ret<ffi::BufferR0<DataType::S64>>().RemainingRets());

static Error OptionalArg(std::optional<F32> x, S64Out y) { *y->typed_data() = x.has_value(); return Ok(); }
HANDLER(optional_arg, OptionalArg, Bind().OptionalArg<F32>().Ret<ffi::BufferR0<DataType::S64>>());

static Error TwoOptionalArgs(F32, std::optional<F32> x, std::optional<F32> z, S64Out y) {
  *y->typed_data() = x.has_value() * 10 + z.has_value();
  return Ok();
}
HANDLER(two_optional_args, TwoOptionalArgs,
        Bind().Arg<F32>().OptionalArg<F32>().OptionalArg<F32>().Ret<ffi::BufferR0<DataType::S64>>());

static Error OptionalThenRemaining(std::optional<F32> x, ffi::RemainingArgs rest, S64Out y) {
  *y->typed_data() = x.has_value() * 10 + static_cast<int64_t>(rest.size());
  return Ok();
}
HANDLER(optional_then_remaining, OptionalThenRemaining,
        Bind().OptionalArg<F32>().RemainingArgs().Ret<ffi::BufferR0<DataType::S64>>());

static Error OptionalRets(S64Out y, std::optional<ffi::Result<F32>> a, std::optional<ffi::Result<F32>> b) {
  if (a.has_value()) (*a)->typed_data()[0] = 1;
  if (b.has_value()) (*b)->typed_data()[0] = 2;
  *y->typed_data() = a.has_value() * 10 + b.has_value();
  return Ok();
}
HANDLER(optional_rets, OptionalRets, Bind().Ret<ffi::BufferR0<DataType::S64>>().OptionalRet<F32>().OptionalRet<F32>());

static Error OptionalThenRemainingRets(S64Out y, std::optional<ffi::Result<F32>> a, ffi::RemainingRets rest) {
  if (a.has_value()) (*a)->typed_data()[0] = 1;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (auto z = rest.get<ffi::Buffer<DataType::S8>>(i); z.has_value()) (*z)->typed_data()[0] = 2;
  }
  *y->typed_data() = a.has_value() * 10 + static_cast<int64_t>(rest.size());
  return Ok();
}
HANDLER(optional_then_remaining_rets, OptionalThenRemainingRets,
        Bind().Ret<ffi::BufferR0<DataType::S64>>().OptionalRet<F32>().RemainingRets());

// --- matching -------------------------------------------------------------------------------------

static Error Match(ffi::AnyBuffer x, ffi::AnyBuffer z, S64Out y) {
  int64_t n = 0;
  auto matched = ffi::Match("x", x, ffi::match::Buffer<DataType::F32>().WithDims(ffi::match::Dim(&n), 3));
  if (!matched.has_value()) return matched.error();
  Error same = ffi::Verify("z", z, ffi::match::Buffer().Like(x));
  if (same.failure()) return same;
  *y->typed_data() = n;
  return Ok();
}
HANDLER(match, Match, Bind().Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR0<DataType::S64>>());

// --- automatic binding ----------------------------------------------------------------------------

static constexpr char kFactor[] = "factor";
static Error AutoBinding(ffi::Attr<float, kFactor> factor, F32 x, ffi::Result<F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * *factor;
  return Ok();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_binding, AutoBinding);

struct Pair {
  int32_t first;
  float second;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Pair, ffi::StructMember<int32_t>("first"), ffi::StructMember<float>("second"));

static Error AutoStruct(Pair pair, S64Out y) { *y->typed_data() = pair.first + static_cast<int64_t>(pair.second); return Ok(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_struct, AutoStruct);

static Error AutoDictionary(ffi::Dictionary attributes, S64Out y) {
  auto n = attributes.get<int64_t>("n");
  if (!n.has_value()) return n.error();
  *y->typed_data() = *n * 10 + static_cast<int64_t>(attributes.size()) + (attributes.contains("missing") ? 1000 : 0);
  return Ok();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_dictionary, AutoDictionary);

// --- attributes -----------------------------------------------------------------------------------

static Error Scalars(bool flag, int8_t i8, uint64_t u64, float f32, double f64, std::complex<float> c64, S64Out y) {
  *y->typed_data() = flag + 10 * i8 + 100 * static_cast<int64_t>(u64) + 1000 * static_cast<int64_t>(f32) +
                     10000 * static_cast<int64_t>(f64) + 100000 * static_cast<int64_t>(c64.imag());
  return Ok();
}
HANDLER(scalars, Scalars,
        Bind().Attr<bool>("flag").Attr<int8_t>("i8").Attr<uint64_t>("u64").Attr<float>("f32").Attr<double>("f64")
            .Attr<std::complex<float>>("c64").Ret<ffi::BufferR0<DataType::S64>>());

static Error Builtin(bool flag, int8_t i8, int16_t i16, int32_t i32, int64_t i64, uint8_t u8, uint16_t u16,
                     uint32_t u32, uint64_t u64, float f32, double f64, std::string_view text, S64Out y) {
  *y->typed_data() = flag + i8 + i16 + i32 + i64 + u8 + u16 + u32 + static_cast<int64_t>(u64) +
                     static_cast<int64_t>(f32) + static_cast<int64_t>(f64) + static_cast<int64_t>(text.size());
  return Ok();
}
HANDLER(builtin, Builtin,
        Bind().Attr<bool>("flag").Attr<int8_t>("i8").Attr<int16_t>("i16").Attr<int32_t>("i32").Attr<int64_t>("i64")
            .Attr<uint8_t>("u8").Attr<uint16_t>("u16").Attr<uint32_t>("u32").Attr<uint64_t>("u64").Attr<float>("f32")
            .Attr<double>("f64").Attr<std::string_view>("text").Ret<ffi::BufferR0<DataType::S64>>());

template <typename T>
static int64_t Sum(ffi::Span<const T> values) {
  double sum = 0;
  for (T value : values) sum += static_cast<double>(value);
  return static_cast<int64_t>(sum);
}

static Error Arrays(ffi::Span<const int8_t> a, ffi::Span<const int16_t> b, ffi::Span<const int32_t> c,
                    ffi::Span<const int64_t> d, ffi::Span<const uint8_t> e, ffi::Span<const uint16_t> f,
                    ffi::Span<const uint32_t> g, ffi::Span<const uint64_t> h, ffi::Span<const float> i,
                    ffi::Span<const double> j, S64Out y) {
  *y->typed_data() = Sum(a) + Sum(b) + Sum(c) + Sum(d) + Sum(e) + Sum(f) + Sum(g) + Sum(h) + Sum(i) + Sum(j);
  return Ok();
}
HANDLER(arrays, Arrays,
        Bind().Attr<ffi::Span<const int8_t>>("a").Attr<ffi::Span<const int16_t>>("b").Attr<ffi::Span<const int32_t>>("c")
            .Attr<ffi::Span<const int64_t>>("d").Attr<ffi::Span<const uint8_t>>("e").Attr<ffi::Span<const uint16_t>>("f")
            .Attr<ffi::Span<const uint32_t>>("g").Attr<ffi::Span<const uint64_t>>("h").Attr<ffi::Span<const float>>("i")
            .Attr<ffi::Span<const double>>("j").Ret<ffi::BufferR0<DataType::S64>>());

static Error Text(std::string_view text, S64Out y) { *y->typed_data() = static_cast<int64_t>(text.size()); return Ok(); }
HANDLER(text, Text, Bind().Attr<std::string_view>("text").Ret<ffi::BufferR0<DataType::S64>>());

static Error Nested(ffi::Dictionary outer, S64Out y) {
  auto inner = outer.get<ffi::Dictionary>("inner");
  if (!inner.has_value()) return inner.error();
  auto n = inner->get<int32_t>("n");
  if (!n.has_value()) return n.error();
  *y->typed_data() = *n;
  return Ok();
}
HANDLER(nested, Nested, Bind().Attr<ffi::Dictionary>("outer").Ret<ffi::BufferR0<DataType::S64>>());

static Error AllAttrs(ffi::Dictionary attributes, S64Out y) { *y->typed_data() = static_cast<int64_t>(attributes.size()); return Ok(); }
HANDLER(all_attrs, AllAttrs, Bind().Attrs().Ret<ffi::BufferR0<DataType::S64>>());

static Error StructOf(Pair pair, S64Out y) { *y->typed_data() = pair.first * 10 + static_cast<int64_t>(pair.second); return Ok(); }
HANDLER(struct_attr, StructOf, Bind().Attr<Pair>("pair").Ret<ffi::BufferR0<DataType::S64>>());
HANDLER(attrs_as_struct, StructOf, Bind().Attrs<Pair>().Ret<ffi::BufferR0<DataType::S64>>());

static int64_t pointee = 4711;
extern "C" __attribute__((visibility("default"))) int64_t* the_pointee() { return &pointee; }
static Error Pointer(int64_t* pointer, S64Out y) { *y->typed_data() = *pointer; return Ok(); }
HANDLER(pointer, Pointer, Bind().Attr<ffi::Pointer<int64_t>>("pointer").Ret<ffi::BufferR0<DataType::S64>>());

enum class Color : int32_t { kRed = 1, kBlue = 2 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Color);
static Error Enumerated(Color color, S64Out y) { *y->typed_data() = static_cast<int64_t>(color); return Ok(); }
HANDLER(enumerated, Enumerated, Bind().Attr<Color>("color").Ret<ffi::BufferR0<DataType::S64>>());

using IntOrFloat = std::variant<int32_t, float>;
static Error Variant(IntOrFloat value, S64Out y) {
  *y->typed_data() = static_cast<int64_t>(value.index());
  return Ok();
}
HANDLER(variant, Variant, Bind().Attr<IntOrFloat>("value").Ret<ffi::BufferR0<DataType::S64>>());

// --- errors ---------------------------------------------------------------------------------------

static Error ReturnError() { return Error(ErrorCode::kInternal, "Test error"); }
HANDLER(return_error, ReturnError, Bind());

static Error Forward(int32_t code) { return Error(static_cast<ErrorCode>(code), "forwarded"); }
HANDLER(forward_error, Forward, Bind().Attr<int32_t>("code"));

static Error Throwing() { throw std::runtime_error("thrown on purpose"); }
HANDLER(throwing, Throwing, Bind());

// --- state of one stage ---------------------------------------------------------------------------

struct Count {
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId Count::id = {};
extern "C" __attribute__((visibility("default"))) XLA_FFI_TypeInfo count_info = {
    XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, +[](void* state) { delete static_cast<Count*>(state); }};

// Functions that return the same type id and type info as the objects, as the macros of XLA's headers declare them.
#define VISIBLE __attribute__((visibility("default")))
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(count_type_id);
VISIBLE XLA_FFI_TypeId* count_type_id() { return &Count::id; }
XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(count_type_info);
VISIBLE const XLA_FFI_TypeInfo* count_type_info() { return &count_info; }
XLA_FFI_DECLARE_TYPE_ID_SYMBOL(null_type_id);
VISIBLE XLA_FFI_TypeId* null_type_id() { return nullptr; }

static ffi::ErrorOr<std::unique_ptr<Count>> CountInstantiate(int64_t start) {
  return std::make_unique<Count>(Count{start});
}
static Error CountExecute(Count* count, int64_t, S64Out y) { *y->typed_data() = ++count->value; return Ok(); }
HANDLER(count_instantiate, CountInstantiate, BindInstantiate().Attr<int64_t>("start"));
HANDLER(count_execute, CountExecute,
        Bind().Ctx<ffi::State<Count>>().Attr<int64_t>("start").Ret<ffi::BufferR0<DataType::S64>>());

struct Uncounted {
  static ffi::TypeId id;
};
ffi::TypeId Uncounted::id = {};
extern "C" __attribute__((visibility("default"))) XLA_FFI_TypeInfo uncounted_info = {
    XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, nullptr};
static Error OtherState(Uncounted*, int64_t, S64Out y) { *y->typed_data() = 0; return Ok(); }
HANDLER(other_state, OtherState,
        Bind().Ctx<ffi::State<Uncounted>>().Attr<int64_t>("start").Ret<ffi::BufferR0<DataType::S64>>());

// --- state of every stage -------------------------------------------------------------------------

struct Stages {
  static ffi::TypeId id;
  explicit Stages(int64_t value) : value(value) { ++living; }
  ~Stages() { --living; }
  int64_t value;
  static std::atomic<int64_t> living;
};
ffi::TypeId Stages::id = {};
std::atomic<int64_t> Stages::living = 0;
extern "C" __attribute__((visibility("default"))) XLA_FFI_TypeInfo stages_info = {
    XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, +[](void* state) { delete static_cast<Stages*>(state); }};
extern "C" __attribute__((visibility("default"))) int64_t stages_living() { return Stages::living; }

using MadeState = ffi::ErrorOr<std::unique_ptr<Stages>>;
static MadeState StagesInstantiate() { return std::make_unique<Stages>(1); }
static MadeState StagesPrepare(Stages* state) { return std::make_unique<Stages>(state->value + 10); }
static MadeState StagesInitialize(Stages* state, Stages* prepared) {
  return std::make_unique<Stages>(state->value + prepared->value + 100);
}
static Error StagesExecute(Stages* state, Stages* prepared, Stages* initialized, S64Out y) {
  *y->typed_data() = state->value + prepared->value + initialized->value;
  return Ok();
}
HANDLER(stages_instantiate, StagesInstantiate, BindInstantiate());
HANDLER(stages_prepare, StagesPrepare, BindPrepare().Ctx<ffi::State<Stages>>());
HANDLER(stages_initialize, StagesInitialize,
        BindInitialize().Ctx<ffi::State<Stages>>().Ctx<ffi::Prepared<Stages>>());
HANDLER(stages_execute, StagesExecute,
        Bind().Ctx<ffi::State<Stages>>().Ctx<ffi::Prepared<Stages>>().Ctx<ffi::Initialized<Stages>>()
            .Ret<ffi::BufferR0<DataType::S64>>());

static MadeState RefusesToInstantiate() { return ffi::Unexpected(Error(ErrorCode::kUnavailable, "not here")); }
HANDLER(refuses_to_instantiate, RefusesToInstantiate, BindInstantiate());

// --- context --------------------------------------------------------------------------------------

static Error ViaContext(ffi::Context context, S64Out y) {
  auto run_id = context.get<ffi::RunId>();
  if (!run_id.has_value()) return run_id.error();
  *y->typed_data() = run_id->run_id;
  return Ok();
}
HANDLER(run_id_via_context, ViaContext, Bind().Ctx<ffi::Context>().Ret<ffi::BufferR0<DataType::S64>>());

static Error RunIdTwice(ffi::RunId bound, ffi::Context context, S64Out y) {
  auto found = context.get<ffi::RunId>();
  if (!found.has_value()) return found.error();
  *y->typed_data() = found->run_id == bound.run_id;
  return Ok();
}
HANDLER(run_id, RunIdTwice, Bind().Ctx<ffi::RunId>().Ctx<ffi::Context>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Ordinal(int32_t ordinal, S64Out y) { *y->typed_data() = ordinal; return Ok(); }
HANDLER(device_ordinal, Ordinal, Bind().Ctx<ffi::DeviceOrdinal>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Streamed(void* stream, S64Out y) { *y->typed_data() = reinterpret_cast<int64_t>(stream); return Ok(); }
HANDLER(streamed, Streamed, Bind().Ctx<ffi::PlatformStream<void*>>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Scratch(ffi::ScratchAllocator scratch, S64Out y) {
  std::optional<void*> memory = scratch.Allocate(1024, 16);
  if (!memory.has_value()) return Error(ErrorCode::kResourceExhausted, "no scratch memory");
  *static_cast<int64_t*>(*memory) = 3;
  *y->typed_data() = *static_cast<int64_t*>(*memory);
  return Ok();
}
HANDLER(scratch, Scratch, Bind().Ctx<ffi::ScratchAllocator>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Pooled(ffi::ThreadPool pool, S64Out y) {
  if (pool.num_threads() < 1) return Failed("an empty pool");
  std::atomic<int64_t> left = 100, done = 0;
  for (int i = 0; i < 100; ++i) {
    pool.Schedule([&left, &done] {
      ++done;
      --left;
    });
  }
  while (left > 0) std::this_thread::yield();
  *y->typed_data() = done;
  return Ok();
}
HANDLER(pooled, Pooled, Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR0<DataType::S64>>());

static Error Options(ffi::Dictionary options, S64Out y) { *y->typed_data() = static_cast<int64_t>(options.size()); return Ok(); }
HANDLER(custom_options, Options, Bind().Ctx<ffi::CustomOptions>().Ret<ffi::BufferR0<DataType::S64>>());

// A type whose number the host assigns, and a type that chooses its number.
struct Given {
  static ffi::TypeId id;
  int64_t number;
};
ffi::TypeId Given::id = {};
struct Chosen {
  static ffi::TypeId id;
  int64_t number;
};
ffi::TypeId Chosen::id = {4242};
static Error GivenData(Given* given, S64Out y) { *y->typed_data() = given->number; return Ok(); }
static Error ChosenData(Chosen* chosen, S64Out y) { *y->typed_data() = chosen->number; return Ok(); }
HANDLER(user_data, GivenData, Bind().Ctx<ffi::UserData<Given>>().Ret<ffi::BufferR0<DataType::S64>>());
HANDLER(user_data_chosen, ChosenData, Bind().Ctx<ffi::UserData<Chosen>>().Ret<ffi::BufferR0<DataType::S64>>());

struct Probe {
  using Type = int64_t;
  using CExtension = XLA_FFI_Extension;
  static constexpr std::string_view kName = "probe";
  static constexpr int64_t kExtensionType = 4242;
  static constexpr int32_t kMajorVersion = 1;
  static constexpr int32_t kMinorVersion = 2;
  static std::optional<int64_t> Create(const XLA_FFI_Api*, const XLA_FFI_Extension* extension) {
    return extension->id.extension_type;
  }
};
static Error Extended(int64_t number, S64Out y) { *y->typed_data() = number; return Ok(); }
HANDLER(extended, Extended, Bind().Ctx<ffi::Extension<Probe>>().Ret<ffi::BufferR0<DataType::S64>>());

// --- metadata -------------------------------------------------------------------------------------

static Error Nothing() { return Ok(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(with_traits, Nothing, ffi::Ffi::Bind(), {ffi::Traits::kCmdBufferCompatible});
HANDLER(nothing, Nothing, Bind());

// --- futures --------------------------------------------------------------------------------------

static ffi::Future SetAvailable() {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetAvailable();
  return future;
}
HANDLER(set_available, SetAvailable, Bind());

static ffi::Future SetError() {
  ffi::Promise promise;
  ffi::Future future(promise);
  promise.SetError(Error(ErrorCode::kAborted, "broken promise"));
  return future;
}
HANDLER(set_error, SetError, Bind());

static ffi::Future FromPool(ffi::ThreadPool pool, S64Out y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  int64_t* to = y->typed_data();
  pool.Schedule([to, promise = std::make_shared<ffi::Promise>(std::move(promise))] {
    *to = 99;  // This write happens before the waiting thread's read.
    promise->SetAvailable();
  });
  return future;
}
HANDLER(set_available_from_pool, FromPool, Bind().Ctx<ffi::ThreadPool>().Ret<ffi::BufferR0<DataType::S64>>());

static ffi::Future ErrorFromPool(ffi::ThreadPool pool) {
  ffi::Promise promise;
  ffi::Future future(promise);
  pool.Schedule([promise = std::make_shared<ffi::Promise>(std::move(promise))] {
    promise->SetError(Error(ErrorCode::kAborted, "broken in the pool"));
  });
  return future;
}
HANDLER(set_error_from_pool, ErrorFromPool, Bind().Ctx<ffi::ThreadPool>());

static ffi::Future Race(ffi::ThreadPool pool) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise = std::move(promise)]() mutable { promise.SetAvailable(); }).detach();
  return future;
}
HANDLER(race, Race, Bind().Ctx<ffi::ThreadPool>());

static ffi::Future Done(bool fail) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([&promise, fail] {
    if (fail) {
      promise.SetError(Error(ErrorCode::kDataLoss, "failed before the handler returned"));
    } else {
      promise.SetAvailable();
    }
  }).join();
  return future;
}
HANDLER(done, Done, Bind().Attr<bool>("fail"));

static ffi::Future CountDown(ffi::ThreadPool pool, bool fail) {
  ffi::CountDownPromise counter(100);
  ffi::Future future(counter);
  for (int i = 0; i < 100; ++i) {
    pool.Schedule([counter, fail, i]() mutable {
      if (fail && i == 50) {
        counter.CountDown(Error(ErrorCode::kDataLoss, "one of a hundred"));
      } else {
        counter.CountDown();
      }
    });
  }
  return future;
}
HANDLER(count_down, CountDown, Bind().Ctx<ffi::ThreadPool>().Attr<bool>("fail"));

static ffi::Future CountDownHere(bool fail) {
  ffi::CountDownPromise counter(3);
  ffi::Future future(counter);
  counter.CountDown();
  if (fail) {
    counter.CountDown(Error(ErrorCode::kDataLoss, "one of three"));
  } else {
    counter.CountDown();
  }
  counter.CountDown();
  return future;
}
HANDLER(count_down_here, CountDownHere, Bind().Attr<bool>("fail"));

// --- record ---------------------------------------------------------------------------------------

#include "xla/ffi/api/collectives_api.h"
#include "xla/ffi/api/record_api.h"

struct ErrorPolicy {
  using Status = Error;
  template <typename T>
  using StatusOr = ffi::ErrorOr<T>;
  struct Any {
    Error error;
    operator Error() const { return error; }
    template <typename T>
    operator ffi::ErrorOr<T>() const { return ffi::Unexpected(error); }
  };
  static Any FromErrorCode(XLA_FFI_Error_Code code, std::string message) { return {Error(code, std::move(message))}; }
  static Any TakeError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
    XLA_FFI_Error_GetDetails_Args details = {XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE, nullptr, error, nullptr,
                                             XLA_FFI_Error_Code_UNKNOWN};
    api->XLA_FFI_Error_GetDetails(&details);
    Any taken = {Error(details.errc, details.message)};
    XLA_FFI_Error_Destroy_Args destroy = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
    api->XLA_FFI_Error_Destroy(&destroy);
    return taken;
  }
  static Error Ok() { return Error::Success(); }
};

using RecordContext = ffi::internal::RecordContextBase<ErrorPolicy>;
struct Record : ffi::internal::RecordExtensionBase<RecordContext> {};

static void Kernel() {}

static Error RecordAll(RecordContext record, F32 x, ffi::Result<F32> y) {
  void* pointers[] = {x.untyped_data(), y->untyped_data()};
  if (record.action() == ffi::RecordAction::kUpdate) {
    Error updated = record.UpdateLaunch(record.commands()[0], pointers);
    if (updated.failure()) return updated;
    return record.UpdateMemcpyD2D(record.commands()[1], pointers[1], pointers[0], 8);
  }
  auto launch = record.CreateLaunch("kernel", reinterpret_cast<const void*>(&Kernel), 0,
                                    ffi::SourceFormat::kFunctionPtr, {{1, 2, 3}, {4, 5, 6}, {1, 1, 1}}, 16, false,
                                    pointers);
  if (!launch.has_value()) return launch.error();
  auto copy = record.CreateMemcpyD2D(pointers[1], pointers[0], 4,
                                     std::initializer_list<const XLA_FFI_Command*>{*launch});
  if (!copy.has_value()) return copy.error();
  auto empty = record.CreateEmptyCommand(std::initializer_list<const XLA_FFI_Command*>{*launch, *copy});
  if (!empty.has_value()) return empty.error();
  return Ok();
}
HANDLER(record_all, RecordAll, BindRecord().Ctx<ffi::Extension<Record>>().Arg<F32>().Ret<F32>());

static Error Capture(RecordContext record, ffi::RemainingArgs, ffi::RemainingRets) { return record.RequestStreamCapture(); }
HANDLER(record_capture, Capture, BindRecord().Ctx<ffi::Extension<Record>>().RemainingArgs().RemainingRets());

static Error RecordedExecute(F32, ffi::Result<F32>) { return Ok(); }
HANDLER(recorded_execute, RecordedExecute, Bind().Arg<F32>().Ret<F32>());

// --- collectives ----------------------------------------------------------------------------------

using CollectivesContext = ffi::internal::CommunicatorContextBase<ErrorPolicy>;
struct Collectives : ffi::internal::CollectivesExtensionBase<CollectivesContext> {};

static Error CollectivesPrepare(CollectivesContext collectives, F32 x, S64Out) {
  Error requested = collectives.RequestCommunicator(ffi::GroupMode::kFlattenedId, {{0, 1}, {2, 3}}, 7);
  if (requested.failure()) return requested;
  return collectives.RequestWindow(ffi::GroupMode::kFlattenedId, {{0, 1}, {2, 3}}, 7, {{x.untyped_data(), 8, 0}});
}
HANDLER(collectives_prepare, CollectivesPrepare,
        BindPrepare().Ctx<ffi::Extension<Collectives>>().Arg<F32>().Ret<ffi::BufferR0<DataType::S64>>());

static Error CollectivesExecute(CollectivesContext collectives, F32 x, S64Out y) {
  auto communicator = collectives.GetCommunicator(ffi::GroupMode::kFlattenedId, {{0, 1}, {2, 3}}, 7);
  if (!communicator.has_value()) return communicator.error();
  auto window = collectives.GetWindow(ffi::GroupMode::kFlattenedId, {{0, 1}, {2, 3}}, 7, x.typed_data() + 1);
  if (!window.has_value()) return window.error();
  if (collectives.GetWindow(ffi::GroupMode::kFlattenedId, {{0, 1}, {2, 3}}, 7, x.typed_data() + 2).has_value()) {
    return Failed("a window past its end");
  }
  *y->typed_data() = reinterpret_cast<int64_t>(*communicator) * 10 + static_cast<int64_t>(window->offset);
  return Ok();
}
HANDLER(collectives_execute, CollectivesExecute,
        Bind().Ctx<ffi::Extension<Collectives>>().Arg<F32>().Ret<ffi::BufferR0<DataType::S64>>());
