// Handlers of bindings and functions, by which the macros and `To` make them. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
#define XLA_FFI_SDK_CPP_MAKE_HANDLER_H_

#include "xla_ffi/cpp/binding.h"
#include "xla_ffi/cpp/handler_core.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// What else is to be known of a handler.
struct CoreAccess {
  template <typename Core>
  static constexpr const auto& Names(const Core& core) {
    return core.names_.names;
  }
  template <typename Core>
  static constexpr XLA_FFI_Handler_Traits Traits(const Core& core) {
    return core.traits_;
  }
  template <typename Core>
  static constexpr auto Function(const Core& core) {
    return core.fn_;
  }
  template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts, typename OtherFn>
  static constexpr auto With(const HandlerCore<stage, Fn, Declared, Ts...>& core, OtherFn fn) {
    return HandlerCore<stage, OtherFn, Declared, Ts...>(core, std::move(fn));
  }
  template <typename Core, typename Fn>
  static constexpr Revision Floor() {
    return Core::template Floor<Fn>();
  }
};

// What a macro keeps: the handler itself where it needs no destructor, so that it can be a constant;
// else one on the heap, which is never destroyed because threads may outlive static objects.
template <typename Core>
struct KeptHandler {
  const Core* core;
  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const { return core->Call(frame); }
};

template <typename Declared, ExecutionStage stage, typename Fn, typename... Ts>
XLA_FFI_SDK_FN constexpr auto MakeHandlerOf(std::string_view name,
                                            const Binding<stage, Ts...>& binding, Fn fn,
                                            std::initializer_list<Traits> traits) {
  using Core = HandlerCore<stage, Fn, Declared, Ts...>;
  if constexpr (std::is_trivially_destructible_v<Core>) {
    return Core(name, std::move(fn), traits, BindingAccess::Names(binding));
  } else {
    return KeptHandler<Core>{
        new Core(name, std::move(fn), traits, BindingAccess::Names(binding))};
  }
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
      : core_({}, std::move(fn), traits, names) {}

  XLA_FFI_SDK_FN XLA_FFI_Error* Call(XLA_FFI_CallFrame* call_frame) const override {
    return core_.Call(call_frame);
  }

 private:
  internal::HandlerCore<stage, Fn, Declared, Ts...> core_;
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_MAKE_HANDLER_H_
