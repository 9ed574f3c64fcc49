// Launches kernels and reports launch errors as the handler's errors. With nvcc, a launch is `<<<…>>>`; in
// the emulator of the tests, the kernel runs on the host.
#pragma once

#include <string>
#include <utility>

#include "xla/ffi/api/ffi.h"

// Launches `kernel(args...)` on the stream, with `blocks` blocks of `threads` threads. Does nothing if
// `blocks` is 0.
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

// Returns the number of blocks of `threads` threads that cover `count` elements.
inline size_t BlocksFor(size_t count, unsigned threads) { return (count + threads - 1) / threads; }
