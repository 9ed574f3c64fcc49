// C++17 custom calls for XLA. Header-only, needs only the standard library. Sources written for XLA's own
// header of this name compile unchanged, and the handlers run on every XLA.
//
//   #include "xla/ffi/api/ffi.h"
//   namespace ffi = xla::ffi;
//
//   static ffi::Error Scale(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
//     if (x.element_count() != y->element_count()) return ffi::Error::InvalidArgument("shapes");
//     for (size_t i = 0; i < x.element_count(); ++i) {
//       y->typed_data()[i] = by * x.typed_data()[i];
//     }
//     return ffi::Error::Success();
//   }
//   XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, ffi::Ffi::Bind()
//                                                   .Attr<float>("by")
//                                                   .Arg<ffi::Buffer<ffi::F32>>("x")
//                                                   .Ret<ffi::Buffer<ffi::F32>>("y"));
#if defined(XLA_FFI_SDK_INTERNAL_H_)
#error "xla/ffi/ffi.h (internal API) and xla/ffi/api/ffi.h (external API) cannot be included together: choose one for each source file"
#endif

#if defined(XLA_FFI_API_FFI_H_) && !defined(XLA_FFI_SDK_FFI_H_)
#error "XLA's own ffi.h came before this SDK's ffi.h: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_FFI_H_
#define XLA_FFI_API_FFI_H_
#define XLA_FFI_SDK_FFI_H_

#include "xla/ffi/api/api.h"
#include "xla/ffi/api/c_api.h"
#include "xla_ffi/cpp/buffer.h"
#include "xla_ffi/cpp/context.h"
#include "xla_ffi/cpp/dictionary.h"
#include "xla_ffi/cpp/error.h"
#include "xla_ffi/cpp/extension.h"
#include "xla_ffi/cpp/future.h"
#include "xla_ffi/cpp/manifest.h"
#include "xla_ffi/cpp/operand.h"
#include "xla_ffi/cpp/state.h"
#include "xla_ffi/cpp/thread_pool.h"

#endif  // XLA_FFI_API_FFI_H_
