// What all files of a library have in common. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_SHARED_H_
#define XLA_FFI_SDK_CPP_SHARED_H_

#include "xla_ffi/cpp/config.h"

// What the files of a library have in common, of whatever kind they are, with exceptions or without, with the internal API
// or the external one: what one of them left as its state another one finds. Data alone, for functions are each kind's own;
// and hidden by name, since GCC shares a variable that is made for a user's type with the whole process else.
namespace xla::ffi {
namespace sdk_shared_v1 XLA_FFI_SDK_HIDDEN {

// The numbers of one type, one for each XLA copy in the process.
struct TypeNode {
  const XLA_FFI_Api* api;
  XLA_FFI_TypeId id;
  TypeNode* next;
};
using TypeList = std::atomic<TypeNode*>;

// A type that sources registered by themselves, by the address of its id.
struct NamedType {
  const XLA_FFI_TypeId* key;
  TypeList ids;
  std::string name;
  std::atomic<bool> refused;  // by a host
  NamedType* next;
};
inline std::atomic<NamedType*> named_types{nullptr};

// The numbers of a type that this library registered, and those of user data without an id of its own.
template <typename T>
XLA_FFI_SDK_HIDDEN inline TypeList own_types{nullptr};
template <typename T>
XLA_FFI_SDK_HIDDEN inline TypeList own_user_types{nullptr};

// An address that stands for T within this image. Not constant: linkers fold constants that are equal.
template <typename T>
XLA_FFI_SDK_HIDDEN inline char type_tag;

}  // namespace sdk_shared_v1
}  // namespace xla::ffi

#endif  // XLA_FFI_SDK_CPP_SHARED_H_
