// Extensions that a host attaches to a call's context (from r9 on), and cancellation, an extension of this SDK. Part of
// <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_EXTENSION_H_
#define XLA_FFI_SDK_CPP_EXTENSION_H_

#include "xla_ffi/cancellation.h"
#include "xla_ffi/cpp/context.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// Context tag: binds an extension of the host. T defines
//   using CExtension = ...;  // the C struct, which starts with an XLA_FFI_Extension
//   using Type = ...;        // the parameter type of the handler
//   static constexpr auto kName = "...";
//   static constexpr int64_t kExtensionType = ...;
//   static constexpr int32_t kMajorVersion = ..., kMinorVersion = ...;
//   static Type Create(const XLA_FFI_Api*, const CExtension*);
//   static bool Support(int32_t major, int32_t minor);  // optional; by default the versions must be equal
template <typename T>
struct Extension {};

XLA_FFI_SDK_INTERNAL_BEGIN

template <typename T, typename = void>
inline constexpr bool has_support_v = false;
template <typename T>
inline constexpr bool has_support_v<T, std::void_t<decltype(T::Support(int32_t{}, int32_t{}))>> =
    true;

XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseExtension(DiagnosticEngine& diagnostic,
                                                         const char* name, int32_t major,
                                                         int32_t minor,
                                                         const XLA_FFI_Extension* got) {
  Text& text = DiagnosticAccess::Add(diagnostic) << "extension " << name << ": ";
  if (got == nullptr) {
    text << "not found in this call's context";
  } else {
    text << "expected version " << major << "." << minor << ", got " << got->id.major_version << "."
         << got->id.minor_version;
  }
  return std::nullopt;
}

template <typename T>
inline constexpr Revision ctx_floor_v<Extension<T>> = XLA_FFI_SDK_SINCE(EXTENSIONS);

XLA_FFI_SDK_INTERNAL_END

template <typename T>
struct CtxDecoding<Extension<T>> {
  using Type = typename T::Type;
  XLA_FFI_SDK_FN static std::optional<Type> Decode(const XLA_FFI_Api* api,
                                                   XLA_FFI_InvokeContext* ctx,
                                                   DiagnosticEngine& diagnostic) {
    auto args = internal::ContextArgs<XLA_FFI_InvokeContext_FindExtension_Args>(
        ctx, XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE);
    args.extension_type = T::kExtensionType;
    if (!internal::CallHost(api,
                           XLA_FFI_SDK_HOST_FUNCTION(api, XLA_FFI_InvokeContext_FindExtension),
                           &args, T::kName, XLA_FFI_SDK_SINCE(EXTENSIONS), diagnostic)) {
      return std::nullopt;
    }
    const XLA_FFI_Extension* found = args.extension;
    bool good = found != nullptr;
    if (good) {
      if constexpr (internal::has_support_v<T>) {
        good = T::Support(found->id.major_version, found->id.minor_version);
      } else {
        good = found->id.major_version == T::kMajorVersion &&
               found->id.minor_version == T::kMinorVersion;
      }
    }
    if (XLA_FFI_PREDICT_FALSE(!good)) {
      return internal::DiagnoseExtension(diagnostic, T::kName, T::kMajorVersion, T::kMinorVersion,
                                         found);
    }
    return T::Create(api, reinterpret_cast<const typename T::CExtension*>(found));
  }
};

// Returns the first fields of an extension struct, for hosts and tests that create an extension.
template <typename T>
XLA_FFI_SDK_FN inline XLA_FFI_Extension MakeExtensionHeader() {
  return XLA_FFI_Extension{
      sizeof(typename T::CExtension),
      XLA_FFI_ExtensionId{T::kExtensionType, T::kMajorVersion, T::kMinorVersion}, nullptr};
}

// Bound as `Ctx<Cancellation>`: a long-running handler polls this object and returns an error if the call is cancelled.
// The object can outlive the handler's call and be used from any thread. The embedded runtime supports cancellation
// from r9 on; all other hosts never cancel calls. XLA's headers do not have this class.
class XLA_FFI_SDK_TYPE Cancellation {
 public:
  XLA_FFI_SDK_FN Cancellation(const Cancellation& other) : raw_(other.raw_) {
    xffi_cancellation_retain(&raw_);
  }
  XLA_FFI_SDK_FN Cancellation& operator=(Cancellation other) {
    std::swap(raw_, other.raw_);
    return *this;
  }
  XLA_FFI_SDK_FN ~Cancellation() { xffi_cancellation_release(&raw_); }

  XLA_FFI_SDK_FN bool IsCancelled() const { return xffi_is_cancelled(&raw_) != 0; }
  // Returns the reason for the cancellation as an error: kCancelled by a canceller, kDeadlineExceeded after the time
  // limit, kUnavailable after a shutdown. Returns success if the call is not cancelled.
  XLA_FFI_SDK_FN Error Check() const {
    const XLA_FFI_Error_Code code = xffi_cancelled_code(&raw_);
    if (XLA_FFI_PREDICT_TRUE(code == XLA_FFI_Error_Code_OK)) return Error::Success();
    return Error(static_cast<ErrorCode>(code), xffi_cancelled_reason(code));
  }

 private:
  friend struct CtxDecoding<Cancellation>;
  XLA_FFI_SDK_FN explicit Cancellation(xffi_cancellation raw) : raw_(raw) {
    xffi_cancellation_retain(&raw_);
  }

  xffi_cancellation raw_;
};

template <>
struct CtxDecoding<Cancellation> {
  using Type = Cancellation;
  template <typename Decoded = Cancellation>
  XLA_FFI_SDK_FN static std::optional<Decoded> Decode(const XLA_FFI_Api* api,
                                                      XLA_FFI_InvokeContext* ctx,
                                                      DiagnosticEngine&) {
    return Cancellation(xffi_cancellation_of(api, ctx));
  }
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_EXTENSION_H_
