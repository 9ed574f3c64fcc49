// The internal API, for C++ handlers that use the embedded runtime's own types. Such handlers are statically linked
// with the runtime into one program or library. Bindings are as in <xla/ffi/api/ffi.h>, with additional context types:
//
//   #include "xla/ffi/ffi.h"
//   namespace ffi = xla::ffi;
//
//   static ffi::Status Fill(ffi::Stream stream, ffi::Called called, ffi::ResultBuffer<ffi::F32> y) {
//     const float* value = called.get<float>();
//     if (value == nullptr) return ffi::NotFoundError("no value");
//     return stream.Enqueue([out = y->typed_data(), value = *value] { *out = value; });
//   }
//   XLA_FFI_DEFINE_HANDLER(kFill, Fill, ffi::Ffi::Bind()
//                                           .Ctx<ffi::Stream>()
//                                           .Ctx<ffi::CalledComputation>()
//                                           .Ret<ffi::Buffer<ffi::F32>>("y"));
//
// Compile all sources with the same toolchain. A handler of this header refuses a real XLA, or a
// runtime in a different image, with FAILED_PRECONDITION, at registration and in each call.
//
// Set XLA_FFI_ABSEIL to 1 to use absl::Status, absl::StatusOr and absl::Span (link absl_status and absl_statusor), or
// to 0 to use simple replacements. The default is 1 if Abseil's headers are found.
#if (defined(XLA_FFI_API_API_H_) || defined(XLA_FFI_API_FFI_H_)) && !defined(XLA_FFI_SDK_INTERNAL_H_)
#error "xla/ffi/ffi.h (internal API) and xla/ffi/api/ffi.h (external API) cannot be included together: choose one for each source file"
#endif

#ifndef XLA_FFI_SDK_INTERNAL_H_
#define XLA_FFI_SDK_INTERNAL_H_

// XLA's own external ffi.h reports an error if it is included after this header, because it checks this macro.
#ifndef XLA_FFI_FFI_H_
#define XLA_FFI_FFI_H_
#endif

#ifndef XLA_FFI_ABSEIL
#if defined(__has_include)
#if __has_include("absl/status/statusor.h") && __has_include("absl/types/span.h")
#define XLA_FFI_ABSEIL 1
#endif
#endif
#endif
#ifndef XLA_FFI_ABSEIL
#define XLA_FFI_ABSEIL 0
#endif
#if XLA_FFI_ABSEIL
#include "absl/types/span.h"
#endif

#include <map>

#include "xla/hlo/builder/xla_computation.h"
#include "xla/literal.h"
#include "xla/shape.h"
#include "xla/statusor.h"
#include "xla_ffi/invocation.h"

#include "xla_ffi/cpp/buffer.h"
#include "xla_ffi/cpp/context.h"
#include "xla_ffi/cpp/dictionary.h"
#include "xla_ffi/cpp/error.h"
#include "xla_ffi/cpp/extension.h"
#include "xla_ffi/cpp/future.h"
#include "xla_ffi/cpp/invocation.h"
#include "xla_ffi/cpp/make_handler.h"
#include "xla_ffi/cpp/operand.h"
#include "xla_ffi/cpp/state.h"
#include "xla_ffi/cpp/status.h"
#include "xla_ffi/cpp/thread_pool.h"

#endif  // XLA_FFI_SDK_INTERNAL_H_
