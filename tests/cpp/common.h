// Helpers for the handler sources in this folder. The sources compile with our headers and with XLA's own.
#ifndef XLA_FFI_TESTS_CPP_COMMON_H_
#define XLA_FFI_TESTS_CPP_COMMON_H_

#include <cstring>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// 1 if features that only our headers have are compiled. 0 with XLA's own headers, and for comparisons of the two sets
// of headers.
#if defined(XLA_FFI_SDK_FFI_H_) && !defined(XLA_FFI_SUITE_SHARED)
#define OURS 1
#else
#define OURS 0
#endif

inline int64_t Int(size_t value) { return static_cast<int64_t>(value); }

// Writes integers into a result.
inline void Put(ffi::ResultBufferR1<ffi::S64> to, std::initializer_list<int64_t> values) {
  size_t i = 0;
  for (const int64_t value : values) {
    if (i < to->element_count()) to->typed_data()[i++] = value;
  }
}

// Returns an error that shows the condition if it is false.
#define EXPECT(condition)                                           \
  do {                                                              \
    if (!(condition)) return ffi::Error::Internal("expectation failed: " #condition); \
  } while (false)

// Defines a handler without operands that returns an error if one of its checks fails.
#define SELF_TEST(name)                                                    \
  static ffi::Error name##_body();                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, name##_body, ffi::Ffi::Bind());      \
  static ffi::Error name##_body()

#endif  // XLA_FFI_TESTS_CPP_COMMON_H_
