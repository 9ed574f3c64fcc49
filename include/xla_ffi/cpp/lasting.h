// A value that is made at its first use and kept for good. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_LASTING_H_
#define XLA_FFI_SDK_CPP_LASTING_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// In the place of a static variable of a function: those have a lock, and a child that is forked while another thread makes
// the value waits for it for good. Here threads that come together each make one, and the first is everybody's.
template <typename T>
struct Lasting {
  mutable std::atomic<const T*> value{nullptr};

  template <typename Make>
  XLA_FFI_SDK_HOT const T& Get(const Make& make) const {
    const T* known = value.load(std::memory_order_acquire);
    return XLA_FFI_PREDICT_TRUE(known != nullptr) ? *known : *Put(new T(make()));
  }

 private:
  XLA_FFI_SDK_COLD const T* Put(const T* own) const {
    const T* known = nullptr;
    if (value.compare_exchange_strong(known, own, std::memory_order_acq_rel)) return own;
    delete own;
    return known;
  }
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_LASTING_H_
