// The base of C++17 custom calls for XLA: bindings, decoding, handlers, and the macros that define them. Header-only;
// needs only the standard library. Sources written for XLA's own header of this name compile unchanged. Include
// <xla/ffi/api/ffi.h>, which adds buffers, errors, contexts and futures.
#if defined(XLA_FFI_SDK_INTERNAL_H_)
#error "xla/ffi/ffi.h (internal API) and xla/ffi/api/ffi.h (external API) cannot be included together: choose one for each source file"
#endif

#if defined(XLA_FFI_API_API_H_) && !defined(XLA_FFI_SDK_API_H_)
#error "XLA's own api.h came before this SDK's api.h: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_API_H_
#define XLA_FFI_API_API_H_
#define XLA_FFI_SDK_API_H_

// XLA's own ffi.h reports an error if it is included after this header, because it checks this macro to detect a
// different, incompatible implementation.
#ifndef XLA_FFI_FFI_H_
#define XLA_FFI_FFI_H_
#endif

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/cpp/attribute.h"
#include "xla_ffi/cpp/binding.h"
#include "xla_ffi/cpp/config.h"
#include "xla_ffi/cpp/decoding.h"
#include "xla_ffi/cpp/diagnostic.h"
#include "xla_ffi/cpp/explain.h"
#include "xla_ffi/cpp/handler_core.h"
#include "xla_ffi/cpp/host.h"
#include "xla_ffi/cpp/make_handler.h"
#include "xla_ffi/cpp/match.h"
#include "xla_ffi/cpp/print.h"
#include "xla_ffi/cpp/registration.h"

#endif  // XLA_FFI_API_API_H_
