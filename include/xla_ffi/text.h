/* Builds message texts in pieces, which needs a third of the code size of printf calls. Also detects bytes that cannot
 * be shown. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_TEXT_H_
#define XLA_FFI_TEXT_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xla_ffi/platform.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Returns the size in bytes of the UTF-8 character at `at`, of which `left` bytes are available. Returns 0 for
 * control characters other than newline and tab, and for invalid UTF-8: overlong, surrogate, beyond U+10FFFF, or
 * truncated. */
XFFI_COLD_ size_t xla_ffi_sdk_character(const unsigned char* at, size_t left) {
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
  /* A character is overlong if a shorter sequence could encode its code point. */
  return code >= (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u) && code < 0x110000 && code >> 11 != 0x1b ? size : 0;
}

/* Copies `from` to `to`, at most `size` bytes including the NUL. Escapes bytes that are not UTF-8, because Python
 * cannot show messages with such bytes. Returns the length of the result. */
XFFI_COLD_ size_t xffi_escape_(char* to, size_t size, const char* from, size_t length) {
  size_t out = 0, i = 0;
  if (size == 0) return 0;
  while (i < length) {
    const size_t n = xla_ffi_sdk_character((const unsigned char*)from + i, length - i);
    if (out + (n != 0 ? n : 4) >= size) break;
    if (n != 0) {
      memcpy(to + out, from + i, n);
      out += n;
      i += n;
    } else {
      out += (size_t)xffi_snprintf_(to + out, 5, "\\x%02x", (unsigned)(unsigned char)from[i++]);
    }
  }
  to[out] = '\0';
  return out;
}

/* A message text of limited size; surplus text is discarded. */
typedef struct xla_ffi_sdk_line {
  char text[480];
  size_t size;
} xla_ffi_sdk_line;

XFFI_COLD_ void xla_ffi_sdk_put(xla_ffi_sdk_line* line, const char* text, size_t length) {
  const size_t room = sizeof(line->text) - 1 - line->size;
  const size_t n = length < room ? length : room;
  memcpy(line->text + line->size, text, n);
  line->size += n;
  line->text[line->size] = '\0';
}

XFFI_COLD_ void xla_ffi_sdk_put_words(xla_ffi_sdk_line* line, const char* text) {
  xla_ffi_sdk_put(line, text, strlen(text));
}

XFFI_COLD_ void xla_ffi_sdk_put_number(xla_ffi_sdk_line* line, int64_t number) {
  char text[24];
  xffi_snprintf_(text, sizeof(text), "%lld", (long long)number);
  xla_ffi_sdk_put_words(line, text);
}

XFFI_COLD_ void xla_ffi_sdk_put_address(xla_ffi_sdk_line* line, const void* address) {
  char text[2 + 2 * sizeof(address) + 1];
  xffi_snprintf_(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)address);
  xla_ffi_sdk_put_words(line, text);
}

XFFI_COLD_ void xla_ffi_sdk_put_dims(xla_ffi_sdk_line* line, const int64_t* dims, int64_t rank) {
  int64_t i;
  for (i = 0; i < rank; ++i) {
    if (i > 0) xla_ffi_sdk_put_words(line, ", ");
    xla_ffi_sdk_put_number(line, dims[i]);
  }
}

/* xla_ffi_sdk_put_count writes "expected 2 arguments", and xla_ffi_sdk_put_listed appends a name: " (`x`", then ",
 * `w`". */
XFFI_COLD_ void xla_ffi_sdk_put_count(xla_ffi_sdk_line* line, const char* what, int64_t count) {
  xla_ffi_sdk_put_words(line, "expected ");
  xla_ffi_sdk_put_number(line, count);
  xla_ffi_sdk_put_words(line, " ");
  xla_ffi_sdk_put_words(line, what);
  if (count != 1) xla_ffi_sdk_put_words(line, "s");
}
XFFI_COLD_ void xla_ffi_sdk_put_listed(xla_ffi_sdk_line* line, int is_first, const char* name, size_t length) {
  xla_ffi_sdk_put_words(line, is_first ? " (`" : ", `");
  xla_ffi_sdk_put(line, name, length);
  xla_ffi_sdk_put_words(line, "`");
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_TEXT_H_ */
