// Converts the result or exception of a handler's function to the host's error or future. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_ENCODE_H_
#define XLA_FFI_SDK_CPP_ENCODE_H_

#include "xla_ffi/cpp/explain.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Is true if a result encoding stores state.
template <typename Encoding, typename = void>
inline constexpr bool is_state_v = false;
template <typename Encoding>
inline constexpr bool is_state_v<
    Encoding, std::enable_if_t<std::is_same_v<
                  XLA_FFI_TypeId,
                  decltype(Encoding::state_type_id(std::declval<const XLA_FFI_Api*>()))>>> = true;

// Is true if a result encoding can report why its state type cannot be registered.
template <typename Encoding, typename = void>
inline constexpr bool can_register_v = false;
template <typename Encoding>
inline constexpr bool can_register_v<
    Encoding, std::void_t<decltype(Encoding::RegisterState(
                  std::declval<const XLA_FFI_Api*>(), std::declval<XLA_FFI_TypeId*>()))>> = true;

// Is true if a result encoding has EncodeAnswer, which returns an Answer.
template <typename Encoding, typename R, typename = void>
inline constexpr bool tells_v = false;
template <typename Encoding, typename R>
inline constexpr bool tells_v<
    Encoding, R,
    std::void_t<decltype(Encoding::EncodeAnswer(std::declval<const Caller&>(), std::declval<R>()))>> =
    true;

template <typename Encoding, typename ResultType>
XLA_FFI_SDK_HOT inline XLA_FFI_Error* EncodeBy(XLA_FFI_CallFrame* frame, ResultType&& result) {
  auto encoded = Encoding::Encode(frame->api, frame->ctx, std::move(result));
  using Encoded = decltype(encoded);
  if constexpr (std::is_same_v<Encoded, XLA_FFI_Error*>) {
    return encoded;
  } else if constexpr (std::is_same_v<Encoded, XLA_FFI_Future*>) {
    return SetFuture(frame, encoded);
  } else {
    static_assert(std::is_same_v<Encoded, std::variant<XLA_FFI_Error*, XLA_FFI_Future*>>,
                  "Encode returns XLA_FFI_Error*, XLA_FFI_Future* or a variant of the two");
    if (encoded.index() == 0) return *std::get_if<0>(&encoded);
    return SetFuture(frame, *std::get_if<1>(&encoded));
  }
}

// Encodes the result of a handler's function: returns the error, or sets the future of the call frame.
template <typename Encoding, typename ResultType>
XLA_FFI_SDK_HOT inline XLA_FFI_Error* EncodeResult(XLA_FFI_CallFrame* frame, [[maybe_unused]] const Caller& caller,
                                                   ResultType&& result) {
  if constexpr (tells_v<Encoding, ResultType>) {
    const Answer answer = Encoding::EncodeAnswer(caller, std::move(result));
    return answer.error != nullptr || answer.future == nullptr ? answer.error
                                                               : SetFuture(frame, answer.future);
  } else {
    return EncodeBy<Encoding, ResultType>(frame, std::move(result));
  }
}

// Reports an access to a missing value, by an exception. Without exceptions, ends the program.
[[noreturn]] XLA_FFI_SDK_COLD inline void Misused(const std::string& what) {
#if XLA_FFI_SDK_EXCEPTIONS
  throw std::logic_error(what);
#else
  std::fprintf(stderr, "XLA FFI: %s\n", what.c_str());
  std::abort();
#endif
}

#if XLA_FFI_SDK_EXCEPTIONS
// Returns the error for the exception that is being handled.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* CaughtError(const Caller& caller) {
  Text text;
  PutHandler(text, caller.name, NumberOf(caller.stage));
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INTERNAL;
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    text << "out of memory: " << e.what();
    code = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
  } catch (const std::exception& e) {
    text << "C++ exception: " << e.what();
  } catch (const std::string& e) {
    text << "C++ exception: " << e;
  } catch (const char* e) {
    text << "C++ exception: " << e;
  } catch (...) {
    text << "C++ exception: of a type that is not std::exception";
  }
  return NewError(caller.api, code, text);
}
#endif

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_ENCODE_H_
