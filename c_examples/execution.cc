// Handlers with state between executions, results that are written after the handler has returned, and loops on the
// host's thread pool.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// A state type. Its object is created when a program is compiled, and destroyed with the program. It counts the
// executions of one call site: start, start + 1, start + 2 … y: s32[]; start: i32. The library registers the type with
// each copy of XLA in the process.
struct Counter {
  static ffi::TypeId id;
  explicit Counter(int32_t start) : next(start) {}
  std::atomic<int32_t> next;
};
ffi::TypeId Counter::id = {};

// Creates the state, once per call site of a compiled program.
static ffi::ErrorOr<std::unique_ptr<Counter>> Instantiate(int32_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("'start' is negative"));
  return std::make_unique<Counter>(start);
}

// Runs in each execution, possibly on several threads at once. Every stage receives all attributes.
static ffi::Error Count(Counter* counter, ffi::ResultBufferR0<ffi::S32> y, int32_t /*start*/) {
  *y->typed_data() = counter->next++;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_instantiate, Instantiate,
                              ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter, Count,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Counter>>()
                                  .Ret<ffi::BufferR0<ffi::S32>>("y")
                                  .Attr<int32_t>("start")
                                  .Shape(XLA_FFI_SHAPE("-> ()"))
                                  .HostOnly());

// An asynchronous handler: y = 2 x, written by a separate thread after the handler has returned.
// x, y: f32, both of the same shape; delay_ms: i64.
static ffi::Future DoubleLater(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                               int64_t delay_ms) {
  ffi::Promise promise;
  ffi::Future future(promise);
  ffi::Error error = ffi::Verify("y", *y, ffi::match::Buffer().WithShapeOf(x));
  if (error.success() && delay_ms < 0) {
    error = ffi::Error::InvalidArgument("'delay_ms' is negative");
  }
  if (error.failure()) {
    promise.SetError(error);
    return future;
  }
  // The buffer objects are only valid during this call, but their elements stay valid until the promise is completed.
  std::thread([promise, delay_ms, in = x.typed_data(), out = y->typed_data(),
               count = x.element_count()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    for (size_t i = 0; i < count; ++i) out[i] = 2 * in[i];
    promise.SetAvailable();
  }).detach();
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(double_later, DoubleLater,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Attr<int64_t>("delay_ms")
                                  .Shape(XLA_FFI_SHAPE("... -> ..."))
                                  .HostOnly());

// A loop on the host's thread pool: y = exp(x) / sum(exp(x)), over the last dimension. No thread waits for the tasks;
// the last task to finish completes the call. x, y: f32[..., n].
static void Row(const float* x, float* y, int64_t n) {
  const float max = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - max);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

static ffi::Future Softmax(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                           ffi::ThreadPool pool) {
  ffi::Error error = ffi::Verify("y", *y, ffi::match::Buffer().WithShapeOf(x));
  if (error.success() && x.dimensions().empty()) {
    error = ffi::Error::InvalidArgument("argument `x`: expected rank 1 or more, got 0");
  }
  const auto count = static_cast<int64_t>(x.element_count());
  if (error.failure() || count == 0) {
    ffi::Promise promise;
    promise.SetError(error);
    return ffi::Future(promise);
  }
  const int64_t n = x.dimensions().back(), rows = count / n;
  const int64_t tasks = std::min<int64_t>(rows, 16);
  ffi::CountDownPromise left(tasks);
  ffi::Future future(left);
  for (int64_t task = 0; task < tasks; ++task) {
    pool.Schedule([=, in = x.typed_data(), out = y->typed_data()]() mutable {
      for (int64_t row = rows * task / tasks; row < rows * (task + 1) / tasks; ++row) {
        Row(in + row * n, out + row * n, n);
      }
      left.CountDown();
    });
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(softmax, Softmax,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Ctx<ffi::ThreadPool>()
                                  .Shape(XLA_FFI_SHAPE("... n -> ... n"))
                                  .HostOnly());

XLA_FFI_LIBRARY(execution, XLA_FFI_HANDLER(counter, counter_instantiate),
                XLA_FFI_HANDLER(double_later), XLA_FFI_HANDLER(softmax));
