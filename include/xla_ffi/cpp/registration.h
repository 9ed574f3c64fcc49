// Registering handlers and types with a host. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_REGISTRATION_H_
#define XLA_FFI_SDK_CPP_REGISTRATION_H_

#include "xla_ffi/cpp/binding.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

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

// The numbers of one type, one for each XLA copy in the process; newest first, never shortened.
struct TypeNode {
  const XLA_FFI_Api* api;
  XLA_FFI_TypeId id;
  TypeNode* next;
};

struct TypeList {
  std::atomic<TypeNode*> first{nullptr};

  XLA_FFI_SDK_HOT const XLA_FFI_TypeId* Find(const XLA_FFI_Api* api) const {
    const TypeNode* node = first.load(std::memory_order_acquire);
    for (; node != nullptr; node = node->next) {
      if (node->api == api) return &node->id;
    }
    return nullptr;
  }
  XLA_FFI_SDK_COLD void Add(const XLA_FFI_Api* api, XLA_FFI_TypeId id) {
    auto* node = new TypeNode{api, id, first.load(std::memory_order_relaxed)};
    while (!first.compare_exchange_weak(node->next, node, std::memory_order_acq_rel)) {
    }
  }
};

// Types that sources registered by themselves, by the address of their id.
struct NamedTypes {
  struct Node {
    const XLA_FFI_TypeId* key;
    TypeList ids;
    Node* next;
  };
  std::mutex mutex;
  Node* first = nullptr;

  XLA_FFI_SDK_COLD static NamedTypes& Get() {
    static NamedTypes* types = new NamedTypes;
    return *types;
  }
  XLA_FFI_SDK_COLD void Add(const XLA_FFI_Api* api, const XLA_FFI_TypeId* key) {
    std::lock_guard<std::mutex> lock(mutex);
    Node* node = first;
    while (node != nullptr && node->key != key) node = node->next;
    if (node == nullptr) {
      node = new Node;
      node->key = key;
      node->next = first;
      first = node;
    }
    node->ids.Add(api, *key);
  }
  XLA_FFI_SDK_COLD const XLA_FFI_TypeId* Find(const XLA_FFI_Api* api, const XLA_FFI_TypeId* key) {
    std::lock_guard<std::mutex> lock(mutex);
    for (Node* node = first; node != nullptr; node = node->next) {
      if (node->key == key) return node->ids.Find(api);
    }
    return nullptr;
  }
};

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
  return api->XLA_FFI_Type_Register(&args);
}

// Registers a type of this library under a name that no other library and no other copy of this one
// has: the address of its list makes it so, a number tells it from a library that was unloaded.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* RegisterOwnType(const XLA_FFI_Api* api, TypeList& list,
                                                       std::string_view pretty,
                                                       const XLA_FFI_TypeInfo& info,
                                                       XLA_FFI_TypeId* id) {
  static std::mutex* mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  if (const XLA_FFI_TypeId* known = list.Find(api)) {
    *id = *known;
    return nullptr;
  }
  char address[32];
  std::snprintf(address, sizeof(address), "@%llx",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&list)));
  XLA_FFI_Error* error = nullptr;
  for (int again = 0; again < 16; ++again) {
    if (error != nullptr) DestroyError(api, error);
    std::string name = std::string(pretty.substr(0, 200)) + address;
    if (again != 0) name += "#" + std::to_string(again);
    id->type_id = 0;
    error = CallTypeRegister(api, name, id, &info);
    if (error == nullptr) {
      list.Add(api, *id);
      return nullptr;
    }
  }
  return error;
}

XLA_FFI_SDK_INTERNAL_END

XLA_FFI_Error* Ffi::RegisterStaticHandler(const XLA_FFI_Api* api, std::string_view name,
                                                 std::string_view platform,
                                                 XLA_FFI_Handler_Bundle bundle,
                                                 XLA_FFI_Handler_Traits traits) {
  const XLA_FFI_ByteSpan name_span{name.data(), name.size()};
  const XLA_FFI_ByteSpan platform_span{platform.data(), platform.size()};
  if (bundle.record != nullptr) {
    if (internal::HostMinor(api) < 4) {
      return internal::Lacks(api, "the record stage", internal::Revision::r9);
    }
    XLA_FFI_Handler_Register_Args args{};
    args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    args.name = name_span;
    args.platform = platform_span;
    args.bundle = bundle;
    args.traits = traits;
    return api->XLA_FFI_Handler_Register(&args);
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
  return api->XLA_FFI_Handler_Register(reinterpret_cast<XLA_FFI_Handler_Register_Args*>(&args));
}

XLA_FFI_Error* Ffi::RegisterTypeId(const XLA_FFI_Api* api, std::string_view name,
                                          XLA_FFI_TypeId* type_id,
                                          const XLA_FFI_TypeInfo* type_info) {
  XLA_FFI_Error* error = internal::CallTypeRegister(api, name, type_id, type_info);
  if (error == nullptr) internal::NamedTypes::Get().Add(api, type_id);
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
