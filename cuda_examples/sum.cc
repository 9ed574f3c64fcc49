// Scratch memory: a sum in two kernels, the first of which leaves its partial sums in memory that XLA
// lends to the call.
#include "sum.cu"
#include "launch.h"

namespace ffi = xla::ffi;

static ffi::Error Sum(cudaStream_t stream, ffi::ScratchAllocator scratch, ffi::Buffer<ffi::F32> x,
                      ffi::ResultBufferR0<ffi::F32> y) {
  const size_t n = x.element_count();
  size_t blocks = BlocksFor(n, 256);
  if (blocks > 1024) blocks = 1024;
  if (blocks == 0) blocks = 1;  // writes the zero
  const std::optional<void*> memory = scratch.Allocate(blocks * sizeof(float), 256);
  if (!memory.has_value()) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "scratch memory is not available");
  }
  float* partial = static_cast<float*>(*memory);
  ffi::Error error = Launch(partial_sums, blocks, 256, stream, x.typed_data(), n, partial);
  if (error.failure()) return error;
  return Launch(total, 1, 256, stream, partial, blocks, y->typed_data());
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpp_sum, Sum,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::BufferR0<ffi::F32>>());
