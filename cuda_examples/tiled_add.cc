// The example of XLA's custom-call documents on a GPU: A[i] = B[i % 128] + C[i], with the sizes taken
// from the operands. Compile with nvcc: nvcc -x cu -shared -Xcompiler -fPIC -I SDK/include
#include "tiled_add.cu"
#include "launch.h"

namespace ffi = xla::ffi;

static ffi::Error TiledAdd(cudaStream_t stream, ffi::BufferR1<ffi::F32> b, ffi::BufferR1<ffi::F32> c,
                           ffi::ResultBufferR1<ffi::F32> a) {
  const size_t m = b.element_count(), n = c.element_count();
  if (a->element_count() != n) return ffi::Error::InvalidArgument("a and c differ in size");
  if (m == 0 && n > 0) {
    return ffi::Error::InvalidArgument("b is empty: there is nothing to repeat");
  }
  return Launch(tiled_add, BlocksFor(n, 256), 256, stream, b.typed_data(), m, c.typed_data(),
                a->typed_data(), n);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_tiled_add, TiledAdd,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::F32>>());
