/* Where operands lie: what keeps their memory from being used, and which of them share some. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>. Everything here works on addresses alone, whether they
 * are those of the host's memory or of a device's.
 */
#ifndef XLA_FFI_MEMORY_H_
#define XLA_FFI_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/facts.h"

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_MEMORY_HOT static inline __attribute__((always_inline))
#define XLA_FFI_SDK_MEMORY_SLOW static __attribute__((noinline, unused))
#define XLA_FFI_SDK_MEMORY_LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define XLA_FFI_SDK_MEMORY_HOT static inline
#define XLA_FFI_SDK_MEMORY_SLOW static inline
#define XLA_FFI_SDK_MEMORY_LIKELY(x) (x)
#endif

/* Whether the lists of a frame, which is long enough itself, are as long as the ABI's. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_has_lists(const XLA_FFI_CallFrame* frame) {
  return !((frame->args.struct_size < XLA_FFI_Args_STRUCT_SIZE) |
           (frame->rets.struct_size < XLA_FFI_Rets_STRUCT_SIZE) |
           (frame->attrs.struct_size < XLA_FFI_Attrs_STRUCT_SIZE));
}

/* What keeps a buffer's memory from being used. */
typedef enum xla_ffi_sdk_fault {
  xla_ffi_sdk_fault_none,
  xla_ffi_sdk_fault_count,    /* a negative dimension, none, or too many elements to count */
  xla_ffi_sdk_fault_bytes,    /* more bytes than can be addressed */
  xla_ffi_sdk_fault_null,     /* elements that lie nowhere */
  xla_ffi_sdk_fault_alignment /* elements whose type wants another address */
} xla_ffi_sdk_fault;

/* The bytes of an operand, and the number of its elements. An empty one ends before it starts, so that
 * it overlaps nothing. */
typedef struct xla_ffi_sdk_region {
  uintptr_t start, end;
  int64_t count;
} xla_ffi_sdk_region;

/* Bits of an element; 0 for tokens and types that are not known. */
XLA_FFI_SDK_MEMORY_HOT unsigned xla_ffi_sdk_bits(unsigned dtype) {
  switch (dtype) {
#define XLA_FFI_SDK_BITS_(name, lower, bits) \
  case XLA_FFI_DataType_##name:              \
    return bits;
    XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_BITS_)
#undef XLA_FFI_SDK_BITS_
    default:
      return 0;
  }
}

/* What an element's address is a multiple of. A complex number is two numbers. */
XLA_FFI_SDK_MEMORY_HOT unsigned xla_ffi_sdk_align(unsigned dtype) {
  const unsigned bytes = xla_ffi_sdk_bits(dtype) / 8;
  if (dtype == XLA_FFI_DataType_C64 || dtype == XLA_FFI_DataType_C128) return bytes / 2;
  return bytes > 1 ? bytes : 1;
}

/* a * b, and whether it is more than an int64_t holds; neither is negative. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_multiply(int64_t a, int64_t b, int64_t* product) {
#if defined(__GNUC__) || defined(__clang__)
  return __builtin_mul_overflow(a, b, product);
#else
  if (b != 0 && a > INT64_MAX / b) return 1;
  *product = a * b;
  return 0;
#endif
}

/* The memory of a buffer whose struct_size was checked, for dimensions of any size. */
XLA_FFI_SDK_MEMORY_SLOW xla_ffi_sdk_fault xla_ffi_sdk_locate_any(const XLA_FFI_Buffer* buf,
                                                                 unsigned dtype, int64_t rank,
                                                                 xla_ffi_sdk_region* region) {
  const unsigned bits = xla_ffi_sdk_bits(dtype), align = xla_ffi_sdk_align(dtype);
  const uintptr_t data = (uintptr_t)buf->data;
  int64_t count = 1, bytes, i;
  int over = 0, empty = 0;
  region->start = UINTPTR_MAX;
  region->end = 0;
  region->count = 0;
  if (rank < 0 || (rank > 0 && buf->dims == NULL)) return xla_ffi_sdk_fault_count;
  for (i = 0; i < rank; ++i) {
    if (buf->dims[i] < 0) return xla_ffi_sdk_fault_count;
    empty |= buf->dims[i] == 0;
    if (!over) over = xla_ffi_sdk_multiply(count, buf->dims[i], &count);
  }
  if (empty) return xla_ffi_sdk_fault_none;
  if (over) return xla_ffi_sdk_fault_count;
  region->count = count;
  if (dtype == XLA_FFI_DataType_TOKEN) return xla_ffi_sdk_fault_none;
  if (bits >= 8) {
    if (xla_ffi_sdk_multiply(count, bits / 8, &bytes)) return xla_ffi_sdk_fault_bytes;
  } else {
    bytes = count / 8 * (int64_t)bits + (count % 8 * (int64_t)bits + 7) / 8;
  }
  if (data == 0) return xla_ffi_sdk_fault_null;
  if (data % align != 0) return xla_ffi_sdk_fault_alignment;
  if (bytes != 0) { /* 0: elements of a size that is not known */
    region->start = data;
    region->end = data + (uintptr_t)bytes;
  }
  return xla_ffi_sdk_fault_none;
}

/* The same, made for constants: `dtype` and `rank` are those that the buffer was found to have. Up to
 * two dimensions, small ones, are multiplied without looking for overflow. */
XLA_FFI_SDK_MEMORY_HOT xla_ffi_sdk_fault xla_ffi_sdk_locate(const XLA_FFI_Buffer* buf, unsigned dtype,
                                                            int64_t rank,
                                                            xla_ffi_sdk_region* region) {
  const unsigned bits = xla_ffi_sdk_bits(dtype), align = xla_ffi_sdk_align(dtype);
  const uintptr_t data = (uintptr_t)buf->data;
  if (bits >= 8 && XLA_FFI_SDK_MEMORY_LIKELY(
                       rank == 0 || ((rank == 1 || rank == 2) && buf->dims != NULL))) {
    const uint64_t d0 = rank > 0 ? (uint64_t)buf->dims[0] : 1;
    const uint64_t d1 = rank > 1 ? (uint64_t)buf->dims[1] : 1;
    if (XLA_FFI_SDK_MEMORY_LIKELY((d0 | d1) >> 28 == 0 && data != 0 && data % align == 0 &&
                                  d0 * d1 != 0)) {
      region->start = data;
      region->end = data + (uintptr_t)(d0 * d1 * (bits / 8));
      region->count = (int64_t)(d0 * d1);
      return xla_ffi_sdk_fault_none;
    }
  }
  {
    /* The caller's region is not handed on, so that it can stay in registers. */
    xla_ffi_sdk_region any;
    const xla_ffi_sdk_fault fault = xla_ffi_sdk_locate_any(buf, dtype, rank, &any);
    *region = any;
    return fault;
  }
}

/* Whether two operands share a byte. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_overlap(xla_ffi_sdk_region a, xla_ffi_sdk_region b) {
  return (a.start < b.end) & (b.start < a.end);
}

/* The buffer at a place of the frame's arguments or results; null where there is none to be judged. */
XLA_FFI_SDK_MEMORY_HOT const XLA_FFI_Buffer* xla_ffi_sdk_operand(const XLA_FFI_CallFrame* frame,
                                                                 int is_arg, int64_t index) {
  const XLA_FFI_Buffer* buf;
  if (is_arg ? frame->args.types[index] != XLA_FFI_ArgType_BUFFER
             : frame->rets.types[index] != XLA_FFI_RetType_BUFFER) {
    return NULL;
  }
  buf = (const XLA_FFI_Buffer*)(is_arg ? frame->args.args[index] : frame->rets.rets[index]);
  return buf != NULL && buf->struct_size >= XLA_FFI_Buffer_STRUCT_SIZE ? buf : NULL;
}

/* Whether two buffers are of one element type and shape. */
XLA_FFI_SDK_MEMORY_SLOW int xla_ffi_sdk_alike(const XLA_FFI_Buffer* a, const XLA_FFI_Buffer* b) {
  int64_t i;
  if (a->dtype != b->dtype || a->rank != b->rank) return 0;
  for (i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return 0;
  }
  return 1;
}

/* Whether a result shares memory with another operand as it may not: partly, or with another result.
 * An argument in the very same place, of the same type and shape, is what a program means by
 * input_output_aliases. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_clash(const XLA_FFI_Buffer* ret, xla_ffi_sdk_region at,
                                             const XLA_FFI_Buffer* other, int is_arg) {
  xla_ffi_sdk_region region;
  if (other == NULL) return 0;
  xla_ffi_sdk_locate_any(other, (unsigned)other->dtype, other->rank, &region);
  if (!xla_ffi_sdk_overlap(at, region)) return 0;
  return !is_arg || at.start != region.start || at.end != region.end ||
         !xla_ffi_sdk_alike(ret, other);
}

/* Two operands that clash. */
typedef struct xla_ffi_sdk_clash_of {
  int64_t ret, other;
  int with_arg;
} xla_ffi_sdk_clash_of;

/* The next clash among the first `args` arguments and `rets` results of a frame; 0 where there is none. A
 * search begins with {0, -1, 1}: each result is compared with the arguments, then with the results
 * before it. */
XLA_FFI_SDK_MEMORY_SLOW int xla_ffi_sdk_next_clash(const XLA_FFI_CallFrame* frame, int64_t args,
                                                   int64_t rets, xla_ffi_sdk_clash_of* at) {
  for (; at->ret < rets; ++at->ret, at->other = -1, at->with_arg = 1) {
    const XLA_FFI_Buffer* ret = xla_ffi_sdk_operand(frame, 0, at->ret);
    xla_ffi_sdk_region region;
    if (ret == NULL) continue;
    xla_ffi_sdk_locate_any(ret, (unsigned)ret->dtype, ret->rank, &region);
    if (region.end == 0) continue; /* it has no bytes */
    for (; at->with_arg >= 0; --at->with_arg, at->other = -1) {
      const int64_t count = at->with_arg ? args : at->ret;
      while (++at->other < count) {
        const XLA_FFI_Buffer* other = xla_ffi_sdk_operand(frame, at->with_arg, at->other);
        if (xla_ffi_sdk_clash(ret, region, other, at->with_arg)) return 1;
      }
    }
  }
  return 0;
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_MEMORY_H_ */
