/* Where operands lie: what keeps their memory from being used, and which of them share some. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>. Everything here works on addresses alone, whether they
 * are those of the host's memory or of a device's.
 */
#ifndef XLA_FFI_MEMORY_H_
#define XLA_FFI_MEMORY_H_

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/facts.h"
#include "xla_ffi/platform.h"

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* XLA's enums have the size of an int; -fshort-enums makes them shorter, and every struct that has one another. */
#if defined(__cplusplus)
static_assert(sizeof(XLA_FFI_Error_Code) == sizeof(int),
              "XLA is compiled without -fshort-enums: leave that flag out, or write -fno-short-enums");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(XLA_FFI_Error_Code) == sizeof(int),
               "XLA is compiled without -fshort-enums: leave that flag out, or write -fno-short-enums");
#else
struct xla_ffi_sdk_is_compiled_without_short_enums {
  unsigned leave_out_the_flag_fshort_enums : sizeof(XLA_FFI_Error_Code) == sizeof(int) ? 1 : -1;
};
#endif

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_MEMORY_HOT static inline __attribute__((always_inline))
#define XLA_FFI_SDK_MEMORY_SLOW static __attribute__((noinline, unused))
#define XLA_FFI_SDK_MEMORY_COLD static __attribute__((noinline, unused, XLA_FFI_SDK_SMALL_))
/* Writes nothing that its caller sees, so that what that knows of memory stays true. */
#define XLA_FFI_SDK_MEMORY_PURE static __attribute__((noinline, unused, pure))
#define XLA_FFI_SDK_MEMORY_LIKELY(x) __builtin_expect(!!(x), 1)
#else
#define XLA_FFI_SDK_MEMORY_HOT static inline
#define XLA_FFI_SDK_MEMORY_SLOW static inline
#define XLA_FFI_SDK_MEMORY_COLD static inline
#define XLA_FFI_SDK_MEMORY_PURE static inline
#define XLA_FFI_SDK_MEMORY_LIKELY(x) (x)
#endif

/* What stands in the place of an element type's name where the host sends none. */
#define XLA_FFI_SDK_TEXT_PACKED "an array of elements of less than a byte"

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

/* The bytes of an operand, and the number of its elements. One without bytes lies at the end of all
 * addresses, so that it overlaps nothing. */
typedef struct xla_ffi_sdk_region {
  uintptr_t start, end;
  int64_t count;
} xla_ffi_sdk_region;
#define XLA_FFI_SDK_NOWHERE UINTPTR_MAX

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

/* The names of element types stand one behind the other: pointers to them would take ten times as much of a library's
 * file. */
typedef struct xla_ffi_sdk_dtype_names {
  char INVALID_[sizeof("INVALID")];
#define XLA_FFI_SDK_NAME_(name, lower, bits) char name##_[sizeof(#name)];
  XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_NAME_)
#undef XLA_FFI_SDK_NAME_
} xla_ffi_sdk_dtype_names;

/* The field's name of an element type; null for one that is not known. */
XLA_FFI_SDK_MEMORY_SLOW const char* xla_ffi_sdk_dtype_name(unsigned dtype) {
#define XLA_FFI_SDK_NAME_(name, lower, bits) #name,
  static const xla_ffi_sdk_dtype_names names = {"INVALID", XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_NAME_)};
#undef XLA_FFI_SDK_NAME_
#define XLA_FFI_SDK_NUMBER_(name, lower, bits) XLA_FFI_DataType_##name,
  static const unsigned char numbers[] = {XLA_FFI_DataType_INVALID, XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_NUMBER_)};
#undef XLA_FFI_SDK_NUMBER_
#define XLA_FFI_SDK_PLACE_(name, lower, bits) offsetof(xla_ffi_sdk_dtype_names, name##_),
  static const unsigned short places[] = {0, XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_PLACE_)};
#undef XLA_FFI_SDK_PLACE_
  size_t i = sizeof(numbers);
  while (i-- > 0) { /* from the end: floats come behind integers */
    if (numbers[i] == dtype) return (const char*)&names + places[i];
  }
  return NULL;
}

/* The same, where the compiler does not know the type: one table of all, whoever asks. */
XLA_FFI_SDK_MEMORY_SLOW unsigned xla_ffi_sdk_bits_of(unsigned dtype) { return xla_ffi_sdk_bits(dtype); }

/* What the address of an element of so many bits is a multiple of. A complex number is two numbers. */
XLA_FFI_SDK_MEMORY_HOT unsigned xla_ffi_sdk_align(unsigned dtype, unsigned bits) {
  const unsigned bytes = bits / 8;
  if (dtype == XLA_FFI_DataType_C64 || dtype == XLA_FFI_DataType_C128) return bytes / 2;
  return bytes > 1 ? bytes : 1;
}

XLA_FFI_SDK_MEMORY_COLD unsigned xla_ffi_sdk_align_of(unsigned dtype) {
  return xla_ffi_sdk_align(dtype, xla_ffi_sdk_bits_of(dtype));
}

/* Whether an address is not null and a multiple of `align`, a power of two. One comparison for both: low bits that are
 * set become high ones, and null wraps around. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_is_address(uintptr_t data, unsigned align) {
  const uintptr_t rotated = data / align | data * (UINTPTR_MAX / align + 1);
  return rotated - 1 < UINTPTR_MAX / align;
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
  const unsigned bits = xla_ffi_sdk_bits_of(dtype), align = xla_ffi_sdk_align(dtype, bits);
  const uintptr_t data = (uintptr_t)buf->data;
  int64_t count = 1, bytes, i;
  uint64_t rest;
  int over = 0, empty = 0;
  region->start = region->end = XLA_FFI_SDK_NOWHERE;
  region->count = 0;
  if (rank < 0 || (rank > 0 && buf->dims == NULL)) return xla_ffi_sdk_fault_count;
  for (i = 0; i < rank; ++i) {
    const int64_t dim = buf->dims[i];
    if (dim < 0) return xla_ffi_sdk_fault_count;
    empty |= dim == 0;
    over |= xla_ffi_sdk_multiply(count, dim, &count);
  }
  if (empty) return xla_ffi_sdk_fault_none;
  if (over) return xla_ffi_sdk_fault_count;
  region->count = count;
  if (dtype == XLA_FFI_DataType_TOKEN) return xla_ffi_sdk_fault_none;
  rest = (((uint64_t)count & 7) * bits + 7) >> 3; /* packed elements may end within a byte */
  if (xla_ffi_sdk_multiply((int64_t)((uint64_t)count >> 3), bits, &bytes) || bytes > INT64_MAX - (int64_t)rest) {
    return xla_ffi_sdk_fault_bytes;
  }
  bytes += (int64_t)rest;
  if (data == 0) return xla_ffi_sdk_fault_null;
  if ((data & (align - 1)) != 0) return xla_ffi_sdk_fault_alignment;
  if (bytes != 0) { /* 0: elements of a size that is not known */
    region->start = data;
    region->end = data + (uintptr_t)bytes;
  }
  return xla_ffi_sdk_fault_none;
}

/* The region of elements of whole bytes, in up to two small dimensions, which are multiplied without looking for
 * overflow; 0: the long way has to be gone. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_locate_small(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank,
                                                    xla_ffi_sdk_region* region) {
  const unsigned bytes = xla_ffi_sdk_bits(dtype) / 8;
  const uintptr_t data = (uintptr_t)buf->data;
  int is_small = bytes != 0 && (rank == 0 || (rank <= 2 && buf->dims != NULL));
  int64_t count = 1;
  if (rank > 0 && XLA_FFI_SDK_MEMORY_LIKELY(is_small)) {
    const uint64_t d0 = (uint64_t)buf->dims[0], d1 = rank > 1 ? (uint64_t)buf->dims[1] : 1;
    is_small = (d0 | d1) >> 28 == 0;
    count = (int64_t)(d0 * d1);
  }
  region->start = data;
  region->end = data + (uintptr_t)count * bytes;
  region->count = count;
  return is_small && xla_ffi_sdk_is_address(data, xla_ffi_sdk_align(dtype, bytes * 8));
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
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_alike(const XLA_FFI_Buffer* a, const XLA_FFI_Buffer* b) {
  int64_t i;
  if (a->dtype != b->dtype || a->rank != b->rank) return 0;
  if (a->rank > 0 && (a->dims == NULL || b->dims == NULL)) return 0;
  for (i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return 0;
  }
  return 1;
}

/* The same, and where its bytes lie: nowhere where it has none, or is no buffer. */
XLA_FFI_SDK_MEMORY_COLD const XLA_FFI_Buffer* xla_ffi_sdk_located(const XLA_FFI_CallFrame* frame, int is_arg,
                                                                  int64_t index, xla_ffi_sdk_region* region) {
  const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame, is_arg, index);
  region->start = region->end = XLA_FFI_SDK_NOWHERE;
  if (buf != NULL) xla_ffi_sdk_locate_any(buf, (unsigned)buf->dtype, buf->rank, region);
  return buf;
}

/* Two operands that clash. */
typedef struct xla_ffi_sdk_clash_of {
  int64_t ret, other;
  int with_arg;
} xla_ffi_sdk_clash_of;

/* The next clash among the first `args` arguments and `rets` results of a frame; 0 where there is none. A
 * result may not share a byte with another operand; but an argument in the very same place, of the same type and
 * shape, is what a program means by input_output_aliases. A search begins with {0, -1, 1}: each result is compared
 * with the arguments, then with the results before it. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_next_clash(const XLA_FFI_CallFrame* frame, int64_t args,
                                                   int64_t rets, xla_ffi_sdk_clash_of* at) {
  for (; at->ret < rets; ++at->ret, at->other = -1, at->with_arg = 1) {
    xla_ffi_sdk_region region, where;
    const XLA_FFI_Buffer* ret = xla_ffi_sdk_located(frame, 0, at->ret, &region);
    if (region.start == XLA_FFI_SDK_NOWHERE) continue;
    for (; at->with_arg >= 0; --at->with_arg, at->other = -1) {
      const int64_t count = at->with_arg ? args : at->ret;
      while (++at->other < count) {
        const XLA_FFI_Buffer* other = xla_ffi_sdk_located(frame, at->with_arg, at->other, &where);
        if (xla_ffi_sdk_overlap(region, where) &&
            (!at->with_arg || region.start != where.start || region.end != where.end ||
             !xla_ffi_sdk_alike(ret, other))) {
          return 1;
        }
      }
    }
  }
  return 0;
}

/* One of many operands: where it starts and ends, and its place among the arguments, or, where that is negative, the
 * complement of its place among the results. */
typedef struct xla_ffi_sdk_spot {
  uintptr_t start, end;
  int64_t index;
} xla_ffi_sdk_spot;
#define XLA_FFI_SDK_SPOTS 64

/* By where they start, for qsort. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_compare_spots(const void* left, const void* right) {
  const uintptr_t a = ((const xla_ffi_sdk_spot*)left)->start, b = ((const xla_ffi_sdk_spot*)right)->start;
  return a < b ? -1 : a > b;
}

/* Whether any of the sorted operands clash: those that start at one place are looked at together. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_do_spots_clash(const XLA_FFI_CallFrame* frame, const xla_ffi_sdk_spot* spots,
                                                       size_t count) {
  /* How far arguments and results reach that start before the place at hand. */
  uintptr_t arg_end = 0, ret_end = 0;
  size_t first, next, i;
  for (first = 0; first < count; first = next) {
    const uintptr_t start = spots[first].start;
    const xla_ffi_sdk_spot *ret = NULL;
    uintptr_t furthest = 0;
    for (next = first; next < count && spots[next].start == start; ++next) {
      if (spots[next].index >= 0) {
        if (spots[next].end > furthest) furthest = spots[next].end;
      } else if (ret != NULL) {
        return 1;
      } else {
        ret = &spots[next];
      }
    }
    if (start < ret_end || (ret != NULL && start < arg_end)) return 1;
    if (furthest > arg_end) arg_end = furthest;
    if (ret == NULL) continue;
    ret_end = ret->end;
    for (i = first; i < next && furthest != 0; ++i) {
      const int64_t index = spots[i].index;
      if (index >= 0 && (spots[i].end != ret->end ||
                         !xla_ffi_sdk_alike(xla_ffi_sdk_operand(frame, 1, index),
                                            xla_ffi_sdk_operand(frame, 0, ~ret->index)))) {
        return 1;
      }
    }
  }
  return 0;
}

/* Whether any of the first `args` arguments and `rets` results clash, in n log n steps where xla_ffi_sdk_next_clash takes
 * n * n. More than XLA_FFI_SDK_SPOTS of them take memory; where there is none, the pairs are gone through. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_any_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets) {
  xla_ffi_sdk_spot few[XLA_FFI_SDK_SPOTS], *spots = few;
  xla_ffi_sdk_clash_of clash = {0, -1, 1};
  const size_t most = (size_t)args + (size_t)rets;
  size_t count = 0;
  int64_t i;
  int found;
  if (rets <= 0) return 0;
  if (most > XLA_FFI_SDK_SPOTS) spots = (xla_ffi_sdk_spot*)malloc(most * sizeof(*spots));
  if (spots == NULL) return xla_ffi_sdk_next_clash(frame, args, rets, &clash);
  for (i = -rets; i < args; ++i) {
    xla_ffi_sdk_region region;
    xla_ffi_sdk_located(frame, i >= 0, i >= 0 ? i : ~i, &region);
    if (region.start == XLA_FFI_SDK_NOWHERE) continue;
    spots[count].start = region.start;
    spots[count].end = region.end;
    spots[count++].index = i;
  }
  qsort(spots, count, sizeof(*spots), xla_ffi_sdk_compare_spots);
  found = xla_ffi_sdk_do_spots_clash(frame, spots, count);
  if (spots != few) free(spots);
  return found;
}

/* Whether the memory of the first `args` arguments and `rets` results can be used, and none of it clashes. Where they
 * have no memory, as in early stages, their sizes alone matter. */
XLA_FFI_SDK_MEMORY_PURE int xla_ffi_sdk_memory_is_good(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets,
                                                       int has_memory) {
  xla_ffi_sdk_region at[16];
  const int64_t count = args + rets;
  const int is_kept = count <= (int64_t)(sizeof(at) / sizeof(*at));
  int64_t i, other;
  for (i = 0; i < count; ++i) {
    const int is_arg = i < args;
    const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame, is_arg, is_arg ? i : i - args);
    xla_ffi_sdk_region* region = &at[is_kept ? i : 0];
    region->start = region->end = XLA_FFI_SDK_NOWHERE;
    if (buf != NULL) {
      const xla_ffi_sdk_fault fault = xla_ffi_sdk_locate_any(buf, (unsigned)buf->dtype, buf->rank, region);
      if (fault != xla_ffi_sdk_fault_none &&
          (has_memory || fault == xla_ffi_sdk_fault_count || fault == xla_ffi_sdk_fault_bytes)) {
        return 0;
      }
    }
    for (other = is_arg || !has_memory || !is_kept ? i : 0; other < i; ++other) {
      if (XLA_FFI_SDK_MEMORY_LIKELY(!xla_ffi_sdk_overlap(*region, at[other]))) continue;
      if (other >= args || region->start != at[other].start || region->end != at[other].end ||
          !xla_ffi_sdk_alike(buf, xla_ffi_sdk_operand(frame, 1, other))) {
        return 0;
      }
    }
  }
  return !has_memory || is_kept || !xla_ffi_sdk_any_clash(frame, args, rets);
}

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_LOAD_(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define XLA_FFI_SDK_STORE_(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)
#else
/* Pointers and words of volatile objects are read and written whole by the compilers that come here. */
#define XLA_FFI_SDK_LOAD_(from) (*(from))
#define XLA_FFI_SDK_STORE_(to, value) (*(to) = (value))
#endif

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_MEMORY_H_ */
