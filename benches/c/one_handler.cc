// The smallest file of a user: one handler, two buffers and an attribute.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Attr<float>("by")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
