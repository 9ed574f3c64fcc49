// Registering handlers and types with a host. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_REGISTRATION_H_
#define XLA_FFI_SDK_CPP_REGISTRATION_H_

#include "xla_ffi/cpp/binding.h"
#include "xla_ffi/cpp/shared.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

using sdk_shared_v1::NamedType;
using sdk_shared_v1::TypeList;
using sdk_shared_v1::TypeNode;
using sdk_shared_v1::named_types;
using sdk_shared_v1::own_types;
using sdk_shared_v1::own_user_types;

// Lists are never shortened, and their nodes are never freed: readers need no lock. The first node that `is` takes, or null.
template <typename Node, typename Is>
XLA_FFI_SDK_HOT inline Node* FindIn(const std::atomic<Node*>& first, const Is& is) {
  Node* node = first.load(std::memory_order_acquire);
  while (node != nullptr && !is(*node)) node = node->next;
  return node;
}
// Puts a node in front, unless the list has one that `is` takes by now; returns the one that is in the list.
template <typename Node, typename Is>
XLA_FFI_SDK_COLD inline Node* AddTo(std::atomic<Node*>& first, Node* node, const Is& is) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (Node* known = FindIn(first, is)) return known;
  node->next = first.load(std::memory_order_relaxed);
  first.store(node, std::memory_order_release);
  return node;
}

// The registration arguments without the record handler, as they were up to r8. Every host takes
// these 84 bytes; r8 takes longer ones and loses the traits.
struct RegisterArgsR0 {
  size_t struct_size;
  XLA_FFI_InternalExtension* extension_start;
  XLA_FFI_ByteSpan name;
  XLA_FFI_ByteSpan platform;
  XLA_FFI_Handler* stages[4];
  XLA_FFI_Handler_Traits traits;
};
static_assert(offsetof(RegisterArgsR0, traits) + sizeof(XLA_FFI_Handler_Traits) == 84 ||
              sizeof(void*) != 8);

// Arguments of an older layout, as the function of the table takes them, of which the host reads what struct_size says.
template <typename Args, typename Older>
XLA_FFI_SDK_HOT inline Args* LaidOutAs(Older* args) {
  return static_cast<Args*>(static_cast<void*>(args));
}

XLA_FFI_SDK_HOT inline const XLA_FFI_TypeId* FindType(const TypeList& list, const XLA_FFI_Api* api) {
  const TypeNode* node = FindIn(list, [api](const TypeNode& known) { return known.api == api; });
  return node != nullptr ? &node->id : nullptr;
}
// The number that holds from here on: where another thread came first, what it added.
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
// The number of a type that the source registered, or null.
XLA_FFI_SDK_COLD inline const XLA_FFI_TypeId* FindNamed(const XLA_FFI_Api* api,
                                                        const XLA_FFI_TypeId* key) {
  const NamedType* type = FindNamed(key);
  return type != nullptr ? FindType(type->ids, api) : nullptr;
}

XLA_FFI_SDK_COLD inline XLA_FFI_Error* CallTypeRegister(const XLA_FFI_Api* api,
                                                        std::string_view name, XLA_FFI_TypeId* id,
                                                        const XLA_FFI_TypeInfo* info) {
  // Hosts from r7 read type_info whatever struct_size says: never leave it out.
  XLA_FFI_TypeInfo none{};
  none.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  XLA_FFI_Type_Register_Args args{};
  args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
  args.name = XLA_FFI_ByteSpan{name.data(), name.size()};
  args.type_id = id;
  args.type_info = info != nullptr ? info : &none;
  return XLA_FFI_SDK_ASK(api, XLA_FFI_Type_Register, &args);
}

// The number in a host's refusal of a type whose name is taken, or 0. The words changed with r5.
XLA_FFI_SDK_COLD inline int64_t TakenNumber(std::string_view refusal, std::string_view name) {
  const auto take = [&refusal](std::string_view words) {
    if (refusal.substr(0, words.size()) != words) return false;
    refusal.remove_prefix(words.size());
    return true;
  };
  const auto number = [&refusal]() -> int64_t {
    int64_t value = 0;
    while (!refusal.empty() && refusal[0] >= '0' && refusal[0] <= '9') {
      if (value > (INT64_MAX - 9) / 10) return 0;
      value = 10 * value + (refusal[0] - '0');
      refusal.remove_prefix(1);
    }
    return value;
  };
  const auto seek = [&refusal](std::string_view words) {
    const size_t at = refusal.find(words);
    if (at == std::string_view::npos) return false;
    refusal.remove_prefix(at + words.size());
    return true;
  };
  if (seek("Type name ")) {
    return take(name) && take(" already registered with type id ") ? number() : 0;
  }
  if (!seek("Type id ")) return 0;
  const int64_t before = number();
  return take(" already registered for type name ") && refusal == name ? before : 0;
}

// Registers a type that others may have registered by this name before: its number is taken over.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* ShareType(const XLA_FFI_Api* api, std::string_view name,
                                                 XLA_FFI_TypeId* id,
                                                 const XLA_FFI_TypeInfo* info) {
  const int64_t wanted = id->type_id;
  XLA_FFI_Error* error = CallTypeRegister(api, name, id, info);
  if (error == nullptr) return nullptr;
  const int64_t taken = TakenNumber(GetErrorMessage(api, error), name);
  if (taken == 0 || (wanted != 0 && wanted != taken)) return error;
  // From r5 on a name may be registered again with its own number and no other.
  XLA_FFI_TypeId again{taken};
  if (HostRevision(api) >= XLA_FFI_SDK_SINCE(TYPES_AGAIN)) {
    if (XLA_FFI_Error* other = CallTypeRegister(api, name, &again, info)) {
      DestroyError(api, other);
      return error;
    }
  }
  DestroyError(api, error);
  id->type_id = taken;
  return nullptr;
}

// Registers a type of this library under a name that no other library and no other copy of this one
// has, nor this one when it is loaded again.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RegisterOwnType(const XLA_FFI_Api* api, TypeList& list,
                                                       std::string_view pretty,
                                                       const XLA_FFI_TypeInfo& info,
                                                       XLA_FFI_TypeId* id) {
  // A library that is loaded where an unloaded one lay has the statics of that one, but the node is
  // never deleted, whatever is unloaded, not even where another thread came first: nothing else has
  // its address.
  auto* node = new TypeNode{api, {}, nullptr};
  char address[32];
  std::snprintf(address, sizeof(address), "@%llx",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(node)));
  const std::string name = std::string(pretty.substr(0, 200)) + address;
  if (XLA_FFI_Error* error = CallTypeRegister(api, name, &node->id, &info)) {
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
  if (api->struct_size < XLA_FFI_SDK_SIZE_R0) return internal::RefuseBeforeR0(api, name);
  const XLA_FFI_ByteSpan name_span{name.data(), name.size()};
  const XLA_FFI_ByteSpan platform_span{platform.data(), platform.size()};
  if (bundle.record != nullptr) {
    if (internal::HostMinor(api) < XLA_FFI_SDK_MINOR_R9) {
      return internal::Lacks(api, XLA_FFI_SDK_FEATURE(RECORD_STAGE));
    }
    XLA_FFI_Handler_Register_Args args{};
    args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    args.name = name_span;
    args.platform = platform_span;
    args.bundle = bundle;
    args.traits = traits;
    return XLA_FFI_SDK_ASK(api, XLA_FFI_Handler_Register, &args);
  }
  internal::RegisterArgsR0 args{};
  args.struct_size = offsetof(internal::RegisterArgsR0, traits) + sizeof(traits);
  args.name = name_span;
  args.platform = platform_span;
  args.stages[0] = bundle.instantiate;
  args.stages[1] = bundle.prepare;
  args.stages[2] = bundle.initialize;
  args.stages[3] = bundle.execute;
  args.traits = traits;
  return XLA_FFI_SDK_ASK(api, XLA_FFI_Handler_Register, internal::LaidOutAs<XLA_FFI_Handler_Register_Args>(&args));
}

XLA_FFI_Error* Ffi::RegisterTypeId(const XLA_FFI_Api* api, std::string_view name,
                                          XLA_FFI_TypeId* type_id,
                                          const XLA_FFI_TypeInfo* type_info) {
  // A class that inherits its id would be given objects of the class that declares it.
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

// Registers as a static initializer does: a failure is told on stderr, for nobody reads the result.
XLA_FFI_SDK_COLD inline const XLA_FFI_Error* RegisterAndTell(const XLA_FFI_Api* api, std::string_view name,
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
