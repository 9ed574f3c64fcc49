/* Builds, verifies, prints and runs programs, on the embedded runtime or on a real XLA.
 *
 *   xffi_rt_builder* b;
 *   xffi_rt_op p0, p1, call;
 *   xffi_rt_builder_create("do_it", &b);
 *   xffi_rt_builder_parameter(b, 0, "f32[128]", "p0", &p0);
 *   xffi_rt_builder_parameter(b, 1, "f32[2048]", "p1", &p1);
 *   const xffi_rt_op operands[] = {p0, p1};
 *   xffi_rt_custom_call spec = XFFI_RT_CUSTOM_CALL_INIT;
 *   spec.target = "do_custom_call"; spec.shape = "f32[2048]";
 *   spec.operands = operands; spec.operand_count = 2;
 *   xffi_rt_builder_custom_call(b, &spec, &call);
 *   xffi_rt_builder_build(b, call, &program);
 *
 * The conventions are those of runtime.h. In C++, xla/client/xla_builder.h has the interface of XLA's own builder.
 *
 * Shapes are written as in HLO text: "f32[2,3]{1,0}", "(f32[2], (s32[], token[]))"; arrays without a layout are
 * row-major. The caller destroys returned texts with xffi_rt_text_destroy. xffi_rt_builder_build reports all mistakes
 * in a program together, with the instructions' names: a missing tuple element, an alias between different shapes,
 * parameters with the same number. */

#ifndef XLA_FFI_PROGRAM_H_
#define XLA_FFI_PROGRAM_H_

#include "xla_ffi/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that is being built. */
typedef struct xffi_rt_builder xffi_rt_builder;
/* A verified program. */
typedef struct xffi_rt_program xffi_rt_program;
/* A program whose targets are resolved. */
typedef struct xffi_rt_compiled xffi_rt_compiled;
/* A client of a PJRT plugin, which is a real XLA: see xla_ffi/pjrt.h. */
typedef struct xffi_rt_client xffi_rt_client;
/* An instruction of a builder. An instruction of a different builder, and XFFI_RT_NO_OP, are reported when the program
 * is built. */
typedef struct xffi_rt_op {
  uint64_t builder;
  uint64_t index;
} xffi_rt_op;
#define XFFI_RT_NO_OP {0, 0}

/* Frees a text that a function returned.
 *   text     no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the text. */
void xffi_rt_text_destroy(char* text);

/* --- building ---------------------------------------------------------------------------------- */

/* Starts a program.
 *   name     of the program; copied.
 *   out      the builder, which the caller destroys with xffi_rt_builder_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_builder_create(const char* name, xffi_rt_builder** out);

/* Destroys a builder. Programs that it has built stay valid.
 *   builder  no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the builder. */
void xffi_rt_builder_destroy(xffi_rt_builder* builder);

/* Adds a parameter to the program.
 *   builder  a builder whose program is not built yet.
 *   number   from 0, in any order.
 *   shape    its shape; copied.
 *   name     its name, generated if NULL or empty; copied.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a shape that cannot be parsed.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_parameter(xffi_rt_builder* builder, int64_t number,
                                          const char* shape, const char* name, xffi_rt_op* out);

/* Adds a constant array.
 *   builder  a builder whose program is not built yet.
 *   shape    the shape of a row-major array; copied.
 *   data     the values, row-major; copied. Sub-byte elements are packed, with the first in the low bits. May be NULL
 *            if `size` is 0.
 *   size     in bytes; must match the shape.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other size or layout.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_constant(xffi_rt_builder* builder, const char* shape,
                                         const void* data, size_t size, xffi_rt_op* out);

/* Adds a token without dependencies.
 *   builder  a builder whose program is not built yet.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_token(xffi_rt_builder* builder, xffi_rt_op* out);

/* Adds a tuple of instructions.
 *   builder   a builder whose program is not built yet.
 *   elements  the instructions; copied. May be NULL if `count` is 0.
 *   count     number of elements.
 *   out       the instruction.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time per builder. */
xffi_rt_status* xffi_rt_builder_tuple(xffi_rt_builder* builder, const xffi_rt_op* elements,
                                      size_t count, xffi_rt_op* out);

/* Adds an element of a tuple.
 *   builder  a builder whose program is not built yet.
 *   tuple    an instruction whose shape is a tuple.
 *   index    of the element, from 0.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_get_tuple_element(xffi_rt_builder* builder, xffi_rt_op tuple,
                                                  int64_t index, xffi_rt_op* out);

/* An output of a call that shares the memory of an operand. The paths are tuple indices, empty for arrays. */
typedef struct xffi_rt_alias {
  const int64_t* output;
  size_t output_size;
  int64_t operand;
  const int64_t* operand_index;
  size_t operand_index_size;
} xffi_rt_alias;

/* Calling conventions of targets, numbered as in XLA. */
#define XFFI_RT_API_ORIGINAL 1
#define XFFI_RT_API_STATUS_RETURNING 2
#define XFFI_RT_API_STATUS_RETURNING_UNIFIED 3
#define XFFI_RT_API_TYPED_FFI 4
/* Schedules, numbered as in XLA. */
#define XFFI_RT_SCHEDULE_NONE 0
#define XFFI_RT_SCHEDULE_LATEST 1
#define XFFI_RT_SCHEDULE_EARLIEST 2

/* A custom call. Fields that are 0 have no effect. */
typedef struct xffi_rt_custom_call {
  size_t struct_size;
  /* The instruction's name; generated if NULL. */
  const char* name;
  const char* target;
  const xffi_rt_op* operands;
  size_t operand_count;
  const char* shape;
  /* One shape with a layout per operand, or NULL if everything is row-major. */
  const char* const* operand_layouts;
  size_t operand_layout_count;
  /* Any bytes. For API_TYPED_FFI: the text of an MLIR dictionary, or nothing. */
  const char* opaque;
  size_t opaque_size;
  int has_side_effect;
  const xffi_rt_alias* aliases;
  size_t alias_count;
  /* An array, as for xffi_rt_builder_constant. */
  const char* literal_shape;
  const void* literal;
  size_t literal_size;
  int schedule;
  int api_version;
  /* Programs that the call may run. */
  const xffi_rt_program* const* called;
  size_t called_count;
} xffi_rt_custom_call;
#define XFFI_RT_CUSTOM_CALL_INIT                                                                \
  {sizeof(xffi_rt_custom_call), NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, 0, NULL, 0, NULL, \
   NULL, 0, XFFI_RT_SCHEDULE_NONE, XFFI_RT_API_ORIGINAL, NULL, 0}

/* Adds a custom call.
 *   builder  a builder whose program is not built yet.
 *   call     initialised with XFFI_RT_CUSTOM_CALL_INIT. Everything it refers to is copied; called programs are kept.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a wrong struct_size, and for unknown
 *            numbers and shapes.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_custom_call(xffi_rt_builder* builder,
                                            const xffi_rt_custom_call* call, xffi_rt_op* out);

/* Names an instruction.
 *   builder  a builder whose program is not built yet.
 *   op       the instruction.
 *   name     its new name; copied.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_set_name(xffi_rt_builder* builder, xffi_rt_op op, const char* name);

/* Gets the shape of an instruction.
 *   builder  a builder whose program is not built yet.
 *   op       the instruction.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for an instruction of a different builder, or one
 *            that has no shape because of a mistake.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_shape(const xffi_rt_builder* builder, xffi_rt_op op, char** out);

/* Gets the last instruction.
 *   builder  a builder whose program is not built yet.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if there is none.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_last(const xffi_rt_builder* builder, xffi_rt_op* out);

/* Verifies the program and finishes the builder. The builder cannot be used any more, even after an error, but must
 * still be destroyed.
 *   builder  a builder whose program is not built yet.
 *   root     the instruction whose value is the program's result.
 *   out      the program, which the caller destroys with xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with all mistakes, one per line.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_build(xffi_rt_builder* builder, xffi_rt_op root,
                                      xffi_rt_program** out);

/* A row-major array in host memory. */
typedef struct xffi_rt_array {
  XLA_FFI_DataType dtype;
  /* Not negative. */
  int64_t rank;
  /* May be NULL if `rank` is 0. */
  const int64_t* dims;
  /* May be NULL if there are no elements. Sub-byte elements are packed, with the first in the low bits. */
  const void* data;
} xffi_rt_array;
/* An earlier header that leaves `#pragma pack` open, or -fpack-struct (/Zp), changes all layouts. */
typedef char xffi_rt_array_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_array) == 32 ? 1 : -1];

/* --- programs ---------------------------------------------------------------------------------- */

/* Destroys a program. Objects created from it keep what they need.
 *   program  no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the program. */
void xffi_rt_program_destroy(xffi_rt_program* program);

/* Parses a program from HLO text, as XLA and xffi_rt_program_hlo print it.
 *   hlo      parameters, constants, tuples and custom calls; copied.
 *   out      the program, which the caller destroys with xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with the line of a syntax error, or with all
 *            mistakes of the program; UNIMPLEMENTED for other instructions, which a real XLA accepts as StableHLO
 *            (xla_ffi/pjrt.h).
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_parse(const char* hlo, xffi_rt_program** out);

/* Prints the program as HLO text.
 *   program  the program; not changed.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for anything that HLO text cannot express.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_hlo(const xffi_rt_program* program, char** out);

/* Prints the program as an MLIR module of the StableHLO dialect.
 *   program  the program; not changed.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for anything that StableHLO cannot express.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_stablehlo(const xffi_rt_program* program, char** out);

/* Returns the number of parameters.
 *   program  NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_program_parameter_count(const xffi_rt_program* program);

/* Gets the shape of a parameter.
 *   program  the program; not changed.
 *   number   of the parameter, from 0.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a parameter that does not exist.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_parameter_shape(const xffi_rt_program* program, size_t number,
                                                char** out);

/* Gets the shape of the result.
 *   program  the program; not changed.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_result_shape(const xffi_rt_program* program, char** out);

/* --- execution --------------------------------------------------------------------------------- */

/* Forms in which tuples are passed to legacy targets. */
#define XFFI_RT_TUPLES_TODAY 0        /* one pointer per leaf, as in current XLA */
#define XFFI_RT_TUPLES_CPU_ROOTS 1    /* CPU: the root of each tuple, as first documented */
#define XFFI_RT_TUPLES_DEVICE_NODES 2 /* devices: every node, as first documented */
#define XFFI_RT_TUPLES_DEVICE_NULLS 3 /* every node, with null for the inner nodes of operands */

/* The options for compiling a program. Fields that are 0 have no effect. */
typedef struct xffi_rt_compile_options {
  size_t struct_size;
  /* The platform whose targets are used; NULL for the CPU. */
  const char* platform;
  int tuples;
  /* Gives the calls a CPU thread as their device, with a stream and scratch memory. */
  int with_device;
  /* Detects elements that typed and legacy calls leave unwritten, like xffi_rt_call_set_check_unwritten. */
  int check_unwritten;
  /* Runs the program on a real XLA. The client's plugin compiles it, and handlers and legacy CPU targets that the
   * runtime knows are registered there. `tuples`, `with_device`, `check_unwritten` and `milliseconds` must then be 0,
   * and `platform` NULL or the client's. The compiled program keeps what it needs of the client. */
  const xffi_rt_client* client;
  /* Time limit for each call of an asynchronous handler; negative: none, 0: 60 seconds. */
  int64_t milliseconds;
} xffi_rt_compile_options;
#define XFFI_RT_COMPILE_OPTIONS_INIT \
  {sizeof(xffi_rt_compile_options), NULL, XFFI_RT_TUPLES_TODAY, 0, 0, NULL, 0}

/* Resolves the program's targets; instantiate stages run here. As in XLA, calls without side effects whose results are
 * not used are omitted.
 *   runtime  the runtime with which the targets are registered.
 *   program  the program; not changed. The compiled program keeps what it needs of it.
 *   options  initialised with XFFI_RT_COMPILE_OPTIONS_INIT, copied; NULL for the defaults.
 *   out      the compiled program, which the caller destroys with xffi_rt_compiled_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a target that is not registered, and errors from
 *            instantiate stages.
 *   Threads  any. */
xffi_rt_status* xffi_rt_compile(xffi_rt* runtime, const xffi_rt_program* program,
                                const xffi_rt_compile_options* options, xffi_rt_compiled** out);

/* Destroys a compiled program. Executions that have started continue.
 *   compiled  no longer usable by the caller; NULL is fine.
 *   Threads   any, while no other thread uses it. */
void xffi_rt_compiled_destroy(xffi_rt_compiled* compiled);

/* Returns the number of arrays in the parameters, with all tuples flattened.
 *   compiled  NULL is fine.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_count(const xffi_rt_compiled* compiled);

/* Returns the number of arrays in the result, with all tuples flattened.
 *   compiled  NULL is fine.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_count(const xffi_rt_compiled* compiled);

/* Returns the size of an array of the parameters.
 *   compiled  NULL is fine.
 *   index     of the array, from 0.
 *   Returns   bytes; 0 if there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_bytes(const xffi_rt_compiled* compiled, size_t index);

/* Returns the size of an array of the result.
 *   compiled  NULL is fine.
 *   index     of the array, from 0.
 *   Returns   bytes; 0 if there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_bytes(const xffi_rt_compiled* compiled, size_t index);

/* The options of one run. Zero means not set. */
typedef struct xffi_rt_run_options {
  size_t struct_size;
  /* Objects of the program for typed handlers; they belong to the runtime that the program was compiled for. */
  const xffi_rt_user_data* user_data;
  /* Cancels the typed calls of this run. Handlers that check for cancellation stop; calls that have not started fail
   * with CANCELLED (1). */
  const xffi_rt_canceller* canceller;
  /* The time limit of all typed calls of this run together, in place of the limit per call of the compile options. If
   * it is 0 or negative, that limit applies. */
  int64_t milliseconds;
  /* The run id that handlers read. */
  int64_t run_id;
} xffi_rt_run_options;
#define XFFI_RT_RUN_OPTIONS_INIT {sizeof(xffi_rt_run_options), NULL, NULL, 0, 0}

/* Runs the program. It takes one pointer per array of the parameters and of the result, in pre-order. All arrays are
 * row-major, whatever the layouts.
 *
 * Handlers read and write the caller's arrays in place if these are aligned to 16 bytes; other arrays are copied.
 * Results are also copied if they are parameters, constants, not row-major, in the memory of an operand, or twice in
 * the result. On a real XLA everything is copied, and there is no time limit.
 *
 * A call that exceeds its time limit (`milliseconds` of the options) fails with DEADLINE_EXCEEDED (4). Its arrays then
 * belong to the handler until the handler completes its future; wait for that with xffi_rt_wait_for_calls. The same
 * applies after another error if the handler also left a future. The compiled program, its source and the runtime may
 * be destroyed at once.
 *   compiled   the compiled program; not changed.
 *   args       the arguments' arrays, which are only read. May be NULL if there are none.
 *   arg_count  xffi_rt_compiled_arg_count.
 *   rets       arrays for the results, which must not overlap each other or an argument; NULL for a result that is not
 *              wanted. Their contents after a failure are unspecified. May be NULL if there are none.
 *   ret_count  xffi_rt_compiled_ret_count.
 *   options    initialised with XFFI_RT_RUN_OPTIONS_INIT; NULL for the defaults. Original custom calls ignore them.
 *   Returns    NULL, or a status that the caller destroys: errors from the handlers; UNIMPLEMENTED for options on a
 *              real XLA.
 *   Threads    any, several at once. */
xffi_rt_status* xffi_rt_compiled_run(const xffi_rt_compiled* compiled, const void* const* args,
                                     size_t arg_count, void* const* rets, size_t ret_count,
                                     const xffi_rt_run_options* options);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_PROGRAM_H_ */
