// Prints and compares enums and structs of the C API. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_PRINT_H_
#define XLA_FFI_SDK_CPP_PRINT_H_

#include "xla_ffi/cpp/host.h"
#include "xla_ffi/frame.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Returns the name of an element type, or null for unknown numbers. For constants only; for values from a call, use
// xla_ffi_sdk_dtype_name.
XLA_FFI_SDK_COLD constexpr const char* DTypeName(unsigned dtype) {
  switch (dtype) {
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) \
  case XLA_FFI_DataType_##name:                \
    return #name;
    XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT
    case XLA_FFI_DataType_INVALID:
      return "INVALID";
    default:
      return nullptr;
  }
}

XLA_FFI_SDK_COLD inline const char* AttrTypeName(unsigned type) {
  switch (type) {
#define XLA_FFI_SDK_ATTR_TYPE(name, lower) \
  case XLA_FFI_AttrType_##name:            \
    return lower;
    XLA_FFI_SDK_ATTR_TYPES(XLA_FFI_SDK_ATTR_TYPE)
#undef XLA_FFI_SDK_ATTR_TYPE
    default:
      return nullptr;
  }
}

XLA_FFI_SDK_COLD constexpr const char* StageName(unsigned stage) {
  switch (stage) {
#define XLA_FFI_SDK_STAGE(name, lower)  \
  case XLA_FFI_ExecutionStage_##name:   \
    return lower;
    XLA_FFI_SDK_STAGES(XLA_FFI_SDK_STAGE)
#undef XLA_FFI_SDK_STAGE
    default:
      return nullptr;
  }
}

// Adds a name to a text, or a number if the name is null.
XLA_FFI_SDK_COLD inline Text& PutName(Text& text, const char* name, unsigned number) noexcept {
  return name != nullptr ? text << name : text << "unknown(" << number << ")";
}
XLA_FFI_SDK_COLD inline Text& PutDType(Text& text, unsigned dtype) noexcept {
  return PutName(text, xla_ffi_sdk_dtype_name(dtype), dtype);
}
XLA_FFI_SDK_COLD inline Text& operator<<(Text& text, const xla_ffi_sdk_line& line) noexcept {
  return text.Add(line.text, line.size);
}
// Adds the name and stage of the handler to which an error refers: "scale (execute): ".
XLA_FFI_SDK_COLD inline Text& PutHandler(Text& text, std::string_view name, unsigned stage) noexcept {
  return PutName(text << (name.empty() ? std::string_view("handler") : name) << " (", StageName(stage), stage) << "): ";
}
XLA_FFI_SDK_COLD inline std::ostream& PrintName(std::ostream& os, const char* name,
                                                unsigned number) {
  Text text;
  return os << PutName(text, name, number).view();
}

// Returns the value of a C enum as a number. Newer hosts may pass values without an enumerator.
template <typename Enum>
inline unsigned NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(unsigned), "an enum of XLA has the size of an int");
  unsigned number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

// The operators have a separate namespace, because XLA's header defines the same operators, and files of one library
// may include either header.
inline namespace xla_ffi_sdk_v1 {

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os, const XLA_FFI_DataType dtype) {
  const unsigned number = xla::ffi::internal::NumberOf(dtype);
  return xla::ffi::internal::PrintName(os, xla_ffi_sdk_dtype_name(number), number);
}

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os, const XLA_FFI_AttrType type) {
  const unsigned number = xla::ffi::internal::NumberOf(type);
  return xla::ffi::internal::PrintName(os, xla::ffi::internal::AttrTypeName(number), number);
}

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os,
                                                 const XLA_FFI_ExecutionStage stage) {
  const unsigned number = xla::ffi::internal::NumberOf(stage);
  return xla::ffi::internal::PrintName(os, xla::ffi::internal::StageName(number), number);
}

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os, const XLA_FFI_ArgType type) {
  const unsigned number = xla::ffi::internal::NumberOf(type);
  return xla::ffi::internal::PrintName(os, number == 1 ? "buffer" : nullptr, number);
}

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os, const XLA_FFI_RetType type) {
  const unsigned number = xla::ffi::internal::NumberOf(type);
  return xla::ffi::internal::PrintName(os, number == 1 ? "buffer" : nullptr, number);
}

XLA_FFI_SDK_FN inline bool operator==(const XLA_FFI_TypeId& a, const XLA_FFI_TypeId& b) {
  return a.type_id == b.type_id;
}
XLA_FFI_SDK_FN inline bool operator!=(const XLA_FFI_TypeId& a, const XLA_FFI_TypeId& b) {
  return !(a == b);
}

XLA_FFI_SDK_FN inline bool operator==(const XLA_FFI_Api_Version& a, const XLA_FFI_Api_Version& b) {
  return a.major_version == b.major_version && a.minor_version == b.minor_version;
}
XLA_FFI_SDK_FN inline bool operator!=(const XLA_FFI_Api_Version& a, const XLA_FFI_Api_Version& b) {
  return !(a == b);
}

XLA_FFI_SDK_FN inline bool operator==(const XLA_FFI_Metadata& a, const XLA_FFI_Metadata& b) {
  return a.api_version == b.api_version && a.traits == b.traits &&
         a.state_type_id == b.state_type_id;
}
XLA_FFI_SDK_FN inline bool operator!=(const XLA_FFI_Metadata& a, const XLA_FFI_Metadata& b) {
  return !(a == b);
}

XLA_FFI_SDK_FN inline bool operator==(const XLA_FFI_Handler_Bundle& a,
                                      const XLA_FFI_Handler_Bundle& b) {
  return a.instantiate == b.instantiate && a.prepare == b.prepare &&
         a.initialize == b.initialize && a.execute == b.execute && a.record == b.record;
}
XLA_FFI_SDK_FN inline bool operator!=(const XLA_FFI_Handler_Bundle& a,
                                      const XLA_FFI_Handler_Bundle& b) {
  return !(a == b);
}

}  // inline namespace xla_ffi_sdk_v1

#endif  // XLA_FFI_SDK_CPP_PRINT_H_
