// y = factor x, element by element.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32>;

static ffi::Error Scale(Array x, ffi::Result<Array> y, float factor) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<Array>("x")
                                  .Ret<Array>("y")
                                  .Attr<float>("factor")
                                  .Shape(XLA_FFI_SHAPE("... -> ..."))
                                  .HostOnly());

// Tools and the JAX loader read this description.
XLA_FFI_LIBRARY(@NAME@, XLA_FFI_HANDLER(scale));
