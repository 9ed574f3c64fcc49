#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Negate(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (ffi::Error error = ffi::Verify("y", y, ffi::match::Buffer().WithShapeOf(x));
      error.failure()) {
    return error;
  }
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = -x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(negate, Negate,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Ret<ffi::Buffer<ffi::F32>>("y")
                                  .Shape(XLA_FFI_SHAPE("... -> ..."))
                                  .HostOnly());

XLA_FFI_LIBRARY(my_calls, XLA_FFI_HANDLER(negate));
