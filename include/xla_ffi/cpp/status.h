// The status types of the internal API: Abseil's if available, otherwise simple replacements. Part of <xla/ffi/ffi.h>.
//
// In this namespace, Status, StatusOr and Span are absl::Status, absl::StatusOr and absl::Span, or xla::Status,
// xla::StatusOr and this SDK's Span. Sources that use the names of this namespace compile in both cases.
#ifndef XLA_FFI_SDK_CPP_STATUS_H_
#define XLA_FFI_SDK_CPP_STATUS_H_

#include "xla_ffi/cpp/handler_core.h"

#if XLA_FFI_ABSEIL
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#endif

XLA_FFI_SDK_NAMESPACE_BEGIN

#if XLA_FFI_ABSEIL
using Status = absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;
#else
using Status = ::xla::Status;
template <typename T>
using StatusOr = ::xla::StatusOr<T>;
#endif

XLA_FFI_SDK_INTERNAL_BEGIN

using sdk_shared_v1::type_tag;

XLA_FFI_SDK_FN inline Status MakeStatus(XLA_FFI_Error_Code code, std::string_view message) {
#if XLA_FFI_ABSEIL
  return Status(static_cast<absl::StatusCode>(code), absl::string_view(message.data(), message.size()));
#else
  return Status(code, std::string(message));
#endif
}

XLA_FFI_SDK_FN inline XLA_FFI_Error_Code CodeOf(const Status& status) {
  return static_cast<XLA_FFI_Error_Code>(status.code());
}

template <typename T>
void DeleteCarried(void* object) {
  delete static_cast<T*>(object);
}

// Creates an error that carries the complete status, with payloads and causes, to the caller.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* ForwardError(Status status) {
  std::vector<const char*> causes;
#if !XLA_FFI_ABSEIL
  for (const Status* cause = status.source(); cause != nullptr; cause = cause->source()) {
    causes.push_back(cause->message().c_str());
  }
#endif
  auto* kept = new Status(std::move(status));
  return xffi_rt_raise(CodeOf(*kept), kept->message().data(), kept->message().size(),
                       causes.data(), causes.size(), &type_tag<Status>, kept,
                       &DeleteCarried<Status>);
}

XLA_FFI_SDK_INTERNAL_END

// Converts and destroys a status of a C function of the runtime. If a handler of this program returned the status, the
// result is that status, unchanged. Null is success.
XLA_FFI_SDK_COLD inline Status TakeStatus(xffi_rt_status* status) {
  if (status == nullptr) return Status();
  const void* whole = xffi_rt_status_object(status, &internal::type_tag<Status>);
  if (whole != nullptr) {
    Status taken = *static_cast<const Status*>(whole);
    // If the runtime added context to the message, the original status is not used, because it lacks the context.
    if (std::string_view(taken.message().data(), taken.message().size()) ==
        xffi_rt_status_message(status)) {
      xffi_rt_status_destroy(status);
      return taken;
    }
  }
#if XLA_FFI_ABSEIL
  Status taken = internal::MakeStatus(xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return taken;
#else
  return Status(status);
#endif
}

// Defines a function per error code, with Abseil's names, that creates an error.
#if XLA_FFI_ABSEIL
#define XLA_FFI_SDK_STATUS_(name, code) using absl::name##Error;
#else
#define XLA_FFI_SDK_STATUS_(name, code)                                               \
  XLA_FFI_SDK_COLD inline Status name##Error(std::string_view message) {              \
    return internal::MakeStatus(XLA_FFI_Error_Code_##code, message);                  \
  }
#endif
XLA_FFI_SDK_STATUS_(Cancelled, CANCELLED)
XLA_FFI_SDK_STATUS_(Unknown, UNKNOWN)
XLA_FFI_SDK_STATUS_(InvalidArgument, INVALID_ARGUMENT)
XLA_FFI_SDK_STATUS_(DeadlineExceeded, DEADLINE_EXCEEDED)
XLA_FFI_SDK_STATUS_(NotFound, NOT_FOUND)
XLA_FFI_SDK_STATUS_(AlreadyExists, ALREADY_EXISTS)
XLA_FFI_SDK_STATUS_(PermissionDenied, PERMISSION_DENIED)
XLA_FFI_SDK_STATUS_(ResourceExhausted, RESOURCE_EXHAUSTED)
XLA_FFI_SDK_STATUS_(FailedPrecondition, FAILED_PRECONDITION)
XLA_FFI_SDK_STATUS_(Aborted, ABORTED)
XLA_FFI_SDK_STATUS_(OutOfRange, OUT_OF_RANGE)
XLA_FFI_SDK_STATUS_(Unimplemented, UNIMPLEMENTED)
XLA_FFI_SDK_STATUS_(Internal, INTERNAL)
XLA_FFI_SDK_STATUS_(Unavailable, UNAVAILABLE)
XLA_FFI_SDK_STATUS_(DataLoss, DATA_LOSS)
XLA_FFI_SDK_STATUS_(Unauthenticated, UNAUTHENTICATED)
#undef XLA_FFI_SDK_STATUS_

XLA_FFI_SDK_FN inline Status OkStatus() { return Status(); }

template <ExecutionStage stage>
struct ResultEncoding<stage, Status> {
  XLA_FFI_SDK_HOT static XLA_FFI_Error* Encode(const XLA_FFI_Api*, XLA_FFI_InvokeContext*,
                                               Status status) {
    return XLA_FFI_PREDICT_TRUE(status.ok()) ? nullptr : internal::ForwardError(std::move(status));
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_STATUS_H_
