// Errors and values-or-errors. Part of <xla/ffi/api/ffi.h>.
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

XLA_FFI_SDK_INTERNAL_BEGIN
struct ErrorText;

// A short text, which takes no memory of its own unless somebody asks for it as a string.
struct BriefText {
  static constexpr size_t kRoom = 64;
  static bool Fits(size_t size) { return size < kRoom; }

  BriefText(const char* from, size_t count) : size(count) {
    std::memcpy(text, from, count);
    text[count] = '\0';
  }
  BriefText(const BriefText& other) : BriefText(other.text, other.size) {}
  BriefText& operator=(const BriefText&) = delete;
  ~BriefText() { delete string.load(std::memory_order_acquire); }

  // Whoever asks, on whatever thread, gets the one.
  const std::string& String() const {
    const std::string* known = string.load(std::memory_order_acquire);
    if (known == nullptr) {
      const auto* own = new std::string(text, size);
      if (string.compare_exchange_strong(known, own, std::memory_order_acq_rel)) return *own;
      delete own;
    }
    return *known;
  }

  char text[kRoom];
  size_t size;
  mutable std::atomic<const std::string*> string{nullptr};
};
XLA_FFI_SDK_INTERNAL_END

// Success, or a code and a message. The message is there only where it is not success: making and
// ending a success touches one byte.
class XLA_FFI_SDK_TYPE Error {
 public:
  XLA_FFI_SDK_HOT Error() noexcept : none_() {}
  XLA_FFI_SDK_SLOW Error(ErrorCode errc, std::string message) : none_() {
    if (errc != ErrorCode::kOk || !message.empty()) Set(errc, message);
  }
  XLA_FFI_SDK_SLOW Error(XLA_FFI_Error_Code errc, std::string message) : none_() {
    if (errc != XLA_FFI_Error_Code_OK || !message.empty()) {
      Set(CodeOf(errc), message);
    }
  }
  // A literal, mostly, whose length the compiler knows: no string is made of a short one.
  XLA_FFI_SDK_HOT Error(ErrorCode errc, const char* message)
      : Error(errc, message, message != nullptr ? std::strlen(message) : 0) {}
  XLA_FFI_SDK_HOT Error(XLA_FFI_Error_Code errc, const char* message) : Error(CodeOf(errc), message) {}

  XLA_FFI_SDK_HOT Error(const Error& other) : none_() {
    if (XLA_FFI_PREDICT_FALSE(other.told_ != Told::kNothing)) Copy(other);
  }
  XLA_FFI_SDK_HOT Error(Error&& other) noexcept : none_() {
    if (XLA_FFI_PREDICT_FALSE(other.told_ != Told::kNothing)) Move(other);
  }
  XLA_FFI_SDK_HOT Error& operator=(Error other) noexcept {
    if (XLA_FFI_PREDICT_FALSE(told_ != Told::kNothing)) Clear();
    if (XLA_FFI_PREDICT_FALSE(other.told_ != Told::kNothing)) Move(other);
    return *this;
  }
  XLA_FFI_SDK_HOT ~Error() {
    if (XLA_FFI_PREDICT_FALSE(told_ != Told::kNothing)) Clear();
  }

  XLA_FFI_SDK_HOT bool success() const { return errc_ == ErrorCode::kOk; }
  XLA_FFI_SDK_HOT bool failure() const { return !success(); }
  template <typename Code = ErrorCode>
  XLA_FFI_SDK_FN std::optional<Code> errc() const {
    return errc_;
  }
  XLA_FFI_SDK_FN const std::string& message() const {
    return XLA_FFI_PREDICT_TRUE(told_ == Told::kString) ? message_ : SlowMessage();
  }

#if defined(XLA_FFI_SDK_INTERNAL_H_)
  XLA_FFI_SDK_FN operator Status() const {  // NOLINT: functions that return a Status return errors of these headers
    return success() ? Status() : internal::MakeStatus(static_cast<XLA_FFI_Error_Code>(errc_), message());
  }
#endif

  [[nodiscard]] XLA_FFI_SDK_HOT static Error Success() { return Error(); }
  [[nodiscard]] XLA_FFI_SDK_SLOW static Error Internal(std::string message) {
    Error error;
    error.Set(ErrorCode::kInternal, message);
    return error;
  }
  [[nodiscard]] XLA_FFI_SDK_HOT static Error Internal(const char* message) {
    return Error(ErrorCode::kInternal, message);
  }
  [[nodiscard]] XLA_FFI_SDK_SLOW static Error InvalidArgument(std::string message) {
    Error error;
    error.Set(ErrorCode::kInvalidArgument, message);
    return error;
  }
  [[nodiscard]] XLA_FFI_SDK_HOT static Error InvalidArgument(const char* message) {
    return Error(ErrorCode::kInvalidArgument, message);
  }

 private:
  friend struct internal::ErrorText;
  enum class Told : uint8_t { kNothing, kString, kBrief };

  XLA_FFI_SDK_COLD const std::string& SlowMessage() const {
    static const auto* const none = new std::string();
    return told_ == Told::kBrief ? brief_.String() : *none;
  }
  // A number that is no code is none that says success.
  XLA_FFI_SDK_COLD static ErrorCode CodeOf(XLA_FFI_Error_Code errc) {
    const auto number = static_cast<unsigned>(errc);
    return number <= (std::numeric_limits<uint8_t>::max)() ? static_cast<ErrorCode>(number) : ErrorCode::kUnknown;
  }
  XLA_FFI_SDK_SLOW Error(ErrorCode errc, const char* message, size_t size) : none_() {
    if (XLA_FFI_PREDICT_FALSE(!internal::BriefText::Fits(size))) {
      std::string long_message(message, size);
      Set(errc, long_message);
    } else if (errc != ErrorCode::kOk || size != 0) {
      new (&brief_) internal::BriefText(size != 0 ? message : "", size);
      errc_ = errc;
      told_ = Told::kBrief;
    }
  }
  // Moves the message in; there is none yet.
  XLA_FFI_SDK_HOT void Set(ErrorCode errc, std::string& message) {
    new (&message_) std::string(std::move(message));
    errc_ = errc;
    told_ = Told::kString;
  }
  XLA_FFI_SDK_SLOW void Copy(const Error& other) {
    if (other.told_ == Told::kBrief) return SetBrief(other);
    std::string message = other.message_;
    Set(other.errc_, message);
  }
  // What is moved from stays the failure that it is, though a long message goes: its owner may return it yet.
  XLA_FFI_SDK_SLOW void Move(Error& other) noexcept {
    if (other.told_ == Told::kBrief) {
      SetBrief(other);
    } else {
      Set(other.errc_, other.message_);
    }
  }
  XLA_FFI_SDK_HOT void SetBrief(const Error& other) noexcept {
    new (&brief_) internal::BriefText(other.brief_);
    errc_ = other.errc_;
    told_ = Told::kBrief;
  }
  XLA_FFI_SDK_SLOW void Clear() {
    if (told_ == Told::kBrief) {
      brief_.~BriefText();
    } else {
      message_.~basic_string();
    }
    told_ = Told::kNothing;
    errc_ = ErrorCode::kOk;
  }

  ErrorCode errc_ = ErrorCode::kOk;
  Told told_ = Told::kNothing;  // which of the two there is
  union {
    char none_;
    std::string message_;
    internal::BriefText brief_;
  };
};

template <typename E>
class Unexpected;

XLA_FFI_SDK_INTERNAL_BEGIN
// Runs code of the user's where no exception may leave: one is told on stderr, and ends that code
// alone.
template <typename F>
inline void Contain(const char* what, F&& f) noexcept {
#if XLA_FFI_SDK_EXCEPTIONS
  try {
    f();
#if defined(__GLIBCXX__)
  } catch (abi::__forced_unwind&) {  // nobody may stop it, and it cannot go on
    std::fprintf(stderr, "XLA FFI: pthread_exit or pthread_cancel within %s ends the process\n", what);
    std::terminate();
#endif
  } catch (...) {
    std::fprintf(stderr, "XLA FFI: a C++ exception ended %s\n", what);
  }
#else
  static_cast<void>(what);
  f();
#endif
}

// Destroys an object of the user's for a caller that is C, or is being unwound.
template <typename T>
inline void DestroyContained(T* object) noexcept {
  if constexpr (std::is_nothrow_destructible_v<T>) {
    delete object;
  } else {
    Contain("a destructor", [object] { delete object; });
  }
}
XLA_FFI_SDK_INTERNAL_END

// A value or an error. Asking for the one that is not there ends the call with an error that says so; where it is compiled
// without exceptions, the program.
template <typename T, typename E>
class XLA_FFI_SDK_TYPE Expected {
 public:
  XLA_FFI_SDK_DEFAULTS(Expected);
  XLA_FFI_SDK_HOT constexpr Expected(T value)  // NOLINT
      : data_(std::in_place_index<0>, std::move(value)) {}
  XLA_FFI_SDK_HOT constexpr Expected(Unexpected<E> u)  // NOLINT
      : data_(std::in_place_index<1>, std::move(u.error_)) {}

  // To bool alone: what becomes one without being asked would become a number, too, where a `*` was forgotten.
  template <typename B, typename = std::enable_if_t<std::is_same_v<B, bool>>>
  XLA_FFI_SDK_HOT constexpr operator B() const {  // NOLINT
    return has_value();
  }
  // What a conversion that is a template is not found for.
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

  XLA_FFI_SDK_FN constexpr E& error() & { return TheError(*this); }
  XLA_FFI_SDK_FN constexpr const E& error() const& { return TheError(*this); }
  XLA_FFI_SDK_FN constexpr E&& error() && { return std::move(TheError(*this)); }
  XLA_FFI_SDK_FN constexpr const E&& error() const&& { return std::move(TheError(*this)); }

 private:
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& Value(Self& self) {
    auto* value = std::get_if<0>(&self.data_);
    if (XLA_FFI_PREDICT_FALSE(value == nullptr)) NoValue(self);
    return *value;
  }
  template <typename Self>
  XLA_FFI_SDK_HOT static constexpr auto& TheError(Self& self) {
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

// An error on its way into an Expected.
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

// A value or an Error. A successful Error is no error: it becomes an INTERNAL one that says so.
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
  // As a StatusOr has them, which it becomes where one is asked for.
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

// The text of an error as it lies there.
struct ErrorText {
  const char* text;
  size_t size;

  XLA_FFI_SDK_HOT explicit ErrorText(const Error& error) : text(""), size(0) {
    if (error.told_ == Error::Told::kBrief) {
      text = error.brief_.text;
      size = error.brief_.size;
    } else if (error.told_ == Error::Told::kString) {
      text = error.message_.c_str();
      size = error.message_.size();
    }
  }
};

XLA_FFI_SDK_SLOW inline XLA_FFI_Error* CreateError(const XLA_FFI_Api* api, const Error& error) {
  const ErrorText message(error);
  return NewError(api, static_cast<XLA_FFI_Error_Code>(*error.errc()), message.text, message.size);
}

// The problems of a decoding on its own (of a dictionary's value, of the context), as an error.
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
    return XLA_FFI_PREDICT_TRUE(error.success()) ? nullptr : internal::CreateError(api, error);
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_ERROR_H_
