// Results of building and running programs: a value, or an error code with a message.
#ifndef XLA_STATUSOR_H_
#define XLA_STATUSOR_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "xla_ffi/runtime.h"

namespace xla {

// Success, or one of the 16 absl error codes with a message and its causes.
class Status {
 public:
  Status() = default;
  Status(XLA_FFI_Error_Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // Takes ownership of a status that a function of runtime.h or program.h returned.
  explicit Status(xffi_rt_status* status) : code_(xffi_rt_status_code(status)) {
    message_ = xffi_rt_status_message(status);
    size_t causes = 0;
    while (xffi_rt_status_cause(status, causes) != nullptr) ++causes;
    for (; causes > 0; --causes) {
      Status cause(XLA_FFI_Error_Code_UNKNOWN, xffi_rt_status_cause(status, causes - 1));
      cause.source_ = std::move(source_);
      source_ = std::make_shared<const Status>(std::move(cause));
    }
    xffi_rt_status_destroy(status);
  }

  bool ok() const { return code_ == XLA_FFI_Error_Code_OK; }
  XLA_FFI_Error_Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // Returns the cause; null if it is unknown. Causes in a status from the runtime have texts, but no codes.
  const Status* source() const { return source_.get(); }
  // Returns a copy of this status with `source` as its cause.
  Status WithSource(Status source) const {
    Status status = *this;
    status.source_ = std::make_shared<const Status>(std::move(source));
    return status;
  }
  std::string ToString() const {
    return ok() ? "OK" : "code " + std::to_string(static_cast<int>(code_)) + ": " + message_;
  }

 private:
  XLA_FFI_Error_Code code_ = XLA_FFI_Error_Code_OK;
  std::string message_;
  std::shared_ptr<const Status> source_;
};

inline Status OkStatus() { return Status(); }

// A value, or the status that explains why the value is missing. Access to a missing value prints the status to stderr
// and ends the program.
template <typename T>
class StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}  // NOLINT: implicit, like every StatusOr
  // Creates a failed result. If the status is OK, it becomes an INTERNAL error with an explanation.
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT
    if (!status_.ok()) return;
    status_ = Status(XLA_FFI_Error_Code_INTERNAL, "StatusOr: a status that is OK was given for a value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return Check(), *value_; }
  const T& value() const& { return Check(), *value_; }
  T&& value() && { return Check(), std::move(*value_); }
  T&& ValueOrDie() && { return std::move(*this).value(); }
  T& ValueOrDie() & { return value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void Check() const {
    if (ok()) return;
    std::fprintf(stderr, "xla-ffi: a value is asked for, there is: %s\n", status_.ToString().c_str());
    std::abort();
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace xla

#endif  // XLA_STATUSOR_H_
