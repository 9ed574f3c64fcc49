// An operand that is argument and result at once: y = a x + y, in place. A call in which argument 1 is not
// aliased with result 0 is refused. x, y: f32[n]; a: f32.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Vector = ffi::BufferR1<ffi::F32>;

static ffi::Error Axpy(Vector x, ffi::InOut<Vector> y, float a) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] += a * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("x")
                                  .InOut<Vector>("y")
                                  .Attr<float>("a")
                                  .Shape(XLA_FFI_SHAPE("n, n -> n"))
                                  .HostOnly());

XLA_FFI_LIBRARY(aliasing, XLA_FFI_HANDLER(axpy));
