/* One call of a handler: its buffers and attributes, checked as they are fetched. Part of
 * <xla_ffi/handler.h>.
 *
 * A fetch that fails notes the problem and returns an empty value; `xffi_decoded` returns all
 * problems as one error, with the names given here. Nothing is allocated on the way to success.
 */
#ifndef XLA_FFI_CALL_H_
#define XLA_FFI_CALL_H_

#include "xla_ffi/host.h"
#include "xla_ffi/memory.h"

/* Stands for any element type, and for any rank. */
#define XFFI_ANY_DTYPE XLA_FFI_DataType_INVALID
#define XFFI_ANY_RANK (-1)

/* Attributes by name: a handler's own, or a dictionary among them. `path` is the dictionary's name,
 * empty for the handler's own. `seen` marks the ones that were asked for. */
typedef struct xffi_dict {
  const XLA_FFI_Attrs* attrs;
  const char* path;
  uint64_t seen[4];
} xffi_dict;

/* Where an operand lies, and what the handler calls it. */
typedef struct xffi_region_ {
  xla_ffi_sdk_region at;
  const char* name;
} xffi_region_;
#define XFFI_REGIONS_ 8

/* A call that is being decoded. */
typedef struct xffi_call {
  const XLA_FFI_Api* api;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_CallFrame* frame;
  const char* handler; /* the handler's name, for messages */
  int64_t next_arg, next_ret;
  xffi_region_ args[XFFI_REGIONS_], rets[XFFI_REGIONS_]; /* the first of them */
  xffi_dict attrs;
  int open_attrs; /* set it to ignore attributes that were not asked for */
  int problems;
  XLA_FFI_Error_Code code; /* of the error that lists them */
  size_t text_size;
  char text[1200]; /* filled where there are problems */
} xffi_call;

/* A buffer. `count` is the number of elements. Absent optional operands have `present` 0. */
typedef struct xffi_buffer {
  void* data;
  const int64_t* dims;
  int64_t rank;
  int64_t count;
  XLA_FFI_DataType dtype;
  int present;
} xffi_buffer;

/* The field's name of an element type; "?" for one that is not known. */
XFFI_COLD const char* xffi_dtype_name(XLA_FFI_DataType dtype) {
  switch ((unsigned)dtype) {
#define XFFI_ELEMENT_(name, lower, bits) \
  case XLA_FFI_DataType_##name:          \
    return #name;
    XLA_FFI_SDK_ELEMENT_TYPES(XFFI_ELEMENT_)
#undef XFFI_ELEMENT_
    case XLA_FFI_DataType_INVALID:
      return "INVALID";
    default:
      return "?";
  }
}

/* Bits that one element takes; 0 for tokens and unknown types. Elements of less than a byte are
 * packed, the first in the low bits. */
XFFI_INLINE unsigned xffi_dtype_bits(XLA_FFI_DataType dtype) {
  return xla_ffi_sdk_bits((unsigned)dtype);
}

/* The bytes of a buffer's data; packed types are rounded up to whole bytes. */
XFFI_INLINE size_t xffi_size_bytes(const xffi_buffer* buffer) {
  const unsigned bits = xffi_dtype_bits(buffer->dtype);
  const size_t count = (size_t)buffer->count;
  return bits >= 8 ? count * (bits / 8) : (count / 8) * bits + ((count % 8) * bits + 7) / 8;
}

/* Notes a problem: the call is refused by xffi_decoded. */
XFFI_COLD void xffi_problem(xffi_call* call, const char* format, ...) XFFI_PRINTF(2, 3);
XFFI_COLD void xffi_problem(xffi_call* call, const char* format, ...) {
  const size_t room = sizeof(call->text) - call->text_size;
  va_list list;
  int n;
  if (room > 3) {
    call->text[call->text_size] = '\n';
    call->text[call->text_size + 1] = '\0';
    va_start(list, format);
    n = vsnprintf(call->text + call->text_size + 1, room - 1, format, list);
    va_end(list);
    call->text_size += n < 0 ? 1 : (size_t)n + 1 >= room ? room - 1 : (size_t)n + 1;
  }
  ++call->problems;
}

/* Writes the first dimensions into a text of XFFI_DIMS_TEXT_ bytes, as "2,3". */
#define XFFI_DIMS_TEXT_ 160
XFFI_COLD void xffi_dims_text(char* text, const int64_t* dims, int64_t rank) {
  size_t at = 0;
  int64_t i;
  text[0] = '\0';
  for (i = 0; i < rank && at < XFFI_DIMS_TEXT_ - 24; ++i) {
    at += (size_t)snprintf(text + at, XFFI_DIMS_TEXT_ - at, i == 0 ? "%lld" : ",%lld",
                           (long long)dims[i]);
  }
}

/* Notes that two buffers are not of one shape. */
XFFI_COLD void xffi_shape_problem(xffi_call* call, const char* a, const xffi_buffer* x,
                                  const char* b, const xffi_buffer* y) {
  char text[2][XFFI_DIMS_TEXT_];
  xffi_dims_text(text[0], x->dims, x->rank);
  xffi_dims_text(text[1], y->dims, y->rank);
  xffi_problem(call, "'%s' and '%s': expected equal shapes, got [%s] and [%s]", a, b, text[0],
               text[1]);
}

/* Hosts before r5 send elements of less than a byte, which had no number then, as dtype 0, and pack
 * the first one into the high bits (as measured on jaxlib 0.4.31 to 0.5.1). */
XFFI_COLD int xffi_unnumbered(const XLA_FFI_Api* api, XLA_FFI_DataType want, XLA_FFI_DataType got) {
  const unsigned bits = xffi_dtype_bits(want);
  return got == XLA_FFI_DataType_INVALID && bits != 0 && bits < 8 &&
         xffi_host_revision(api) < XFFI_SINCE_(PACKED_ELEMENT_TYPES);
}

XFFI_COLD void xffi_buffer_problem(xffi_call* call, const char* kind, long long index,
                                   const char* name, const XLA_FFI_Buffer* got,
                                   XLA_FFI_DataType dtype, int64_t rank) {
  if (got == NULL || got->struct_size < XLA_FFI_Buffer_STRUCT_SIZE || got->rank < 0 ||
      (got->rank > 0 && got->dims == NULL)) {
    xffi_problem(call, "%s '%s' (%lld): not a buffer that this handler can read", kind, name, index);
  } else if (xffi_unnumbered(call->api, dtype, got->dtype)) {
    xffi_problem(call, "%s '%s' (%lld): %s" XLA_FFI_SDK_TEXT_WITHOUT_NUMBER "%s", kind, name, index,
                 xffi_dtype_name(dtype), xffi_first_jaxlib(XFFI_SINCE_(PACKED_ELEMENT_TYPES)));
    call->code = XLA_FFI_Error_Code_UNIMPLEMENTED;
  } else if (dtype != XFFI_ANY_DTYPE && got->dtype != dtype) {
    xffi_problem(call, "%s '%s' (%lld): expected dtype %s, got %s (%d)", kind, name, index,
                 xffi_dtype_name(dtype), xffi_dtype_name(got->dtype), (int)got->dtype);
  } else if (rank != XFFI_ANY_RANK && got->rank != rank) {
    xffi_problem(call, "%s '%s' (%lld): expected rank %lld, got %lld", kind, name, index,
                 (long long)rank, (long long)got->rank);
  } else {
    char text[XFFI_DIMS_TEXT_ + 32], dims[XFFI_DIMS_TEXT_];
    xla_ffi_sdk_region region;
    xffi_dims_text(dims, got->dims, got->rank);
    snprintf(text, sizeof(text), "%s[%s]", xffi_dtype_name(got->dtype), dims);
    switch (xla_ffi_sdk_locate_any(got, (unsigned)got->dtype, got->rank, &region)) {
      case xla_ffi_sdk_fault_bytes:
        xffi_problem(call, "%s '%s' (%lld): %s" XLA_FFI_SDK_TEXT_BYTES, kind, name, index, text);
        break;
      case xla_ffi_sdk_fault_null:
        xffi_problem(call, "%s '%s' (%lld): %s" XLA_FFI_SDK_TEXT_NULL_DATA, kind, name, index, text);
        break;
      case xla_ffi_sdk_fault_alignment:
        xffi_problem(call, "%s '%s' (%lld): %s" XLA_FFI_SDK_TEXT_LIES_AT "0x%llx"
                     XLA_FFI_SDK_TEXT_NO_MULTIPLE "%u", kind, name, index, text,
                     (unsigned long long)(uintptr_t)got->data,
                     xla_ffi_sdk_align((unsigned)got->dtype));
        break;
      default:
        xffi_problem(call, "%s '%s' (%lld): %s" XLA_FFI_SDK_TEXT_COUNT, kind, name, index, text);
        break;
    }
  }
}

/* Whether operands have memory in the stage of a call. What other stages are given is the host's
 * affair. */
XFFI_HOT int xffi_has_memory(const xffi_call* call) {
  return call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE ||
         call->frame->stage == XLA_FFI_ExecutionStage_RECORD;
}

XFFI_HOT xffi_buffer xffi_buffer_of(xffi_call* call, const char* kind, int64_t index,
                                       const char* name, const XLA_FFI_Buffer* from,
                                       XLA_FFI_DataType dtype, int64_t rank,
                                       xffi_region_* regions) {
  xffi_buffer to = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  xla_ffi_sdk_region region = {XLA_FFI_SDK_NOWHERE, XLA_FFI_SDK_NOWHERE, 0};
  int bad = from == NULL || from->struct_size < XLA_FFI_Buffer_STRUCT_SIZE || from->rank < 0 ||
            (from->rank > 0 && from->dims == NULL) ||
            (rank != XFFI_ANY_RANK && from->rank != rank);
  if (!bad && dtype != XFFI_ANY_DTYPE && from->dtype != dtype) {
    bad = 1;
  }
  if (!bad) {
    const unsigned element = (unsigned)(dtype != XFFI_ANY_DTYPE ? dtype : from->dtype);
    if (rank == XFFI_ANY_RANK || dtype == XFFI_ANY_DTYPE ||
        !xla_ffi_sdk_locate(from, element, rank, &region)) {
      xla_ffi_sdk_region any;
      const xla_ffi_sdk_fault fault = xla_ffi_sdk_locate_any(from, element, from->rank, &any);
      region = any;
      bad = fault == xla_ffi_sdk_fault_count || fault == xla_ffi_sdk_fault_bytes ||
            (fault != xla_ffi_sdk_fault_none && xffi_has_memory(call));
    }
  }
  if (XFFI_UNLIKELY(bad)) {
    xffi_buffer_problem(call, kind, (long long)index, name, from, dtype, rank);
    return to;
  }
  if (index < XFFI_REGIONS_) {
    regions[index].at = region;
    regions[index].name = name;
  }
  /* An empty one may lie nowhere; but memcpy and its like take no null pointer, whatever the size. */
  to.data = from->data != NULL || region.count != 0 ? from->data : (void*)(uintptr_t)from;
  to.dims = from->dims;
  to.rank = from->rank;
  to.count = region.count;
  to.dtype = dtype != XFFI_ANY_DTYPE ? dtype : from->dtype;
  to.present = 1;
  return to;
}

/* Operands that were not fetched yet. A size may be any number: nothing overflows. */
XFFI_HOT int64_t xffi_args_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->args.size - (uint64_t)call->next_arg);
}

/* Results that were not fetched yet. */
XFFI_HOT int64_t xffi_rets_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->rets.size - (uint64_t)call->next_ret);
}

/* The next operand, of that dtype and rank. `name` is for messages. */
XFFI_HOT xffi_buffer xffi_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                 int64_t rank) {
  const int64_t i = call->next_arg++;
  const XLA_FFI_Args* args = &call->frame->args;
  if (XFFI_UNLIKELY(i >= args->size || args->types[i] != XLA_FFI_ArgType_BUFFER)) {
    const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
    if (i < args->size) {
      xffi_problem(call, "argument '%s' (%lld): expected a buffer, got kind %d", name, (long long)i,
                   (int)args->types[i]);
    } else {
      xffi_problem(call, "argument '%s' (%lld): missing, the call has %lld", name, (long long)i,
                   (long long)args->size);
    }
    return none;
  }
  return xffi_buffer_of(call, "argument", i, name, (const XLA_FFI_Buffer*)args->args[i], dtype,
                        rank, call->args);
}

/* The next result, of that dtype and rank; its elements are not initialised. */
XFFI_HOT xffi_buffer xffi_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                 int64_t rank) {
  const int64_t i = call->next_ret++;
  const XLA_FFI_Rets* rets = &call->frame->rets;
  if (XFFI_UNLIKELY(i >= rets->size || rets->types[i] != XLA_FFI_RetType_BUFFER)) {
    const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
    if (i < rets->size) {
      xffi_problem(call, "result '%s' (%lld): expected a buffer, got kind %d", name, (long long)i,
                   (int)rets->types[i]);
    } else {
      xffi_problem(call, "result '%s' (%lld): missing, the call has %lld", name, (long long)i,
                   (long long)rets->size);
    }
    return none;
  }
  return xffi_buffer_of(call, "result", i, name, (const XLA_FFI_Buffer*)rets->rets[i], dtype, rank,
                        call->rets);
}

XFFI_COLD void xffi_inout_problem(xffi_call* call, const char* name, int64_t arg, int64_t ret,
                                  const xffi_buffer* x, const xffi_buffer* y) {
  char text[2][XFFI_DIMS_TEXT_];
  if (xla_ffi_sdk_alike(xla_ffi_sdk_operand(call->frame, 1, arg),
                        xla_ffi_sdk_operand(call->frame, 0, ret))) {
    xffi_problem(call, "in-out operand '%s' (%lld): " XLA_FFI_SDK_TEXT_APART "{%lld: %lld}", name,
                 (long long)arg, (long long)arg, (long long)ret);
    return;
  }
  xffi_dims_text(text[0], x->dims, x->rank);
  xffi_dims_text(text[1], y->dims, y->rank);
  xffi_problem(call, "in-out operand '%s' (%lld): the argument is %s[%s], the result %s[%s]"
               XLA_FFI_SDK_TEXT_ONE_ARRAY, name, (long long)arg, xffi_dtype_name(x->dtype), text[0],
               xffi_dtype_name(y->dtype), text[1]);
}

/* The next argument and the next result, one array in one place, which comes in and is changed where it
 * lies: the caller declares it (input_output_aliases), and a call where they lie apart is refused. */
XFFI_INLINE xffi_buffer xffi_inout(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                   int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  const int64_t arg = call->next_arg, ret = call->next_ret;
  const xffi_buffer x = xffi_arg(call, name, dtype, rank), y = xffi_ret(call, name, dtype, rank);
  int64_t i;
  int same = x.rank == y.rank && x.dtype == y.dtype;
  if (!x.present || !y.present) return none; /* told already */
  for (i = 0; same && i < x.rank; ++i) same = x.dims[i] == y.dims[i];
  same = same && (x.data == y.data || x.count == 0 || !xffi_has_memory(call));
  if (XFFI_UNLIKELY(!same)) {
    xffi_inout_problem(call, name, arg, ret, &x, &y);
    return none;
  }
  /* It is the result that others may not touch. */
  if (arg < XFFI_REGIONS_) call->args[arg].at.start = call->args[arg].at.end = XLA_FFI_SDK_NOWHERE;
  return y;
}

/* The next operand where there is one; else `present` is 0. */
XFFI_INLINE xffi_buffer xffi_optional_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_args_left(call) > 0 ? xffi_arg(call, name, dtype, rank) : none;
}

/* The next result where there is one; else `present` is 0. */
XFFI_INLINE xffi_buffer xffi_optional_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_rets_left(call) > 0 ? xffi_ret(call, name, dtype, rank) : none;
}

/* Asks that two buffers have one shape. */
XFFI_INLINE void xffi_same_shape(xffi_call* call, const char* a, const xffi_buffer* x,
                                 const char* b, const xffi_buffer* y) {
  int64_t i;
  int same = x->rank == y->rank;
  if (!x->present || !y->present) return; /* told already */
  for (i = 0; same && i < x->rank; ++i) same = x->dims[i] == y->dims[i];
  if (XFFI_UNLIKELY(!same)) xffi_shape_problem(call, a, x, b, y);
}

#endif  /* XLA_FFI_CALL_H_ */
