// For the listings of XLA's custom-call documents as they stand there: include this instead of the
// headers that they name. They leave namespaces away and, in one place, the builder.
#ifndef XLA_FFI_DOCUMENTS_H_
#define XLA_FFI_DOCUMENTS_H_

#include <cstdint>
#include <string>

#include "xla/client/xla_builder.h"
#include "xla/service/custom_call_status.h"
#include "xla/service/custom_call_target_registry.h"

// A stream, where CUDA's own header does not say what it is.
typedef struct CUstream_st* CUstream;

namespace xla {

// A parameter of the newest builder of this thread.
inline XlaOp Parameter(int64_t parameter_number, const Shape& shape, const std::string& name) {
  XlaBuilder* builder = XlaBuilder::Newest();
  if (builder == nullptr) return XlaOp();
  return Parameter(builder, parameter_number, shape, name);
}

}  // namespace xla

using xla::API_VERSION_ORIGINAL;
using xla::API_VERSION_STATUS_RETURNING;
using xla::API_VERSION_STATUS_RETURNING_UNIFIED;
using xla::API_VERSION_TYPED_FFI;
using xla::CustomCallApiVersion;
using xla::CustomCallSchedule;
using xla::F32;
using xla::Shape;
using xla::ShapeUtil;

#endif  // XLA_FFI_DOCUMENTS_H_
