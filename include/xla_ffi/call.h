/* One call of a handler: its buffers and attributes, checked as they are fetched. Part of <xla_ffi/handler.h>.
 *
 * A failed fetch records a problem and returns an empty value. `xffi_decoded` returns all problems as one error,
 * with the names that were passed to the fetches. A successful call allocates memory only if it has more than 64
 * operands to compare.
 */
#ifndef XLA_FFI_CALL_H_
#define XLA_FFI_CALL_H_

#include "xla_ffi/host.h"
#include "xla_ffi/text.h"
#include "xla_ffi/frame.h"

/* Values for `dtype` and `rank` that accept any element type and any rank. */
#define XFFI_ANY_DTYPE XLA_FFI_DataType_INVALID
#define XFFI_ANY_RANK (-1)

/* A set of named attributes: those of the handler, or the fields of a dictionary attribute. `path` is the dictionary's
 * name, or empty for the attributes of the handler. `seen` has a bit for each of the first XFFI_SEEN_ attributes, which
 * is 1 if the attribute was requested. */
typedef struct xffi_dict {
  const XLA_FFI_Attrs* attrs;
  const char* path;
  uint64_t seen[4];
  struct xffi_kept_* kept; /* the requested fields, shared by all copies of this struct; or null */
  int asked;               /* whether a field was requested by name, even an absent one */
} xffi_dict;
#define XFFI_SEEN_ 256

/* The requested fields of a fetched dictionary, for xffi_decoded. Each mark is a byte, so that setting it needs no
 * read-modify-write. Larger dictionaries have no such record: the stack frame must stay below a page, because Windows
 * otherwise probes the stack. */
#define XFFI_FIELDS_ 64
typedef struct xffi_kept_ {
  const XLA_FFI_Attrs* attrs;
  const char* path;
  int asked; /* whether a field was requested by name since the last check */
  unsigned char seen[XFFI_FIELDS_];
} xffi_kept_;
#define XFFI_KEPT_ 8

#define XFFI_NAMES_ 8

/* A handler's call: the operands and attributes that were fetched, and the problems that were found. */
typedef struct xffi_call {
  const XLA_FFI_Api* api;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_CallFrame* frame;
  const char* handler; /* the handler's name, for messages */
  int64_t next_arg, next_ret;
  const char *args[XFFI_NAMES_], *rets[XFFI_NAMES_]; /* the operands' names, as passed to the first fetches */
  xffi_dict attrs;
  xffi_kept_ dicts[XFFI_KEPT_]; /* the dictionaries that were fetched first */
  int dict_count;
  int open_attrs; /* set to 1 to accept attributes and fields that were not requested */
  int problems;
  int64_t decoded; /* number of fetched operands when xffi_decoded was last called, or -1 */
  XLA_FFI_Error_Code code; /* the code of the error that lists the problems */
  size_t text_size;
  char text[1200]; /* the text of the problems */
} xffi_call;

/* An operand. `count` is the number of elements. `present` is 0 for an optional operand that is absent. */
typedef struct xffi_buffer {
  void* data;
  const int64_t* dims;
  int64_t rank;
  int64_t count;
  XLA_FFI_DataType dtype;
  int present;
} xffi_buffer;

/* Returns the name of an element type as XLA writes it; "?" for unknown types. */
XFFI_INLINE_ const char* xffi_dtype_name(XLA_FFI_DataType dtype) {
  const char* name = xla_ffi_sdk_dtype_name((unsigned)dtype);
  return name != NULL ? name : "?";
}

/* Returns the number of bits per element; 0 for tokens and unknown types. Elements smaller than a byte are packed, with
 * the first in the low bits. */
XFFI_INLINE_ unsigned xffi_dtype_bits(XLA_FFI_DataType dtype) {
  return xla_ffi_sdk_bits((unsigned)dtype);
}

/* Returns the size of a buffer's data in bytes. For packed types, rounds up to whole bytes. */
XFFI_INLINE_ size_t xffi_size_bytes(const xffi_buffer* buffer) {
  const unsigned bits = xffi_dtype_bits(buffer->dtype);
  const size_t count = (size_t)buffer->count;
  return bits >= 8 ? count * (bits / 8) : (count / 8) * bits + ((count % 8) * bits + 7) / 8;
}

/* Returns 1 if xffi_decoded accepted everything that was fetched. Also returns 1 if nothing was fetched, because such a
 * handler reads the call frame itself. */
XFFI_INLINE_ int xffi_is_decoded_(const xffi_call* call) {
  const int64_t fetched = call->next_arg + call->next_ret;
  return call->problems == 0 &&
         (call->decoded == fetched || (fetched == 0 && !call->attrs.asked));
}

XFFI_INLINE_ const char* xffi_stage_name_(XLA_FFI_ExecutionStage stage) {
  switch ((unsigned)stage) {
#define XFFI_STAGE_(name, lower)       \
  case XLA_FFI_ExecutionStage_##name:  \
    return lower;
    XLA_FFI_SDK_STAGES(XFFI_STAGE_)
#undef XFFI_STAGE_
    default:
      return "unknown";
  }
}

/* Creates an error to return from a handler, with a printf format. The message starts with the handler's name and the
 * stage. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error(const xffi_call* call, XLA_FFI_Error_Code code,
                                    const char* format, ...) XFFI_PRINTF_(3, 4);
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error(const xffi_call* call, XLA_FFI_Error_Code code,
                                    const char* format, ...) {
  XLA_FFI_Error* error;
  va_list list;
  va_start(list, format);
  error = xffi_error_vformat_(call->api, code, call->handler, xffi_stage_name_(call->frame->stage), format, list);
  va_end(list);
  return error;
}

/* Records a problem, with a printf format. xffi_decoded then refuses the call. */
XFFI_COLD_ void xffi_problem(xffi_call* call, const char* format, ...) XFFI_PRINTF_(2, 3);
XFFI_COLD_ void xffi_problem(xffi_call* call, const char* format, ...) {
  size_t room;
  va_list list;
  int n;
  n = xffi_snprintf_(call->text + call->text_size, sizeof(call->text) - call->text_size, "\n  ");
  if (call->text_size + 3 < sizeof(call->text)) call->text_size += (size_t)n;
  room = sizeof(call->text) - call->text_size;
  va_start(list, format);
  n = xffi_vsnprintf_(call->text + call->text_size, room, format, list);
  va_end(list);
  call->text_size += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
  ++call->problems;
}

/* Writes an operand's name for messages: "argument `x`", or "argument 0". */
XFFI_COLD_ void xffi_put_name_(xla_ffi_sdk_line* line, const char* what, const char* name, int64_t index) {
  xla_ffi_sdk_put_words(line, what);
  xla_ffi_sdk_put_words(line, name != NULL ? " `" : " ");
  if (name == NULL) {
    xla_ffi_sdk_put_number(line, index);
  } else {
    xla_ffi_sdk_put_words(line, name);
    xla_ffi_sdk_put_words(line, "`");
  }
}

/* Records that two buffers have different shapes. */
XFFI_COLD_ void xffi_shape_problem_(xffi_call* call, const char* a, const xffi_buffer* x,
                                  const char* b, const xffi_buffer* y) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xla_ffi_sdk_put_words(&line, "[");
  xla_ffi_sdk_put_dims(&line, x->dims, x->rank);
  xla_ffi_sdk_put_words(&line, "] and [");
  xla_ffi_sdk_put_dims(&line, y->dims, y->rank);
  xffi_problem(call, "`%s` and `%s`: expected equal shapes, got %s]", a, b, line.text);
}

/* Returns 1 if an operand has a sub-byte type that the host cannot describe. Hosts before r5 pass such elements as
 * dtype 0, with the first in the high bits (measured with jaxlib 0.4.31 to 0.5.1). Handlers that accept any element
 * type cannot read such elements either. */
XFFI_COLD_ int xffi_unnumbered_(const XLA_FFI_Api* api, XLA_FFI_DataType want, XLA_FFI_DataType got) {
  const unsigned bits = xla_ffi_sdk_bits_of((unsigned)want);
  return got == XLA_FFI_DataType_INVALID && (want == XFFI_ANY_DTYPE || (bits != 0 && bits < 8)) &&
         xffi_host_revision(api) < XFFI_SINCE_(PACKED_ELEMENT_TYPES);
}

/* Records why the operand at `index` cannot be fetched. */
XFFI_COLD_ void xffi_operand_problem_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                     XLA_FFI_DataType dtype, int64_t rank) {
  const XLA_FFI_CallFrame* frame = call->frame;
  const int is_there = index < (is_arg ? frame->args.size : frame->rets.size);
  const XLA_FFI_Buffer* got = is_there ? xla_ffi_sdk_operand(frame, is_arg, index) : NULL;
  xla_ffi_sdk_line line;
  line.size = 0;
  if (index < XFFI_NAMES_) (is_arg ? call->args : call->rets)[index] = name;
  if (!is_there) xla_ffi_sdk_put_words(&line, "missing ");
  xffi_put_name_(&line, is_arg ? "argument" : "result", name, index);
  if (is_there) xla_ffi_sdk_put_words(&line, ": ");
  if (got != NULL && xffi_unnumbered_(call->api, dtype, got->dtype)) {
    xla_ffi_sdk_put_words(&line, dtype == XFFI_ANY_DTYPE ? XLA_FFI_SDK_TEXT_PACKED : xffi_dtype_name(dtype));
    xla_ffi_sdk_put_words(&line, XLA_FFI_SDK_TEXT_WITHOUT_NUMBER);
    xla_ffi_sdk_put_words(&line, xffi_first_jaxlib_(XFFI_SINCE_(PACKED_ELEMENT_TYPES)));
    call->code = XLA_FFI_Error_Code_UNIMPLEMENTED;
  } else if (got != NULL) {
    xla_ffi_sdk_put_mismatch(&line, got, is_arg, name, name != NULL ? strlen(name) : 0, (unsigned)dtype, rank);
  } else if (is_there) {
    xla_ffi_sdk_put_words(&line, XLA_FFI_SDK_TEXT_NOT_A_BUFFER);
  }
  xffi_problem(call, "%s", line.text);
}

/* Returns 1 if operands have memory in the current stage: execute or record. In other stages, the host may pass null
 * pointers. */
XFFI_HOT_ int xffi_has_memory_(const xffi_call* call) {
  return call->frame->stage == XLA_FFI_ExecutionStage_EXECUTE ||
         call->frame->stage == XLA_FFI_ExecutionStage_RECORD;
}

/* Stores the name of a fetched operand for messages, and returns the operand as an xffi_buffer. */
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

/* Fetches the operand at `index`, of any element type, rank and size, or records the problem. This is the slow path. */
XFFI_SLOW_ xffi_buffer xffi_operand_any_(xffi_call* call, int is_arg, int64_t index, const char* name,
                                        XLA_FFI_DataType dtype, int64_t rank) {
  const XLA_FFI_CallFrame* frame = call->frame;
  const XLA_FFI_Buffer* from = NULL;
  xffi_buffer to = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  if (index < (is_arg ? frame->args.size : frame->rets.size)) {
    from = xla_ffi_sdk_operand(frame, is_arg, index);
  }
  /* XFFI_ANY_DTYPE accepts every known type. Its value is that of INVALID, so a buffer with the same dtype has an
   * unknown type. */
  if (from != NULL && (dtype == XFFI_ANY_DTYPE) != (from->dtype == dtype) &&
      (rank == XFFI_ANY_RANK || from->rank == rank)) {
    int64_t count;
    const xla_ffi_sdk_fault fault =
        xla_ffi_sdk_find_fault(from, (unsigned)from->dtype, from->rank, &count);
    if (fault == xla_ffi_sdk_fault_none ||
        (fault != xla_ffi_sdk_fault_count && fault != xla_ffi_sdk_fault_bytes &&
         !xffi_has_memory_(call))) {
      to = xffi_fetched_(call, is_arg, index, name, from->dtype, from, count);
      /* The pointer of an empty buffer may be null, which memcpy and similar functions do not accept, even for size
       * 0. */
      if (to.data == NULL && to.count == 0) to.data = (void*)(uintptr_t)from;
      return to;
    }
  }
  xffi_operand_problem_(call, is_arg, index, name, dtype, rank);
  return to;
}

/* Fetches the operand at `index`. If `dtype` and `rank` are constants, operands with at most two small dimensions take
 * the fast path. */
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

/* Returns the number of arguments that were not fetched yet. The unsigned subtraction cannot overflow, even for an
 * invalid size. */
XFFI_HOT_ int64_t xffi_args_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->args.size - (uint64_t)call->next_arg);
}

/* Returns the number of results that were not fetched yet. */
XFFI_HOT_ int64_t xffi_rets_left(const xffi_call* call) {
  return (int64_t)((uint64_t)call->frame->rets.size - (uint64_t)call->next_ret);
}

/* Fetches the next argument, which must have this dtype and rank. Error messages show `name`. */
XFFI_HOT_ xffi_buffer xffi_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                              int64_t rank) {
  return xffi_operand_(call, 1, call->next_arg++, name, dtype, rank);
}

/* Fetches the next result, which must have this dtype and rank. The elements are not initialised. */
XFFI_HOT_ xffi_buffer xffi_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                              int64_t rank) {
  return xffi_operand_(call, 0, call->next_ret++, name, dtype, rank);
}

XFFI_COLD_ void xffi_inout_problem_(xffi_call* call, const char* name, int64_t arg, int64_t ret) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xffi_put_name_(&line, "in-out operand", name, arg);
  xla_ffi_sdk_put_words(&line, ": ");
  xla_ffi_sdk_put_apart(&line, call->frame, arg, ret);
  xffi_problem(call, "%s", line.text);
}

/* Fetches an in-out operand: the next argument and the next result, which must be one array that the handler updates in
 * place. The caller must declare the alias (input_output_aliases); otherwise, the call is refused. */
XFFI_INLINE_ xffi_buffer xffi_inout(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                   int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  const int64_t arg = call->next_arg, ret = call->next_ret;
  const xffi_buffer x = xffi_arg(call, name, dtype, rank), y = xffi_ret(call, name, dtype, rank);
  int64_t i;
  int same = x.rank == y.rank && x.dtype == y.dtype;
  if (!x.present || !y.present) return none; /* the failed fetch has reported a problem */
  for (i = 0; same && i < x.rank; ++i) same = x.dims[i] == y.dims[i];
  same = same && (x.data == y.data || x.count == 0 || !xffi_has_memory_(call));
  if (XFFI_UNLIKELY_(!same)) {
    xffi_inout_problem_(call, name, arg, ret);
    return none;
  }
  return y;
}

/* Fetches the next argument. If there is none, `present` of the result is 0. */
XFFI_INLINE_ xffi_buffer xffi_optional_arg(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_args_left(call) > 0 ? xffi_arg(call, name, dtype, rank) : none;
}

/* Fetches the next result. If there is none, `present` of the returned buffer is 0. */
XFFI_INLINE_ xffi_buffer xffi_optional_ret(xffi_call* call, const char* name, XLA_FFI_DataType dtype,
                                          int64_t rank) {
  const xffi_buffer none = {NULL, NULL, 0, 0, XLA_FFI_DataType_INVALID, 0};
  return xffi_rets_left(call) > 0 ? xffi_ret(call, name, dtype, rank) : none;
}

/* Refuses the call if two buffers have different shapes. */
XFFI_INLINE_ void xffi_same_shape(xffi_call* call, const char* a, const xffi_buffer* x,
                                 const char* b, const xffi_buffer* y) {
  int64_t i;
  int same = x->rank == y->rank;
  if (!x->present || !y->present) return; /* the failed fetch has reported a problem */
  for (i = 0; same && i < x->rank; ++i) same = x->dims[i] == y->dims[i];
  if (XFFI_UNLIKELY_(!same)) xffi_shape_problem_(call, a, x, b, y);
}

#endif  /* XLA_FFI_CALL_H_ */
