/* Gets attributes by name: scalars, strings, arrays and dictionaries, with or without a default. Part of
 * <xla_ffi/handler.h>.
 *
 * For each element type T of bool, i8 … i64, u8 … u64, f32, f64, c64, c128:
 *   xffi_attr_T(call, name)               the scalar
 *   xffi_attr_T_or(call, name, value)     the scalar, or `value` if it is absent
 *   xffi_attr_T_array(call, name)         an array, as {data, size}
 *   xffi_dict_T(call, dict, name), xffi_dict_T_or, xffi_dict_T_array: the same, for a field of a dictionary
 */
#ifndef XLA_FFI_ATTRIBUTE_H_
#define XLA_FFI_ATTRIBUTE_H_

#include "xla_ffi/call.h"

/* Complex numbers, with the layout of the complex types of C99 and C++. */
typedef struct xffi_c64 {
  float re, im;
} xffi_c64;
typedef struct xffi_c128 {
  double re, im;
} xffi_c128;

/* An array whose element type is known only at run time. */
typedef struct xffi_array_ {
  const void* data;
  size_t size;
  XLA_FFI_DataType dtype;
} xffi_array_;

/* Returns the index of the attribute of this name, or -1. */
XFFI_HOT_ int64_t xffi_find_(const XLA_FFI_Attrs* attrs, const char* name) {
  const size_t length = strlen(name);
  int64_t i;
  if (attrs->size > XLA_FFI_SDK_FEW_NAMES && (i = xla_ffi_sdk_search(attrs, name, length)) >= 0) return i;
  for (i = 0; i < attrs->size; ++i) {
    const XLA_FFI_ByteSpan* at = attrs->names[i];
    if (at->len == length && (length == 0 || memcmp(at->ptr, name, length) == 0)) return i;
  }
  return -1;
}

/* Returns the index of an attribute of the handler and marks the attribute as requested; -1 if it is absent. */
XFFI_HOT_ int64_t xffi_seek_own_(xffi_dict* dict, const char* name) {
  const int64_t i = dict->attrs != NULL ? xffi_find_(dict->attrs, name) : -1;
  if (i >= 0 && i < XFFI_SEEN_) dict->seen[i >> 6] |= UINT64_C(1) << (i & 63);
  dict->asked = 1;
  return i;
}

/* Returns the index of an entry of any dictionary and marks the entry as requested; -1 if it is absent. */
XFFI_HOT_ int64_t xffi_seek_(xffi_dict* dict, const char* name) {
  xffi_kept_* const kept = dict->kept;
  int64_t i;
  if (kept == NULL) return xffi_seek_own_(dict, name);
  i = xffi_find_(dict->attrs, name);
  if (i >= 0) kept->seen[i] = 1;
  kept->asked = 1;
  return i;
}

/* Returns the same index as xffi_seek_, but lets the compiler choose a faster path for the attributes of the
 * handler. */
XFFI_HOT_ int64_t xffi_seek_in_(xffi_call* call, xffi_dict* dict, const char* name) {
  return dict == &call->attrs ? xffi_seek_own_(dict, name) : xffi_seek_(dict, name);
}

/* Writes an attribute's name for messages: "attribute `a`: ", or inside a dictionary "attribute `d`: entry `a`: ". */
XFFI_COLD_ void xffi_put_attr_name_(xla_ffi_sdk_line* line, const char* path, const char* what, const char* name,
                                   size_t length) {
  const int is_entry = path[0] != '\0';
  if (is_entry) {
    xffi_put_name_(line, "attribute", path, 0);
    xla_ffi_sdk_put_words(line, ": ");
  }
  xla_ffi_sdk_put_words(line, what);
  xla_ffi_sdk_put_words(line, is_entry ? "entry `" : "attribute `");
  xla_ffi_sdk_put(line, name, length);
  xla_ffi_sdk_put_words(line, "`");
}

/* Reports that the attribute at `index` does not have the requested kind and type, or is missing (-1). */
XFFI_COLD_ void xffi_attr_problem_(xffi_call* call, const xffi_dict* dict, const char* name,
                                 int64_t index, XLA_FFI_AttrType type, XLA_FFI_DataType dtype) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xffi_put_attr_name_(&line, dict->path, index < 0 ? "missing " : "", name, strlen(name));
  if (index >= 0) {
    xla_ffi_sdk_put_words(&line, ": ");
    xla_ffi_sdk_put_attr_mismatch(&line, (unsigned)type, (unsigned)dtype, (unsigned)dict->attrs->types[index],
                                  dict->attrs->attrs[index]);
  }
  xffi_problem(call, "%s", line.text);
}

/* Returns 1 if an attribute's value, or the memory it points to, is null. */
XFFI_HOT_ int xffi_attr_is_null_(XLA_FFI_AttrType type, const void* value) {
  switch ((int)type) {
    case XLA_FFI_AttrType_SCALAR:
      return value == NULL || ((const XLA_FFI_Scalar*)value)->value == NULL;
    case XLA_FFI_AttrType_ARRAY:
      return value == NULL || (((const XLA_FFI_Array*)value)->data == NULL &&
                               ((const XLA_FFI_Array*)value)->size != 0);
    case XLA_FFI_AttrType_STRING:
      return value == NULL || (((const XLA_FFI_ByteSpan*)value)->ptr == NULL &&
                               ((const XLA_FFI_ByteSpan*)value)->len != 0);
    default:
      return value == NULL;
  }
}

/* Returns the value of an attribute with this kind and element type. Otherwise, reports a problem and returns null. */
XFFI_HOT_ const void* xffi_attr_value_(xffi_call* call, xffi_dict* dict, const char* name,
                                        int64_t index, XLA_FFI_AttrType type,
                                        XLA_FFI_DataType dtype) {
  if (XFFI_UNLIKELY_(
          index < 0 || dict->attrs->types[index] != type ||
          xffi_attr_is_null_(type, dict->attrs->attrs[index]) ||
          ((type == XLA_FFI_AttrType_SCALAR || type == XLA_FFI_AttrType_ARRAY) &&
           dtype != XFFI_ANY_DTYPE &&
           ((const XLA_FFI_Scalar*)dict->attrs->attrs[index])->dtype != dtype))) {
    xffi_attr_problem_(call, dict, name, index, type, dtype);
    return NULL;
  }
  return dict->attrs->attrs[index];
}

/* Returns the address of the elements of an array. For an empty array, whose pointer may be null, returns any other
 * address, because memcpy does not accept null. */
XFFI_HOT_ const void* xffi_elements_(const XLA_FFI_Array* array) {
  return array->size != 0 ? array->data : array;
}

/* Return 1 if the call has the attribute or field, and mark it as requested. */
XFFI_HOT_ int xffi_dict_has(xffi_dict* dict, const char* name) {
  return xffi_seek_(dict, name) >= 0;
}
XFFI_INLINE_ int xffi_has_attr(xffi_call* call, const char* name) {
  return xffi_seek_own_(&call->attrs, name) >= 0;
}

#define XFFI_DEFINE_ATTR_(suffix, type, dtype)                                                    \
  typedef struct xffi_##suffix##_array {                                                          \
    const type* data;                                                                             \
    size_t size;                                                                                  \
  } xffi_##suffix##_array;                                                                        \
  XFFI_INLINE_ type xffi_dict_##suffix(xffi_call* call, xffi_dict* dict, const char* name) {       \
    type value;                                                                                   \
    const void* at = xffi_attr_value_(call, dict, name, xffi_seek_in_(call, dict, name),           \
                                     XLA_FFI_AttrType_SCALAR, dtype);                             \
    memset(&value, 0, sizeof(value));                                                             \
    if (at != NULL) memcpy(&value, ((const XLA_FFI_Scalar*)at)->value, sizeof(value));            \
    return value;                                                                                 \
  }                                                                                               \
  XFFI_INLINE_ type xffi_dict_##suffix##_or(xffi_call* call, xffi_dict* dict, const char* name,    \
                                           type value) {                                          \
    const int is_there = xffi_seek_in_(call, dict, name) >= 0;                                    \
    return is_there ? xffi_dict_##suffix(call, dict, name) : value;                               \
  }                                                                                               \
  XFFI_INLINE_ xffi_##suffix##_array xffi_dict_##suffix##_array(xffi_call* call, xffi_dict* dict,  \
                                                               const char* name) {                \
    xffi_##suffix##_array value = {NULL, 0};                                                      \
    const XLA_FFI_Array* at = (const XLA_FFI_Array*)xffi_attr_value_(                              \
        call, dict, name, xffi_seek_in_(call, dict, name), XLA_FFI_AttrType_ARRAY, dtype);        \
    if (at != NULL) {                                                                             \
      value.data = (const type*)xffi_elements_(at);                                                \
      value.size = at->size;                                                                      \
    }                                                                                             \
    return value;                                                                                 \
  }                                                                                               \
  XFFI_INLINE_ type xffi_attr_##suffix(xffi_call* call, const char* name) {                        \
    return xffi_dict_##suffix(call, &call->attrs, name);                                          \
  }                                                                                               \
  XFFI_INLINE_ type xffi_attr_##suffix##_or(xffi_call* call, const char* name, type value) {       \
    return xffi_dict_##suffix##_or(call, &call->attrs, name, value);                              \
  }                                                                                               \
  XFFI_INLINE_ xffi_##suffix##_array xffi_attr_##suffix##_array(xffi_call* call,                   \
                                                               const char* name) {                \
    return xffi_dict_##suffix##_array(call, &call->attrs, name);                                  \
  }

XFFI_DEFINE_ATTR_(bool, unsigned char, XLA_FFI_DataType_PRED)
XFFI_DEFINE_ATTR_(i8, int8_t, XLA_FFI_DataType_S8)
XFFI_DEFINE_ATTR_(i16, int16_t, XLA_FFI_DataType_S16)
XFFI_DEFINE_ATTR_(i32, int32_t, XLA_FFI_DataType_S32)
XFFI_DEFINE_ATTR_(i64, int64_t, XLA_FFI_DataType_S64)
XFFI_DEFINE_ATTR_(u8, uint8_t, XLA_FFI_DataType_U8)
XFFI_DEFINE_ATTR_(u16, uint16_t, XLA_FFI_DataType_U16)
XFFI_DEFINE_ATTR_(u32, uint32_t, XLA_FFI_DataType_U32)
XFFI_DEFINE_ATTR_(u64, uint64_t, XLA_FFI_DataType_U64)
XFFI_DEFINE_ATTR_(f32, float, XLA_FFI_DataType_F32)
XFFI_DEFINE_ATTR_(f64, double, XLA_FFI_DataType_F64)
XFFI_DEFINE_ATTR_(c64, xffi_c64, XLA_FFI_DataType_C64)
XFFI_DEFINE_ATTR_(c128, xffi_c128, XLA_FFI_DataType_C128)
#undef XFFI_DEFINE_ATTR_

/* Refuses the call if an attribute's value exceeds inclusive bounds. INT64_MIN, INT64_MAX and INFINITY mean "no bound".
 * Repeat the bounds in the handler's description: XFFI_ATTR_WITH("bins", i64, XFFI_MIN(1)). */
XFFI_INLINE_ void xffi_range_i64(xffi_call* call, const char* name, int64_t value, int64_t min, int64_t max) {
  if (XFFI_LIKELY_(value >= min && value <= max) || call->problems != 0) return;
  xffi_problem(call, "attribute `%s`: expected at %s %lld, got %lld", name, value < min ? "least" : "most",
               (long long)(value < min ? min : max), (long long)value);
}
XFFI_INLINE_ void xffi_range_f64(xffi_call* call, const char* name, double value, double min, double max) {
  if (XFFI_LIKELY_(value >= min && value <= max) || call->problems != 0) return;
  xffi_problem(call, "attribute `%s`: expected at %s %.9g, got %.9g", name, value > max ? "most" : "least",
               value > max ? max : min, value);
}
/* The bounds are converted to float, like the value, because 0.1f is greater than the double 0.1. */
XFFI_INLINE_ void xffi_range_f32(xffi_call* call, const char* name, float value, float min, float max) {
  xffi_range_f64(call, name, (double)value, (double)min, (double)max);
}

/* Returns a string attribute, which need not end with a NUL. */
XFFI_INLINE_ XLA_FFI_ByteSpan xffi_dict_str(xffi_call* call, xffi_dict* dict, const char* name) {
  XLA_FFI_ByteSpan value = {"", 0};
  const void* at = xffi_attr_value_(call, dict, name, xffi_seek_in_(call, dict, name),
                                   XLA_FFI_AttrType_STRING, XFFI_ANY_DTYPE);
  if (at != NULL) value = *(const XLA_FFI_ByteSpan*)at;
  if (value.len == 0) value.ptr = ""; /* because memcpy does not accept null, even for size 0 */
  return value;
}
XFFI_INLINE_ XLA_FFI_ByteSpan xffi_attr_str(xffi_call* call, const char* name) {
  return xffi_dict_str(call, &call->attrs, name);
}
/* Returns a string attribute, or `value` if the attribute is absent. If `value` is null, the result has a null pointer
 * and length 0. */
XFFI_INLINE_ XLA_FFI_ByteSpan xffi_attr_str_or(xffi_call* call, const char* name,
                                              const char* value) {
  XLA_FFI_ByteSpan text;
  text.ptr = value;
  text.len = value != NULL ? strlen(value) : 0;
  return xffi_has_attr(call, name) ? xffi_attr_str(call, name) : text;
}

/* Returns an array attribute of any element type. */
XFFI_INLINE_ xffi_array_ xffi_attr_array_(xffi_call* call, const char* name) {
  xffi_array_ value = {NULL, 0, XLA_FFI_DataType_INVALID};
  const XLA_FFI_Array* at = (const XLA_FFI_Array*)xffi_attr_value_(
      call, &call->attrs, name, xffi_seek_own_(&call->attrs, name), XLA_FFI_AttrType_ARRAY,
      XFFI_ANY_DTYPE);
  if (at != NULL) {
    value.data = xffi_elements_(at);
    value.size = at->size;
    value.dtype = at->dtype;
  }
  return value;
}

/* Returns a dictionary, and records it so that xffi_decoded checks its fields. A repeated fetch of the same dictionary
 * shares the record of requested fields. */
XFFI_INLINE_ xffi_dict xffi_dict_of_(xffi_call* call, xffi_dict* dict, const char* name) {
  xffi_dict value = {NULL, "", {0, 0, 0, 0}, NULL, 0};
  int k;
  value.path = name;
  value.attrs = (const XLA_FFI_Attrs*)xffi_attr_value_(call, dict, name, xffi_seek_in_(call, dict, name),
                                                      XLA_FFI_AttrType_DICTIONARY, XFFI_ANY_DTYPE);
  if (value.attrs == NULL || value.attrs->size <= 0 || value.attrs->size > XFFI_FIELDS_) return value;
  if (dict->kept == NULL && dict != &call->attrs) return value;
  for (k = 0; k < call->dict_count && call->dicts[k].attrs != value.attrs; ++k) continue;
  if (k == XFFI_KEPT_) return value;
  if (k == call->dict_count) {
    xffi_kept_* const kept = &call->dicts[k];
    kept->attrs = value.attrs;
    kept->path = name;
    kept->asked = 0;
    if (XFFI_LIKELY_(value.attrs->size <= 32)) {
      memset(kept->seen, 0, 32); /* compiled inline because the size is constant */
    } else {
      memset(kept->seen, 0, XFFI_FIELDS_);
    }
    ++call->dict_count;
  }
  value.kept = &call->dicts[k];
  return value;
}

/* Returns a dictionary attribute. After a field is fetched, xffi_decoded refuses fields that were not fetched. This
 * covers the first 8 dictionaries of a call, of at most 64 fields each; for others, call xffi_dict_done. */
XFFI_INLINE_ xffi_dict xffi_attr_dict(xffi_call* call, const char* name) {
  return xffi_dict_of_(call, &call->attrs, name);
}

/* Returns a dictionary within a dictionary. Error messages about its fields show only the name of the inner
 * dictionary. */
XFFI_INLINE_ xffi_dict xffi_dict_dict(xffi_call* call, xffi_dict* dict, const char* name) {
  return xffi_dict_of_(call, dict, name);
}

XFFI_COLD_ void xffi_unknown_attrs_(xffi_call* call, const xffi_dict* dict) {
  int64_t i;
  for (i = 0; i < dict->attrs->size && i < XFFI_SEEN_; ++i) {
    const XLA_FFI_ByteSpan* name = dict->attrs->names[i];
    xla_ffi_sdk_line line;
    if ((dict->seen[i >> 6] >> (i & 63) & 1) != 0) continue;
    line.size = 0;
    xffi_put_attr_name_(&line, dict->path, "unknown ", name->len != 0 ? name->ptr : "", name->len < 200 ? name->len : 200);
    xffi_problem(call, "%s; remove it", line.text);
  }
}

/* Reports the fields of a recorded dictionary that were not requested. */
XFFI_SLOW_ void xffi_kept_done_(xffi_call* call, xffi_kept_* kept) {
  const size_t size = (size_t)kept->attrs->size;
  size_t i, seen = 0;
  kept->asked = 0;
  for (i = 0; i < size; i += 8) {
    uint64_t eight; /* eight marks of `kept->seen`, each 0 or 1 */
    memcpy(&eight, kept->seen + i, 8);
    seen += (size_t)((eight * UINT64_C(0x0101010101010101)) >> 56);
  }
  if (XFFI_UNLIKELY_(seen != size)) {
    xffi_dict dict = {NULL, "", {0, 0, 0, 0}, NULL, 0};
    dict.attrs = kept->attrs;
    dict.path = kept->path;
    for (i = 0; i < size; ++i) dict.seen[i >> 6] |= (uint64_t)kept->seen[i] << (i & 63);
    xffi_unknown_attrs_(call, &dict);
  }
}

/* Reports the attributes of a dictionary that were not requested. Only the first 256 attributes are tracked; later ones
 * are always accepted. Call this before xffi_decoded, which itself checks only the first dictionaries of a call. */
XFFI_HOT_ void xffi_dict_done(xffi_call* call, const xffi_dict* dict) {
  int64_t seen = 0, size;
  int k;
  if (dict->kept != NULL) {
    xffi_kept_done_(call, dict->kept);
    return;
  }
  if (dict->attrs == NULL || dict->attrs->size == 0) return;
  size = dict->attrs->size < XFFI_SEEN_ ? dict->attrs->size : XFFI_SEEN_;
  for (k = 0; k < 4; ++k) {
    uint64_t bits = dict->seen[k];
    for (; bits != 0; bits &= bits - 1) ++seen;
  }
  if (XFFI_UNLIKELY_(seen != size)) xffi_unknown_attrs_(call, dict);
}

/* Reports the unrequested fields of each recorded dictionary with at least one requested field. */
XFFI_HOT_ void xffi_dicts_done_(xffi_call* call) {
  int k;
  for (k = 0; k < call->dict_count; ++k) {
    if (call->dicts[k].asked) xffi_kept_done_(call, &call->dicts[k]);
  }
}

#endif  /* XLA_FFI_ATTRIBUTE_H_ */
