// The collectives extension under the names in XLA's own source tree.
//
//   ffi::Ffi::Bind().Ctx<ffi::Extension<ffi::Collectives>>().To([](ffi::Communicator comm) -> ffi::Error { ... });
#if defined(XLA_FFI_API_COLLECTIVES_FFI_H_) && !defined(XLA_FFI_SDK_COLLECTIVES_FFI_H_)
#error "XLA's own collectives_ffi.h came before this SDK's: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_COLLECTIVES_FFI_H_
#define XLA_FFI_API_COLLECTIVES_FFI_H_
#define XLA_FFI_SDK_COLLECTIVES_FFI_H_

#include "xla/ffi/api/collectives_api.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

using Communicator = CommunicatorContext;
using Collectives = CollectivesExtension;

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_API_COLLECTIVES_FFI_H_
