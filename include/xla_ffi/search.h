/* Where a name lies in a large dictionary. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. */
#ifndef XLA_FFI_SEARCH_H_
#define XLA_FFI_SEARCH_H_

#include "xla_ffi/frame.h"

/* Of so many entries at most the names are compared one after the other, which costs no more. */
#define XLA_FFI_SDK_FEW_NAMES 32

/* The index of a name by halving, or -1 where it is not found: hosts sort the entries by the bytes of their names. It may
 * be there all the same, in a dictionary that is not sorted. */
XLA_FFI_SDK_MEMORY_SLOW int64_t xla_ffi_sdk_search(const XLA_FFI_Attrs* attrs, const char* name, size_t length) {
  int64_t low = 0, high = attrs->size;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const XLA_FFI_ByteSpan* at = attrs->names[middle];
    const size_t both = at->len < length ? at->len : length;
    int order = both == 0 ? 0 : memcmp(at->ptr, name, both);
    if (order == 0) {
      if (at->len == length) return middle;
      order = at->len < length ? -1 : 1;
    }
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return -1;
}

#endif  /* XLA_FFI_SEARCH_H_ */
