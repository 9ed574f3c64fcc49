// Typical handlers for XLA's headers of every revision. The test that compiles this file defines REVISION.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using F32 = ffi::Buffer<ffi::DataType::F32>;
using S64 = ffi::Buffer<ffi::DataType::S64>;
using F32Out = ffi::Result<F32>;
using S64Out = ffi::Result<S64>;

static size_t Count(const F32& x) {
  size_t count = 1;
  for (auto dim : x.dimensions()) count *= static_cast<size_t>(dim);
  return count;
}

// --- stateless ------------------------------------------------------------------------------------

static ffi::Error Scale(F32 x, F32Out y, float factor) {
  for (size_t i = 0; i < Count(x); ++i) y->typed_data()[i] = x.typed_data()[i] * factor;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<float>("factor"));

static ffi::Error Fail(F32) { return ffi::Error(XLA_FFI_Error_Code_NOT_FOUND, "nothing here"); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(fail, Fail, ffi::Ffi::Bind().Arg<F32>());

static ffi::Error Throw(F32 x) {
  if (x.typed_data()[0] > 0) throw std::runtime_error("thrown on purpose");
  throw 7;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(throwing, Throw, ffi::Ffi::Bind().Arg<F32>());

// --- state ----------------------------------------------------------------------------------------

struct Counter {
  static ffi::TypeId id;
  explicit Counter(int64_t start) : value(start) { ++living; }
  ~Counter() { --living; }
  std::atomic<int64_t> value;
  static std::atomic<int64_t> living;
};

ffi::TypeId Counter::id = {};
std::atomic<int64_t> Counter::living = 0;

extern "C" __attribute__((visibility("default"))) int64_t counters_living() { return Counter::living; }

#if REVISION >= 7
extern "C" __attribute__((visibility("default"))) XLA_FFI_TypeInfo counter_info = {
    XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, +[](void* counter) { delete static_cast<Counter*>(counter); }};
#endif

static ffi::ErrorOr<std::unique_ptr<Counter>> CounterInstantiate(int64_t start) {
  return std::make_unique<Counter>(start);
}

static ffi::Error CounterExecute(Counter* counter, S64Out y, int64_t) {
  y->typed_data()[0] = counter->value++;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_instantiate, CounterInstantiate,
                              ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    counter_execute, CounterExecute,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<S64>().Attr<int64_t>("start"));

// --- user data ------------------------------------------------------------------------------------

struct Greeting {
  static ffi::TypeId id;
  int64_t number;
};

ffi::TypeId Greeting::id = {};

static ffi::Error Greet(Greeting* greeting, S64Out y) {
  y->typed_data()[0] = greeting->number;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    greet, Greet, ffi::Ffi::Bind().Ctx<ffi::UserData<Greeting>>().Ret<S64>());

// --- context --------------------------------------------------------------------------------------

static ffi::Error Scratch(ffi::ScratchAllocator scratch, F32Out y) {
  std::optional<void*> memory = scratch.Allocate(1024, 16);
  if (!memory.has_value()) return ffi::Error(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no scratch memory");
  static_cast<float*>(*memory)[255] = 3;
  y->typed_data()[0] = static_cast<float*>(*memory)[255];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scratch, Scratch, ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Ret<F32>());

static ffi::Error Streamed(void* stream, S64Out y) {
  y->typed_data()[0] = reinterpret_cast<int64_t>(stream);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    streamed, Streamed,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ret<S64>());

#if REVISION >= 4
static ffi::Error Run(ffi::RunId run_id, S64Out y) {
  y->typed_data()[0] = run_id.run_id;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(run_id, Run, ffi::Ffi::Bind().Ctx<ffi::RunId>().Ret<S64>());
#endif

#if REVISION >= 5
static ffi::Error Ordinal(int32_t ordinal, S64Out y) {
  y->typed_data()[0] = ordinal;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(device_ordinal, Ordinal,
                              ffi::Ffi::Bind().Ctx<ffi::DeviceOrdinal>().Ret<S64>());
#endif

// --- threads and futures --------------------------------------------------------------------------

#if REVISION >= 2
static ffi::Future Later(F32 x, F32Out y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  const float* from = x.typed_data();
  float* to = y->typed_data();
  size_t count = Count(x);
  std::thread([from, to, count, promise = std::move(promise)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (size_t i = 0; i < count; ++i) to[i] = from[i] + 1;
    promise.SetAvailable();
  }).detach();
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

static ffi::Future LaterError(F32) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise = std::move(promise)]() mutable {
    promise.SetError(ffi::Error(XLA_FFI_Error_Code_DATA_LOSS, "lost later"));
  }).detach();
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(later_error, LaterError, ffi::Ffi::Bind().Arg<F32>());

static ffi::Future Never(F32) {
  static ffi::Promise* kept = nullptr;
  kept = new ffi::Promise();
  return ffi::Future(*kept);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(never, Never, ffi::Ffi::Bind().Arg<F32>());

#endif

#if REVISION >= 4
static ffi::Future Pooled(ffi::ThreadPool pool, F32 x, F32Out y) {
  size_t count = Count(x);
  ffi::CountDownPromise promise(static_cast<int64_t>(count));
  ffi::Future future(promise);
  const float* from = x.typed_data();
  float* to = y->typed_data();
  for (size_t i = 0; i < count; ++i) {
    pool.Schedule([from, to, i, promise]() mutable {
      to[i] = from[i] * 2;
      promise.CountDown();
    });
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(pooled, Pooled,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<F32>().Ret<F32>());
#endif

#if REVISION >= 1
static ffi::Error Blocking(ffi::ThreadPool pool, F32Out y) {
  std::atomic<int> left = 8;
  std::atomic<bool> elsewhere = true;
  auto caller = std::this_thread::get_id();
  for (int i = 0; i < 8; ++i) {
    pool.Schedule([&] {
      if (std::this_thread::get_id() == caller) elsewhere = false;
      --left;
    });
  }
  while (left > 0) std::this_thread::yield();
  y->typed_data()[0] = elsewhere ? 1 : 0;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(blocking, Blocking, ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Ret<F32>());
#endif

#if REVISION >= 10
static ffi::Error Options(ffi::Dictionary options, S64Out y) {
  auto value = options.get<int64_t>("n");
  if (!value.has_value()) return value.error();
  y->typed_data()[0] = *value;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(options, Options,
                              ffi::Ffi::Bind().Ctx<ffi::CustomOptions>().Ret<S64>());
#endif
