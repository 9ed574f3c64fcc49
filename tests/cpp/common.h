// What the handler sources of this folder share. They compile with our headers and with XLA's own.
#ifndef XLA_FFI_TESTS_CPP_COMMON_H_
#define XLA_FFI_TESTS_CPP_COMMON_H_

#include <cstring>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// Whether what our headers alone have is compiled: not by XLA's own, and not where the two are compared.
#if defined(XLA_FFI_SDK_FFI_H_) && !defined(XLA_FFI_SUITE_SHARED)
#define OURS 1
#else
#define OURS 0
#endif

inline int64_t Int(size_t value) { return static_cast<int64_t>(value); }

// Writes whole numbers into a result.
inline void Put(ffi::ResultBufferR1<ffi::S64> to, std::initializer_list<int64_t> values) {
  size_t i = 0;
  for (const int64_t value : values) {
    if (i < to->element_count()) to->typed_data()[i++] = value;
  }
}

// Ends a handler with an error that shows what is not so.
#define EXPECT(condition)                                           \
  do {                                                              \
    if (!(condition)) return ffi::Error::Internal("not so: " #condition); \
  } while (false)

// A handler that checks something by itself: no operands, an error where it is not so.
#define SELF_TEST(name)                                                    \
  static ffi::Error name##_body();                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, name##_body, ffi::Ffi::Bind());      \
  static ffi::Error name##_body()

#endif  // XLA_FFI_TESTS_CPP_COMMON_H_
