/* What of a message can be shown. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_UTF8_H_
#define XLA_FFI_UTF8_H_

#include <stddef.h>

#include "xla_ffi/platform.h"

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_UTF8_ static __attribute__((noinline, unused, XLA_FFI_SDK_SMALL_))
#else
#define XLA_FFI_SDK_UTF8_ static inline
#endif

/* How many bytes the character at `at` has, of which `left` are there; 0 where it is a control character other than a
 * line's end and a tab, or no UTF-8: overlong, a surrogate, beyond U+10FFFF, cut off. */
XLA_FFI_SDK_UTF8_ size_t xla_ffi_sdk_character(const unsigned char* at, size_t left) {
  const unsigned lead = at[0];
  const size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  unsigned code = lead & (0x7fu >> size);
  size_t i;
  if (size == 1) return (lead >= 0x20 && lead != 0x7f) || lead == '\n' || lead == '\t';
  if (lead < 0xc0 || lead >= 0xf8 || left < size) return 0;
  for (i = 1; i < size; ++i) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (at[i] & 0x3fu);
  }
  /* The smallest code of so many bytes. */
  return code >= (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u) && code < 0x110000 && code >> 11 != 0x1b ? size : 0;
}

#endif  /* XLA_FFI_UTF8_H_ */
