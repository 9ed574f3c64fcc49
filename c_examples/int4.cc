// Elements of less than a byte: w[i, j] = scale[i] * q[i, j], the weights of a quantized layer.
// q: s4[n, m]; scale: f32[n]; w: f32[n, m].
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
namespace match = xla::ffi::match;

static ffi::Error Dequantize(ffi::BufferR2<ffi::S4> q, ffi::BufferR1<ffi::F32> scale,
                             ffi::ResultBufferR2<ffi::F32> w) {
  const int64_t n = q.dimensions()[0], m = q.dimensions()[1];
  for (ffi::Error error : {ffi::Verify("scale", scale, match::Buffer().WithDims(n)),
                           ffi::Verify("w", *w, match::Buffer().WithDims(n, m))}) {
    if (error.failure()) return error;
  }
  const ffi::Span<uint8_t> packed = q.packed_data();
  for (int64_t i = 0; i < n * m; ++i) {
    // Two elements a byte, the first in its low bits.
    const int bits = packed[static_cast<size_t>(i / 2)] >> (i % 2 * 4) & 15;
    w->typed_data()[i] = scale.typed_data()[i / m] * static_cast<float>(bits < 8 ? bits : bits - 16);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(dequantize, Dequantize,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR2<ffi::S4>>("q")
                                  .Arg<ffi::BufferR1<ffi::F32>>("scale")
                                  .Ret<ffi::BufferR2<ffi::F32>>("w")
                                  .Shape(XLA_FFI_SHAPE("n m, n -> n m"))
                                  .HostOnly());

XLA_FFI_LIBRARY(int4, XLA_FFI_HANDLER(dequantize));
