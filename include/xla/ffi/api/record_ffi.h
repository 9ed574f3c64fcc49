// The record extension, under the file name in XLA's own source tree; the names in the header are the same.
#if defined(XLA_FFI_API_RECORD_FFI_H_) && !defined(XLA_FFI_SDK_RECORD_FFI_H_)
#error "XLA's own record_ffi.h came before this SDK's: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_RECORD_FFI_H_
#define XLA_FFI_API_RECORD_FFI_H_
#define XLA_FFI_SDK_RECORD_FFI_H_

#include "xla/ffi/api/record_api.h"

#endif  // XLA_FFI_API_RECORD_FFI_H_
