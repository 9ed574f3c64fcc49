// The binding of a handler, which describes its operands, attributes and context values. Written as a chain of calls or
// inferred from a function. Part of <xla/ffi/api/api.h>.
//
// A binding whose names are string literals is a constant: the compiler folds it into the handler, including the names.
#ifndef XLA_FFI_SDK_CPP_BINDING_H_
#define XLA_FFI_SDK_CPP_BINDING_H_

#include "xla_ffi/cpp/contract.h"
#include "xla_ffi/cpp/diagnostic.h"

// Declared outside the SDK's inline namespace, because user sources may forward-declare xla::ffi::Dictionary, as with
// XLA's headers.
namespace xla::ffi {
class Dictionary;
}

XLA_FFI_SDK_NAMESPACE_BEGIN

enum class ExecutionStage : uint8_t {
  kInstantiate = XLA_FFI_ExecutionStage_INSTANTIATE,
  kPrepare = XLA_FFI_ExecutionStage_PREPARE,
  kInitialize = XLA_FFI_ExecutionStage_INITIALIZE,
  kRecord = XLA_FFI_ExecutionStage_RECORD,
  kExecute = XLA_FFI_ExecutionStage_EXECUTE,
};

enum class Traits : uint32_t {
  // Declares that every call launches the same device operations, so XLA may capture them into a command buffer (a CUDA
  // graph) and replay them. The handler must not do significant work on the host, allocate device memory itself, or
  // query the stream.
  kCmdBufferCompatible = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE,
};

class Context;
class RemainingArgs;
class RemainingRets;

// Context tag: binds the custom options of this execution as a Dictionary. Available from r10 on.
struct CustomOptions {};

template <ExecutionStage stage, typename... Ts>
class Binding;
XLA_FFI_SDK_INTERNAL_BEGIN
template <typename Declared, ExecutionStage stage, typename... Ts>
class DeclaredBinding;
template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
class DeclaredHandler;
XLA_FFI_SDK_INTERNAL_END
template <ExecutionStage stage, typename Fn, typename... Ts>
using Handler = internal::DeclaredHandler<internal::Undeclared, stage, Fn, Ts...>;
template <typename T>
class Result;
template <typename T>
class InOut;

XLA_FFI_SDK_INTERNAL_BEGIN

// Tag types for the kinds of elements in a binding.
template <typename T>
struct ArgTag {};
template <typename T>
struct OptionalArgTag {};
struct RemainingArgsTag {};
template <typename T>
struct RetTag {};
template <typename T>
struct OptionalRetTag {};
struct RemainingRetsTag {};
template <typename T>
struct InOutTag {};
template <typename T>
struct AttrTag {};
template <typename T>
struct AttrsTag {};
template <typename T>
struct CtxTag {};

template <template <typename> typename Tag, typename T>
inline constexpr bool is_tagged_v = false;
template <template <typename> typename Tag, typename T>
inline constexpr bool is_tagged_v<Tag, Tag<T>> = true;

template <template <typename> typename Tag, typename... Ts>
inline constexpr int count_tagged_v = (0 + ... + static_cast<int>(is_tagged_v<Tag, Ts>));

template <typename T, typename... Ts>
inline constexpr bool contains_v = (std::is_same_v<T, Ts> || ...);

// The type of the last element if it is a numeric attribute; otherwise void.
template <typename... Ts>
struct LastNumber {
  using Type = void;
};
template <typename T, typename U, typename... Ts>
struct LastNumber<T, U, Ts...> : LastNumber<U, Ts...> {};
template <typename T>
struct LastNumber<AttrTag<T>> {
  using Type = std::conditional_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, T, void>;
};
template <typename T>
struct LastNumber<AttrTag<std::optional<T>>> : LastNumber<AttrTag<T>> {};

template <typename T>
struct IsBinding : std::false_type {};
template <ExecutionStage stage, typename... Ts>
struct IsBinding<Binding<stage, Ts...>> : std::true_type {};
template <typename Declared, ExecutionStage stage, typename... Ts>
struct IsBinding<DeclaredBinding<Declared, stage, Ts...>> : std::true_type {};

struct BindingAccess;

XLA_FFI_SDK_INTERNAL_END

// The binding of a handler: its stage and its elements. The names of operands are only used in messages.
template <ExecutionStage stage, typename... Ts>
class XLA_FFI_SDK_TYPE Binding {
 public:
  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::ArgTag<T>> Arg(
      internal::BoundName name = {}) && {
    static_assert((!internal::is_tagged_v<internal::OptionalArgTag, Ts> && ...),
                  "an argument cannot stand after an optional one");
    static_assert(!internal::contains_v<internal::RemainingArgsTag, Ts...>,
                  "an argument cannot stand after the remaining ones");
    return Add<internal::ArgTag<T>>(name);
  }

  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::RetTag<T>> Ret(
      internal::BoundName name = {}) && {
    static_assert((!internal::is_tagged_v<internal::OptionalRetTag, Ts> && ...),
                  "a result cannot stand after an optional one");
    static_assert(!internal::contains_v<internal::RemainingRetsTag, Ts...>,
                  "a result cannot stand after the remaining ones");
    return Add<internal::RetTag<T>>(name);
  }

  // Binds an in-out operand: the next argument and the next result, which must be one array that is updated in place.
  // The caller must declare the alias (input_output_aliases); otherwise, the call is refused.
  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::InOutTag<T>> InOut(
      internal::BoundName name = {}) && {
    static_assert((!internal::is_tagged_v<internal::OptionalArgTag, Ts> && ...) &&
                      (!internal::is_tagged_v<internal::OptionalRetTag, Ts> && ...),
                  "an in-out operand cannot stand after an optional one");
    static_assert(!internal::contains_v<internal::RemainingArgsTag, Ts...> &&
                      !internal::contains_v<internal::RemainingRetsTag, Ts...>,
                  "an in-out operand cannot stand after the remaining ones");
    return Add<internal::InOutTag<T>>(name);
  }

  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::OptionalArgTag<T>> OptionalArg(
      internal::BoundName name = {}) && {
    static_assert(!internal::contains_v<internal::RemainingArgsTag, Ts...>,
                  "an optional argument cannot stand after the remaining ones");
    return Add<internal::OptionalArgTag<T>>(name);
  }

  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::OptionalRetTag<T>> OptionalRet(
      internal::BoundName name = {}) && {
    static_assert(!internal::contains_v<internal::RemainingRetsTag, Ts...>,
                  "an optional result cannot stand after the remaining ones");
    return Add<internal::OptionalRetTag<T>>(name);
  }

  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::RemainingArgsTag> RemainingArgs(
      internal::BoundName name = {}) && {
    static_assert(!internal::contains_v<internal::RemainingArgsTag, Ts...>,
                  "the remaining arguments can be bound once");
    return Add<internal::RemainingArgsTag>(name);
  }

  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::RemainingRetsTag> RemainingRets(
      internal::BoundName name = {}) && {
    static_assert(!internal::contains_v<internal::RemainingRetsTag, Ts...>,
                  "the remaining results can be bound once");
    return Add<internal::RemainingRetsTag>(name);
  }

  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::CtxTag<T>> Ctx() && {
    return Add<internal::CtxTag<T>>({});
  }
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::CtxTag<Context>> Ctx() && {
    return Add<internal::CtxTag<Context>>({});
  }

  // Binds an attribute by name. With `std::optional<T>`, the attribute may be absent.
  template <typename T>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::AttrTag<T>> Attr(
      internal::BoundName name) && {
    static_assert(internal::count_tagged_v<internal::AttrsTag, Ts...> == 0,
                  "attributes are bound by name or all together, not both");
    return Add<internal::AttrTag<T>>(name);
  }

  // Set inclusive bounds of the preceding attribute. Calls with values outside the bounds are refused.
  template <typename Number>
  XLA_FFI_SDK_FN constexpr Binding Min(Number value) && {
    return Limited(&internal::Limits::min, value);
  }
  template <typename Number>
  XLA_FFI_SDK_FN constexpr Binding Max(Number value) && {
    return Limited(&internal::Limits::max, value);
  }

  // Binds all attributes together, as a Dictionary or decoded into a struct.
  template <typename T = Dictionary>
  XLA_FFI_SDK_FN constexpr Binding<stage, Ts..., internal::AttrsTag<T>> Attrs() && {
    static_assert(internal::count_tagged_v<internal::AttrTag, Ts...> == 0,
                  "attributes are bound by name or all together, not both");
    return Add<internal::AttrsTag<T>>({});
  }

  // Declares a shape contract for the operands, for example XLA_FFI_SHAPE("... n -> ... n"). Ends the list of elements.
  template <typename Contract>
  XLA_FFI_SDK_FN constexpr auto Shape(Contract) && {
    return internal::DeclaredBinding<internal::WithShape<internal::Undeclared, Contract>, stage, Ts...>(names_);
  }

  // Declares that operands must be in host memory. Calls with a device stream are refused. Ends the list of elements.
  XLA_FFI_SDK_FN constexpr auto HostOnly() && {
    return internal::DeclaredBinding<internal::WithHostOnly<internal::Undeclared>, stage, Ts...>(names_);
  }

  // Creates a handler that calls the function `fn`.
  template <typename Fn>
  XLA_FFI_SDK_FN std::unique_ptr<Handler<stage, Fn, Ts...>> To(
      Fn fn, std::initializer_list<Traits> traits = {}) const {
    return std::make_unique<Handler<stage, Fn, Ts...>>(std::move(fn), traits, names_);
  }

  XLA_FFI_SDK_FN Binding(Binding&&) = default;
  Binding(const Binding&) = delete;

 private:
  template <ExecutionStage, typename...>
  friend class Binding;
  template <typename, ExecutionStage, typename...>
  friend class internal::DeclaredBinding;
  friend struct internal::BindingAccess;

  XLA_FFI_SDK_FN constexpr Binding() = default;
  XLA_FFI_SDK_FN constexpr explicit Binding(const internal::BoundNames<sizeof...(Ts)>& names)
      : names_(names) {}

  template <typename Tag>
  XLA_FFI_SDK_HOT constexpr Binding<stage, Ts..., Tag> Add(internal::BoundName name) const {
    return Binding<stage, Ts..., Tag>(names_.With(name));
  }

  template <typename Number>
  XLA_FFI_SDK_FN constexpr Binding Limited(internal::Limit internal::Limits::* which, Number value) const {
    Binding limited(names_);
    limited.names_.names[sizeof...(Ts) == 0 ? 0 : sizeof...(Ts) - 1].limits.*which =
        internal::LimitOf<typename internal::LastNumber<Ts...>::Type>(value);
    return limited;
  }

  internal::BoundNames<sizeof...(Ts)> names_;
};

XLA_FFI_SDK_INTERNAL_BEGIN

// A binding with a shape contract or a restriction to host memory.
template <typename Declared, ExecutionStage stage, typename... Ts>
class XLA_FFI_SDK_TYPE DeclaredBinding {
 public:
  template <typename Contract>
  XLA_FFI_SDK_FN constexpr auto Shape(Contract) && {
    static_assert(*Declared::Shape() == '\0', "a handler has one contract");
    return DeclaredBinding<WithShape<Declared, Contract>, stage, Ts...>(binding_.names_);
  }
  XLA_FFI_SDK_FN constexpr auto HostOnly() && {
    return DeclaredBinding<WithHostOnly<Declared>, stage, Ts...>(binding_.names_);
  }

  template <typename Fn>
  XLA_FFI_SDK_FN std::unique_ptr<DeclaredHandler<Declared, stage, Fn, Ts...>> To(
      Fn fn, std::initializer_list<Traits> traits = {}) const {
    return std::make_unique<DeclaredHandler<Declared, stage, Fn, Ts...>>(std::move(fn), traits,
                                                                         binding_.names_);
  }

  XLA_FFI_SDK_FN constexpr const Binding<stage, Ts...>& binding() const { return binding_; }

  XLA_FFI_SDK_FN constexpr explicit DeclaredBinding(
      const BoundNames<sizeof...(Ts)>& names)
      : binding_(names) {}
  XLA_FFI_SDK_FN DeclaredBinding(DeclaredBinding&&) = default;
  DeclaredBinding(const DeclaredBinding&) = delete;

 private:
  Binding<stage, Ts...> binding_;
};

struct BindingAccess {
  template <ExecutionStage stage>
  static constexpr Binding<stage> Empty() {
    return Binding<stage>();
  }
  template <ExecutionStage stage, typename... Ts>
  static constexpr const BoundNames<sizeof...(Ts)>& Names(const Binding<stage, Ts...>& binding) {
    return binding.names_;
  }
};

XLA_FFI_SDK_INTERNAL_END

// A result of a handler: a pointer-like wrapper of a buffer that the handler fills.
template <typename T>
class XLA_FFI_SDK_TYPE Result {
 public:
  XLA_FFI_SDK_DEFAULTS(Result);
  XLA_FFI_SDK_HOT Result(T value) : value_(std::move(value)) {}  // NOLINT
  XLA_FFI_SDK_HOT T& operator*() { return value_; }
  XLA_FFI_SDK_HOT const T& operator*() const { return value_; }
  XLA_FFI_SDK_HOT T* operator->() { return &value_; }
  XLA_FFI_SDK_HOT const T* operator->() const { return &value_; }

 private:
  T value_;
};

// An in-out operand: a pointer-like wrapper of a buffer that is both argument and result, which the handler updates in
// place.
template <typename T>
class XLA_FFI_SDK_TYPE InOut {
 public:
  XLA_FFI_SDK_DEFAULTS(InOut);
  XLA_FFI_SDK_HOT explicit InOut(T value) : value_(std::move(value)) {}
  XLA_FFI_SDK_HOT T& operator*() { return value_; }
  XLA_FFI_SDK_HOT const T& operator*() const { return value_; }
  XLA_FFI_SDK_HOT T* operator->() { return &value_; }
  XLA_FFI_SDK_HOT const T* operator->() const { return &value_; }

 private:
  T value_;
};

// An attribute parameter whose name is part of its type, for bindings that are inferred from a function.
template <typename T, char const* attr_name>
class XLA_FFI_SDK_TYPE Attr {
 public:
  XLA_FFI_SDK_DEFAULTS(Attr);
  XLA_FFI_SDK_HOT Attr(T value) : value_(std::move(value)) {}  // NOLINT
  XLA_FFI_SDK_HOT T& operator*() { return value_; }
  XLA_FFI_SDK_HOT const T& operator*() const { return value_; }
  XLA_FFI_SDK_HOT T* operator->() { return &value_; }
  XLA_FFI_SDK_HOT const T* operator->() const { return &value_; }

 private:
  T value_;
};

// Traits that define the binding of a parameter type when a binding is inferred from a function. For your own types,
// specialize one of these templates:
//   template <> struct ArgBinding<T> { using Arg = ...; };
//   template <> struct RetBinding<T> { using Ret = ...; };
//   template <> struct AttrBinding<T> { using Attr = ...; static constexpr std::string_view name(); };
//   template <> struct AttrsBinding<T> { using Attrs = ...; };
//   template <> struct CtxBinding<T> { using Ctx = ...; };
template <typename T>
struct ArgBinding {
  using Arg = void;
};
template <typename T>
struct RetBinding {
  using Ret = void;
};
template <typename T>
struct AttrBinding {
  using Attr = void;
};
template <typename T>
struct AttrsBinding {
  using Attrs = void;
};
template <typename T>
struct CtxBinding {
  using Ctx = void;
};

template <typename T, const char* attr_name>
struct AttrBinding<Attr<T, attr_name>> {
  using Attr = T;
  static constexpr std::string_view name() { return attr_name; }
};

template <>
struct AttrsBinding<Dictionary> {
  using Attrs = Dictionary;
};

template <>
struct CtxBinding<Context> {
  using Ctx = Context;
};

XLA_FFI_SDK_INTERNAL_BEGIN

// The buffer type of an InOut operand; void for other types.
template <typename T>
struct InOutOf {
  using Type = void;
};
template <typename T>
struct InOutOf<InOut<T>> {
  using Type = T;
};

// The value type of a std::optional; void for other types.
template <typename T>
struct OptionalOf {
  using Type = void;
};
template <typename T>
struct OptionalOf<std::optional<T>> {
  using Type = T;
};

// Adds an element to a binding for each parameter type of a function.
template <typename... Params>
struct Infer;

template <>
struct Infer<> {
  template <typename B>
  static constexpr B Bind(B binding) {
    return binding;
  }
};

template <typename Param, typename... Params>
struct Infer<Param, Params...> {
  template <typename B>
  static constexpr auto Bind(B binding) {
    using T = std::remove_cv_t<std::remove_reference_t<Param>>;
    using O = typename OptionalOf<T>::Type;
    using Next = Infer<Params...>;
    if constexpr (!std::is_void_v<typename ArgBinding<T>::Arg>) {
      return Next::Bind(std::move(binding).template Arg<typename ArgBinding<T>::Arg>());
    } else if constexpr (!std::is_void_v<typename RetBinding<T>::Ret>) {
      return Next::Bind(std::move(binding).template Ret<typename RetBinding<T>::Ret>());
    } else if constexpr (!std::is_void_v<typename InOutOf<T>::Type>) {
      return Next::Bind(std::move(binding).template InOut<typename InOutOf<T>::Type>());
    } else if constexpr (!std::is_void_v<typename AttrBinding<T>::Attr>) {
      return Next::Bind(std::move(binding).template Attr<typename AttrBinding<T>::Attr>(
          std::string_view(AttrBinding<T>::name())));
    } else if constexpr (!std::is_void_v<typename AttrsBinding<T>::Attrs>) {
      return Next::Bind(std::move(binding).template Attrs<typename AttrsBinding<T>::Attrs>());
    } else if constexpr (!std::is_void_v<typename CtxBinding<T>::Ctx>) {
      return Next::Bind(std::move(binding).template Ctx<typename CtxBinding<T>::Ctx>());
    } else if constexpr (std::is_same_v<T, RemainingArgs>) {
      return Next::Bind(std::move(binding).RemainingArgs());
    } else if constexpr (std::is_same_v<T, RemainingRets>) {
      return Next::Bind(std::move(binding).RemainingRets());
    } else if constexpr (!std::is_void_v<typename ArgBinding<O>::Arg>) {
      return Next::Bind(std::move(binding).template OptionalArg<typename ArgBinding<O>::Arg>());
    } else if constexpr (!std::is_void_v<typename RetBinding<O>::Ret>) {
      return Next::Bind(std::move(binding).template OptionalRet<typename RetBinding<O>::Ret>());
    } else {
      static_assert(sizeof(Param) == 0,
                    "this parameter type cannot be bound automatically: bind it by a chain, or "
                    "specialize ArgBinding, RetBinding, AttrBinding, AttrsBinding or CtxBinding");
    }
  }
};

// A list of types, for example of the parameters of a function.
template <typename... Ps>
struct ParamList {};

// The parameter types of a function; void for templates and overloads such as `[](auto x)`.
template <typename Fn, typename = void>
struct ParamsOf {
  using Type = void;
};
template <typename Fn>
struct ParamsOf<Fn, std::void_t<decltype(&Fn::operator())>> : ParamsOf<decltype(&Fn::operator())> {};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...), void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...) noexcept, void> : ParamsOf<R (*)(Ps...)> {};
template <typename R, typename C, typename... Ps>
struct ParamsOf<R (C::*)(Ps...) const, void> : ParamsOf<R (*)(Ps...)> {};
template <typename R, typename C, typename... Ps>
struct ParamsOf<R (C::*)(Ps...) const noexcept, void> : ParamsOf<R (*)(Ps...)> {};

template <typename... Params>
struct Infer<ParamList<Params...>> : Infer<Params...> {};
template <typename Fn>
using InferOf = Infer<typename ParamsOf<Fn>::Type>;

XLA_FFI_SDK_INTERNAL_END

// The base class of handlers, and the entry point for bindings and registration. You can derive a handler class from
// Ffi and override Call; the protected functions create errors.
class XLA_FFI_SDK_TYPE Ffi {
 public:
  template <ExecutionStage stage = ExecutionStage::kExecute>
  XLA_FFI_SDK_FN static constexpr Binding<stage> Bind() {
    return internal::BindingAccess::Empty<stage>();
  }
  XLA_FFI_SDK_FN static constexpr Binding<ExecutionStage::kInstantiate> BindInstantiate() {
    return Bind<ExecutionStage::kInstantiate>();
  }
  XLA_FFI_SDK_FN static constexpr Binding<ExecutionStage::kPrepare> BindPrepare() {
    return Bind<ExecutionStage::kPrepare>();
  }
  XLA_FFI_SDK_FN static constexpr Binding<ExecutionStage::kInitialize> BindInitialize() {
    return Bind<ExecutionStage::kInitialize>();
  }
  XLA_FFI_SDK_FN static constexpr Binding<ExecutionStage::kExecute> BindExecute() {
    return Bind<ExecutionStage::kExecute>();
  }
  XLA_FFI_SDK_FN static constexpr Binding<ExecutionStage::kRecord> BindRecord() {
    return Bind<ExecutionStage::kRecord>();
  }

  // Returns the binding that is inferred from a function's signature, so that a contract or a restriction can be added.
  template <ExecutionStage stage = ExecutionStage::kExecute, typename Fn>
  XLA_FFI_SDK_FN static constexpr auto BindOf(Fn) {
    return internal::InferOf<Fn>::Bind(Bind<stage>());
  }

  // Creates a handler with a binding that is inferred from `fn`: a function pointer, or a callable without overloads.
  template <typename Fn, ExecutionStage stage = ExecutionStage::kExecute>
  XLA_FFI_SDK_FN static auto BindTo(Fn fn, std::initializer_list<Traits> traits = {}) {
    return internal::InferOf<Fn>::Bind(Bind<stage>()).To(std::move(fn), traits);
  }

  XLA_FFI_SDK_FN Ffi() = default;
  XLA_FFI_SDK_FN virtual ~Ffi() = default;
  virtual XLA_FFI_Error* Call(XLA_FFI_CallFrame* call_frame) const = 0;

  // Register the handlers of a bundle under a name on a platform. Return null on success, or an error.
  XLA_FFI_SDK_COLD static inline XLA_FFI_Error* RegisterStaticHandler(
      const XLA_FFI_Api* api, std::string_view name, std::string_view platform,
      XLA_FFI_Handler_Bundle bundle, XLA_FFI_Handler_Traits traits = 0);
  XLA_FFI_SDK_COLD static XLA_FFI_Error* RegisterStaticHandler(const XLA_FFI_Api* api,
                                                               std::string_view name,
                                                               std::string_view platform,
                                                               XLA_FFI_Handler* execute,
                                                               XLA_FFI_Handler_Traits traits = 0) {
    return RegisterStaticHandler(
        api, name, platform,
        XLA_FFI_Handler_Bundle{nullptr, nullptr, nullptr, execute, nullptr}, traits);
  }

  // Register a type for state or user data. `type_id` is input and output; 0 requests a new id. State types need no
  // registration, because the library registers them itself.
  XLA_FFI_SDK_COLD static inline XLA_FFI_Error* RegisterTypeId(const XLA_FFI_Api* api,
                                                               std::string_view name,
                                                               XLA_FFI_TypeId* type_id,
                                                               const XLA_FFI_TypeInfo* type_info);
  XLA_FFI_SDK_COLD static XLA_FFI_Error* RegisterTypeId(const XLA_FFI_Api* api,
                                                        std::string_view name,
                                                        XLA_FFI_TypeId* type_id,
                                                        XLA_FFI_TypeInfo type_info) {
    return RegisterTypeId(api, name, type_id, &type_info);
  }

  // A function as a type: `Wrapper<fn>()` is a callable that the compiler can inline.
  template <auto fn>
  struct Wrapper;
  template <typename Ret, typename... Args, Ret (*fn)(Args...)>
  struct Wrapper<fn> {
    XLA_FFI_SDK_HOT Ret operator()(Args... args) const {
      return fn(std::forward<Args>(args)...);
    }
  };

 protected:
  XLA_FFI_SDK_FN static XLA_FFI_Error* Success() { return nullptr; }

  XLA_FFI_SDK_COLD static XLA_FFI_Error* MakeError(const XLA_FFI_Api* api, XLA_FFI_Error_Code errc,
                                                   std::string message) {
    return internal::NewError(api, errc, message.c_str(), message.size());
  }
  XLA_FFI_SDK_COLD static XLA_FFI_Error* InvalidArgument(const XLA_FFI_Api* api,
                                                         std::string message) {
    return MakeError(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, std::move(message));
  }
  XLA_FFI_SDK_COLD static XLA_FFI_Error* FailedPrecondition(const XLA_FFI_Api* api,
                                                            std::string message) {
    return MakeError(api, XLA_FFI_Error_Code_FAILED_PRECONDITION, std::move(message));
  }
  XLA_FFI_SDK_FN static XLA_FFI_Error* CheckStructSize(const XLA_FFI_Api* api,
                                                       std::string_view struct_name,
                                                       size_t expected, size_t actual) {
    return expected == actual ? nullptr : WrongSize(api, struct_name, "", expected, actual);
  }
  XLA_FFI_SDK_FN static XLA_FFI_Error* StructSizeIsGreaterOrEqual(const XLA_FFI_Api* api,
                                                                  std::string_view struct_name,
                                                                  size_t expected, size_t actual) {
    return actual >= expected ? nullptr
                              : WrongSize(api, struct_name, "at least ", expected, actual);
  }

 private:
  XLA_FFI_SDK_COLD static XLA_FFI_Error* WrongSize(const XLA_FFI_Api* api, std::string_view name,
                                                   const char* bound, size_t expected,
                                                   size_t actual) {
    internal::Text text;
    text << name << ": expected " << bound << expected << " bytes, got " << actual
         << "; the host and this library disagree about the ABI";
    return internal::NewError(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_BINDING_H_
