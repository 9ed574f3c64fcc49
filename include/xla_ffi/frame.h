/* Reads call frames: checks that operand memory is usable, finds overlapping operands, detects host memory, and looks
 * up attributes by name. Part of <xla_ffi/handler.h> and <xla/ffi/api/api.h>. The checks use only the addresses of
 * operands, so they work for host memory and for device memory. */
#ifndef XLA_FFI_FRAME_H_
#define XLA_FFI_FRAME_H_

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla_ffi/host.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* XLA's enums have the size of an int. -fshort-enums makes enums smaller, and thereby changes the layout of every
 * struct with an enum. */
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

/* The message text for a sub-byte element type that the host cannot describe. */
#define XLA_FFI_SDK_TEXT_PACKED "an array of elements of less than a byte"

/* Returns 1 if the operand and attribute lists of a call frame have at least the ABI's struct_size. The caller has
 * checked the size of the frame. */
XFFI_HOT_ int xla_ffi_sdk_has_lists(const XLA_FFI_CallFrame* frame) {
  return !((frame->args.struct_size < XLA_FFI_Args_STRUCT_SIZE) |
           (frame->rets.struct_size < XLA_FFI_Rets_STRUCT_SIZE) |
           (frame->attrs.struct_size < XLA_FFI_Attrs_STRUCT_SIZE));
}

/* The reason why the memory of a buffer cannot be used. */
typedef enum xla_ffi_sdk_fault {
  xla_ffi_sdk_fault_none,
  xla_ffi_sdk_fault_count,    /* negative or missing dimensions, too many elements, or an unknown element type */
  xla_ffi_sdk_fault_bytes,    /* the size in bytes exceeds the address space */
  xla_ffi_sdk_fault_null,     /* the data pointer is null, although there are elements */
  xla_ffi_sdk_fault_alignment /* the data pointer is not aligned for the element type */
} xla_ffi_sdk_fault;

/* Returns the number of bits of an element type; 0 for tokens and unknown types. */
XFFI_HOT_ unsigned xla_ffi_sdk_bits(unsigned dtype) {
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

/* The names of all element types, as consecutive strings. An array of pointers would take ten times the space in a
 * library file. */
typedef struct xla_ffi_sdk_dtype_names {
  char INVALID_[sizeof("INVALID")];
#define XLA_FFI_SDK_NAME_(name, lower, bits) char name##_[sizeof(#name)];
  XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_NAME_)
#undef XLA_FFI_SDK_NAME_
} xla_ffi_sdk_dtype_names;

/* Returns the name of an element type as XLA writes it; null for unknown types. */
XFFI_SLOW_ const char* xla_ffi_sdk_dtype_name(unsigned dtype) {
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
  while (i-- > 0) { /* searches from the end, where the common float types are */
    if (numbers[i] == dtype) return (const char*)&names + places[i];
  }
  return NULL;
}

/* Returns the same value as xla_ffi_sdk_bits, for a type that is not a compile-time constant. All callers share the
 * code of this function. */
XFFI_SLOW_ unsigned xla_ffi_sdk_bits_of(unsigned dtype) { return xla_ffi_sdk_bits(dtype); }

/* Returns the alignment in bytes of an element type with `bits` bits. A complex number has the alignment of its
 * parts. */
XFFI_HOT_ unsigned xla_ffi_sdk_align(unsigned dtype, unsigned bits) {
  const unsigned bytes = bits / 8;
  if (dtype == XLA_FFI_DataType_C64 || dtype == XLA_FFI_DataType_C128) return bytes / 2;
  return bytes > 1 ? bytes : 1;
}

XFFI_COLD_ unsigned xla_ffi_sdk_align_of(unsigned dtype) {
  return xla_ffi_sdk_align(dtype, xla_ffi_sdk_bits_of(dtype));
}

/* Computes a * b for non-negative numbers. Returns 1 if the product overflows an int64_t. */
XFFI_HOT_ int xla_ffi_sdk_multiply(int64_t a, int64_t b, int64_t* product) {
#if defined(__GNUC__) || defined(__clang__)
  return __builtin_mul_overflow(a, b, product);
#else
  if (b != 0 && a > INT64_MAX / b) return 1;
  *product = a * b;
  return 0;
#endif
}

/* Checks whether the memory of a buffer can be used, for dimensions of any size. The caller has checked the buffer's
 * struct_size. */
XFFI_SLOW_ xla_ffi_sdk_fault xla_ffi_sdk_find_fault(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank,
                                                    int64_t* elements) {
  const unsigned bits = xla_ffi_sdk_bits_of(dtype), align = xla_ffi_sdk_align(dtype, bits);
  const uintptr_t data = (uintptr_t)buf->data;
  int64_t count = 1, bytes, i;
  uint64_t rest;
  int over = 0, empty = 0;
  *elements = 0;
  /* Newer element types have an unknown size. Hosts before r5 pass packed types as INVALID, which has a separate error
   * message. */
  if (bits == 0 && dtype != XLA_FFI_DataType_TOKEN && dtype != XLA_FFI_DataType_INVALID) return xla_ffi_sdk_fault_count;
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
  rest = (((uint64_t)count & 7) * bits + 7) >> 3; /* rounded up, because packed elements may end within a byte */
  if (xla_ffi_sdk_multiply((int64_t)((uint64_t)count >> 3), bits, &bytes) || bytes > INT64_MAX - (int64_t)rest) {
    return xla_ffi_sdk_fault_bytes;
  }
  if (data == 0) return xla_ffi_sdk_fault_null;
  return (data & (align - 1)) != 0 ? xla_ffi_sdk_fault_alignment : xla_ffi_sdk_fault_none;
}

/* Returns the kind of number of an element type, from narrow to wide: 0 for bool, then unsigned, signed, float,
 * complex. Returns -1 for types that are not numbers. */
XFFI_COLD_ int xla_ffi_sdk_kind_of(unsigned dtype) {
  static const char kinds[] = "PUSFC";
  const char* name = xla_ffi_sdk_dtype_name(dtype);
  const char* at = name == NULL ? NULL : strchr(kinds, *name == 'B' ? 'F' : *name);
  return at != NULL && *at != '\0' ? (int)(at - kinds) : -1;
}

/* Returns 1 if a cast between two element types preserves every value. */
XFFI_COLD_ int xla_ffi_sdk_widens(unsigned from, unsigned to) {
  const int a = xla_ffi_sdk_kind_of(from), b = xla_ffi_sdk_kind_of(to);
  const unsigned has = xla_ffi_sdk_bits_of(from) >> (a == 4), gets = xla_ffi_sdk_bits_of(to) >> (b == 4);
  return a >= 0 && (a == b || (a == 1 && b == 2) ? gets > has : a < b && (a == 0 || gets >= has));
}

/* Writes `before` and the NumPy name of an element type, for example `np.float32`. If NumPy has no such type, writes
 * nothing and returns 0. */
XFFI_COLD_ int xla_ffi_sdk_put_numpy(xla_ffi_sdk_line* line, const char* before, unsigned dtype) {
  static const char* const names[] = {"", "np.uint", "np.int", "np.float", "np.complex"};
  const int kind = xla_ffi_sdk_kind_of(dtype);
  const char* name = xla_ffi_sdk_dtype_name(dtype);
  if (kind < 1 || *name == 'B' || xla_ffi_sdk_bits_of(dtype) < (kind == 3 ? 16u : 8u)) return 0;
  xla_ffi_sdk_put_words(line, before);
  xla_ffi_sdk_put_words(line, names[kind]);
  xla_ffi_sdk_put_words(line, name + 1);
  return 1;
}

XFFI_COLD_ void xla_ffi_sdk_put_dtype(xla_ffi_sdk_line* line, unsigned dtype) {
  const char* name = xla_ffi_sdk_dtype_name(dtype);
  xla_ffi_sdk_put_words(line, name != NULL ? name : "the unknown type ");
  if (name == NULL) xla_ffi_sdk_put_number(line, dtype);
}

/* Writes the type and shape of a buffer: "F32[2, 3]". */
XFFI_COLD_ void xla_ffi_sdk_put_buffer(xla_ffi_sdk_line* line, const XLA_FFI_Buffer* buf) {
  xla_ffi_sdk_put_dtype(line, (unsigned)buf->dtype);
  xla_ffi_sdk_put_words(line, "[");
  if (buf->dims != NULL) xla_ffi_sdk_put_dims(line, buf->dims, buf->rank);
  xla_ffi_sdk_put_words(line, "]");
}

/* Writes why a buffer cannot be the operand with this name, element type (INVALID: any) and rank (-1: any), or why its
 * memory cannot be used. */
XFFI_COLD_ void xla_ffi_sdk_put_mismatch(xla_ffi_sdk_line* line, const XLA_FFI_Buffer* buf, int is_arg,
                                         const char* name, size_t length, unsigned dtype, int64_t rank) {
  const unsigned got = (unsigned)buf->dtype;
  const int is_other = dtype != XLA_FFI_DataType_INVALID
                           ? got != dtype
                           : xla_ffi_sdk_bits_of(got) == 0 && got != XLA_FFI_DataType_TOKEN;
  int64_t i, elements;
  if (is_other || (rank >= 0 && buf->rank != rank)) {
    xla_ffi_sdk_put_words(line, "expected ");
    if (dtype == XLA_FFI_DataType_INVALID) {
      xla_ffi_sdk_put_words(line, is_other ? "a known element type" : "rank ");
      if (!is_other) xla_ffi_sdk_put_number(line, rank);
    } else {
      xla_ffi_sdk_put_dtype(line, dtype);
      for (i = 0; i < rank; ++i) xla_ffi_sdk_put_words(line, i == 0 ? "[?" : ", ?");
      if (rank >= 0) xla_ffi_sdk_put_words(line, rank == 0 ? "[]" : "]");
    }
    xla_ffi_sdk_put_words(line, ", got ");
    xla_ffi_sdk_put_buffer(line, buf);
    if (is_other && !is_arg) {
      xla_ffi_sdk_put_numpy(line, "; declare it as ", dtype);
    } else if (is_other && length > 0 && xla_ffi_sdk_widens(got, dtype)) {
      const size_t size = line->size;
      xla_ffi_sdk_put_words(line, "; cast it: ");
      xla_ffi_sdk_put(line, name, length);
      if (xla_ffi_sdk_put_numpy(line, ".astype(", dtype)) {
        xla_ffi_sdk_put_words(line, ")");
      } else {
        line->text[line->size = size] = '\0';
      }
    }
    return;
  }
  xla_ffi_sdk_put_buffer(line, buf);
  switch (xla_ffi_sdk_find_fault(buf, got, buf->rank, &elements)) {
    case xla_ffi_sdk_fault_bytes:
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_BYTES);
      break;
    case xla_ffi_sdk_fault_null:
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_NULL_DATA);
      break;
    case xla_ffi_sdk_fault_alignment:
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_IS_AT);
      xla_ffi_sdk_put_address(line, buf->data);
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_NOT_A_MULTIPLE);
      xla_ffi_sdk_put_number(line, xla_ffi_sdk_align_of(got));
      break;
    default:
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_COUNT);
  }
}

/* Reads an integer of at least 8 bits. Returns 0 for other types. */
XFFI_SLOW_ int xla_ffi_sdk_read_integer(unsigned dtype, const void* from, int64_t* value) {
  switch (dtype) {
#define XLA_FFI_SDK_INTEGER_(dtype, type)    \
  case XLA_FFI_DataType_##dtype: {           \
    type number;                             \
    memcpy(&number, from, sizeof(number));   \
    *value = (int64_t)number;                \
    return 1;                                \
  }
    XLA_FFI_SDK_INTEGER_(S8, int8_t)
    XLA_FFI_SDK_INTEGER_(S16, int16_t)
    XLA_FFI_SDK_INTEGER_(S32, int32_t)
    XLA_FFI_SDK_INTEGER_(S64, int64_t)
    XLA_FFI_SDK_INTEGER_(U8, uint8_t)
    XLA_FFI_SDK_INTEGER_(U16, uint16_t)
    XLA_FFI_SDK_INTEGER_(U32, uint32_t)
    XLA_FFI_SDK_INTEGER_(U64, uint64_t)
#undef XLA_FFI_SDK_INTEGER_
    default:
      return 0;
  }
}

/* Writes the type of an attribute: "F32", "S64[3]", "a string". */
XFFI_COLD_ void xla_ffi_sdk_put_attr(xla_ffi_sdk_line* line, unsigned type, const void* attr) {
  const XLA_FFI_Scalar* scalar = (const XLA_FFI_Scalar*)attr; /* an array also starts with its element type */
  const XLA_FFI_ByteSpan* span = (const XLA_FFI_ByteSpan*)attr;
  if (attr == NULL || (type == XLA_FFI_AttrType_SCALAR && scalar->value == NULL) ||
      (type == XLA_FFI_AttrType_STRING && span->ptr == NULL && span->len != 0)) {
    xla_ffi_sdk_put_words(line, "a null pointer");
  } else if (type == XLA_FFI_AttrType_SCALAR) {
    xla_ffi_sdk_put_dtype(line, (unsigned)scalar->dtype);
  } else if (type == XLA_FFI_AttrType_ARRAY) {
    const XLA_FFI_Array* array = (const XLA_FFI_Array*)attr;
    xla_ffi_sdk_put_dtype(line, (unsigned)array->dtype);
    xla_ffi_sdk_put_words(line, "[");
    xla_ffi_sdk_put_number(line, (int64_t)array->size);
    xla_ffi_sdk_put_words(line, array->data == NULL && array->size != 0 ? "] with a null data pointer" : "]");
  } else {
    xla_ffi_sdk_put_words(line, type == XLA_FFI_AttrType_STRING       ? "a string"
                                : type == XLA_FFI_AttrType_DICTIONARY ? "a dictionary"
                                                                      : "an attribute of an unknown kind");
  }
}

/* Writes how to convert a number to the expected element type, or that the value does not fit. */
XFFI_COLD_ void xla_ffi_sdk_put_pass(xla_ffi_sdk_line* line, unsigned dtype, const XLA_FFI_Scalar* scalar) {
  const int kind = xla_ffi_sdk_kind_of(dtype);
  const unsigned got = (unsigned)scalar->dtype;
  int64_t whole = 0;
  double real;
  float single;
  int fits = 1;
  char text[40];
  if (kind < 1 || kind > 3) return;
  if (xla_ffi_sdk_read_integer(got, scalar->value, &whole)) {
    if (got == XLA_FFI_DataType_U64 && whole < 0) return; /* values above INT64_MAX are not supported */
    real = (double)whole;
    fits = kind < 3 || (uint64_t)(whole >> (dtype == XLA_FFI_DataType_F32 ? 24 : 53)) + 1 <= 1; /* exact as a float */
    xffi_snprintf_(text, sizeof(text), "%lld", (long long)whole);
  } else if (got == XLA_FFI_DataType_F64 || got == XLA_FFI_DataType_F32) {
    if (got == XLA_FFI_DataType_F64) {
      memcpy(&real, scalar->value, sizeof(real));
    } else {
      memcpy(&single, scalar->value, sizeof(single));
      real = (double)single;
    }
    if (real >= -9e18 && real <= 9e18) whole = (int64_t)real;
    xffi_snprintf_(text, sizeof(text), "%.9g", real);
  } else {
    return;
  }
  if (kind < 3) {
    const unsigned bits = xla_ffi_sdk_bits_of(dtype);
    const int64_t high = INT64_MAX >> (64 - bits - (kind == 1 && bits < 64));
    fits = real <= (double)whole && real >= (double)whole && whole <= high && whole >= (kind == 1 ? 0 : -high - 1);
  } else if (dtype == XLA_FFI_DataType_F32) {
    fits = !((real > FLT_MAX && real <= DBL_MAX) || (real < -FLT_MAX && real >= -DBL_MAX));
  }
  if (!fits) {
    xla_ffi_sdk_put_words(line, "; ");
    xla_ffi_sdk_put_words(line, text);
    xla_ffi_sdk_put_words(line, " does not fit");
  } else if (xla_ffi_sdk_put_numpy(line, "; pass ", dtype)) {
    xla_ffi_sdk_put_words(line, "(value)");
  }
}

/* Writes why an attribute does not have the expected kind and element type (INVALID: any). */
XFFI_COLD_ void xla_ffi_sdk_put_attr_mismatch(xla_ffi_sdk_line* line, unsigned want, unsigned dtype, unsigned type,
                                              const void* attr) {
  const XLA_FFI_Scalar* scalar = (const XLA_FFI_Scalar*)attr;
  const int is_array = want == XLA_FFI_AttrType_ARRAY, has_type = dtype != XLA_FFI_DataType_INVALID;
  xla_ffi_sdk_put_words(line, "expected ");
  if ((is_array && has_type) || want == XLA_FFI_AttrType_SCALAR) {
    xla_ffi_sdk_put_dtype(line, dtype);
    if (is_array) xla_ffi_sdk_put_words(line, "[?]");
  } else {
    xla_ffi_sdk_put_words(line, is_array                              ? "an array"
                                : want == XLA_FFI_AttrType_STRING ? "a string"
                                                                      : "a dictionary");
  }
  xla_ffi_sdk_put_words(line, ", got ");
  xla_ffi_sdk_put_attr(line, type, attr);
  if (want != type || attr == NULL || !has_type || (unsigned)scalar->dtype == dtype) return;
  if (!is_array) {
    if (scalar->value != NULL) xla_ffi_sdk_put_pass(line, dtype, scalar);
  } else if (xla_ffi_sdk_widens((unsigned)scalar->dtype, dtype) &&
             xla_ffi_sdk_put_numpy(line, "; pass np.asarray(value, ", dtype)) {
    xla_ffi_sdk_put_words(line, ")");
  }
}

/* Returns 1 if a buffer has whole-byte elements and at most two non-negative dimensions whose byte count cannot
 * overflow. Otherwise, xla_ffi_sdk_find_fault must check the buffer. */
XFFI_HOT_ int xla_ffi_sdk_is_small(const XLA_FFI_Buffer* buf, unsigned dtype, int64_t rank) {
  const unsigned bytes = xla_ffi_sdk_bits(dtype) / 8;
  /* The largest dimension: the square root of INT64_MAX / bytes. */
  const uint64_t most = bytes <= 2 ? 2147483647 : bytes <= 4 ? 1518500249 : bytes <= 8 ? 1073741823 : 759250124;
  if (bytes == 0 || rank > 2) return 0;
  if (rank == 0) return 1;
  return XFFI_LIKELY_(buf->dims != NULL) &&
         XFFI_LIKELY_(((uint64_t)buf->dims[0] | (rank > 1 ? (uint64_t)buf->dims[1] : 0)) <= most);
}

/* Returns the buffer at an index of the call frame's arguments or results; null if the operand is not a valid buffer
 * struct. */
XFFI_HOT_ const XLA_FFI_Buffer* xla_ffi_sdk_operand(const XLA_FFI_CallFrame* frame, int is_arg, int64_t index) {
  const XLA_FFI_Buffer* buf;
  if (is_arg ? frame->args.types[index] != XLA_FFI_ArgType_BUFFER
             : frame->rets.types[index] != XLA_FFI_RetType_BUFFER) {
    return NULL;
  }
  buf = (const XLA_FFI_Buffer*)(is_arg ? frame->args.args[index] : frame->rets.rets[index]);
  return buf != NULL && buf->struct_size >= XLA_FFI_Buffer_STRUCT_SIZE ? buf : NULL;
}

/* Returns 1 if two buffers have the same element type and shape. */
XFFI_COLD_ int xla_ffi_sdk_alike(const XLA_FFI_Buffer* a, const XLA_FFI_Buffer* b) {
  int64_t i;
  if (a->dtype != b->dtype || a->rank != b->rank) return 0;
  if (a->rank > 0 && (a->dims == NULL || b->dims == NULL)) return 0;
  for (i = 0; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return 0;
  }
  return 1;
}

/* Writes why the argument and the result of an in-out operand are not one array: the memory or the shapes differ. */
XFFI_COLD_ void xla_ffi_sdk_put_apart(xla_ffi_sdk_line* line, const XLA_FFI_CallFrame* frame, int64_t arg, int64_t ret) {
  const XLA_FFI_Buffer* x = xla_ffi_sdk_operand(frame, 1, arg);
  const XLA_FFI_Buffer* y = xla_ffi_sdk_operand(frame, 0, ret);
  if (xla_ffi_sdk_alike(x, y)) {
    xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_APART "{");
    xla_ffi_sdk_put_number(line, arg);
    xla_ffi_sdk_put_words(line, ": ");
    xla_ffi_sdk_put_number(line, ret);
    xla_ffi_sdk_put_words(line, "}");
    return;
  }
  xla_ffi_sdk_put_words(line, "the argument is ");
  xla_ffi_sdk_put_buffer(line, x);
  xla_ffi_sdk_put_words(line, ", the result ");
  xla_ffi_sdk_put_buffer(line, y);
  xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_ONE_ARRAY);
}

/* Returns 1 if a buffer has elements that occupy memory. */
XFFI_COLD_ int xla_ffi_sdk_has_bytes(const XLA_FFI_Buffer* buf) {
  int64_t i;
  for (i = 0; i < buf->rank; ++i) {
    if (buf->dims == NULL || buf->dims[i] == 0) return 0;
  }
  return xla_ffi_sdk_bits_of((unsigned)buf->dtype) != 0;
}

/* A pair of operands that overlap in a way that is not allowed: the result `ret`, and an argument or an earlier
 * result. */
typedef struct xla_ffi_sdk_clash_of {
  int64_t ret, other;
  int with_arg;
} xla_ffi_sdk_clash_of;

/* Returns 1 if a pair of operands starts at the same address in a way that is not allowed. A result may only share the
 * memory of an argument of the same type and shape (input_output_aliases). Hosts do not create any other overlaps, so
 * comparing the starts is sufficient. */
XFFI_COLD_ int xla_ffi_sdk_is_clash(const XLA_FFI_CallFrame* frame, const xla_ffi_sdk_clash_of* at) {
  const XLA_FFI_Buffer* ret = xla_ffi_sdk_operand(frame, 0, at->ret);
  const XLA_FFI_Buffer* other = xla_ffi_sdk_operand(frame, at->with_arg, at->other);
  return ret != NULL && other != NULL && ret->data == other->data && xla_ffi_sdk_has_bytes(ret) &&
         xla_ffi_sdk_has_bytes(other) && !(at->with_arg && xla_ffi_sdk_alike(ret, other));
}

/* Finds the next pair of operands with a forbidden overlap among the first `args` arguments and `rets` results; returns
 * 0 if there is none. Start a search with {0, -1, 1}. Each result is compared with all arguments, then with all
 * earlier results. */
XFFI_COLD_ int xla_ffi_sdk_next_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets,
                                     xla_ffi_sdk_clash_of* at) {
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

/* The start address of an operand, for sorting. `index` is the index of an argument, or the bitwise complement of the
 * index of a result. */
typedef struct xla_ffi_sdk_spot {
  uintptr_t start;
  int64_t index;
} xla_ffi_sdk_spot;
#define XLA_FFI_SDK_SPOTS 64
#define XLA_FFI_SDK_PAIRS 16 /* the largest number of operands that are compared in pairs */

/* Orders operands by their start address, for qsort. */
XFFI_COLD_ int xla_ffi_sdk_compare_spots(const void* left, const void* right) {
  const uintptr_t a = ((const xla_ffi_sdk_spot*)left)->start, b = ((const xla_ffi_sdk_spot*)right)->start;
  return a < b ? -1 : a > b;
}

/* Returns 1 if any two of many operands have a forbidden overlap. Sorts a copy of the addresses, in n log n steps. If
 * memory for the copy is exhausted, compares all pairs. */
XFFI_COLD_ int xla_ffi_sdk_do_many_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets) {
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
    int64_t ret = 0; /* complement of the index of a result at this address, or 0 */
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

/* Returns 1 if any two of the first `args` arguments and `rets` results have a forbidden overlap. */
XFFI_HOT_ int xla_ffi_sdk_any_clash(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets) {
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
      if (!XFFI_LIKELY_(starts[r] != starts[other])) return xla_ffi_sdk_next_clash(frame, args, rets, &clash);
    }
  }
  return 0;
}

/* Returns 1 if the memory of the first `args` arguments and `rets` results is usable, without forbidden overlaps. If
 * `has_memory` is 0, checks only the sizes, because operands have no memory in early stages. */
XFFI_PURE_ int xla_ffi_sdk_memory_is_good(const XLA_FFI_CallFrame* frame, int64_t args, int64_t rets, int has_memory) {
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

/* The number of entries up to which a linear search is as fast as a binary search. */
#define XLA_FFI_SDK_FEW_NAMES 32

/* Returns the index of a name, or -1, by a binary search: hosts sort entries by the bytes of their names. In an
 * unsorted dictionary, the search can miss a name. */
XFFI_SLOW_ int64_t xla_ffi_sdk_search(const XLA_FFI_Attrs* attrs, const char* name, size_t length) {
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

/* The size of a cache of hosts whose calls have no stream. Most processes have one or two hosts. */
#define XLA_FFI_SDK_HOSTS_ 8
typedef const XLA_FFI_Api* volatile xla_ffi_sdk_host;

/* Returns 1 if the call has no stream: its operands are then in host memory. A host without streams allocates an error
 * object for each request, which is too slow for every call. The cache `hosts` avoids repeated requests. */
XFFI_SLOW_ int xla_ffi_sdk_ask_for_stream(const XLA_FFI_CallFrame* frame, xla_ffi_sdk_host* hosts) {
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_Stream_Get_Args args;
  XLA_FFI_Error* error;
  int i;
  for (i = 1; i < XLA_FFI_SDK_HOSTS_; ++i) {
    if (XLA_FFI_SDK_LOAD_(&hosts[i]) == api) return 1;
  }
  if (api->XLA_FFI_Stream_Get != NULL) {
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    error = api->XLA_FFI_Stream_Get(&args);
    if (error == NULL && args.stream != NULL) return 0;
    xffi_error_free(api, error);
  }
  /* GPU hosts also have no stream in early stages, so such hosts must not be cached. */
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return 1;
  /* If two threads write at the same time, one entry may be lost. That host is then queried again. */
  for (i = XLA_FFI_SDK_HOSTS_ - 1; i > 0; --i) {
    const XLA_FFI_Api* newer = XLA_FFI_SDK_LOAD_(&hosts[i - 1]);
    XLA_FFI_SDK_STORE_(&hosts[i], newer);
  }
  XLA_FFI_SDK_STORE_(&hosts[0], api);
  return 1;
}

XFFI_HOT_ int xla_ffi_sdk_is_on_host(const XLA_FFI_CallFrame* frame) {
  static xla_ffi_sdk_host hosts[XLA_FFI_SDK_HOSTS_];
  return XFFI_LIKELY_(XLA_FFI_SDK_LOAD_(&hosts[0]) == frame->api) ||
         xla_ffi_sdk_ask_for_stream(frame, hosts);
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_FRAME_H_ */
