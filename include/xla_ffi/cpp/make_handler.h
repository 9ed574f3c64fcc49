// Handlers of bindings and functions, by which the macros and `To` make them. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
#define XLA_FFI_SDK_CPP_MAKE_HANDLER_H_

#include "xla_ffi/cpp/binding.h"
#include "xla_ffi/cpp/handler_core.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// What a handler is made of: a constant where its function and its names are. Compilers are done with it in no time; the
// handler itself is made of it once, in the form that its function gets in the end.
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
struct Recipe {
  HandlerLabel<sizeof...(Ts)> label;
  Fn fn;
};

// A handler on the heap, never destroyed because threads may outlive static objects.
template <typename Core>
struct KeptHandler {
  const Core* core;
  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const { return core->Call(frame); }
};

// What a macro keeps: what the handler is made of where it needs no destructor, so that it can be a constant; else the
// handler.
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

// The handler of a recipe, which calls that function.
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

// Bindings of other kinds: whatever has a To.
template <typename B, typename Fn, typename = std::enable_if_t<!IsBinding<std::decay_t<B>>::value>>
XLA_FFI_SDK_FN auto MakeHandler(std::string_view, B&& binding, Fn fn,
                                std::initializer_list<Traits> traits = {}) {
  auto handler = std::forward<B>(binding).To(std::move(fn), traits);
  return KeptHandler<std::remove_reference_t<decltype(*handler)>>{handler.release()};
}

// Automatic binding.
template <typename Fn>
XLA_FFI_SDK_FN constexpr auto MakeHandlerAuto(std::string_view name, Fn fn) {
  return MakeHandler(name, InferOf<Fn>::Bind(Ffi::Bind()), std::move(fn));
}

XLA_FFI_SDK_INTERNAL_END

// A handler behind the common base.
template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
class XLA_FFI_SDK_TYPE DeclaredHandler final : public Ffi {
 public:
  DeclaredHandler(Fn fn, std::initializer_list<Traits> traits,
                  const internal::BoundNames<sizeof...(Ts)>& names)
      : core_({{}, traits, names}, std::move(fn)) {}

  XLA_FFI_SDK_FN XLA_FFI_Error* Call(XLA_FFI_CallFrame* call_frame) const override {
    return core_.Call(call_frame);
  }

 private:
  internal::HandlerCore<stage, Fn, Declared, Ts...> core_;
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
