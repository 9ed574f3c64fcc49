// State: made when a program is compiled, kept between its executions, destroyed with it. Counts the
// executions of one call site: start, start + 1, start + 2 … y: s32[]; start: i32.
#include <atomic>
#include <memory>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// The type registers itself with each XLA in the process.
struct Counter {
  static ffi::TypeId id;
  explicit Counter(int32_t start) : next(start) {}
  std::atomic<int32_t> next;
};
ffi::TypeId Counter::id = {};

// Runs once for each call site of a compiled program.
static ffi::ErrorOr<std::unique_ptr<Counter>> Instantiate(int32_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("'start' is negative"));
  return std::make_unique<Counter>(start);
}

// Runs with each execution, perhaps on several threads at once; every stage gets all attributes.
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

XLA_FFI_LIBRARY(counter, XLA_FFI_HANDLER(counter, counter_instantiate));
