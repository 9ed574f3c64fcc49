/* One call of a handler: its buffers and attributes, checked as they are fetched. Part of
 * <xla_ffi/handler.h>.
 *
 * A fetch that fails notes the problem and returns an empty value; `xffi_decoded` returns all
 * problems as one error, with the names given here. Nothing is allocated on the way to success, but to
 * compare more than 64 operands.
 */
#ifndef XLA_FFI_CALL_H_
#define XLA_FFI_CALL_H_

#include "xla_ffi/host.h"
#include "xla_ffi/text.h"
#include "xla_ffi/frame.h"

/* Stands for any element type, and for any rank. */
#define XFFI_ANY_DTYPE XLA_FFI_DataType_INVALID
#define XFFI_ANY_RANK (-1)

/* Attributes by name: a handler's own, or a dictionary among them. `path` is the dictionary's name,
 * empty for the handler's own. `seen` marks the ones that were asked for, of the first XFFI_SEEN_. */
typedef struct xffi_dict {
  const XLA_FFI_Attrs* attrs;
  const char* path;
  uint64_t seen[4];
  struct xffi_kept_* kept; /* null, or where all copies of it mark */
  int asked;               /* whether something was asked for by name, be it there or not */
} xffi_dict;
#define XFFI_SEEN_ 256

/* A dictionary that was fetched, for xffi_decoded to look at. Bytes are marked without waiting for each other. Larger ones are
 * not kept: a call's frame stays below a page, which Windows looks for on the stack by a function of its own. */
#define XFFI_FIELDS_ 64
typedef struct xffi_kept_ {
  const XLA_FFI_Attrs* attrs;
  const char* path;
  int asked; /* whether something was asked for by name, and is not judged yet */
  unsigned char seen[XFFI_FIELDS_];
} xffi_kept_;
#define XFFI_KEPT_ 8

#define XFFI_NAMES_ 8

/* A call that is being decoded. */
typedef struct xffi_call {
  const XLA_FFI_Api* api;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_CallFrame* frame;
  const char* handler; /* the handler's name, for messages */
  int64_t next_arg, next_ret;
  const char *args[XFFI_NAMES_], *rets[XFFI_NAMES_]; /* what the handler calls the first of them */
  xffi_dict attrs;
  xffi_kept_ dicts[XFFI_KEPT_]; /* the first of the dictionaries that were fetched */
  int dict_count;
  int open_attrs; /* set it to ignore attributes, and fields of dictionaries, that were not asked for */
  int problems;
  int64_t decoded; /* operands that had been fetched when xffi_decoded was asked last, or -1 */
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
XFFI_INLINE_ const char* xffi_dtype_name(XLA_FFI_DataType dtype) {
  const char* name = xla_ffi_sdk_dtype_name((unsigned)dtype);
  return name != NULL ? name : "?";
}

/* Bits that one element takes; 0 for tokens and unknown types. Elements of less than a byte are
 * packed, the first in the low bits. */
XFFI_INLINE_ unsigned xffi_dtype_bits(XLA_FFI_DataType dtype) {
  return xla_ffi_sdk_bits((unsigned)dtype);
}

/* The bytes of a buffer's data; packed types are rounded up to whole bytes. */
XFFI_INLINE_ size_t xffi_size_bytes(const xffi_buffer* buffer) {
  const unsigned bits = xffi_dtype_bits(buffer->dtype);
  const size_t count = (size_t)buffer->count;
  return bits >= 8 ? count * (bits / 8) : (count / 8) * bits + ((count % 8) * bits + 7) / 8;
}

/* Whether xffi_decoded was asked of all that was fetched, and was content; or nothing was fetched, by a handler that looks
 * at the frame itself. */
XFFI_INLINE_ int xffi_is_decoded_(const xffi_call* call) {
  const int64_t fetched = call->next_arg + call->next_ret;
  return call->problems == 0 &&
         (call->decoded == fetched || (fetched == 0 && !call->attrs.asked));
}

/* Notes a problem: the call is refused by xffi_decoded. */
XFFI_COLD_ void xffi_problem(xffi_call* call, const char* format, ...) XFFI_PRINTF_(2, 3);
XFFI_COLD_ void xffi_problem(xffi_call* call, const char* format, ...) {
  size_t room;
  va_list list;
  int n;
  if (call->text_size < sizeof(call->text) - 1) call->text[call->text_size++] = '\n';
  room = sizeof(call->text) - call->text_size;
  va_start(list, format);
  n = vsnprintf(call->text + call->text_size, room, format, list);
  va_end(list);
  call->text_size += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
  ++call->problems;
}

/* What an operand is called in messages: "argument 'x' (0)". */
XFFI_COLD_ void xffi_put_name_(xla_ffi_sdk_line* line, const char* what, const char* name, int64_t index) {
  xla_ffi_sdk_put_words(line, what);
  if (name != NULL) {
    xla_ffi_sdk_put_words(line, " '");
    xla_ffi_sdk_put_words(line, name);
    xla_ffi_sdk_put_words(line, "' (");
  } else {
    xla_ffi_sdk_put_words(line, " ");
  }
  xla_ffi_sdk_put_number(line, index);
  if (name != NULL) xla_ffi_sdk_put_words(line, ")");
}

/* A shape: "[2,3]". */
XFFI_COLD_ void xffi_put_shape_(xla_ffi_sdk_line* line, const int64_t* dims, int64_t rank) {
  xla_ffi_sdk_put_words(line, "[");
  xla_ffi_sdk_put_dims(line, dims, rank, ",");
  xla_ffi_sdk_put_words(line, "]");
}

/* Notes that two buffers are not of one shape. */
XFFI_COLD_ void xffi_shape_problem_(xffi_call* call, const char* a, const xffi_buffer* x,
                                  const char* b, const xffi_buffer* y) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xffi_put_shape_(&line, x->dims, x->rank);
  xla_ffi_sdk_put_words(&line, " and ");
  xffi_put_shape_(&line, y->dims, y->rank);
  xffi_problem(call, "'%s' and '%s': expected equal shapes, got %s", a, b, line.text);
}

/* Hosts before r5 send elements of less than a byte, which had no number then, as dtype 0, and pack
 * the first one into the high bits (as measured on jaxlib 0.4.31 to 0.5.1). Who wants any type cannot read them either. */
XFFI_COLD_ int xffi_unnumbered_(const XLA_FFI_Api* api, XLA_FFI_DataType want, XLA_FFI_DataType got) {
  const unsigned bits = xla_ffi_sdk_bits_of((unsigned)want);
  return got == XLA_FFI_DataType_INVALID && (want == XFFI_ANY_DTYPE || (bits != 0 && bits < 8)) &&
         xffi_host_revision(api) < XFFI_SINCE_(PACKED_ELEMENT_TYPES);
}

/* Says what keeps a buffer from being fetched as one of that dtype and rank. */
XFFI_COLD_ void xffi_put_buffer_problem_(xffi_call* call, xla_ffi_sdk_line* line, const XLA_FFI_Buffer* got,
                                        XLA_FFI_DataType dtype, int64_t rank) {
  const char *type = xffi_dtype_name(got->dtype), *text = XLA_FFI_SDK_TEXT_COUNT;
  int64_t elements;
  if ((dtype == XFFI_ANY_DTYPE) == (got->dtype == dtype)) {
    const int packed = xffi_unnumbered_(call->api, dtype, got->dtype);
    if (dtype == XFFI_ANY_DTYPE) {
      xla_ffi_sdk_put_words(line, packed ? XLA_FFI_SDK_TEXT_PACKED : "expected a dtype");
    } else {
      if (!packed) xla_ffi_sdk_put_words(line, "expected dtype ");
      xla_ffi_sdk_put_words(line, xffi_dtype_name(dtype));
    }
    if (packed) {
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_WITHOUT_NUMBER);
      xla_ffi_sdk_put_words(line, xffi_first_jaxlib_(XFFI_SINCE_(PACKED_ELEMENT_TYPES)));
      call->code = XLA_FFI_Error_Code_UNIMPLEMENTED;
      return;
    }
    xla_ffi_sdk_put_words(line, ", got ");
    xla_ffi_sdk_put_words(line, type);
    xla_ffi_sdk_put_words(line, " (");
    xla_ffi_sdk_put_number(line, (int)got->dtype);
    xla_ffi_sdk_put_words(line, ")");
    return;
  }
  if (rank != XFFI_ANY_RANK && got->rank != rank) {
    xla_ffi_sdk_put_words(line, "expected rank ");
    xla_ffi_sdk_put_number(line, rank);
    xla_ffi_sdk_put_words(line, ", got ");
    xla_ffi_sdk_put_number(line, got->rank);
    return;
  }
  xla_ffi_sdk_put_words(line, type);
  xffi_put_shape_(line, got->dims, got->rank);
  switch (xla_ffi_sdk_find_fault(got, (unsigned)got->dtype, got->rank, &elements)) {
    case xla_ffi_sdk_fault_bytes:
      text = XLA_FFI_SDK_TEXT_BYTES;
      break;
    case xla_ffi_sdk_fault_null:
      text = XLA_FFI_SDK_TEXT_NULL_DATA;
      break;
    case xla_ffi_sdk_fault_alignment:
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_LIES_AT);
      xla_ffi_sdk_put_address(line, got->data);
      xla_ffi_sdk_put_words(line, XLA_FFI_SDK_TEXT_NO_MULTIPLE);
      xla_ffi_sdk_put_number(line, xla_ffi_sdk_align_of((unsigned)got->dtype));
      return;
    default:
      break;
  }
  xla_ffi_sdk_put_words(line, text);
}

/* Notes what keeps the operand at `index` from being fetched. */
XFFI_COLD_ void xffi_operand_problem_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                     XLA_FFI_DataType dtype, int64_t rank) {
  const XLA_FFI_CallFrame* frame = call->frame;
  const int64_t count = is_arg ? frame->args.size : frame->rets.size;
  xla_ffi_sdk_line line;
  line.size = 0;
  xffi_put_name_(&line, is_arg ? "argument" : "result", name, index);
  xla_ffi_sdk_put_words(&line, ": ");
  if (index >= count) {
    xla_ffi_sdk_put_words(&line, "missing, the call has ");
    xla_ffi_sdk_put_number(&line, count);
  } else {
    const int kind = is_arg ? (int)frame->args.types[index] : (int)frame->rets.types[index];
    const XLA_FFI_Buffer* got = xla_ffi_sdk_operand(frame, is_arg, index);
    if (kind != XLA_FFI_ArgType_BUFFER) {
      xla_ffi_sdk_put_words(&line, "expected a buffer, got kind ");
      xla_ffi_sdk_put_number(&line, kind);
    } else if (got == NULL || got->rank < 0 || (got->rank > 0 && got->dims == NULL)) {
      xla_ffi_sdk_put_words(&line, "not a buffer that this handler can read");
    } else {
      xffi_put_buffer_problem_(call, &line, got, dtype, rank);
    }
  }
  xffi_problem(call, "%s", line.text);
}

/* Whether operands have memory in the stage of a call. What other stages are given is the host's
 * affair. */
XFFI_HOT_ int xffi_has_memory_(const xffi_call* call) {
  return call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE ||
         call->frame->stage == XLA_FFI_ExecutionStage_RECORD;
}

/* Keeps the name of a fetched operand, and gives it to the handler. */
XFFI_HOT_ xffi_buffer xffi_fetched_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                   XLA_FFI_DataType dtype, const XLA_FFI_Buffer* from, int64_t count) {
  xffi_buffer to;
  if (index < XFFI_NAMES_) (is_arg ? call->args : call->rets)[index] = name;
  to.data = from->data;
  to.dims = from->dims;
  to.rank = from->rank;
  to.count = count;
  to.dtype = dtype;
  to.present = 1;
  return to;
}

/* The operand at `index` by the long way: of any element type, rank and size, or what is wrong with it. */
XFFI_SLOW_ xffi_buffer xffi_operand_any_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                        XLA_FFI_DataType dtype, int64_t rank) {
  const XLA_FFI_CallFrame* frame = call->frame;
  const XLA_FFI_Buffer* from = NULL;
  xffi_buffer to = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  if (index < (is_arg ? frame->args.size : frame->rets.size)) {
    from = xla_ffi_sdk_operand(frame, is_arg, index);
  }
  /* Any type is one that has a number: XFFI_ANY_DTYPE is the number that none has. */
  if (from != NULL && (dtype == XFFI_ANY_DTYPE) != (from->dtype == dtype) &&
      (rank == XFFI_ANY_RANK || from->rank == rank)) {
    int64_t count;
    const xla_ffi_sdk_fault fault =
        xla_ffi_sdk_find_fault(from, (unsigned)from->dtype, from->rank, &count);
    if (fault == xla_ffi_sdk_fault_none ||
        (fault != xla_ffi_sdk_fault_count && fault != xla_ffi_sdk_fault_bytes &&
         !xffi_has_memory_(call))) {
      to = xffi_fetched_(call, is_arg, index, name, from->dtype, from, count);
      /* An empty one may lie nowhere; but memcpy and its like take no null pointer, whatever the size. */
      if (to.data == NULL && to.count == 0) to.data = (void*)(uintptr_t)from;
      return to;
    }
  }
  xffi_operand_problem_(call, is_arg, index, name, dtype, rank);
  return to;
}

/* The operand at `index`, of up to two small dimensions, where its type and rank are constants. */
XFFI_HOT_ xffi_buffer xffi_operand_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                   XLA_FFI_DataType dtype, int64_t rank) {
  if (dtype != XFFI_ANY_DTYPE && rank >= 0 && rank <= 2 &&
      index < (is_arg ? call->frame->args.size : call->frame->rets.size)) {
    const XLA_FFI_Buffer* from = xla_ffi_sdk_operand(call->frame, is_arg, index);
    if (XFFI_LIKELY_(from != NULL && from->dtype == dtype && from->rank == rank &&
                    xla_ffi_sdk_is_small(from, (unsigned)dtype, rank) && from->data != NULL &&
                    (uintptr_t)from->data % 8 == 0)) {
      const int64_t rows = rank > 1 ? from->dims[0] : 1;
      return xffi_fetched_(call, is_arg, index, name, dtype, from, rank > 0 ? rows * from->dims[rank - 1] : 1);
    }
  }
  return xffi_operand_any_(call, is_arg, index, name, dtype, rank);
}

/* Operands that were not fetched yet. A size may be any number: nothing overflows. */
XFFI_HOT_ int64_t xffi_args_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->args.size - (uint64_t)call->next_arg);
}

/* Results that were not fetched yet. */
XFFI_HOT_ int64_t xffi_rets_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->rets.size - (uint64_t)call->next_ret);
}

/* The next operand, of that dtype and rank. `name` is for messages. */
XFFI_HOT_ xffi_buffer xffi_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                              int64_t rank) {
  return xffi_operand_(call, 1, call->next_arg++, name, dtype, rank);
}

/* The next result, of that dtype and rank; its elements are not initialised. */
XFFI_HOT_ xffi_buffer xffi_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                              int64_t rank) {
  return xffi_operand_(call, 0, call->next_ret++, name, dtype, rank);
}

XFFI_COLD_ void xffi_inout_problem_(xffi_call* call, const char* name, int64_t arg, int64_t ret,
                                  const xffi_buffer* x, const xffi_buffer* y) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xffi_put_name_(&line, "in-out operand", name, arg);
  if (xla_ffi_sdk_alike(xla_ffi_sdk_operand(call->frame, 1, arg),
                        xla_ffi_sdk_operand(call->frame, 0, ret))) {
    xffi_problem(call, "%s: " XLA_FFI_SDK_TEXT_APART "{%lld: %lld}", line.text, (long long)arg, (long long)ret);
    return;
  }
  xla_ffi_sdk_put_words(&line, ": the argument is ");
  xla_ffi_sdk_put_words(&line, xffi_dtype_name(x->dtype));
  xffi_put_shape_(&line, x->dims, x->rank);
  xla_ffi_sdk_put_words(&line, ", the result ");
  xla_ffi_sdk_put_words(&line, xffi_dtype_name(y->dtype));
  xffi_put_shape_(&line, y->dims, y->rank);
  xffi_problem(call, "%s" XLA_FFI_SDK_TEXT_ONE_ARRAY, line.text);
}

/* The next argument and the next result, one array in one place, which comes in and is changed where it
 * lies: the caller declares it (input_output_aliases), and a call where they lie apart is refused. */
XFFI_INLINE_ xffi_buffer xffi_inout(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                   int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  const int64_t arg = call->next_arg, ret = call->next_ret;
  const xffi_buffer x = xffi_arg(call, name, dtype, rank), y = xffi_ret(call, name, dtype, rank);
  int64_t i;
  int same = x.rank == y.rank && x.dtype == y.dtype;
  if (!x.present || !y.present) return none; /* told already */
  for (i = 0; same && i < x.rank; ++i) same = x.dims[i] == y.dims[i];
  same = same && (x.data == y.data || x.count == 0 || !xffi_has_memory_(call));
  if (XFFI_UNLIKELY_(!same)) {
    xffi_inout_problem_(call, name, arg, ret, &x, &y);
    return none;
  }
  return y;
}

/* The next operand where there is one; else `present` is 0. */
XFFI_INLINE_ xffi_buffer xffi_optional_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_args_left(call) > 0 ? xffi_arg(call, name, dtype, rank) : none;
}

/* The next result where there is one; else `present` is 0. */
XFFI_INLINE_ xffi_buffer xffi_optional_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_rets_left(call) > 0 ? xffi_ret(call, name, dtype, rank) : none;
}

/* Asks that two buffers have one shape. */
XFFI_INLINE_ void xffi_same_shape(xffi_call* call, const char* a, const xffi_buffer* x,
                                 const char* b, const xffi_buffer* y) {
  int64_t i;
  int same = x->rank == y->rank;
  if (!x->present || !y->present) return; /* told already */
  for (i = 0; same && i < x->rank; ++i) same = x->dims[i] == y->dims[i];
  if (XFFI_UNLIKELY_(!same)) xffi_shape_problem_(call, a, x, b, y);
}

#endif  /* XLA_FFI_CALL_H_ */
