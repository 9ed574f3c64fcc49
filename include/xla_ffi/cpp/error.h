// Errors, and results that are either a value or an error. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_ERROR_H_
#define XLA_FFI_SDK_CPP_ERROR_H_

#include "xla_ffi/cpp/handler_core.h"
#include "xla_ffi/cpp/config.h"
#if defined(XLA_FFI_SDK_INTERNAL_H_)
#include "xla_ffi/cpp/status.h"
#endif

XLA_FFI_SDK_NAMESPACE_BEGIN

enum class ErrorCode : uint8_t {
  kOk = XLA_FFI_Error_Code_OK,
  kCancelled = XLA_FFI_Error_Code_CANCELLED,
  kUnknown = XLA_FFI_Error_Code_UNKNOWN,
  kInvalidArgument = XLA_FFI_Error_Code_INVALID_ARGUMENT,
  kDeadlineExceeded = XLA_FFI_Error_Code_DEADLINE_EXCEEDED,
  kNotFound = XLA_FFI_Error_Code_NOT_FOUND,
  kAlreadyExists = XLA_FFI_Error_Code_ALREADY_EXISTS,
  kPermissionDenied = XLA_FFI_Error_Code_PERMISSION_DENIED,
  kResourceExhausted = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
  kFailedPrecondition = XLA_FFI_Error_Code_FAILED_PRECONDITION,
  kAborted = XLA_FFI_Error_Code_ABORTED,
  kOutOfRange = XLA_FFI_Error_Code_OUT_OF_RANGE,
  kUnimplemented = XLA_FFI_Error_Code_UNIMPLEMENTED,
  kInternal = XLA_FFI_Error_Code_INTERNAL,
  kUnavailable = XLA_FFI_Error_Code_UNAVAILABLE,
  kDataLoss = XLA_FFI_Error_Code_DATA_LOSS,
  kUnauthenticated = XLA_FFI_Error_Code_UNAUTHENTICATED,
};

// The outcome of a call: success, or an error code with a message. Success has no message.
class XLA_FFI_SDK_TYPE Error {
 public:
  XLA_FFI_SDK_HOT Error() noexcept {}
  XLA_FFI_SDK_SLOW Error(ErrorCode errc, std::string message) : errc_(errc) {
    if (errc != ErrorCode::kOk || !message.empty()) message_ = std::move(message);
  }
  XLA_FFI_SDK_SLOW Error(XLA_FFI_Error_Code errc, std::string message) : Error(CodeOf(errc), std::move(message)) {}
  XLA_FFI_SDK_DEFAULTS(Error);

  XLA_FFI_SDK_HOT bool success() const { return errc_ == ErrorCode::kOk; }
  XLA_FFI_SDK_HOT bool failure() const { return !success(); }
  template <typename Code = ErrorCode>
  XLA_FFI_SDK_FN std::optional<Code> errc() const {
    return errc_;
  }
  XLA_FFI_SDK_FN const std::string& message() const {
    // No memory is allocated, because errors may report that memory is exhausted. The string is never destroyed.
    alignas(std::string) static char place[sizeof(std::string)];
    static const auto* const none = new (place) std::string();
    return message_.has_value() ? *message_ : *none;
  }
#if defined(XLA_FFI_SDK_INTERNAL_H_)
  XLA_FFI_SDK_FN operator Status() const {  // NOLINT: for functions that return a Status
    return success() ? Status() : internal::MakeStatus(static_cast<XLA_FFI_Error_Code>(errc_), message());
  }
#endif

  [[nodiscard]] XLA_FFI_SDK_HOT static Error Success() { return Error(); }
  [[nodiscard]] XLA_FFI_SDK_SLOW static Error Internal(std::string message) {
    return Error(ErrorCode::kInternal, std::move(message));
  }
  [[nodiscard]] XLA_FFI_SDK_SLOW static Error InvalidArgument(std::string message) {
    return Error(ErrorCode::kInvalidArgument, std::move(message));
  }

 private:
  // Converts an error code. Unknown numbers become an error code other than OK.
  XLA_FFI_SDK_COLD static ErrorCode CodeOf(XLA_FFI_Error_Code errc) {
    const auto number = static_cast<unsigned>(errc);
    return number <= (std::numeric_limits<uint8_t>::max)() ? static_cast<ErrorCode>(number) : ErrorCode::kUnknown;
  }

  ErrorCode errc_ = ErrorCode::kOk;
  std::optional<std::string> message_;
};

template <typename E>
class Unexpected;

XLA_FFI_SDK_INTERNAL_BEGIN
// Runs user code that may throw in a place where exceptions are not allowed. An exception ends only this code, and is
// reported on stderr.
template <typename F>
inline void Contain(const char* what, F&& f) noexcept {
#if XLA_FFI_SDK_EXCEPTIONS
  try {
    f();
  } catch (...) {
    std::fprintf(stderr, "XLA FFI: a C++ exception ended %s\n", what);
  }
#else
  static_cast<void>(what);
  f();
#endif
}

// Destroys a user object. An exception of its destructor is reported and ends here, because the caller is C code or
// already handles an exception.
template <typename T>
inline void DestroyContained(T* object) noexcept {
  if constexpr (std::is_nothrow_destructible_v<T>) {
    delete object;
  } else {
    Contain("a destructor", [object] { delete object; });
  }
}
XLA_FFI_SDK_INTERNAL_END

// A value or an error. Access to the missing alternative ends the call with an error; without exceptions, it ends the
// program.
template <typename T, typename E>
class XLA_FFI_SDK_TYPE Expected {
 public:
  XLA_FFI_SDK_DEFAULTS(Expected);
  XLA_FFI_SDK_HOT constexpr Expected(T value)  // NOLINT
      : data_(std::in_place_index<0>, std::move(value)) {}
  XLA_FFI_SDK_HOT constexpr Expected(Unexpected<E> u)  // NOLINT
      : data_(std::in_place_index<1>, std::move(u.error_)) {}

  // A template, so that the object converts only to bool. An implicit conversion would also allow arithmetic if a `*`
  // is forgotten.
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  XLA_FFI_SDK_HOT constexpr operator B() const {  // NOLINT
    return has_value();
  }
  // Comparisons with bool need these operators, because a templated conversion is not considered for `==`.
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  friend constexpr bool operator==(const Expected& a, B b) {
    return a.has_value() == b;
  }
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  friend constexpr bool operator==(B a, const Expected& b) {
    return b.has_value() == a;
  }
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  friend constexpr bool operator!=(const Expected& a, B b) {
    return a.has_value() != b;
  }
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  friend constexpr bool operator!=(B a, const Expected& b) {
    return b.has_value() != a;
  }
  XLA_FFI_SDK_HOT constexpr bool has_value() const { return data_.index() == 0; }
  XLA_FFI_SDK_HOT constexpr bool has_error() const { return data_.index() == 1; }

  XLA_FFI_SDK_HOT constexpr T& value() & { return Value(*this); }
  XLA_FFI_SDK_HOT constexpr const T& value() const& { return Value(*this); }
  XLA_FFI_SDK_HOT constexpr T&& value() && { return std::move(Value(*this)); }
  XLA_FFI_SDK_HOT constexpr const T& value() const&& { return Value(*this); }

  XLA_FFI_SDK_HOT constexpr T& operator*() & { return value(); }
  XLA_FFI_SDK_HOT constexpr const T& operator*() const& { return value(); }
  XLA_FFI_SDK_HOT constexpr T&& operator*() && { return std::move(value()); }
  XLA_FFI_SDK_HOT constexpr const T& operator*() const&& { return value(); }
  XLA_FFI_SDK_HOT constexpr T* operator->() { return &value(); }
  XLA_FFI_SDK_HOT constexpr const T* operator->() const { return &value(); }

  XLA_FFI_SDK_FN constexpr E& error() & { return CheckedError(*this); }
  XLA_FFI_SDK_FN constexpr const E& error() const& { return CheckedError(*this); }
  XLA_FFI_SDK_FN constexpr E&& error() && { return std::move(CheckedError(*this)); }
  XLA_FFI_SDK_FN constexpr const E&& error() const&& { return std::move(CheckedError(*this)); }

 private:
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& Value(Self& self) {
    auto* value = std::get_if<0>(&self.data_);
    if (XLA_FFI_PREDICT_FALSE(value == nullptr)) NoValue(self);
    return *value;
  }
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& CheckedError(Self& self) {
    auto* error = std::get_if<1>(&self.data_);
    if (XLA_FFI_PREDICT_FALSE(error == nullptr)) {
      internal::Misused("the error of a value was asked for");
    }
    return *error;
  }
  [[noreturn]] XLA_FFI_SDK_COLD static void NoValue(const Expected& self) {
    std::string what = "the value of an error was asked for";
    if constexpr (std::is_same_v<E, Error>) what += ": " + self.error().message();
    internal::Misused(what);
  }

  std::variant<T, E> data_;
};

// A wrapper of an error, from which an Expected can be constructed.
template <typename E>
class XLA_FFI_SDK_TYPE Unexpected {
 public:
  XLA_FFI_SDK_DEFAULTS(Unexpected);
  XLA_FFI_SDK_HOT constexpr Unexpected(E error) : error_(std::move(error)) {}  // NOLINT

 private:
  template <typename, typename>
  friend class Expected;
  E error_;
};
Unexpected(const char*) -> Unexpected<std::string>;

// A value or an Error. A successful Error is replaced by an INTERNAL error with an explanation.
template <typename T>
class XLA_FFI_SDK_TYPE ErrorOr : public Expected<T, Error> {
 public:
  XLA_FFI_SDK_HOT ErrorOr(T value) : Expected<T, Error>(std::move(value)) {}  // NOLINT
  XLA_FFI_SDK_HOT ErrorOr(Unexpected<Error> u)                                // NOLINT
      : Expected<T, Error>(std::move(u)) {}
  XLA_FFI_SDK_DEFAULTS(ErrorOr);
  XLA_FFI_SDK_HOT ErrorOr(Error error)  // NOLINT
      : Expected<T, Error>(Unexpected<Error>(Failure(std::move(error)))) {}
#if defined(XLA_FFI_SDK_INTERNAL_H_)
  // The interface of StatusOr, to which an ErrorOr converts.
  XLA_FFI_SDK_FN bool ok() const { return this->has_value(); }
  XLA_FFI_SDK_FN Status status() const { return ok() ? Status() : Status(this->error()); }
  XLA_FFI_SDK_FN operator StatusOr<T>() const {  // NOLINT
    if (ok()) return this->value();
    return status();
  }
#endif

 private:
  XLA_FFI_SDK_HOT static Error Failure(Error error) {
    if (XLA_FFI_PREDICT_TRUE(error.failure())) return error;
    return Error::Internal("ErrorOr: a success was given as an error");
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

// The error types for templates that are used by several kinds of handlers, such as the contexts of extensions.
struct ErrorPolicy {
  using Status = Error;
  template <typename T>
  using StatusOr = ErrorOr<T>;

  static Status Ok() { return Error::Success(); }
  XLA_FFI_SDK_COLD static Status FromErrorCode(XLA_FFI_Error_Code errc, std::string_view message) {
    return Error(errc, std::string(message));
  }
  XLA_FFI_SDK_COLD static Status TakeError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
    struct Owner {
      const XLA_FFI_Api* api;
      XLA_FFI_Error* error;
      ~Owner() { DestroyError(api, error); }
    } const owner{api, error};
    const ErrorDetails details = GetErrorDetails(api, error);
    return Error(details.errc == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL : details.errc, details.message);
  }
};

// Creates the host's error for an error that a handler returned. The message starts with the handler's name and stage,
// unless the handler has no name or the message of `error` already starts with the name.
XLA_FFI_SDK_SLOW inline XLA_FFI_Error* CreateError(const Caller& caller, const Error& error) {
  const std::string_view message = error.message(), name = caller.name;
  Text text;
  if (!name.empty() && (message.substr(0, name.size()) != name || message.substr(name.size()).substr(0, 2) != " (")) {
    PutHandler(text, name, NumberOf(caller.stage));
  }
  return NewError(caller.api, static_cast<XLA_FFI_Error_Code>(*error.errc()), text << message);
}

// Returns the problems of a separate decoding, of a dictionary value or a context value, as an error.
XLA_FFI_SDK_COLD inline Error ErrorOf(const DiagnosticEngine& diagnostic) {
  const Report* report = DiagnosticAccess::All(diagnostic);
  const bool lacks = report != nullptr && report->code == XLA_FFI_Error_Code_UNIMPLEMENTED;
  return Error(lacks ? ErrorCode::kUnimplemented : ErrorCode::kInternal, diagnostic.Result());
}

XLA_FFI_SDK_INTERNAL_END

template <ExecutionStage stage>
struct ResultEncoding<stage, Error> {
  XLA_FFI_SDK_HOT static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext*,
                                               const Error& error) {
    return XLA_FFI_PREDICT_TRUE(error.success()) ? nullptr : internal::CreateError({api}, error);
  }
  // Encodes the result of a handler of the SDK. The error's message names the handler.
  XLA_FFI_SDK_HOT static internal::Answer EncodeAnswer(const internal::Caller& caller, Error&& error) {
    return {XLA_FFI_PREDICT_TRUE(error.success()) ? nullptr : internal::CreateError(caller, error), nullptr};
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_ERROR_H_
