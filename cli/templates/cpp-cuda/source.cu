// y = factor x, on NVIDIA GPUs. Compiled by nvcc.
#include "kernels.cu"

#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32>;

static ffi::Error Scale(cudaStream_t stream, Array x, ffi::Result<Array> y, float factor) {
  const size_t n = x.element_count();
  if (n == 0) return ffi::Error::Success();
  const size_t blocks = (n + 255) / 256;
  scale_kernel<<<blocks < 65536 ? blocks : 65536, 256, 0, stream>>>(x.typed_data(), y->typed_data(), n,
                                                                    factor);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return ffi::Error::Internal(std::string("launch: ") + cudaGetErrorString(error));
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<Array>("x")
                                  .Ret<Array>("y")
                                  .Attr<float>("factor")
                                  .Shape(XLA_FFI_SHAPE("... -> ...")));

// Tools and the JAX loader read this description.
XLA_FFI_LIBRARY(@NAME@, XLA_FFI_HANDLER(scale).Platforms("cuda"));
