// A handler that does nothing with its operands, to measure the cost of dispatching a call. The source compiles with
// this SDK's headers and with XLA's own. `probe.rs` has a Rust version.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Dispatch(void* stream, ffi::BufferR1<ffi::F32> x, ffi::Result<ffi::BufferR1<ffi::F32>> y,
                           float scale, int64_t steps) {
  asm volatile("" : : "r"(stream), "r"(x.typed_data()), "r"(y->typed_data()), "x"(scale), "r"(steps));
  return ffi::Error::Success();
}

#ifndef HANDLER
#define HANDLER cpp_dispatch
#endif
XLA_FFI_DEFINE_HANDLER_SYMBOL(HANDLER, Dispatch,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::F32>>()
                                  .Attr<float>("scale")
                                  .Attr<int64_t>("steps"));
