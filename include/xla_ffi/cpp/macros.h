// The macros that define handlers, their symbols and their registration. Part of
// <xla/ffi/api/api.h>.
//
// All are variadic from the first argument, so that -pedantic accepts every number of arguments.
#ifndef XLA_FFI_SDK_CPP_MACROS_H_
#define XLA_FFI_SDK_CPP_MACROS_H_

#include "xla_ffi/cpp/attribute.h"
#include "xla_ffi/cpp/maker.h"

#define XLA_FFI_SDK_PICK_4_(a1, a2, a3, a4, MACRO, ...) MACRO

// A function pointer constant that is a handler. The handler behind it is a constant wherever the
// function and the names in the binding are.
#define XLA_FFI_SDK_HANDLER_(fn, ...)                                                           \
  [[maybe_unused]] static constexpr XLA_FFI_Handler* fn = +[](XLA_FFI_CallFrame* xla_ffi_frame) \
      -> XLA_FFI_Error* {                                                                       \
    static constexpr auto xla_ffi_maker = [] { return __VA_ARGS__; };                           \
    static const auto xla_ffi_handler = ::xla::ffi::internal::Made<xla_ffi_maker>();            \
    return xla_ffi_handler.Call(xla_ffi_frame);                                                 \
  }
#define XLA_FFI_DEFINE_HANDLER_EXPLICIT_WITH_TRAITS(fn, impl, binding, traits) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandler(XLA_FFI_SDK_HANDLER_NAME(fn), binding, impl, traits))
#define XLA_FFI_DEFINE_HANDLER_EXPLICIT(fn, impl, binding) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandler(XLA_FFI_SDK_HANDLER_NAME(fn), binding, impl))
#define XLA_FFI_DEFINE_HANDLER_AUTO(fn, impl) \
  XLA_FFI_SDK_HANDLER_(fn, ::xla::ffi::internal::MakeHandlerAuto(XLA_FFI_SDK_HANDLER_NAME(fn), impl))
#define XLA_FFI_SDK_HANDLER_NAME(fn) #fn

// XLA_FFI_DEFINE_HANDLER(name, function[, binding[, traits]]): a handler as a static constant, in
// any scope. Without a binding it is read off the function.
#define XLA_FFI_DEFINE_HANDLER(...)                                                             \
  XLA_FFI_SDK_PICK_4_(__VA_ARGS__, XLA_FFI_DEFINE_HANDLER_EXPLICIT_WITH_TRAITS,                 \
                      XLA_FFI_DEFINE_HANDLER_EXPLICIT, XLA_FFI_DEFINE_HANDLER_AUTO, unused, )   \
  (__VA_ARGS__)

// XLA_FFI_DEFINE_HANDLER_SYMBOL(symbol, function[, binding[, traits]]): a handler as an exported C
// function.
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
// Makes the handler behind a symbol. XLA_FFI_LIBRARY looks at it, too, while the source is compiled.
#define XLA_FFI_SDK_MAKER_(fn, ...) \
  [[maybe_unused]] static constexpr auto xla_ffi_maker_##fn = [] { return __VA_ARGS__; }
#define XLA_FFI_SDK_SYMBOL_(fn)                            \
  XLA_FFI_SDK_SYMBOL_HEAD_(fn) {                           \
    static const auto xla_ffi_handler = ::xla::ffi::internal::Made<xla_ffi_maker_##fn>(); \
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

// Declarations of exported functions: a handler, a type's number, a type's description.
#define XLA_FFI_DECLARE_HANDLER_SYMBOL(fn) \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* fn(XLA_FFI_CallFrame* call_frame)
#define XLA_FFI_DECLARE_TYPE_ID_SYMBOL(type_id_fn) \
  extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_TypeId* type_id_fn()
#define XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(type_info_fn) \
  extern "C" XLA_FFI_SDK_EXPORT const XLA_FFI_TypeInfo* type_info_fn()

// XLA_FFI_REGISTER_HANDLER(api, name, platform, handler or bundle[, traits]): registers before main
// runs. A failure is told on stderr.
#define XLA_FFI_REGISTER_HANDLER(API, NAME, PLATFORM, ...) \
  XLA_FFI_REGISTER_HANDLER_(API, NAME, PLATFORM, __COUNTER__, __VA_ARGS__)
#define XLA_FFI_REGISTER_HANDLER_(API, NAME, PLATFORM, N, ...) \
  XLA_FFI_REGISTER_HANDLER__(API, NAME, PLATFORM, N, __VA_ARGS__)
#define XLA_FFI_REGISTER_HANDLER__(API, NAME, PLATFORM, N, ...)                                 \
  [[maybe_unused]] static const XLA_FFI_Error* xla_ffi_static_handler_##N##_registered_ = [] {  \
    const XLA_FFI_Api* xla_ffi_api = API;                                                       \
    return ::xla::ffi::internal::RegisterAndTell(                                               \
        xla_ffi_api, NAME,                                                                      \
        ::xla::ffi::Ffi::RegisterStaticHandler(xla_ffi_api, NAME, PLATFORM, __VA_ARGS__));      \
  }()

#endif  // XLA_FFI_SDK_CPP_MACROS_H_
