/* Messages put together piece by piece: a call of printf for each would take three times the code. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_TEXT_H_
#define XLA_FFI_TEXT_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xla_ffi/platform.h"

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_LINE_ static __attribute__((noinline, unused, XLA_FFI_SDK_SMALL_))
#else
#define XLA_FFI_SDK_LINE_ static inline
#endif

/* Text of a limited size. */
typedef struct xla_ffi_sdk_line {
  char text[480];
  size_t size;
} xla_ffi_sdk_line;

XLA_FFI_SDK_LINE_ void xla_ffi_sdk_put(xla_ffi_sdk_line* line, const char* text, size_t length) {
  const size_t room = sizeof(line->text) - 1 - line->size;
  const size_t n = length < room ? length : room;
  memcpy(line->text + line->size, text, n);
  line->size += n;
  line->text[line->size] = '\0';
}

XLA_FFI_SDK_LINE_ void xla_ffi_sdk_put_words(xla_ffi_sdk_line* line, const char* text) {
  xla_ffi_sdk_put(line, text, strlen(text));
}

XLA_FFI_SDK_LINE_ void xla_ffi_sdk_put_number(xla_ffi_sdk_line* line, int64_t number) {
  char text[24];
  snprintf(text, sizeof(text), "%lld", (long long)number);
  xla_ffi_sdk_put_words(line, text);
}

XLA_FFI_SDK_LINE_ void xla_ffi_sdk_put_address(xla_ffi_sdk_line* line, const void* address) {
  char text[2 + 2 * sizeof(address) + 1];
  snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)address);
  xla_ffi_sdk_put_words(line, text);
}

XLA_FFI_SDK_LINE_ void xla_ffi_sdk_put_dims(xla_ffi_sdk_line* line, const int64_t* dims,
                                            int64_t rank, const char* between) {
  int64_t i;
  for (i = 0; i < rank; ++i) {
    if (i > 0) xla_ffi_sdk_put_words(line, between);
    xla_ffi_sdk_put_number(line, dims[i]);
  }
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_TEXT_H_ */
