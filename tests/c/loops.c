/* A loop on the thread pool, for loops.rs: y[i] becomes how often element i was in a range; of all ranges their number, the
 * sum of their lengths, the longest. */
#include "xla_ffi/handler.h"

typedef struct seen {
  int64_t* y;
  int64_t room, ranges, elements, longest;
} seen;

static void see(void* data, int64_t begin, int64_t end) {
  seen* all = (seen*)data;
  const int64_t length = end - begin;
  int64_t longest = __atomic_load_n(&all->longest, __ATOMIC_RELAXED), i;
  __atomic_fetch_add(&all->ranges, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&all->elements, length, __ATOMIC_RELAXED);
  while (length > longest &&
         !__atomic_compare_exchange_n(&all->longest, &longest, length, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  for (i = begin; i < end && i < all->room; ++i) __atomic_fetch_add(&all->y[i], 1, __ATOMIC_RELAXED);
}

static XLA_FFI_Error* cover_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 1);
  xffi_buffer told = xffi_ret(call, "told", XLA_FFI_DataType_S64, 1);
  const int64_t count = xffi_attr_i64(call, "count"), grain = xffi_attr_i64(call, "grain");
  seen all;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  memset(&all, 0, sizeof(all));
  all.y = (int64_t*)y.data;
  all.room = y.count;
  xffi_for_each_range(call, count, grain, see, &all);
  ((int64_t*)told.data)[0] = all.ranges;
  ((int64_t*)told.data)[1] = all.elements;
  ((int64_t*)told.data)[2] = all.longest;
  return NULL;
}
XFFI_HANDLER(cover, cover_impl);
