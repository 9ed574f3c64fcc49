// A loop on the host's thread pool: y = exp(x) / sum(exp(x)), over the last dimension. Nobody waits
// for the tasks, the last of them completes the call. x, y: f32[..., n].
#include <algorithm>
#include <cmath>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

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
    error = ffi::Error::InvalidArgument("argument 'x': expected rank 1 or more, got 0");
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

XLA_FFI_LIBRARY(threads, XLA_FFI_HANDLER(softmax));
