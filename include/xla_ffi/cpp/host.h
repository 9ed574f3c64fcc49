// The host of a call: its revision, the functions in its function table, and the creation of errors. Part of
// <xla/ffi/api/api.h>.
//
// The API version does not determine the length of the function table, because version 0.1 has six layouts. From
// revision r5 (jaxlib 0.6.0) on, the table's `struct_size` is correct. Before r5, `struct_size` is always 88, and the
// size is the distance from the table to the object at `internal_api`. Finding the size needs no call of the host.
#ifndef XLA_FFI_SDK_CPP_HOST_H_
#define XLA_FFI_SDK_CPP_HOST_H_

#include "xla_ffi/cpp/text.h"
#include "xla_ffi/host.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The revisions of the ABI, oldest first. A handler's floor is the oldest revision on which it can work.
enum class Revision : int {
#define XLA_FFI_SDK_REVISION(number, minor, first, releases) r##number = number,
  XLA_FFI_SDK_REVISIONS(XLA_FFI_SDK_REVISION)
#undef XLA_FFI_SDK_REVISION
};

// XLA_FFI_SDK_SINCE: the oldest revision with a feature of <xla_ffi/facts.h>. XLA_FFI_SDK_FEATURE: the feature's name
// and that revision, as two arguments.
#define XLA_FFI_SDK_SINCE(feature) \
  (static_cast<::xla::ffi::internal::Revision>(XLA_FFI_SDK_SINCE_##feature))
#define XLA_FFI_SDK_FEATURE(feature) XLA_FFI_SDK_NAME_##feature, XLA_FFI_SDK_SINCE(feature)

constexpr Revision Later(Revision a, Revision b) { return a < b ? b : a; }

XLA_FFI_SDK_COLD inline const char* FirstJaxlib(Revision revision) {
  return xffi_first_jaxlib_(static_cast<xffi_revision>(revision));
}

inline int HostMinor(const XLA_FFI_Api* api) { return xffi_host_minor_(api); }

inline Revision HostRevision(const XLA_FFI_Api* api) { return static_cast<Revision>(xffi_host_revision(api)); }

// Returns the function at byte `offset` of the host's function table; null if the table is shorter.
template <typename Function>
inline Function* HostFunction(const XLA_FFI_Api* api, size_t offset) {
  if (XLA_FFI_PREDICT_FALSE(offset + sizeof(Function*) > xffi_host_size_(api))) return nullptr;
  Function* function;
  std::memcpy(&function, reinterpret_cast<const char*>(api) + offset, sizeof(function));
  return function;
}

#define XLA_FFI_SDK_HOST_FUNCTION(api, name)                \
  (::xla::ffi::internal::HostFunction<::name>((api), offsetof(XLA_FFI_Api, name)))

// The three functions for futures, whose positions differ in r2. If one of them is missing, all are null.
struct FutureFunctions {
  XLA_FFI_Future_Create* create = nullptr;
  XLA_FFI_Future_SetAvailable* set_available = nullptr;
  XLA_FFI_Future_SetError* set_error = nullptr;

  explicit FutureFunctions(const XLA_FFI_Api* api) {
    const size_t slot = xffi_future_slot_(api);
    if (XLA_FFI_PREDICT_FALSE(slot == 0)) return;
    xffi_load_slot_(api, slot, &create);
    xffi_load_slot_(api, slot + 1, &set_available);
    xffi_load_slot_(api, slot + 2, &set_error);
  }
  explicit operator bool() const { return create != nullptr; }
};

// Create an error of the host from a NUL-terminated text, and escape bytes that cannot be shown. Return null if the
// host cannot create errors. OK becomes INTERNAL, and codes that absl does not define become UNKNOWN.
XLA_FFI_SDK_SLOW inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                const char* message, size_t size) {
  return XLA_FFI_PREDICT_TRUE(IsPlain(message, size)) ? xffi_error_create_(api, code, message)
                                                      : xffi_error_bytes_(api, code, message, size);
}
XLA_FFI_SDK_COLD inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                Text& text) {
  return NewError(api, code, text.c_str(), text.size());
}
XLA_FFI_SDK_COLD inline XLA_FFI_Error* NewError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                const char* message) {
  return NewError(api, code, message, std::strlen(message));
}

// Adds the reason why a feature is not available: its name, the first jaxlib with the feature, and this host.
XLA_FFI_SDK_COLD inline Text& PutMissingFeature(Text& text, const XLA_FFI_Api* api, std::string_view feature,
                                      Revision since) noexcept {
  return text << feature << XLA_FFI_SDK_TEXT_FIRST_JAXLIB << FirstJaxlib(since)
              << XLA_FFI_SDK_TEXT_THIS_HOST XLA_FFI_SDK_TEXT_VERSION << api->api_version.major_version << "."
              << api->api_version.minor_version << " (" << xffi_releases_(xffi_host_revision(api)) << ")";
}

// Creates the error for a feature that the host lacks.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* MissingFeature(const XLA_FFI_Api* api, const char* feature,
                                             Revision since) {
  return xffi_missing_feature_(api, feature, static_cast<xffi_revision>(since));
}

// Calls a host function that returns an error or null.
#define XLA_FFI_SDK_ASK(api, name, args) XFFI_ASK_(api, name, args)

XLA_FFI_SDK_COLD inline void DestroyError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  xffi_error_free(api, error);
}

// The code and message of an error. The message is valid as long as the error.
struct ErrorDetails {
  XLA_FFI_Error_Code errc;
  const char* message;
};

// Returns the code and message of an error. Hosts before r9 do not report the code, so it is then INTERNAL, XLA's
// default.
XLA_FFI_SDK_COLD inline ErrorDetails GetErrorDetails(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  ErrorDetails details{};
  details.message = xffi_error_details(api, error, &details.errc);
  return details;
}
inline const char* GetErrorMessage(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  return GetErrorDetails(api, error).message;
}

// Adds the message of an error to a text, and destroys the error.
XLA_FFI_SDK_COLD inline Text& PutError(Text& text, const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  text << GetErrorMessage(api, error);
  DestroyError(api, error);
  return text;
}

// Concatenates values that can be written to a stream.
template <typename... Args>
XLA_FFI_SDK_COLD std::string StrCat(Args&&... args) {
  std::ostringstream out;
  (out << ... << std::forward<Args>(args));
  return out.str();
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_HOST_H_
