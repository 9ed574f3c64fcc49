/* Where operands lie: what keeps their memory from being used, and which of them start in one place. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>. Everything here works on addresses alone, whether they
 * are those of the host's memory or of a device's.
 */
#ifndef XLA_FFI_FRAME_H_
#define XLA_FFI_FRAME_H_

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

/* Whether the memory of a buffer whose struct_size was checked can be used, for dimensions of any size. */
XLA_FFI_SDK_MEMORY_SLOW xla_ffi_sdk_fault xla_ffi_sdk_find_fault(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank,
                                                                 int64_t* elements) {
  const unsigned bits = xla_ffi_sdk_bits_of(dtype), align = xla_ffi_sdk_align(dtype, bits);
  const uintptr_t data = (uintptr_t)buf->data;
  int64_t count = 1, bytes, i;
  uint64_t rest;
  int over = 0, empty = 0;
  *elements = 0;
  if (rank < 0 || (rank > 0 && buf->dims == NULL)) return xla_ffi_sdk_fault_count;
  for (i = 0; i < rank; ++i) {
    const int64_t dim = buf->dims[i];
    if (dim < 0) return xla_ffi_sdk_fault_count;
    empty |= dim == 0;
    over |= xla_ffi_sdk_multiply(count, dim, &count);
  }
  if (empty) return xla_ffi_sdk_fault_none;
  if (over) return xla_ffi_sdk_fault_count;
  *elements = count;
  if (dtype == XLA_FFI_DataType_TOKEN) return xla_ffi_sdk_fault_none;
  rest = (((uint64_t)count & 7) * bits + 7) >> 3; /* packed elements may end within a byte */
  if (xla_ffi_sdk_multiply((int64_t)((uint64_t)count >> 3), bits, &bytes) || bytes > INT64_MAX - (int64_t)rest) {
    return xla_ffi_sdk_fault_bytes;
  }
  if (data == 0) return xla_ffi_sdk_fault_null;
  return (data & (align - 1)) != 0 ? xla_ffi_sdk_fault_alignment : xla_ffi_sdk_fault_none;
}

/* Whether a buffer of elements of whole bytes has up to two dimensions, none of which is negative or so large that the
 * number of bytes may overflow; 0: look again with the function above. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_is_small(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank) {
  const unsigned bytes = xla_ffi_sdk_bits(dtype) / 8;
  /* The root of INT64_MAX / bytes. */
  const uint64_t most = bytes <= 2 ? 2147483647 : bytes <= 4 ? 1518500249 : bytes <= 8 ? 1073741823 : 759250124;
  if (bytes == 0 || rank > 2) return 0;
  if (rank == 0) return 1;
  return XLA_FFI_SDK_MEMORY_LIKELY(buf->dims != NULL) &&
         XLA_FFI_SDK_MEMORY_LIKELY(((uint64_t)buf->dims[0] | (rank > 1 ? (uint64_t)buf->dims[1] : 0)) <= most);
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

/* Whether a buffer has elements, and they take memory. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_has_bytes(const XLA_FFI_Buffer* buf) {
  int64_t i;
  for (i = 0; i < buf->rank; ++i) {
    if (buf->dims == NULL || buf->dims[i] == 0) return 0;
  }
  return xla_ffi_sdk_bits_of((unsigned)buf->dtype) != 0;
}

/* Two operands that clash. */
typedef struct xla_ffi_sdk_clash_of {
  int64_t ret, other;
  int with_arg;
} xla_ffi_sdk_clash_of;

/* Whether a result starts where another operand does. Hosts overlap operands in no other way: they can only be asked for an
 * argument in the place of a result of its type and shape (input_output_aliases), which is no clash. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_is_clash(const XLA_FFI_CallFrame* frame, const xla_ffi_sdk_clash_of* at) {
  const XLA_FFI_Buffer* ret = xla_ffi_sdk_operand(frame, 0, at->ret);
  const XLA_FFI_Buffer* other = xla_ffi_sdk_operand(frame, at->with_arg, at->other);
  return ret != NULL && other != NULL && ret->data == other->data && xla_ffi_sdk_has_bytes(ret) &&
         xla_ffi_sdk_has_bytes(other) && !(at->with_arg && xla_ffi_sdk_alike(ret, other));
}

/* The next clash among the first `args` arguments and `rets` results of a frame; 0 if there is none. A search begins with
 * {0, -1, 1}: each result is compared with the arguments, then with the results before it. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_next_clash(const XLA_FFI_CallFrame* frame, int64_t args,
                                                   int64_t rets, xla_ffi_sdk_clash_of* at) {
  for (; at->ret < rets; ++at->ret, at->other = -1, at->with_arg = 1) {
    for (; at->with_arg >= 0; --at->with_arg, at->other = -1) {
      const int64_t count = at->with_arg ? args : at->ret;
      while (++at->other < count) {
        if (xla_ffi_sdk_is_clash(frame, at)) return 1;
      }
    }
  }
  return 0;
}

/* One of many operands: where it starts, and its place among the arguments, or the complement of its place among the
 * results. */
typedef struct xla_ffi_sdk_spot {
  uintptr_t start;
  int64_t index;
} xla_ffi_sdk_spot;
#define XLA_FFI_SDK_SPOTS 64
#define XLA_FFI_SDK_PAIRS 16 /* so many operands are compared in pairs */

/* By where they start, for qsort. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_compare_spots(const void* left, const void* right) {
  const uintptr_t a = ((const xla_ffi_sdk_spot*)left)->start, b = ((const xla_ffi_sdk_spot*)right)->start;
  return a < b ? -1 : a > b;
}

/* Whether any of many operands clash: a sorted copy of their addresses takes n log n steps. If there is no memory for it, the
 * pairs are compared. */
XLA_FFI_SDK_MEMORY_COLD int xla_ffi_sdk_do_many_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets) {
  xla_ffi_sdk_spot few[XLA_FFI_SDK_SPOTS], *spots = few;
  xla_ffi_sdk_clash_of clash = {0, -1, 1};
  const size_t most = (size_t)args + (size_t)rets;
  size_t count = 0, first, next, k;
  int64_t i;
  int found = 0;
  if (most > XLA_FFI_SDK_SPOTS) spots = (xla_ffi_sdk_spot*)malloc(most * sizeof(*spots));
  if (spots == NULL) return xla_ffi_sdk_next_clash(frame, args, rets, &clash);
  for (i = -rets; i < args; ++i) {
    const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame, i >= 0, i >= 0 ? i : ~i);
    if (buf == NULL || !xla_ffi_sdk_has_bytes(buf)) continue;
    spots[count].start = (uintptr_t)buf->data;
    spots[count++].index = i;
  }
  qsort(spots, count, sizeof(*spots), xla_ffi_sdk_compare_spots);
  for (first = 0; first < count && !found; first = next) {
    int64_t ret = 0; /* of those that start here, or none */
    for (next = first; next < count && spots[next].start == spots[first].start; ++next) {
      found |= spots[next].index < 0 && ret < 0;
      if (spots[next].index < 0) ret = spots[next].index;
    }
    for (k = first; k < next && ret < 0; ++k) {
      const int64_t index = spots[k].index;
      found |= index >= 0 && !xla_ffi_sdk_alike(xla_ffi_sdk_operand(frame, 1, index), xla_ffi_sdk_operand(frame, 0, ~ret));
    }
  }
  if (spots != few) free(spots);
  return found;
}

/* Whether any of the first `args` arguments and `rets` results clash. */
XLA_FFI_SDK_MEMORY_HOT int xla_ffi_sdk_any_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets) {
  uintptr_t starts[XLA_FFI_SDK_PAIRS];
  xla_ffi_sdk_clash_of clash = {0, -1, 1};
  int64_t i, r, other;
  if (rets == 0) return 0;
  if (args + rets > XLA_FFI_SDK_PAIRS) return xla_ffi_sdk_do_many_clash(frame, args, rets);
  for (i = 0; i < args + rets; ++i) {
    const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame, i < args, i < args ? i : i - args);
    starts[i] = buf != NULL ? (uintptr_t)buf->data : 0;
  }
  for (r = args; r < args + rets; ++r) {
    for (other = 0; other < r; ++other) {
      if (!XLA_FFI_SDK_MEMORY_LIKELY(starts[r] != starts[other])) return xla_ffi_sdk_next_clash(frame, args, rets, &clash);
    }
  }
  return 0;
}

/* Whether the memory of the first `args` arguments and `rets` results can be used, and none of them clash. Where they
 * have no memory, as in early stages, their sizes alone matter. */
XLA_FFI_SDK_MEMORY_PURE int xla_ffi_sdk_memory_is_good(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets,
                                                       int has_memory) {
  int64_t i, elements;
  for (i = 0; i < args + rets; ++i) {
    const XLA_FFI_Buffer* buf = xla_ffi_sdk_operand(frame, i < args, i < args ? i : i - args);
    const xla_ffi_sdk_fault fault = buf == NULL
                                        ? xla_ffi_sdk_fault_none
                                        : xla_ffi_sdk_find_fault(buf, (unsigned)buf->dtype, buf->rank, &elements);
    if (fault != xla_ffi_sdk_fault_none &&
        (has_memory || fault == xla_ffi_sdk_fault_count || fault == xla_ffi_sdk_fault_bytes)) {
      return 0;
    }
  }
  return !has_memory || !xla_ffi_sdk_any_clash(frame, args, rets);
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

#endif  /* XLA_FFI_FRAME_H_ */
