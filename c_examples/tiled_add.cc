// A[i] = B[i % n] + C[i]: the example of XLA's custom-call documents, sizes taken from the buffers.
// b: f32[n], c: f32[m], a: f32[m].
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Vector = ffi::BufferR1<ffi::F32>;

static ffi::Error TiledAdd(Vector b, Vector c, ffi::Result<Vector> a) {
  const size_t n = b.element_count(), m = c.element_count();
  if (ffi::Error error = ffi::Verify("a", *a, ffi::match::Buffer().WithShapeOf(c));
      error.failure()) {
    return error;
  }
  if (n == 0 && m > 0) return ffi::Error::InvalidArgument("'b': nothing to tile");
  for (size_t i = 0, k = 0; i < m; ++i, k = k + 1 == n ? 0 : k + 1) {
    a->typed_data()[i] = b.typed_data()[k] + c.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(tiled_add, TiledAdd,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("b")
                                  .Arg<Vector>("c")
                                  .Ret<Vector>("a")
                                  .Shape(XLA_FFI_SHAPE("n, m -> m"))
                                  .HostOnly());

XLA_FFI_LIBRARY(tiled_add, XLA_FFI_HANDLER(tiled_add));
