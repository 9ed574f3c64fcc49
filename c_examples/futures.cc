// A handler that returns before its result is there: y = 2 x, written by another thread.
// x, y: f32 of one shape; delay_ms: i64.
#include <chrono>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

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
  // The buffers' descriptions end with this call; what they point to does not.
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

XLA_FFI_LIBRARY(futures, XLA_FFI_HANDLER(double_later));
