// A kernel launch whose error becomes the handler's. nvcc compiles it to `<<<…>>>`; the tests' emulator
// runs the kernel on the host.
#pragma once

#include <string>
#include <utility>

#include "xla/ffi/api/ffi.h"

// Puts `kernel(args...)` on the stream: `blocks` blocks of `threads` threads. No blocks: nothing to do.
template <typename... P, typename... A>
xla::ffi::Error Launch(void (*kernel)(P...), size_t blocks, unsigned threads, cudaStream_t stream,
                       A... args) {
  static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
  if (blocks == 0) return xla::ffi::Error::Success();
  if (blocks > 0x7fffffff) {
    return xla::ffi::Error::InvalidArgument("a launch has at most 2147483647 blocks, not " +
                                            std::to_string(blocks));
  }
#ifdef XLA_FFI_EMULATED_CUDA
  static_cast<void>(stream);
  emulator::launch(dim3(static_cast<unsigned>(blocks)), dim3(threads),
                   [=] { kernel(static_cast<P>(args)...); });
#else
  kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(static_cast<P>(args)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    return xla::ffi::Error::Internal(std::string("the kernel was not launched: ") +
                                     cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
  }
#endif
  return xla::ffi::Error::Success();
}

// As many blocks of `threads` threads as cover `count` elements.
inline size_t BlocksFor(size_t count, unsigned threads) { return (count + threads - 1) / threads; }
