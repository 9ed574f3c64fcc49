// Element types, schedules and API versions of custom calls, with the names and numbers of XLA's protocol
// buffers. This header does not need protocol buffers.
#ifndef XLA_XLA_DATA_PB_H_
#define XLA_XLA_DATA_PB_H_

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/facts.h"

namespace xla {

enum PrimitiveType : int {
  PRIMITIVE_TYPE_INVALID = XLA_FFI_DataType_INVALID,
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) name = XLA_FFI_DataType_##name,
  XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT
  TUPLE = 13,
};

enum CustomCallSchedule : int {
  SCHEDULE_NONE = 0,
  SCHEDULE_LATEST = 1,
  SCHEDULE_EARLIEST = 2,
};

enum CustomCallApiVersion : int {
  API_VERSION_UNSPECIFIED = 0,
  API_VERSION_ORIGINAL = 1,
  API_VERSION_STATUS_RETURNING = 2,
  API_VERSION_STATUS_RETURNING_UNIFIED = 3,
  API_VERSION_TYPED_FFI = 4,
};

}  // namespace xla

#endif  // XLA_XLA_DATA_PB_H_
