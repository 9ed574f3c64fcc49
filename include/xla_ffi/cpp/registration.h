// Registers handlers and types with a host, and contains the registrations that all files of a library share. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_REGISTRATION_H_
#define XLA_FFI_SDK_CPP_REGISTRATION_H_

#include "xla_ffi/cpp/binding.h"

// Data that all files of a library share, whether a file is compiled with or without exceptions, and whether it uses
// the internal or the external API. One file can therefore find state that a different file stores. Functions are
// declared elsewhere, because each kind of file has its own copies. The namespace is explicitly hidden, because GCC
// otherwise shares a variable template for a user type with the whole process.
namespace xla::ffi {
namespace sdk_shared_v1 XLA_FFI_SDK_HIDDEN {

// The id of a type in one copy of XLA, as a node of the type's list of ids.
struct TypeNode {
  const XLA_FFI_Api* api;
  XLA_FFI_TypeId id;
  TypeNode* next;
};
using TypeList = std::atomic<TypeNode*>;

// A type that a source file registered explicitly, identified by the address of its `TypeId id`.
struct NamedType {
  const XLA_FFI_TypeId* key;
  TypeList ids;
  std::string name;
  std::atomic<bool> refused;  // whether a host refused the registration
  NamedType* next;
};
inline std::atomic<NamedType*> named_types{nullptr};

// The ids of types that this library registered: state types, and types of user data without a `TypeId id`.
template <typename T>
XLA_FFI_SDK_HIDDEN inline TypeList own_types{nullptr};
template <typename T>
XLA_FFI_SDK_HIDDEN inline TypeList own_user_types{nullptr};

// A variable whose address identifies T within this image. Not a constant, because linkers merge equal constants.
template <typename T>
XLA_FFI_SDK_HIDDEN inline char type_tag;

}  // namespace sdk_shared_v1
}  // namespace xla::ffi

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

using sdk_shared_v1::NamedType;
using sdk_shared_v1::TypeList;
using sdk_shared_v1::TypeNode;
using sdk_shared_v1::named_types;
using sdk_shared_v1::own_types;
using sdk_shared_v1::own_user_types;

// Returns the first node of a list for which `is` returns true, or null. Needs no lock, because lists only grow and
// nodes are never freed.
template <typename Node, typename Is>
XLA_FFI_SDK_HOT inline Node* FindIn(const std::atomic<Node*>& first, const Is& is) {
  Node* node = first.load(std::memory_order_acquire);
  while (node != nullptr && !is(*node)) node = node->next;
  return node;
}
// Adds a node at the front of a list, unless `is` returns true for a node of the list. Returns the node in the list.
template <typename Node, typename Is>
XLA_FFI_SDK_COLD inline Node* AddTo(std::atomic<Node*>& first, Node* node, const Is& is) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (Node* known = FindIn(first, is)) return known;
  node->next = first.load(std::memory_order_relaxed);
  first.store(node, std::memory_order_release);
  return node;
}

XLA_FFI_SDK_HOT inline const XLA_FFI_TypeId* FindType(const TypeList& list, const XLA_FFI_Api* api) {
  const TypeNode* node = FindIn(list, [api](const TypeNode& known) { return known.api == api; });
  return node != nullptr ? &node->id : nullptr;
}
// Adds a type id to a list. If a different thread has added an id for the same host, returns that id.
XLA_FFI_SDK_COLD inline XLA_FFI_TypeId AddType(TypeList& list, TypeNode* node) {
  const XLA_FFI_Api* const api = node->api;
  return AddTo(list, node, [api](const TypeNode& known) { return known.api == api; })->id;
}
XLA_FFI_SDK_COLD inline void AddType(TypeList& list, const XLA_FFI_Api* api, XLA_FFI_TypeId id) {
  AddType(list, new TypeNode{api, id, nullptr});
}

XLA_FFI_SDK_COLD inline NamedType* FindNamed(const XLA_FFI_TypeId* key) {
  return FindIn(named_types, [key](const NamedType& type) { return type.key == key; });
}
XLA_FFI_SDK_COLD inline NamedType* EnterNamed(const XLA_FFI_TypeId* key, std::string_view name) {
  if (NamedType* type = FindNamed(key)) return type;
  auto* made = new NamedType{key, {nullptr}, std::string(name), {false}, nullptr};
  NamedType* const type =
      AddTo(named_types, made, [key](const NamedType& known) { return known.key == key; });
  if (type != made) delete made;
  return type;
}
XLA_FFI_SDK_COLD inline bool WasRefused(const XLA_FFI_TypeId* key) {
  const NamedType* type = FindNamed(key);
  return type != nullptr && type->refused;
}
// Returns the id of a type that a source file registered explicitly, or null.
XLA_FFI_SDK_COLD inline const XLA_FFI_TypeId* FindNamed(const XLA_FFI_Api* api,
                                                        const XLA_FFI_TypeId* key) {
  const NamedType* type = FindNamed(key);
  return type != nullptr ? FindType(type->ids, api) : nullptr;
}

// Registers a type under a name that others may have registered. If so, uses the existing id.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* ShareType(const XLA_FFI_Api* api, std::string_view name,
                                                 XLA_FFI_TypeId* id,
                                                 const XLA_FFI_TypeInfo* info) {
  XLA_FFI_TypeInfo none{};
  none.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  Text text;
  return xffi_type_share_(api, (text << name).c_str(), info != nullptr ? info : &none, id);
}

// Registers a type of this library under its name with a unique suffix. The name does not clash with other libraries,
// or with this library if it is loaded again.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RegisterOwnType(const XLA_FFI_Api* api, TypeList& list,
                                                       std::string_view pretty,
                                                       const XLA_FFI_TypeInfo& info,
                                                       XLA_FFI_TypeId* id) {
  // The address of the node makes the name unique. The node is never deleted, even if a different thread was first. A
  // library that is later loaded at the same address therefore gets a different name.
  auto* node = new TypeNode{api, {}, nullptr};
  char address[32];
  std::snprintf(address, sizeof(address), "@%llx",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(node)));
  Text name;
  name << pretty.substr(0, 200) << address;
  if (XLA_FFI_Error* error = xffi_type_ask_(api, name.c_str(), &info, &node->id)) {
    delete node;
    return error;
  }
  *id = AddType(list, node);
  return nullptr;
}

XLA_FFI_SDK_INTERNAL_END

XLA_FFI_Error* Ffi::RegisterStaticHandler(const XLA_FFI_Api* api, std::string_view name,
                                                 std::string_view platform,
                                                 XLA_FFI_Handler_Bundle bundle,
                                                 XLA_FFI_Handler_Traits traits) {
  return xffi_register_(api, XLA_FFI_ByteSpan{name.data(), name.size()},
                        XLA_FFI_ByteSpan{platform.data(), platform.size()}, &bundle, traits);
}

XLA_FFI_Error* Ffi::RegisterTypeId(const XLA_FFI_Api* api, std::string_view name,
                                          XLA_FFI_TypeId* type_id,
                                          const XLA_FFI_TypeInfo* type_info) {
  // A class that inherits its `id` would receive objects of the class that declares the `id`.
  const internal::NamedType* known = internal::FindNamed(type_id);
  if (known != nullptr && !known->refused && known->name != name) {
    internal::Text text;
    return internal::NewError(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                              text << "the id of type '" << name << "' is that of type '" << known->name
                                   << "': give each type its own static `TypeId id`");
  }
  XLA_FFI_Error* error = internal::ShareType(api, name, type_id, type_info);
  internal::NamedType* const type = internal::EnterNamed(type_id, name);
  if (error == nullptr) {
    internal::AddType(type->ids, api, *type_id);
  } else {
    type->refused = true;
  }
  return error;
}

XLA_FFI_SDK_INTERNAL_BEGIN

// Reports a failed registration on stderr, because the result of a static initializer is not checked.
XLA_FFI_SDK_COLD inline const XLA_FFI_Error* RegisterAndReport(const XLA_FFI_Api* api, std::string_view name,
                                                      XLA_FFI_Error* error) {
  if (error != nullptr) {
    std::cerr << "XLA FFI: " << name << " was not registered: " << GetErrorMessage(api, error)
              << std::endl;
  }
  return error;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_REGISTRATION_H_
