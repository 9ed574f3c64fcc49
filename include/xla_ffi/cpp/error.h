// Errors and values-or-errors. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_ERROR_H_
#define XLA_FFI_SDK_CPP_ERROR_H_

#include "xla_ffi/cpp/handler_core.h"

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

// Success, or a code and a message. Success is a null pointer.
class XLA_FFI_SDK_TYPE Error {
 public:
  XLA_FFI_SDK_HOT Error() noexcept {}
  XLA_FFI_SDK_COLD Error(ErrorCode errc, std::string message)
      : rep_(errc == ErrorCode::kOk && message.empty() ? nullptr
                                                       : new Rep{errc, std::move(message)}) {}
  XLA_FFI_SDK_COLD Error(XLA_FFI_Error_Code errc, std::string message)
      : Error(static_cast<ErrorCode>(errc), std::move(message)) {}

  XLA_FFI_SDK_HOT Error(const Error& other)
      : rep_(XLA_FFI_PREDICT_TRUE(other.rep_ == nullptr) ? nullptr : Clone(*other.rep_)) {}
  XLA_FFI_SDK_HOT Error(Error&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  XLA_FFI_SDK_HOT Error& operator=(Error other) noexcept {
    std::swap(rep_, other.rep_);
    return *this;
  }
  XLA_FFI_SDK_HOT ~Error() {
    if (XLA_FFI_PREDICT_FALSE(rep_ != nullptr)) Destroy(rep_);
  }

  XLA_FFI_SDK_HOT bool success() const {
    return XLA_FFI_PREDICT_TRUE(rep_ == nullptr) || rep_->errc == ErrorCode::kOk;
  }
  XLA_FFI_SDK_HOT bool failure() const { return !success(); }
  XLA_FFI_SDK_FN std::optional<ErrorCode> errc() const {
    return rep_ == nullptr ? ErrorCode::kOk : rep_->errc;
  }
  XLA_FFI_SDK_FN const std::string& message() const {
    static const std::string* const kNone = new std::string;
    return rep_ == nullptr ? *kNone : rep_->message;
  }

  XLA_FFI_SDK_HOT static Error Success() { return Error(); }
  XLA_FFI_SDK_COLD static Error Internal(std::string message) {
    return Error(ErrorCode::kInternal, std::move(message));
  }
  XLA_FFI_SDK_COLD static Error InvalidArgument(std::string message) {
    return Error(ErrorCode::kInvalidArgument, std::move(message));
  }

 private:
  struct Rep {
    ErrorCode errc;
    std::string message;
  };
  XLA_FFI_SDK_COLD static Rep* Clone(const Rep& rep) { return new Rep(rep); }
  XLA_FFI_SDK_COLD static void Destroy(Rep* rep) { delete rep; }

  Rep* rep_ = nullptr;
};

template <typename E>
class Unexpected;

XLA_FFI_SDK_INTERNAL_BEGIN
[[noreturn]] XLA_FFI_SDK_COLD inline void NoSuchSide(const char* what) {
  std::fprintf(stderr, "xla::ffi::Expected: %s\n", what);
  std::abort();
}
XLA_FFI_SDK_INTERNAL_END

// A value or an error. Asking for the one that is not there ends the program.
template <typename T, typename E>
class XLA_FFI_SDK_TYPE Expected {
 public:
  XLA_FFI_SDK_HOT constexpr Expected(T value)  // NOLINT
      : data_(std::in_place_index<0>, std::move(value)) {}
  XLA_FFI_SDK_HOT constexpr Expected(Unexpected<E> u)  // NOLINT
      : data_(std::in_place_index<1>, std::move(u.error_)) {}

  XLA_FFI_SDK_HOT constexpr operator bool() const { return has_value(); }  // NOLINT
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

  XLA_FFI_SDK_FN constexpr E& error() & { return TheError(*this); }
  XLA_FFI_SDK_FN constexpr const E& error() const& { return TheError(*this); }
  XLA_FFI_SDK_FN constexpr E&& error() && { return std::move(TheError(*this)); }
  XLA_FFI_SDK_FN constexpr const E&& error() const&& { return std::move(TheError(*this)); }

 private:
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& Value(Self& self) {
    auto* value = std::get_if<0>(&self.data_);
    if (XLA_FFI_PREDICT_FALSE(value == nullptr)) {
      internal::NoSuchSide("the value of an error was asked for");
    }
    return *value;
  }
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& TheError(Self& self) {
    auto* error = std::get_if<1>(&self.data_);
    if (XLA_FFI_PREDICT_FALSE(error == nullptr)) {
      internal::NoSuchSide("the error of a value was asked for");
    }
    return *error;
  }

  std::variant<T, E> data_;
};

// An error on its way into an Expected.
template <typename E>
class XLA_FFI_SDK_TYPE Unexpected {
 public:
  XLA_FFI_SDK_HOT constexpr Unexpected(E error) : error_(std::move(error)) {}  // NOLINT

 private:
  template <typename, typename>
  friend class Expected;
  E error_;
};
Unexpected(const char*) -> Unexpected<std::string>;

// A value or an Error. A successful Error is no error: it becomes an INTERNAL one that says so.
template <typename T>
class XLA_FFI_SDK_TYPE ErrorOr : public Expected<T, Error> {
 public:
  using Expected<T, Error>::Expected;
  XLA_FFI_SDK_HOT ErrorOr(Error error)  // NOLINT
      : Expected<T, Error>(Unexpected<Error>(Failure(std::move(error)))) {}

 private:
  XLA_FFI_SDK_HOT static Error Failure(Error error) {
    if (XLA_FFI_PREDICT_TRUE(error.failure())) return error;
    return Error::Internal("ErrorOr: a success was given as an error");
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

// How code that is shared between kinds of handlers reports errors.
struct ErrorPolicy {
  using Status = Error;
  template <typename T>
  using StatusOr = ErrorOr<T>;

  static Status Ok() { return Error::Success(); }
  XLA_FFI_SDK_COLD static Status FromErrorCode(XLA_FFI_Error_Code errc, std::string_view message) {
    return Error(errc, std::string(message));
  }
  XLA_FFI_SDK_COLD static Status TakeError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
    const ErrorDetails details = GetErrorDetails(api, error);
    Error taken(details.errc == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL : details.errc,
                details.message);
    DestroyError(api, error);
    return taken;
  }
};

XLA_FFI_SDK_COLD inline XLA_FFI_Error* CreateError(const XLA_FFI_Api* api, const Error& error) {
  return NewError(api, static_cast<XLA_FFI_Error_Code>(*error.errc()), error.message());
}

// The problems of a decoding on its own (of a dictionary's value, of the context), as an error.
XLA_FFI_SDK_COLD inline Error ErrorOf(const DiagnosticEngine& diagnostic) {
  const Problems* problems = DiagnosticAccess::All(diagnostic);
  const bool lacks =
      problems != nullptr && problems->code == XLA_FFI_Error_Code_UNIMPLEMENTED;
  return Error(lacks ? ErrorCode::kUnimplemented : ErrorCode::kInternal, diagnostic.Result());
}

XLA_FFI_SDK_INTERNAL_END

template <ExecutionStage stage>
struct ResultEncoding<stage, Error> {
  XLA_FFI_SDK_HOT static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_InvokeContext*,
                                               const Error& error) {
    return XLA_FFI_PREDICT_TRUE(error.success()) ? nullptr : internal::CreateError(api, error);
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_ERROR_H_
