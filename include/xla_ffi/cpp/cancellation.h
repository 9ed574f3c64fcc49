// Whether anybody still wants the result. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_CANCELLATION_H_
#define XLA_FFI_SDK_CPP_CANCELLATION_H_

#include "xla_ffi/cancellation.h"
#include "xla_ffi/cpp/context.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// `Ctx<Cancellation>`: a handler that works for long asks now and then, and gives up with an error of its own.
// Outlives the handler's return, and any thread may have one. The embedded runtime tells it from r9 on; with any
// other host a call is never cancelled. This SDK's own: XLA's headers do not have it.
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

#endif  // XLA_FFI_SDK_CPP_CANCELLATION_H_
