// Creates handlers from bindings and functions, for the macros and for `To`. Defines the macros for handlers, their
// symbols and their registration. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
#define XLA_FFI_SDK_CPP_MAKE_HANDLER_H_

#include "xla_ffi/cpp/binding.h"
#include "xla_ffi/cpp/handler_core.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The name, names of elements, traits and function of a handler, from which the handler is built once. A Recipe is a
// constant if the function and the names are constants, and costs little compile time.
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
struct Recipe {
  HandlerLabel<sizeof...(Ts)> label;
  Fn fn;
};

// A handler on the heap, which is never destroyed, because threads may outlive static objects.
template <typename Core>
struct KeptHandler {
  const Core* core;
  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const { return core->Call(frame); }
};

// Returns a Recipe if the function needs no destructor, so that the result can be a constant; otherwise a handler on
// the heap.
template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
XLA_FFI_SDK_FN constexpr auto MakeHandlerOf(std::string_view name,
                                            const Binding<stage, Ts...>& binding, Fn fn,
                                            std::initializer_list<Traits> traits) {
  const HandlerLabel<sizeof...(Ts)> label(name, traits, BindingAccess::Names(binding));
  if constexpr (std::is_trivially_destructible_v<Fn>) {
    return Recipe<stage, Fn, Declared, Ts...>{label, std::move(fn)};
  } else {
    using Core = HandlerCore<stage, Fn, Declared, Ts...>;
    return KeptHandler<Core>{new Core(label, std::move(fn))};
  }
}

// Builds a handler from a Recipe, with the function `fn` or with the function of the Recipe.
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts, typename Called>
XLA_FFI_SDK_FN constexpr auto Assemble(const Recipe<stage, Fn, Declared, Ts...>& recipe, Called fn) {
  return HandlerCore<stage, Called, Declared, Ts...>(recipe.label, std::move(fn));
}
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
XLA_FFI_SDK_FN constexpr auto Assemble(const Recipe<stage, Fn, Declared, Ts...>& recipe) {
  return Assemble(recipe, recipe.fn);
}
template <typename Core>
XLA_FFI_SDK_FN constexpr auto Assemble(const KeptHandler<Core>& kept) {
  return kept;
}

template <ExecutionStage stage, typename Fn, typename... Ts>
XLA_FFI_SDK_FN constexpr auto MakeHandler(std::string_view name,
                                          const Binding<stage, Ts...>& binding, Fn fn,
                                          std::initializer_list<Traits> traits = {}) {
  return MakeHandlerOf<Undeclared>(name, binding, std::move(fn), traits);
}
template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
XLA_FFI_SDK_FN constexpr auto MakeHandler(std::string_view name,
                                          const DeclaredBinding<Declared, stage, Ts...>& binding,
                                          Fn fn, std::initializer_list<Traits> traits = {}) {
  return MakeHandlerOf<Declared>(name, binding.binding(), std::move(fn), traits);
}

// Creates a handler with a user-defined binding class that has a member function `To`.
template <typename B, typename Fn, typename = std::enable_if_t<!IsBinding<std::decay_t<B>>::value>>
XLA_FFI_SDK_FN auto MakeHandler(std::string_view, B&& binding, Fn fn,
                                std::initializer_list<Traits> traits = {}) {
  auto handler = std::forward<B>(binding).To(std::move(fn), traits);
  return KeptHandler<std::remove_reference_t<decltype(*handler)>>{handler.release()};
}

// Creates a handler with a binding that is inferred from its function.
template <typename Fn>
XLA_FFI_SDK_FN constexpr auto MakeHandlerAuto(std::string_view name, Fn fn) {
  return MakeHandler(name, InferOf<Fn>::Bind(Ffi::Bind()), std::move(fn));
}

// A handler that derives from the common base class Ffi.
template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
class XLA_FFI_SDK_TYPE DeclaredHandler final : public Ffi {
 public:
  DeclaredHandler(Fn fn, std::initializer_list<Traits> traits,
                  const BoundNames<sizeof...(Ts)>& names)
      : core_({{}, traits, names}, std::move(fn)) {}

  XLA_FFI_SDK_FN XLA_FFI_Error* Call(XLA_FFI_CallFrame* call_frame) const override {
    return core_.Call(call_frame);
  }

 private:
  HandlerCore<stage, Fn, Declared, Ts...> core_;
};

// A maker is a constant lambda without captures that returns a Recipe or a handler. The macros create handlers from
// makers. As a template argument, a maker gives the template access to the handler's function as a constant.

// Returns true if a maker can be evaluated at compile time.
template <const auto& maker, int = (static_cast<void>(maker()), 0)>
constexpr bool IsConstant(int) {
  return true;
}
template <const auto& maker>
constexpr bool IsConstant(long) {
  return false;
}

// A parameter of the function may be narrower than the bound type, so the conversion in the call would cause warnings.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#endif
// Calls the function of a handler directly instead of through a function pointer. Compilers inline a function into its
// only caller, but not if the address of the function is taken.
template <const auto& maker>
struct Named {
  static constexpr auto kFn = maker().fn;
  template <typename... As>
  XLA_FFI_SDK_HOT auto operator()(As&&... as) const -> decltype(kFn(std::forward<As>(as)...)) {
    return kFn(std::forward<As>(as)...);
  }
};
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
template <const auto& maker>
struct ParamsOf<Named<maker>, void> : ParamsOf<std::decay_t<decltype(Named<maker>::kFn)>> {};

// Is true if a Recipe contains a function pointer.
template <typename T>
inline constexpr bool has_pointer_v = false;
template <ExecutionStage stage, typename R, typename... Params, typename Declared, typename... Ts>
inline constexpr bool has_pointer_v<Recipe<stage, R (*)(Params...), Declared, Ts...>> = true;

// Returns true if the handler of a maker can call its function directly. Not with nvcc, which warns about the
// visibility of templates with a constant of one file as an argument.
template <const auto& maker>
constexpr bool CallsByName() {
#if !defined(__CUDACC__)
  if constexpr (IsConstant<maker>(0)) {
    return has_pointer_v<std::decay_t<decltype(maker())>>;
  }
#endif
  return false;
}

// A handler that is created when it is first called.
template <const auto& maker>
struct LazyHandler {
  XLA_FFI_SDK_IN_USERS XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const {
#if XLA_FFI_SDK_EXCEPTIONS
    try {
      return Made().Call(frame);
    } catch (...) {
      return CaughtError({frame->api, frame->ctx, {}, frame->stage});
    }
#else
    return Made().Call(frame);
#endif
  }

 private:
  XLA_FFI_SDK_IN_USERS static const auto& Made() {
    static const auto* const handler = new auto(Assemble(maker()));
    return *handler;
  }
};

// Returns the handler of a maker as a constant. If the handler is not a constant, it is created at its first call. With
// nvcc, such a handler is created under a lock.
template <const auto& maker>
XLA_FFI_SDK_IN_USERS constexpr auto HandlerOf() {
  if constexpr (CallsByName<maker>()) {
    return Assemble(maker(), Named<maker>());
  } else {
#if !defined(__CUDACC__)
    if constexpr (!IsConstant<maker>(0)) return LazyHandler<maker>();
    else
#endif
    return Assemble(maker());
  }
}

XLA_FFI_SDK_INTERNAL_END

XLA_FFI_SDK_NAMESPACE_END

// All macros are variadic from the first parameter on, so that -pedantic accepts any number of arguments.

#define XLA_FFI_SDK_PICK_4_(a1, a2, a3, a4, MACRO, ...) MACRO

// Defines a handler as a constant function pointer. The handler object is a constant if the function and the names in
// the binding are constants.
#define XLA_FFI_SDK_HANDLER_(fn, ...)                                                           \
  [[maybe_unused]] static constexpr XLA_FFI_Handler* fn = +[](XLA_FFI_CallFrame* xla_ffi_frame) \
      -> XLA_FFI_Error* {                                                                       \
    static constexpr auto xla_ffi_maker = [] { return __VA_ARGS__; };                           \
    static const auto xla_ffi_handler = ::xla::ffi::internal::HandlerOf<xla_ffi_maker>();       \
    return xla_ffi_handler.Call(xla_ffi_frame);                                                 \
  }
#define XLA_FFI_DEFINE_HANDLER_EXPLICIT_WITH_TRAITS(fn, impl, binding, traits) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandler(XLA_FFI_SDK_HANDLER_NAME(fn), binding, impl, traits))
#define XLA_FFI_DEFINE_HANDLER_EXPLICIT(fn, impl, binding) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandler(XLA_FFI_SDK_HANDLER_NAME(fn), binding, impl))
#define XLA_FFI_DEFINE_HANDLER_AUTO(fn, impl) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandlerAuto(XLA_FFI_SDK_HANDLER_NAME(fn), impl))
#define XLA_FFI_SDK_HANDLER_NAME(fn) #fn

// XLA_FFI_DEFINE_HANDLER(name, function[, binding[, traits]]): defines a handler as a static constant, in any scope. If
// `binding` is omitted, it is inferred from the function.
#define XLA_FFI_DEFINE_HANDLER(...)                                                             \
  XLA_FFI_SDK_PICK_4_(__VA_ARGS__, XLA_FFI_DEFINE_HANDLER_EXPLICIT_WITH_TRAITS,                 \
                      XLA_FFI_DEFINE_HANDLER_EXPLICIT, XLA_FFI_DEFINE_HANDLER_AUTO, unused, )   \
  (__VA_ARGS__)

// XLA_FFI_DEFINE_HANDLER_SYMBOL(symbol, function[, binding[, traits]]): defines a handler as an exported C function.
#define XLA_FFI_DEFINE_HANDLER_SYMBOL(...)                                                      \
  XLA_FFI_SDK_PICK_4_(__VA_ARGS__, XLA_FFI_SDK_SYMBOL_4_, XLA_FFI_SDK_SYMBOL_3_,                \
                      XLA_FFI_SDK_SYMBOL_2_, unused, )                                          \
  (__VA_ARGS__)

#define XLA_FFI_SDK_SYMBOL_HEAD_(fn)                                              \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* fn(XLA_FFI_CallFrame* call_frame); \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* fn(XLA_FFI_CallFrame* call_frame)
#define XLA_FFI_SDK_SYMBOL_TAIL_(fn)                                                            \
  static_assert(std::is_invocable_r_v<XLA_FFI_Error*, decltype(fn), XLA_FFI_CallFrame*>,        \
                "a handler takes XLA_FFI_CallFrame* and returns XLA_FFI_Error*")
// Defines the maker of a handler symbol. XLA_FFI_LIBRARY also evaluates the maker, at compile time.
#define XLA_FFI_SDK_MAKER_(fn, ...) \
  [[maybe_unused]] static constexpr auto xla_ffi_maker_##fn = [] { return __VA_ARGS__; }
#define XLA_FFI_SDK_SYMBOL_(fn)                            \
  XLA_FFI_SDK_SYMBOL_HEAD_(fn) {                           \
    static const auto xla_ffi_handler = ::xla::ffi::internal::HandlerOf<xla_ffi_maker_##fn>(); \
    return xla_ffi_handler.Call(call_frame);               \
  }                                                        \
  XLA_FFI_SDK_SYMBOL_TAIL_(fn)
#define XLA_FFI_SDK_SYMBOL_4_(fn, impl, binding, traits)                                      \
  XLA_FFI_SDK_MAKER_(fn, ::xla::ffi::internal::MakeHandler(#fn, binding, impl, traits));      \
  XLA_FFI_SDK_SYMBOL_(fn)
#define XLA_FFI_SDK_SYMBOL_3_(fn, impl, binding)                                      \
  XLA_FFI_SDK_MAKER_(fn, ::xla::ffi::internal::MakeHandler(#fn, binding, impl));      \
  XLA_FFI_SDK_SYMBOL_(fn)
#define XLA_FFI_SDK_SYMBOL_2_(fn, impl)                                               \
  XLA_FFI_SDK_MAKER_(fn, ::xla::ffi::internal::MakeHandlerAuto(#fn, impl));           \
  XLA_FFI_SDK_SYMBOL_(fn)

// Declare exported functions: a handler, a function that returns a type's id, and a function that returns a type's
// TypeInfo.
#define XLA_FFI_DECLARE_HANDLER_SYMBOL(fn) \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* fn(XLA_FFI_CallFrame* call_frame)
#define XLA_FFI_DECLARE_TYPE_ID_SYMBOL(type_id_fn) \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_TypeId* type_id_fn()
#define XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(type_info_fn) \
  extern "C" XLA_FFI_SDK_EXPORT const XLA_FFI_TypeInfo* type_info_fn()

// XLA_FFI_REGISTER_HANDLER(api, name, platform, handler or bundle[, traits]): registers a handler before main runs. A
// failure is reported on stderr.
#define XLA_FFI_REGISTER_HANDLER(API, NAME, PLATFORM, ...) \
  XLA_FFI_REGISTER_HANDLER_(API, NAME, PLATFORM, __COUNTER__, __VA_ARGS__)
#define XLA_FFI_REGISTER_HANDLER_(API, NAME, PLATFORM, N, ...) \
  XLA_FFI_REGISTER_HANDLER__(API, NAME, PLATFORM, N, __VA_ARGS__)
#define XLA_FFI_REGISTER_HANDLER__(API, NAME, PLATFORM, N, ...)                                 \
  [[maybe_unused]] static const XLA_FFI_Error* xla_ffi_static_handler_##N##_registered_ = [] {  \
    const XLA_FFI_Api* xla_ffi_api = API;                                                       \
    return ::xla::ffi::internal::RegisterAndReport(                                             \
        xla_ffi_api, NAME,                                                                      \
        ::xla::ffi::Ffi::RegisterStaticHandler(xla_ffi_api, NAME, PLATFORM, __VA_ARGS__));      \
  }()

#endif  // XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
