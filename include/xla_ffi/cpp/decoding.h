// Templates that decode operands, attributes and context values and encode results, which you can specialize for your
// own types. Also the decoding of each element of a binding. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_DECODING_H_
#define XLA_FFI_SDK_CPP_DECODING_H_

#include "xla_ffi/cpp/registration.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// For the SDK's own types, `Decode` is a template over its result type. Files that do not bind a type then do not
// instantiate its std::optional. This saves 2 to 3 ms of compile time per type.

// Decodes an argument. Specializations have these members:
//
// template <> struct ArgDecoding<T> {
//   static bool Isa(XLA_FFI_ArgType type, void* arg);  // for RemainingArgs::isa
//   static std::optional<T> Decode(XLA_FFI_ArgType type, void* arg, DiagnosticEngine&);
// };
template <typename T>
struct ArgDecoding;

// Decodes a result. Specializations have these members:
//
// template <> struct RetDecoding<T> {
//   static bool Isa(XLA_FFI_RetType type, void* ret);
//   static std::optional<Result<T>> Decode(XLA_FFI_RetType type, void* ret, DiagnosticEngine&);
// };
template <typename T>
struct RetDecoding;

// Decodes an attribute. Specializations have these members:
//
// template <> struct AttrDecoding<T> {
//   using Type = ...;  // the parameter type of the handler
//   static bool Isa(XLA_FFI_AttrType type, void* attr);  // optional
//   static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr, DiagnosticEngine&);
// };
template <typename T>
struct AttrDecoding;

// Decodes a context value. Specializations have these members:
//
// template <> struct CtxDecoding<T> {
//   using Type = ...;
//   static std::optional<Type> Decode(const XLA_FFI_Api*, XLA_FFI_InvokeContext*, DiagnosticEngine&);
// };
template <typename T>
struct CtxDecoding;

// Encodes the return value of a handler's function. Specializations have these members:
//
// template <ExecutionStage stage> struct ResultEncoding<stage, T> {
//   // returns XLA_FFI_Error*, XLA_FFI_Future*, or std::variant<XLA_FFI_Error*, XLA_FFI_Future*>
//   static XLA_FFI_Error* Encode(const XLA_FFI_Api*, XLA_FFI_InvokeContext*, T);
//   static XLA_FFI_TypeId state_type_id(const XLA_FFI_Api*);  // only if the result is state
// };
template <ExecutionStage stage, typename T>
struct ResultEncoding;

XLA_FFI_SDK_INTERNAL_BEGIN

// The outcome of a handler's call: an error, a future, or success if both are null.
struct Answer {
  XLA_FFI_Error* error = nullptr;
  XLA_FFI_Future* future = nullptr;
};

// The call for which an error is created: its host, context, handler name and stage.
struct Caller {
  const XLA_FFI_Api* api;
  XLA_FFI_InvokeContext* ctx = nullptr;
  std::string_view name = {};
  XLA_FFI_ExecutionStage stage = XLA_FFI_ExecutionStage_EXECUTE;
};

// Is true if a template is specialized for a type, because the primary templates are only declared.
template <typename T, typename = void>
inline constexpr bool is_complete_v = false;
template <typename T>
inline constexpr bool is_complete_v<T, std::void_t<decltype(sizeof(T))>> = true;

// Is true if a decoder of attributes has a function Isa.
template <typename D, typename = void>
inline constexpr bool has_isa_v = false;
template <typename D>
inline constexpr bool
    has_isa_v<D, std::void_t<decltype(D::Isa(std::declval<XLA_FFI_AttrType>(), nullptr))>> = true;

// Returns true if an attribute can be decoded as T. Uses the decoder's Isa if it has one; otherwise decodes the
// attribute.
template <typename T>
XLA_FFI_SDK_FN inline bool IsaAttr(XLA_FFI_AttrType type, void* attr) {
  if constexpr (has_isa_v<AttrDecoding<T>>) {
    return AttrDecoding<T>::Isa(type, attr);
  } else {
    DiagnosticEngine ignored;
    return AttrDecoding<T>::Decode(type, attr, ignored).has_value();
  }
}

template <typename T>
using AttrTypeOf = typename AttrDecoding<T>::Type;

// The type of a handler function's parameter for an element of the binding.
template <typename Tag>
struct ParamOf;
template <typename T>
struct ParamOf<ArgTag<T>> {
  static_assert(is_complete_v<ArgDecoding<T>>,
                "unsupported argument type: use Buffer<dtype>, Buffer<dtype, rank>, AnyBuffer or Token");
  using Type = T;
};
template <typename T>
struct ParamOf<OptionalArgTag<T>> {
  using Type = std::optional<typename ParamOf<ArgTag<T>>::Type>;
};
template <>
struct ParamOf<RemainingArgsTag> {
  using Type = RemainingArgs;
};
template <typename T>
struct ParamOf<RetTag<T>> {
  static_assert(is_complete_v<RetDecoding<T>>,
                "unsupported result type: pass Buffer<dtype>, Buffer<dtype, rank>, AnyBuffer or Token to .Ret, and take "
                "a Result of it in the function");
  using Type = Result<T>;
};
template <typename T>
struct ParamOf<OptionalRetTag<T>> {
  using Type = std::optional<typename ParamOf<RetTag<T>>::Type>;
};
template <>
struct ParamOf<RemainingRetsTag> {
  using Type = RemainingRets;
};
template <typename T>
struct ParamOf<InOutTag<T>> {
  using Type = InOut<T>;
};
template <typename T>
struct ParamOf<AttrTag<T>> {
  static_assert(is_complete_v<AttrDecoding<T>>,
                "unsupported attribute type: use bool, int8_t to uint64_t, float, double, std::string_view, "
                "Span<const T>, Dictionary, Pointer<T>, or a registered struct or enum");
  using Type = typename AttrDecoding<T>::Type;
};
template <typename T>
struct ParamOf<AttrsTag<T>> {
  static_assert(is_complete_v<AttrDecoding<T>>,
                "attributes are decoded into Dictionary, or into a struct that XLA_FFI_REGISTER_STRUCT_ATTR_DECODING names");
  using Type = T;
};
template <typename T>
struct ParamOf<CtxTag<T>> {
  static_assert(is_complete_v<CtxDecoding<T>>,
                "unsupported context type: use Context, PlatformStream<T>, ScratchAllocator, ThreadPool, State<T>, "
                "UserData<T>, RunId, DeviceOrdinal or others of docs/reference.md");
  using Type = typename CtxDecoding<T>::Type;
};

// Is true if an element is an attribute that may be absent.
template <typename Tag>
inline constexpr bool is_optional_attr_v = false;
template <typename T>
inline constexpr bool is_optional_attr_v<AttrTag<std::optional<T>>> = true;

// The oldest revision on which an element of a binding works. Context tags specialize this variable.
template <typename T>
inline constexpr Revision ctx_floor_v = Revision::r0;
template <typename Tag>
inline constexpr Revision floor_v = Revision::r0;
template <typename T>
inline constexpr Revision floor_v<CtxTag<T>> = ctx_floor_v<T>;

// The location of an element in a call frame: the frame, and the index of the operand or attribute.
struct Place {
  const XLA_FFI_CallFrame* frame;
  int64_t index;
  int64_t ret = 0;  // for in-out operands: the index among the results
};
inline constexpr int64_t kAbsent = -1;   // an absent optional operand or attribute
inline constexpr int64_t kMissing = -2;  // an absent required attribute

// Is true if a decoder has a fast path: `Isa` checks the value completely, and `Take(void*)` then creates the decoded
// value in the argument list of the handler's function.
template <typename D, typename = void>
inline constexpr bool takes_v = false;
template <typename D>
inline constexpr bool takes_v<D, std::void_t<decltype(D::Take(std::declval<void*>()))>> = true;

// Decodes one element of a binding: with Call, or with Check and then Take if kTakes is true.
template <typename Tag>
struct DecodeOne;

// Decodes an entry of one list of the call frame with the decoder D.
template <typename List, typename D, typename T>
struct DecodeIn {
  static constexpr bool kTakes = takes_v<D>;
  XLA_FFI_SDK_HOT static bool Check(Place at) { return D::Isa(List::Type(at), List::Value(at)); }
  template <typename E = D>
  XLA_FFI_SDK_HOT static auto Take(Place at) {
    return E::Take(List::Value(at));
  }
  XLA_FFI_SDK_HOT static std::optional<T> Call(Place at, DiagnosticEngine& diagnostic) {
    return D::Decode(List::Type(at), List::Value(at), diagnostic);
  }
};

struct ArgList {
  XLA_FFI_SDK_HOT static auto Type(Place at) { return at.frame->args.types[at.index]; }
  XLA_FFI_SDK_HOT static void* Value(Place at) { return at.frame->args.args[at.index]; }
};
struct RetList {
  XLA_FFI_SDK_HOT static auto Type(Place at) { return at.frame->rets.types[at.index]; }
  XLA_FFI_SDK_HOT static void* Value(Place at) { return at.frame->rets.rets[at.index]; }
};
struct AttrList {
  XLA_FFI_SDK_HOT static auto Type(Place at) { return at.frame->attrs.types[at.index]; }
  XLA_FFI_SDK_HOT static void* Value(Place at) { return at.frame->attrs.attrs[at.index]; }
};
// Accesses all attributes of the call frame as one dictionary.
struct AllAttrs {
  XLA_FFI_SDK_HOT static auto Type(Place) { return XLA_FFI_AttrType_DICTIONARY; }
  XLA_FFI_SDK_HOT static void* Value(Place at) {
    return const_cast<void*>(static_cast<const void*>(&at.frame->attrs));
  }
};

template <typename T>
struct DecodeOne<ArgTag<T>> : DecodeIn<ArgList, ArgDecoding<T>, T> {};
template <typename T>
struct DecodeOne<RetTag<T>> : DecodeIn<RetList, RetDecoding<T>, Result<T>> {};
template <typename T>
struct DecodeOne<AttrTag<T>>
    : DecodeIn<AttrList, AttrDecoding<T>, typename AttrDecoding<T>::Type> {};
template <typename T>
struct DecodeOne<AttrsTag<T>> : DecodeIn<AllAttrs, AttrDecoding<T>, T> {};

// Decodes an optional element with the decoder of the corresponding required element.
template <typename Tag>
struct DecodeOptional {
  using Type = std::optional<typename ParamOf<Tag>::Type>;
  static constexpr bool kTakes = DecodeOne<Tag>::kTakes;
  XLA_FFI_SDK_HOT static bool Check(Place at) {
    return at.index == kAbsent || DecodeOne<Tag>::Check(at);
  }
  XLA_FFI_SDK_HOT static Type Take(Place at) {
    if (at.index == kAbsent) return std::nullopt;
    return DecodeOne<Tag>::Take(at);
  }
  XLA_FFI_SDK_HOT static std::optional<Type> Call(Place at, DiagnosticEngine& diagnostic) {
    std::optional<Type> decoded;
    if (at.index == kAbsent) {
      decoded.emplace();
    } else if (auto value = DecodeOne<Tag>::Call(at, diagnostic)) {
      decoded.emplace(*std::move(value));
    }
    return decoded;
  }
};

template <typename T>
struct DecodeOne<OptionalArgTag<T>> : DecodeOptional<ArgTag<T>> {};
template <typename T>
struct DecodeOne<OptionalRetTag<T>> : DecodeOptional<RetTag<T>> {};
template <typename T>
struct DecodeOne<AttrTag<std::optional<T>>> : DecodeOptional<AttrTag<T>> {};

template <typename Params, typename Args>
struct DecodeRemaining {
  static constexpr bool kTakes = true;
  XLA_FFI_SDK_HOT static bool Check(Place) { return true; }
  template <typename P = Params>
  XLA_FFI_SDK_HOT static P Take(Place at) {
    return P(Operands(at.frame), static_cast<size_t>(at.index));
  }

 private:
  XLA_FFI_SDK_HOT static const Args* Operands(const XLA_FFI_CallFrame* frame) {
    if constexpr (std::is_same_v<Args, XLA_FFI_Args>) {
      return &frame->args;
    } else {
      return &frame->rets;
    }
  }
};
template <>
struct DecodeOne<RemainingArgsTag> : DecodeRemaining<RemainingArgs, XLA_FFI_Args> {};
template <>
struct DecodeOne<RemainingRetsTag> : DecodeRemaining<RemainingRets, XLA_FFI_Rets> {};

template <typename T>
struct DecodeOne<CtxTag<T>> {
  static constexpr bool kTakes = false;
  XLA_FFI_SDK_HOT static std::optional<typename CtxDecoding<T>::Type> Call(
      Place at, DiagnosticEngine& diagnostic) {
    return CtxDecoding<T>::Decode(at.frame->api, at.frame->ctx, diagnostic);
  }
};

XLA_FFI_SDK_INTERNAL_END

// Decodes an attribute, or a field of a struct, that may be absent.
template <typename T>
struct AttrDecoding<std::optional<T>> {
  using Type = std::optional<typename AttrDecoding<T>::Type>;
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return internal::IsaAttr<T>(type, attr);
  }
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr,
                                                    DiagnosticEngine& diagnostic) {
    auto value = AttrDecoding<T>::Decode(type, attr, diagnostic);
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return std::nullopt;
    return Type(std::move(value));
  }
};

// Decodes a context value that may be absent, because the host lacks the service or has no value for this call.
template <typename T>
struct CtxDecoding<std::optional<T>> {
  using Type = std::optional<typename CtxDecoding<T>::Type>;
  XLA_FFI_SDK_HOT static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                    XLA_FFI_InvokeContext* ctx,
                                                    DiagnosticEngine&) {
    DiagnosticEngine ignored;
    return Type(CtxDecoding<T>::Decode(api, ctx, ignored));
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

// The value type of std::optional or Attr; any other type itself.
template <typename T>
struct Inner {
  using Type = T;
};
template <typename T>
struct Inner<std::optional<T>> : Inner<T> {};
template <typename T, const char* name>
struct Inner<Attr<T, name>> : Inner<T> {};
template <typename T>
using InnerOf = typename Inner<std::remove_cv_t<std::remove_reference_t<T>>>::Type;

template <typename T>
inline constexpr bool is_result_v = false;
template <typename T>
inline constexpr bool is_result_v<Result<T>> = true;

// A compile error if the number of parameters of a function differs from the number of elements in its binding.
// Compilers show both numbers.
template <size_t function_parameters, size_t binding_elements>
struct SameNumber {
  static_assert(function_parameters == binding_elements,
                "the function has another number of parameters than the binding has elements: SameNumber<function, binding>");
};
template <typename Params, size_t elements>
struct Parameters {};
template <typename... Ps, size_t elements>
struct Parameters<ParamList<Ps...>, elements> : SameNumber<sizeof...(Ps), elements> {};

// Detects functions that would write to an argument, or that would convert a pointer attribute to a number. Compilers
// do not warn about either mistake. Functions with unknown parameter types are not checked.
template <typename Tags, typename Params>
struct Misfit {
  static constexpr bool kWritesArg = false, kLosesPointer = false;
};
template <typename Tag, typename... Tags, typename P, typename... Ps>
struct Misfit<ParamList<Tag, Tags...>, ParamList<P, Ps...>> {
  using Rest = Misfit<ParamList<Tags...>, ParamList<Ps...>>;
  using From = InnerOf<typename ParamOf<Tag>::Type>;
  static constexpr bool kIsArg = is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>;
  static constexpr bool kWritesArg =
      (kIsArg && is_result_v<InnerOf<P>> && !is_result_v<From>) || Rest::kWritesArg;
  static constexpr bool kLosesPointer =
      (std::is_pointer_v<From> && std::is_arithmetic_v<InnerOf<P>>) || Rest::kLosesPointer;
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_DECODING_H_
