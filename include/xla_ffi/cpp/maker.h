// Makers: what the macros make handlers of. Part of <xla/ffi/api/api.h>.
//
// A maker is a constant without captures whose call makes a handler, so that a template can take it as an argument and see
// the function that the handler calls.
#ifndef XLA_FFI_SDK_CPP_MAKER_H_
#define XLA_FFI_SDK_CPP_MAKER_H_

#include "xla_ffi/cpp/make_handler.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Whether a maker makes its handler while the source is compiled.
template <const auto& maker, int = (static_cast<void>(maker()), 0)>
constexpr bool IsConstant(int) {
  return true;
}
template <const auto& maker>
constexpr bool IsConstant(long) {
  return false;
}

// A parameter that is narrower than what it binds converts here.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#endif
// Calls the function that a handler binds by its name, where the handler itself has a pointer to it: compilers take a
// function into its only caller, but none to which there is a pointer.
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

// Whether a handler is made of a pointer to its function.
template <typename T>
inline constexpr bool has_pointer_v = false;
template <ExecutionStage stage, typename R, typename... Params, typename Declared, typename... Ts>
inline constexpr bool has_pointer_v<Recipe<stage, R (*)(Params...), Declared, Ts...>> = true;

// nvcc has no handler call its function by its name: it warns of the visibility of what is made for a constant of one file.
template <const auto& maker>
constexpr bool CallsByName() {
#if !defined(__CUDACC__)
  if constexpr (IsConstant<maker>(0)) {
    return has_pointer_v<std::decay_t<decltype(maker())>>;
  }
#endif
  return false;
}

// A handler that is made when it is first called.
template <const auto& maker>
struct MadeLater {
  XLA_FFI_SDK_IN_USERS XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const {
    static const auto* const handler = new auto(Assemble(maker()));
    return handler->Call(frame);
  }
};

// The handler of a maker, a constant in any case; nvcc makes what is none when it is first called, behind a lock.
template <const auto& maker>
XLA_FFI_SDK_IN_USERS constexpr auto Made() {
  if constexpr (CallsByName<maker>()) {
    return Assemble(maker(), Named<maker>());
  } else {
#if !defined(__CUDACC__)
    if constexpr (!IsConstant<maker>(0)) return MadeLater<maker>();
    else
#endif
    return Assemble(maker());
  }
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_MAKER_H_
