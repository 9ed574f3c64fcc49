// User-defined types: their registration, user data, and state that one stage stores for later stages. Part of
// <xla/ffi/api/ffi.h>.
//
// A state type has a static `TypeId id`, as in XLA's own headers, and need not be registered. At the
// metadata query or at the first use, the library registers the type with the copy of XLA, under a unique name.
#ifndef XLA_FFI_SDK_CPP_STATE_H_
#define XLA_FFI_SDK_CPP_STATE_H_

#include "xla_ffi/cpp/context.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

using TypeId = XLA_FFI_TypeId;
using TypeInfo = XLA_FFI_TypeInfo;

XLA_FFI_SDK_INTERNAL_BEGIN
template <typename T>
void DeleteObject(void* object) {
  DestroyContained(static_cast<T*>(object));
}
XLA_FFI_SDK_INTERNAL_END

// Returns the type information that a host needs to destroy a T.
template <typename T>
XLA_FFI_SDK_FN constexpr XLA_FFI_TypeInfo MakeTypeInfo() {
  return XLA_FFI_TypeInfo{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, &internal::DeleteObject<T>};
}

XLA_FFI_SDK_INTERNAL_BEGIN

template <typename T>
constexpr std::string_view PrettyType() {
#if defined(__GNUC__) || defined(__clang__)
  return __PRETTY_FUNCTION__;
#else
  return __FUNCSIG__;
#endif
}

// Extracts the name of T from the compiler's name of a function template for T, in the format of GCC and Clang.
constexpr std::string_view ShortType(std::string_view type) {
  const size_t at = type.find("T = ");
  if (at != std::string_view::npos) type.remove_prefix(at + 4);
  return type.substr(0, type.find_first_of(";]"));
}

#if defined(XLA_FFI_SDK_INTERNAL_H_)
// Is true if a type has a member `id`.
template <typename T, typename = void>
inline constexpr bool has_type_id_v = false;
template <typename T>
inline constexpr bool has_type_id_v<T, std::void_t<decltype(T::id)>> = true;

// Returns the name under which a type of user data is registered. The name is the same for all code in this image, and
// unique to the image.
template <typename T>
XLA_FFI_SDK_FN const std::string& UserDataName() {
  static const auto* const name = [] {
    char address[32];
    std::snprintf(address, sizeof(address), "@%llx",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&type_tag<T>)));
    return new std::string("user data " + std::string(ShortType(PrettyType<T>()).substr(0, 200)) + address);
  }();
  return *name;
}

template <typename T>
XLA_FFI_SDK_COLD XLA_FFI_Error* FirstUserTypeId(const XLA_FFI_Api* api, XLA_FFI_TypeId* id) {
  XLA_FFI_TypeInfo info{};
  info.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  id->type_id = 0;
  XLA_FFI_Error* error = ShareType(api, UserDataName<T>(), id, &info);
  if (error == nullptr) AddType(own_user_types<T>, api, *id);
  return error;
}
#endif

template <typename T>
XLA_FFI_SDK_COLD XLA_FFI_Error* FirstTypeId(const XLA_FFI_Api* api, XLA_FFI_TypeId* id) {
  if (HostMinor(api) < 1) return MissingFeature(api, XLA_FFI_SDK_FEATURE(STATE));
#if defined(XLA_FFI_SDK_INTERNAL_H_)
  if constexpr (!has_type_id_v<T>) {
    const XLA_FFI_TypeInfo own = MakeTypeInfo<T>();
    return RegisterOwnType(api, own_types<T>, PrettyType<T>(), own, id);
  } else
#endif
  {
  // If a source file registered the type explicitly, its id is used, and added to the ids of T.
  if (const XLA_FFI_TypeId* named = FindNamed(api, &T::id)) {
    AddType(own_types<T>, api, *named);
    *id = *named;
    return nullptr;
  }
  const XLA_FFI_TypeInfo info = MakeTypeInfo<T>();
  return RegisterOwnType(api, own_types<T>, PrettyType<T>(), info, id);
  }
}

// Gets the id of T in the host's copy of XLA, and registers T if necessary.
template <typename T>
XLA_FFI_SDK_HOT inline XLA_FFI_Error* TypeIdFor(const XLA_FFI_Api* api, XLA_FFI_TypeId* id) {
#if !defined(XLA_FFI_SDK_INTERNAL_H_)
  static_assert(std::is_same_v<std::remove_cv_t<decltype(T::id)>, TypeId>,
                "a type of state or user data has a static `TypeId id`");
#endif
  using U = std::remove_const_t<T>;
  const XLA_FFI_TypeId* known = FindType(own_types<U>, api);
  if (XLA_FFI_PREDICT_TRUE(known != nullptr)) {
    *id = *known;
    return nullptr;
  }
  return FirstTypeId<U>(api, id);
}

template <ExecutionStage stage>
XLA_FFI_SDK_HOT inline bool HostHasState(const XLA_FFI_Api* api) {
  return HostMinor(api) >=
         (stage == ExecutionStage::kInstantiate ? XLA_FFI_SDK_MINOR_R1 : XLA_FFI_SDK_MINOR_R8);
}

template <ExecutionStage stage>
constexpr const char* kStateName = stage == ExecutionStage::kInstantiate  ? "state"
                                   : stage == ExecutionStage::kPrepare    ? "prepared state"
                                   : stage == ExecutionStage::kInitialize ? "initialized state"
                                                                          : "recorded state";
template <ExecutionStage stage>
constexpr Revision kStateSince = stage == ExecutionStage::kInstantiate
                                     ? XLA_FFI_SDK_SINCE(STATE)
                                     : XLA_FFI_SDK_SINCE(STAGE_STATE);
template <ExecutionStage stage>
constexpr const char* kStateFeature = stage == ExecutionStage::kInstantiate
                                          ? XLA_FFI_SDK_NAME_STATE
                                          : XLA_FFI_SDK_NAME_STAGE_STATE;

// The outcome of a look-up of state or user data.
enum class Found { kYes, kNothing, kFailed };

// Returns kNothing if an error means that there is no object. Hosts before r9 do not report the code, so the message is
// searched for `words`.
XLA_FFI_SDK_COLD inline Found Why(const XLA_FFI_Api* api, XLA_FFI_Error* error,
                                  std::string_view words) {
  const ErrorDetails details = GetErrorDetails(api, error);
  const bool said = std::string_view(details.message).find(words) != std::string_view::npos;
  return details.errc == XLA_FFI_Error_Code_NOT_FOUND || (said && HostMinor(api) < 4)
             ? Found::kNothing
             : Found::kFailed;
}

// Gets an object that may be absent. Other failures are reported as errors.
template <typename Tag, typename Object = typename CtxDecoding<Tag>::Type>
XLA_FFI_SDK_HOT inline std::optional<std::optional<Object>> FindOptional(
    const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx, DiagnosticEngine& diagnostic) {
  using Type = std::optional<Object>;
  Object object = nullptr;
  DiagnosticEngine ignored;
  const Found found = CtxDecoding<Tag>::Find(api, ctx, ignored, object);
  if (XLA_FFI_PREDICT_TRUE(found == Found::kYes)) return Type(object);
  if (found == Found::kNothing) return std::make_optional(Type());
  const auto told = CtxDecoding<Tag>::Decode(api, ctx, diagnostic);
  return told.has_value() ? std::make_optional(Type(*told)) : std::nullopt;
}

XLA_FFI_SDK_INTERNAL_END

// Context tag: binds the user data of type T that the caller attached to the execution, as a T*. T::id is the id that
// the caller's code registered. With std::optional, the value is absent if the caller attached none or did not register
// the type. Other failures, for example a type that the host refused, are errors.
template <typename T>
struct UserData {};

template <typename T>
struct CtxDecoding<UserData<T>> {
  using Type = T*;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext* ctx,
                                                    DiagnosticEngine& diagnostic) {
    Type object = nullptr;
    if (XLA_FFI_PREDICT_FALSE(Find(api, ctx, diagnostic, object) != internal::Found::kYes)) {
      return std::nullopt;
    }
    return object;
  }

  XLA_FFI_SDK_HOT static internal::Found Find(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                              DiagnosticEngine& diagnostic, Type& object) {
    XLA_FFI_TypeId id{0};
#if defined(XLA_FFI_SDK_INTERNAL_H_)
    if constexpr (!internal::has_type_id_v<T>) {
      using U = std::remove_const_t<T>;
      const XLA_FFI_TypeId* known = internal::FindType(internal::own_user_types<U>, api);
      if (XLA_FFI_PREDICT_TRUE(known != nullptr)) {
        id = *known;
      } else if (XLA_FFI_Error* error = internal::FirstUserTypeId<U>(api, &id)) {
        return DiagnoseLookup(api, error, diagnostic);
      }
    } else
#endif
    {
      static_assert(std::is_same_v<std::remove_cv_t<decltype(T::id)>, TypeId>,
                    "a type of state or user data has a static `TypeId id`");
      id = T::id;
      if (XLA_FFI_PREDICT_FALSE(id.type_id == 0)) return Unregistered(diagnostic);
    }
    auto args = internal::ContextArgs<XLA_FFI_InvokeContext_Get_Args>(
        ctx, XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE);
    args.type_id = &id;
    XLA_FFI_Error* error = XLA_FFI_SDK_ASK(api, XLA_FFI_InvokeContext_Get, &args);
    if (XLA_FFI_PREDICT_FALSE(error != nullptr)) return DiagnoseLookup(api, error, diagnostic);
    object = static_cast<Type>(args.data);
    return internal::Found::kYes;
  }

 private:
  XLA_FFI_SDK_COLD static internal::Found Unregistered(DiagnosticEngine& diagnostic) {
    const bool refused = internal::WasRefused(&T::id);
    internal::DiagnosticAccess::Add(diagnostic)
        << "failed to get user data from the context: its type is not registered"
        << (refused ? ", for the host refused it" : "");
    return refused ? internal::Found::kFailed : internal::Found::kNothing;
  }
  XLA_FFI_SDK_COLD static internal::Found DiagnoseLookup(const XLA_FFI_Api* api, XLA_FFI_Error* error,
                                               DiagnosticEngine& diagnostic) {
    const internal::Found why = internal::Why(api, error, "not found in execution context");
    internal::DiagnoseError(diagnostic, api, "user data from the context", error);
    return why;
  }
};

template <typename T>
struct CtxDecoding<std::optional<UserData<T>>> {
  using Type = std::optional<T*>;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext* ctx,
                                                    DiagnosticEngine& diagnostic) {
    return internal::FindOptional<UserData<T>>(api, ctx, diagnostic);
  }
};

// Context tag: binds the state of type T that a stage stored, as a T*. State of the instantiate stage is available from
// r1 on, state of other stages from r8 on.
template <typename T, ExecutionStage stage = ExecutionStage::kInstantiate>
struct State {};
template <typename T>
using Prepared = State<T, ExecutionStage::kPrepare>;
template <typename T>
using Initialized = State<T, ExecutionStage::kInitialize>;

template <typename T, ExecutionStage stage>
struct CtxDecoding<State<T, stage>> {
  using Type = T*;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext* ctx,
                                                    DiagnosticEngine& diagnostic) {
    Type object = nullptr;
    if (XLA_FFI_PREDICT_FALSE(Find(api, ctx, diagnostic, object) != internal::Found::kYes)) {
      return std::nullopt;
    }
    return object;
  }

  XLA_FFI_SDK_HOT static internal::Found Find(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                              DiagnosticEngine& diagnostic, Type& object) {
    if (XLA_FFI_PREDICT_FALSE(!internal::HostHasState<stage>(api))) {
      internal::DiagnoseMissingFeature(diagnostic, api, internal::kStateFeature<stage>,
                             internal::kStateSince<stage>);
      return internal::Found::kNothing;
    }
    XLA_FFI_TypeId id{0};
    void* state = nullptr;
    internal::Found why = internal::Found::kFailed;
    XLA_FFI_Error* error = internal::TypeIdFor<T>(api, &id);
    if (XLA_FFI_PREDICT_TRUE(error == nullptr)) {
      error = xffi_state_get_(api, ctx, static_cast<XLA_FFI_ExecutionStage>(stage), id, &state);
      if (XLA_FFI_PREDICT_FALSE(error != nullptr)) why = internal::Why(api, error, "not set");
    }
    if (XLA_FFI_PREDICT_FALSE(error != nullptr)) {
      internal::DiagnoseError(diagnostic, api, internal::kStateName<stage>, error);
      return why;
    }
    object = static_cast<Type>(state);
    return internal::Found::kYes;
  }
};

template <typename T, ExecutionStage stage>
struct CtxDecoding<std::optional<State<T, stage>>> {
  using Type = std::optional<T*>;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext* ctx,
                                                    DiagnosticEngine& diagnostic) {
    return internal::FindOptional<State<T, stage>>(api, ctx, diagnostic);
  }
};

// Stores the object as the state of the stage. If this fails, destroys the object.
template <typename T, ExecutionStage stage>
struct ResultEncoding<stage, ErrorOr<std::unique_ptr<T>>> {
  static_assert(stage != ExecutionStage::kExecute, "the execute stage cannot leave state");

  XLA_FFI_SDK_COLD static XLA_FFI_Error* RegisterState(const XLA_FFI_Api* api,
                                                       XLA_FFI_TypeId* id) {
    if (XFFI_NEWEST_KNOWN_ < XFFI_R8 && xffi_is_newer_(api)) return nullptr;  // the execute call reports the reason
    return internal::TypeIdFor<T>(api, id);
  }
  XLA_FFI_SDK_COLD static XLA_FFI_TypeId state_type_id(const XLA_FFI_Api* api) {
    XLA_FFI_TypeId id{0};
    if (XLA_FFI_Error* error = RegisterState(api, &id)) internal::DestroyError(api, error);
    return id;
  }

  XLA_FFI_SDK_FN static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                              ErrorOr<std::unique_ptr<T>> state) {
    return EncodeAnswer({api, ctx}, std::move(state)).error;
  }
  // Encodes the result of a handler of the SDK. The error's message names the handler.
  XLA_FFI_SDK_FN static internal::Answer EncodeAnswer(const internal::Caller& caller, ErrorOr<std::unique_ptr<T>>&& state) {
    if (XLA_FFI_PREDICT_FALSE(!state.has_value())) return {internal::CreateError(caller, state.error()), nullptr};
    // If the object's destructor throws, the destructor of the unique_ptr would end the process.
    auto* const object = const_cast<std::remove_const_t<T>*>(state.value().release());
    XLA_FFI_Error* const error = Leave(caller.api, caller.ctx, object);
    if (XLA_FFI_PREDICT_FALSE(error != nullptr) && object != nullptr) internal::DestroyContained(object);
    return {error, nullptr};
  }

 private:
  XLA_FFI_SDK_HOT static XLA_FFI_Error* Leave(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                              std::remove_const_t<T>* object) {
    if (XLA_FFI_PREDICT_FALSE(!internal::HostHasState<stage>(api))) {
      return internal::MissingFeature(api, internal::kStateFeature<stage>, internal::kStateSince<stage>);
    }
    if (XLA_FFI_PREDICT_FALSE(object == nullptr)) {
      return internal::NewError(api, XLA_FFI_Error_Code_INTERNAL, "the handler left a null pointer as its state");
    }
    XLA_FFI_TypeId id{0};
    if (XLA_FFI_Error* error = internal::TypeIdFor<T>(api, &id)) return error;
    return xffi_state_set_(api, ctx, static_cast<XLA_FFI_ExecutionStage>(stage), id, object,
                           &internal::DeleteObject<std::remove_const_t<T>>);
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN
template <typename T, ExecutionStage stage>
inline constexpr Revision ctx_floor_v<State<T, stage>> = kStateSince<stage>;
XLA_FFI_SDK_INTERNAL_END

XLA_FFI_SDK_NAMESPACE_END

// Registers a type of user data before main runs. A failure is reported on stderr.
#define XLA_FFI_REGISTER_TYPE(API, NAME, TYPE_ID, TYPE_INFO) \
  XLA_FFI_REGISTER_TYPE_(API, NAME, TYPE_ID, TYPE_INFO, __COUNTER__)
#define XLA_FFI_REGISTER_TYPE_(API, NAME, TYPE_ID, TYPE_INFO, N) \
  XLA_FFI_REGISTER_TYPE__(API, NAME, TYPE_ID, TYPE_INFO, N)
#define XLA_FFI_REGISTER_TYPE__(API, NAME, TYPE_ID, TYPE_INFO, N)                              \
  [[maybe_unused]] static const bool xla_ffi_type_##N##_registered_ = [] {                     \
    const XLA_FFI_Api* xla_ffi_api = API;                                                      \
    return ::xla::ffi::internal::RegisterAndReport(                                            \
               xla_ffi_api, NAME,                                                              \
               ::xla::ffi::Ffi::RegisterTypeId(xla_ffi_api, NAME, TYPE_ID, TYPE_INFO)) ==      \
           nullptr;                                                                            \
  }()

#endif  // XLA_FFI_SDK_CPP_STATE_H_
