// An operand that is argument and result at once: y = a x + y, in place where the caller aliases
// argument 1 with result 0, and into fresh memory where it does not. x, y: f32[n]; a: f32.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Vector = ffi::BufferR1<ffi::F32>;

static ffi::Error Axpy(Vector x, Vector y, ffi::Result<Vector> out, float a) {
  for (ffi::Error error : {ffi::Verify("y", y, ffi::match::Buffer().WithShapeOf(x)),
                           ffi::Verify("out", *out, ffi::match::Buffer().WithShapeOf(x))}) {
    if (error.failure()) return error;
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    out->typed_data()[i] = a * x.typed_data()[i] + y.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>("x")
                                  .Arg<Vector>("y")
                                  .Ret<Vector>("out")
                                  .Attr<float>("a")
                                  .Shape(XLA_FFI_SHAPE("n, n -> n"))
                                  .HostOnly());

XLA_FFI_LIBRARY(aliasing, XLA_FFI_HANDLER(axpy));
