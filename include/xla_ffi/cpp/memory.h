// What is wrong with the memory of operands, in words. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_MEMORY_H_
#define XLA_FFI_SDK_CPP_MEMORY_H_

#include "xla_ffi/cpp/decoding.h"
#include "xla_ffi/frame.h"
#include "xla_ffi/shape.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// What a type says of the operands that it decodes: the number of their element type and their rank,
// where it has checked them.
inline constexpr unsigned kAnyElement = ~0u;
inline constexpr int64_t kAnyRank = -1;
template <typename T>
struct OperandType {
  static constexpr unsigned kElement = kAnyElement;
  static constexpr int64_t kRank = kAnyRank;
};

// Whether a buffer is as large as every revision's.
XLA_FFI_SDK_HOT inline bool IsThere(const void* buf) {
  return static_cast<const XLA_FFI_Buffer*>(buf)->struct_size >= XLA_FFI_Buffer_STRUCT_SIZE;
}

// The memory of an operand of any type; null where its kind is not a buffer.
XLA_FFI_SDK_HOT inline xla_ffi_sdk_fault FindFault(const XLA_FFI_Buffer* buf) {
  int64_t count;
  if (buf == nullptr) return xla_ffi_sdk_fault_none;
  return xla_ffi_sdk_find_fault(buf, static_cast<unsigned>(buf->dtype), buf->rank, &count);
}

// Whether operands have memory: where handlers execute or record. Where they lie in other stages is the
// host's affair.
constexpr bool HasMemory(XLA_FFI_ExecutionStage stage) {
  return stage == XLA_FFI_ExecutionStage_EXECUTE || stage == XLA_FFI_ExecutionStage_RECORD;
}

// Whether an operand with that fault can be used. Its size matters in every stage, where it lies only
// where it has memory.
XLA_FFI_SDK_HOT inline bool IsUsable(xla_ffi_sdk_fault fault, bool has_memory) {
  return fault == xla_ffi_sdk_fault_none ||
         (!has_memory && fault != xla_ffi_sdk_fault_count && fault != xla_ffi_sdk_fault_bytes);
}

// Adds a buffer as text: F32[2,3].
XLA_FFI_SDK_COLD inline Text& PutBuffer(Text& text, const XLA_FFI_Buffer* buf) noexcept {
  PutDType(text, static_cast<unsigned>(buf->dtype)) << "[";
  for (int64_t i = 0; buf->dims != nullptr && i < buf->rank; ++i) {
    if (i > 0) text << ",";
    text << buf->dims[i];
  }
  return text << "]";
}

// Adds what keeps a buffer's memory from being used.
XLA_FFI_SDK_COLD inline void PutFault(Text& text, const XLA_FFI_Buffer* buf,
                                      xla_ffi_sdk_fault fault) noexcept {
  PutBuffer(text, buf) << (fault == xla_ffi_sdk_fault_bytes       ? XLA_FFI_SDK_TEXT_BYTES
                           : fault == xla_ffi_sdk_fault_null      ? XLA_FFI_SDK_TEXT_NULL_DATA
                           : fault == xla_ffi_sdk_fault_alignment ? XLA_FFI_SDK_TEXT_LIES_AT
                                                                  : XLA_FFI_SDK_TEXT_COUNT);
  if (fault == xla_ffi_sdk_fault_alignment) {
    char address[2 + 2 * sizeof(uintptr_t) + 1];
    std::snprintf(address, sizeof(address), "0x%llx",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(buf->data)));
    text << static_cast<const char*>(address) << XLA_FFI_SDK_TEXT_NO_MULTIPLE
         << xla_ffi_sdk_align_of(static_cast<unsigned>(buf->dtype));
  }
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_MEMORY_H_
