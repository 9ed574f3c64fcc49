// The conformance handlers (tests/jax/README.md) written against upstream's own headers, as their
// users write them. xtask compiles this file with the headers of jaxlib 0.12.0, so that the matrix
// shows what such a library does on other releases.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using F32 = ffi::Buffer<ffi::F32>;
using F32Out = ffi::Result<F32>;
template <ffi::DataType dtype>
using ScalarOut = ffi::Result<ffi::BufferR0<dtype>>;

bool SameShape(F32 x, F32Out& y) { return x.dimensions() == y->dimensions(); }

ffi::Error Invalid(std::string why) { return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::move(why)); }

ffi::Error CodedError(int32_t code, std::string_view message) {
  return ffi::Error(static_cast<ffi::ErrorCode>(code), std::string(message));
}

ffi::Error Scale(F32 x, F32Out y, float factor) {
  if (!SameShape(x, y)) return Invalid("x and y differ in shape");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * factor;
  return ffi::Error::Success();
}

ffi::Error EchoBool(ScalarOut<ffi::S64> y, bool value) {
  *y->typed_data() = value;
  return ffi::Error::Success();
}

ffi::Error EchoInts(ffi::Result<ffi::BufferR1<ffi::S64>> y, int8_t i8, int16_t i16, int32_t i32, int64_t i64,
                    uint8_t u8, uint16_t u16, uint32_t u32, uint64_t u64) {
  const int64_t values[] = {i8, i16, i32, i64, u8, u16, u32, static_cast<int64_t>(u64)};
  if (y->element_count() != 8) return Invalid("y needs 8 elements");
  std::memcpy(y->typed_data(), values, sizeof(values));
  return ffi::Error::Success();
}

ffi::Error EchoFloats(ffi::Result<ffi::BufferR1<ffi::F64>> y, float f32, double f64) {
  if (y->element_count() != 2) return Invalid("y needs 2 elements");
  y->typed_data()[0] = f32;
  y->typed_data()[1] = f64;
  return ffi::Error::Success();
}

ffi::Error EchoString(ffi::Result<ffi::BufferR1<ffi::U8>> y, std::string_view text) {
  if (y->element_count() != text.size()) return Invalid("y and text differ in length");
  std::memcpy(y->typed_data(), text.data(), text.size());
  return ffi::Error::Success();
}

struct Sink {
  double* at;
  double* end;
  bool overflow = false;
  template <typename T>
  void Add(ffi::Span<const T> values) {
    for (T value : values) {
      if (at == end) {
        overflow = true;
        return;
      }
      *at++ = static_cast<double>(value);
    }
  }
};

template <typename... T>
ffi::Error EchoSpans(ffi::Result<ffi::BufferR1<ffi::F64>> y, ffi::Span<const T>... arrays) {
  Sink sink{y->typed_data(), y->typed_data() + y->element_count()};
  (sink.Add(arrays), ...);
  if (sink.overflow || sink.at != sink.end) return Invalid("y has the wrong length");
  return ffi::Error::Success();
}

ffi::Error EchoDict(ffi::Result<ffi::BufferR1<ffi::F64>> y, ffi::Dictionary options) {
  auto flag = options.get<bool>("flag");
  auto n = options.get<int64_t>("n");
  auto x = options.get<double>("x");
  auto name = options.get<std::string_view>("name");
  if (!flag || !n || !x || !name) return Invalid("options lacks an entry");
  const double values[] = {*flag ? 1.0 : 0.0, static_cast<double>(*n), *x, static_cast<double>(name->size())};
  if (y->element_count() != 4) return Invalid("y needs 4 elements");
  std::memcpy(y->typed_data(), values, sizeof(values));
  return ffi::Error::Success();
}

ffi::Error EchoNested(ffi::Result<ffi::BufferR1<ffi::F64>> y, ffi::Dictionary options) {
  auto n = options.get<int64_t>("n");
  auto inner = options.get<ffi::Dictionary>("inner");
  auto list = options.get<ffi::Span<const int64_t>>("list");
  if (!n || !inner || !list) return Invalid("options lacks an entry");
  auto x = inner->get<double>("x");
  if (!x) return Invalid("inner lacks x");
  if (y->element_count() != 3) return Invalid("y needs 3 elements");
  y->typed_data()[0] = static_cast<double>(*n);
  y->typed_data()[1] = *x;
  y->typed_data()[2] = 0;
  for (int64_t value : *list) y->typed_data()[2] += static_cast<double>(value);
  return ffi::Error::Success();
}

// Upstream's bindings know neither defaults nor optional attributes: a handler reads the dictionary.
ffi::Error EchoOptional(ffi::Result<ffi::BufferR1<ffi::F64>> y, ffi::Dictionary attrs) {
  auto n = attrs.get<int64_t>("n");
  auto x = attrs.get<double>("x");
  if (y->element_count() != 2) return Invalid("y needs 2 elements");
  y->typed_data()[0] = n ? static_cast<double>(*n) : 7;
  y->typed_data()[1] = x ? *x : -1;
  return ffi::Error::Success();
}

ffi::Error Describe(ffi::AnyBuffer x, ffi::Result<ffi::BufferR1<ffi::S64>> y) {
  if (y->element_count() != 8) return Invalid("y needs 8 elements");
  int64_t* out = y->typed_data();
  out[0] = static_cast<int64_t>(x.element_type());
  out[1] = static_cast<int64_t>(x.dimensions().size());
  out[2] = static_cast<int64_t>(x.element_count());
  out[3] = static_cast<int64_t>(x.size_bytes());
  for (size_t i = 0; i < 4; ++i) out[4 + i] = i < x.dimensions().size() ? x.dimensions()[i] : -1;
  return ffi::Error::Success();
}

ffi::Error Copy(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (x.element_type() != y->element_type() || !(x.dimensions() == y->dimensions())) return Invalid("x and y differ");
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}

// Bits of an element, and whether it is signed.
std::pair<int, bool> Packing(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::DataType::S2:
      return {2, true};
    case ffi::DataType::U2:
      return {2, false};
    case ffi::DataType::S4:
      return {4, true};
    case ffi::DataType::U4:
    case ffi::DataType::F4E2M1FN:
      return {4, false};
    default:
      return {0, false};
  }
}

// Older runtimes send packed elements without their type.
ffi::Error NotPacked(const char* name, ffi::DataType dtype) {
  if (dtype != ffi::DataType::INVALID) return Invalid(std::string(name) + " is no packed type of two or four bits");
  return ffi::Error(ffi::ErrorCode::kUnimplemented,
                    std::string(name) + " arrives without its packed type; jaxlib 0.6.0 and newer name it");
}

ffi::Error Unpack(ffi::AnyBuffer x, ffi::Result<ffi::Buffer<ffi::S8>> y) {
  auto [bits, is_signed] = Packing(x.element_type());
  if (bits == 0) return NotPacked("x", x.element_type());
  if (x.element_count() != y->element_count()) return Invalid("x and y differ in length");
  const auto* packed = static_cast<const uint8_t*>(x.untyped_data());
  for (size_t i = 0; i < y->element_count(); ++i) {
    int value = packed[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
    if (is_signed && value >> (bits - 1)) value -= 1 << bits;
    y->typed_data()[i] = static_cast<int8_t>(value);
  }
  return ffi::Error::Success();
}

// Upstream's typed buffers know no such element types.
ffi::Error UnpackS4(ffi::AnyBuffer x, ffi::Result<ffi::Buffer<ffi::S8>> y) {
  if (x.element_type() != ffi::DataType::S4) return Invalid("x is no S4");
  if (x.element_count() != y->element_count()) return Invalid("x and y differ in length");
  const auto* packed = static_cast<const uint8_t*>(x.untyped_data());
  for (size_t i = 0; i < y->element_count(); ++i) {
    const int value = packed[i / 2] >> (i % 2 * 4) & 15;
    y->typed_data()[i] = static_cast<int8_t>(value >= 8 ? value - 16 : value);
  }
  return ffi::Error::Success();
}

ffi::Error Pack(ffi::Buffer<ffi::S8> x, ffi::Result<ffi::AnyBuffer> y) {
  const int bits = Packing(y->element_type()).first;
  if (bits == 0) return NotPacked("y", y->element_type());
  if (x.element_count() != y->element_count()) return Invalid("x and y differ in length");
  auto* packed = static_cast<uint8_t*>(y->untyped_data());
  const size_t count = x.element_count();
  std::memset(packed, 0, (count * bits + 7) / 8);
  for (size_t i = 0; i < count; ++i) {
    const int value = x.typed_data()[i] & ((1 << bits) - 1);
    packed[i * bits / 8] = static_cast<uint8_t>(packed[i * bits / 8] | value << (i * bits % 8));
  }
  return ffi::Error::Success();
}

ffi::Error SumAll(ffi::RemainingArgs xs, ScalarOut<ffi::F32> y) {
  float sum = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    auto x = xs.get<F32>(i);
    if (!x) return x.error();
    for (size_t k = 0; k < x->element_count(); ++k) sum += x->typed_data()[k];
  }
  *y->typed_data() = sum;
  return ffi::Error::Success();
}

ffi::Error AddTokens(ffi::Token, F32 x, ffi::Result<ffi::Token>, F32Out y) {
  if (!SameShape(x, y)) return Invalid("x and y differ in shape");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}

ffi::Error Increment(F32 x, F32Out y) {
  if (!SameShape(x, y)) return Invalid("x and y differ in shape");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}

ffi::Error Fail(F32, F32Out, int32_t code, std::string_view message) { return CodedError(code, message); }

ffi::Error Panic(F32, F32Out, std::string_view message) { throw std::runtime_error(std::string(message)); }

std::atomic<int64_t> built{0};
std::atomic<int64_t> dropped{0};

struct Counter {
  static ffi::TypeId id;
  explicit Counter(int64_t start) : next(start) { ++built; }
  ~Counter() { ++dropped; }
  std::atomic<int64_t> next;
};
ffi::TypeId Counter::id = {};

ffi::ErrorOr<std::unique_ptr<Counter>> CounterInstantiate(int64_t start) {
  if (start < 0) return ffi::Unexpected(Invalid("start is negative"));
  return std::make_unique<Counter>(start);
}

ffi::Error CounterExecute(Counter* state, ffi::BufferR0<ffi::F32>, ScalarOut<ffi::S64> y) {
  *y->typed_data() = state->next++;
  return ffi::Error::Success();
}

ffi::Error CounterStats(ffi::Result<ffi::BufferR1<ffi::S64>> y) {
  if (y->element_count() != 2) return Invalid("y needs 2 elements");
  y->typed_data()[0] = built;
  y->typed_data()[1] = dropped;
  return ffi::Error::Success();
}

ffi::Future AsyncScale(F32 x, F32Out y, float factor, int64_t delay_ms) {
  ffi::Promise promise;
  ffi::Future future(promise);
  if (!SameShape(x, y)) {
    promise.SetError(Invalid("x and y differ in shape"));
    return future;
  }
  // The buffers' descriptions end with this call; what they point to does not.
  std::thread([promise = std::move(promise), in = x.typed_data(), out = y->typed_data(), n = x.element_count(), factor,
               delay_ms]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    for (size_t i = 0; i < n; ++i) out[i] = in[i] * factor;
    promise.SetAvailable();
  }).detach();
  return future;
}

ffi::Future AsyncProbe(ffi::Result<ffi::BufferR1<ffi::S64>> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise = std::move(promise), out = y->typed_data(), caller = std::this_thread::get_id()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    out[0] = caller != std::this_thread::get_id();
    out[1] = 1;
    promise.SetAvailable();
  }).detach();
  return future;
}

ffi::Future AsyncFail(F32, F32Out, int32_t code, std::string_view message) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise = std::move(promise), error = CodedError(code, message)]() mutable {
    promise.SetError(std::move(error));
  }).detach();
  return future;
}

ffi::Future PoolSum(F32 x, ScalarOut<ffi::F32> y, ffi::Result<ffi::BufferR1<ffi::S64>> tasks, ffi::ThreadPool pool,
                    int64_t count) {
  struct Shared {
    std::atomic<int64_t> ran{0}, elsewhere{0}, left{0};
    std::vector<double> sums;
  };
  auto shared = std::make_shared<Shared>();
  shared->left = count;
  shared->sums.resize(count);
  ffi::Promise promise;
  ffi::Future future(promise);
  for (int64_t task = 0; task < count; ++task) {
    pool.Schedule([=, caller = std::this_thread::get_id(), in = x.typed_data(), n = x.element_count(),
                   sum = y->typed_data(), out = tasks->typed_data()]() mutable {
      for (size_t i = n * task / count; i < n * (task + 1) / count; ++i) shared->sums[task] += in[i];
      ++shared->ran;
      shared->elsewhere += caller != std::this_thread::get_id();
      if (--shared->left > 0) return;
      double total = 0;
      for (double part : shared->sums) total += part;
      *sum = static_cast<float>(total);
      out[0] = shared->ran;
      out[1] = shared->elsewhere;
      promise.SetAvailable();
    });
  }
  return future;
}

ffi::Error PoolThreads(ScalarOut<ffi::S64> y, ffi::ThreadPool pool) {
  *y->typed_data() = pool.num_threads();
  return ffi::Error::Success();
}

ffi::Error RunId(ffi::BufferR0<ffi::F32>, ScalarOut<ffi::S64> y, ffi::RunId id) {
  *y->typed_data() = id.run_id;
  return ffi::Error::Success();
}

ffi::Error DeviceOrdinal(ffi::BufferR0<ffi::F32>, ScalarOut<ffi::S32> y, int32_t ordinal) {
  *y->typed_data() = ordinal;
  return ffi::Error::Success();
}

ffi::Error CustomOptions(ffi::BufferR0<ffi::F32>, ScalarOut<ffi::S64> y, ffi::Dictionary options) {
  *y->typed_data() = static_cast<int64_t>(options.size());
  return ffi::Error::Success();
}

}  // namespace

using ffi::Ffi;

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, Ffi::Bind().Arg<F32>().Ret<F32>().Attr<float>("factor"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_bool, EchoBool, Ffi::Bind().Ret<ffi::BufferR0<ffi::S64>>().Attr<bool>("value"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_ints, EchoInts,
                              Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<int8_t>("i8")
                                  .Attr<int16_t>("i16")
                                  .Attr<int32_t>("i32")
                                  .Attr<int64_t>("i64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_floats, EchoFloats,
                              Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<float>("f32").Attr<double>("f64"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_string, EchoString,
                              Ffi::Bind().Ret<ffi::BufferR1<ffi::U8>>().Attr<std::string_view>("text"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_arrays, (EchoSpans<int8_t, int16_t, int32_t, int64_t, float, double>),
                              Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F64>>()
                                  .Attr<ffi::Span<const int8_t>>("i8")
                                  .Attr<ffi::Span<const int16_t>>("i16")
                                  .Attr<ffi::Span<const int32_t>>("i32")
                                  .Attr<ffi::Span<const int64_t>>("i64")
                                  .Attr<ffi::Span<const float>>("f32")
                                  .Attr<ffi::Span<const double>>("f64"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_unsigned_arrays, (EchoSpans<uint8_t, uint16_t, uint32_t, uint64_t>),
                              Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::F64>>()
                                  .Attr<ffi::Span<const uint8_t>>("u8")
                                  .Attr<ffi::Span<const uint16_t>>("u16")
                                  .Attr<ffi::Span<const uint32_t>>("u32")
                                  .Attr<ffi::Span<const uint64_t>>("u64"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_dict, EchoDict,
                              Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<ffi::Dictionary>("options"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_nested, EchoNested,
                              Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attr<ffi::Dictionary>("options"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(echo_optional, EchoOptional, Ffi::Bind().Ret<ffi::BufferR1<ffi::F64>>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(describe, Describe, Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::S64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(copy, Copy, Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(unpack, Unpack, Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::S8>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(unpack_s4, UnpackS4, Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::S8>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(pack, Pack, Ffi::Bind().Arg<ffi::Buffer<ffi::S8>>().Ret<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sum_all, SumAll, Ffi::Bind().RemainingArgs().Ret<ffi::BufferR0<ffi::F32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(add_tokens, AddTokens,
                              Ffi::Bind().Arg<ffi::Token>().Arg<F32>().Ret<ffi::Token>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(increment, Increment, Ffi::Bind().Arg<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fail, Fail, Ffi::Bind().Arg<F32>().Ret<F32>().Attr<int32_t>("code").Attr<std::string_view>("message"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(panic, Panic, Ffi::Bind().Arg<F32>().Ret<F32>().Attr<std::string_view>("message"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_instantiate, CounterInstantiate, Ffi::BindInstantiate().Attr<int64_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter, ([](Counter* state, ffi::BufferR0<ffi::F32> x, ScalarOut<ffi::S64> y, int64_t) {
                                return CounterExecute(state, x, y);
                              }),
                              Ffi::Bind()
                                  .Ctx<ffi::State<Counter>>()
                                  .Arg<ffi::BufferR0<ffi::F32>>()
                                  .Ret<ffi::BufferR0<ffi::S64>>()
                                  .Attr<int64_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_stats, CounterStats, Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    async_scale, AsyncScale, Ffi::Bind().Arg<F32>().Ret<F32>().Attr<float>("factor").Attr<int64_t>("delay_ms"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(async_probe, AsyncProbe, Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    async_fail, AsyncFail, Ffi::Bind().Arg<F32>().Ret<F32>().Attr<int32_t>("code").Attr<std::string_view>("message"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(pool_sum, PoolSum,
                              Ffi::Bind()
                                  .Arg<F32>()
                                  .Ret<ffi::BufferR0<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int64_t>("tasks"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(pool_threads, PoolThreads,
                              Ffi::Bind().Ret<ffi::BufferR0<ffi::S64>>().Ctx<ffi::ThreadPool>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    run_id, RunId, Ffi::Bind().Arg<ffi::BufferR0<ffi::F32>>().Ret<ffi::BufferR0<ffi::S64>>().Ctx<ffi::RunId>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    device_ordinal, DeviceOrdinal,
    Ffi::Bind().Arg<ffi::BufferR0<ffi::F32>>().Ret<ffi::BufferR0<ffi::S32>>().Ctx<ffi::DeviceOrdinal>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    custom_options, CustomOptions,
    Ffi::Bind().Arg<ffi::BufferR0<ffi::F32>>().Ret<ffi::BufferR0<ffi::S64>>().Ctx<ffi::CustomOptions>());

// Upstream's types are registered from Python, which therefore needs their addresses.
extern "C" {
XLA_FFI_TypeId* counter_type_id() { return &Counter::id; }
const XLA_FFI_TypeInfo* counter_type_info() {
  static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<Counter>();
  return &info;
}
}
