// A handler that XLA may capture into a command buffer: every call launches the same kernel, nothing is
// allocated, nothing waits.
#include "axpy.cu"
#include "launch.h"

namespace ffi = xla::ffi;

static ffi::Error Axpy(cudaStream_t stream, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y,
                       ffi::ResultBuffer<ffi::F32> z, float a) {
  const size_t n = x.element_count();
  if (x.dimensions() != y.dimensions() || x.dimensions() != z->dimensions()) {
    return ffi::Error::InvalidArgument("x, y and z differ in shape");
  }
  return Launch(axpy, BlocksFor(n, 256), 256, stream, a, x.typed_data(), y.typed_data(),
                z->typed_data(), n);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_axpy, Axpy,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("a"),
                              {ffi::Traits::kCmdBufferCompatible});
