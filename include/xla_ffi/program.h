/* Programs for the embedded runtime and for a real XLA: build, verify, print, run.
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
 * The conventions are those of runtime.h. In C++, xla/client/xla_builder.h reads like XLA's own.
 *
 * Shapes are texts as HLO prints them: "f32[2,3]{1,0}", "(f32[2], (s32[], token[]))"; without a
 * layout arrays are row-major. Texts that are handed out are the caller's, for
 * xffi_rt_text_destroy. Mistakes in a program (an element that a tuple does not have, an alias
 * between different shapes, parameters with the same number) are collected: xffi_rt_builder_build
 * tells them all, by the instructions' names. */

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
/* A program whose targets are found. */
typedef struct xffi_rt_compiled xffi_rt_compiled;
/* A client of a PJRT plugin, which is a real XLA: xla_ffi/pjrt.h. */
typedef struct xffi_rt_client xffi_rt_client;
/* An instruction of a builder. What stands for an instruction of another one is told when the
 * program is built; so is XFFI_RT_NO_OP. */
typedef struct xffi_rt_op {
  uint64_t builder;
  uint64_t index;
} xffi_rt_op;
#define XFFI_RT_NO_OP {0, 0}

/* Frees a text that was handed out.
 *   text     no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the text. */
void xffi_rt_text_destroy(char* text);

/* --- building ---------------------------------------------------------------------------------- */

/* Begins a program.
 *   name     of the program; copied.
 *   out      the builder: the caller's, for xffi_rt_builder_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_builder_create(const char* name, xffi_rt_builder** out);

/* Destroys a builder; a program that it has built stays.
 *   builder  no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the builder. */
void xffi_rt_builder_destroy(xffi_rt_builder* builder);

/* Adds a parameter of the program.
 *   builder  whose program is not built yet.
 *   number   from 0, in any order.
 *   shape    its shape; copied.
 *   name     its name, made up where NULL or empty; copied.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a shape that does
 *            not parse.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_parameter(xffi_rt_builder* builder, int64_t number,
                                          const char* shape, const char* name, xffi_rt_op* out);

/* Adds a constant array.
 *   builder  whose program is not built yet.
 *   shape    of an array, row-major; copied.
 *   data     the values, row-major, small elements packed with the first in the low bits; copied.
 *            May be NULL when `size` is 0.
 *   size     in bytes, that of the shape.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for another size or
 *            layout.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_constant(xffi_rt_builder* builder, const char* shape,
                                         const void* data, size_t size, xffi_rt_op* out);

/* Adds a token that waits for nothing.
 *   builder  whose program is not built yet.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_token(xffi_rt_builder* builder, xffi_rt_op* out);

/* Adds a tuple of instructions.
 *   builder   whose program is not built yet.
 *   elements  the instructions; copied. May be NULL when `count` is 0.
 *   count     how many.
 *   out       the instruction.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_tuple(xffi_rt_builder* builder, const xffi_rt_op* elements,
                                      size_t count, xffi_rt_op* out);

/* Adds an element of a tuple.
 *   builder  whose program is not built yet.
 *   tuple    an instruction whose shape is a tuple.
 *   index    of the element, from 0.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_get_tuple_element(xffi_rt_builder* builder, xffi_rt_op tuple,
                                                  int64_t index, xffi_rt_op* out);

/* An output of a call in the memory of an operand: paths of tuple indices, empty for arrays. */
typedef struct xffi_rt_alias {
  const int64_t* output;
  size_t output_size;
  int64_t operand;
  const int64_t* operand_index;
  size_t operand_index_size;
} xffi_rt_alias;

/* Conventions of targets: XLA's numbers. */
#define XFFI_RT_API_ORIGINAL 1
#define XFFI_RT_API_STATUS_RETURNING 2
#define XFFI_RT_API_STATUS_RETURNING_UNIFIED 3
#define XFFI_RT_API_TYPED_FFI 4
/* Schedules: XLA's numbers. */
#define XFFI_RT_SCHEDULE_NONE 0
#define XFFI_RT_SCHEDULE_LATEST 1
#define XFFI_RT_SCHEDULE_EARLIEST 2

/* A custom call. What is zero is left away. */
typedef struct xffi_rt_custom_call {
  size_t struct_size;
  /* The instruction's name; made up where NULL. */
  const char* name;
  const char* target;
  const xffi_rt_op* operands;
  size_t operand_count;
  const char* shape;
  /* One shape with layouts for each operand, or NULL: everything is row-major then. */
  const char* const* operand_layouts;
  size_t operand_layout_count;
  /* Any bytes; for API_TYPED_FFI the text of an MLIR dictionary, or nothing. */
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
 *   builder  whose program is not built yet.
 *   call     begun with XFFI_RT_CUSTOM_CALL_INIT; everything that it names is copied, called
 *            programs are kept.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for another struct_size,
 *            for numbers and shapes that are not known.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_custom_call(xffi_rt_builder* builder,
                                            const xffi_rt_custom_call* call, xffi_rt_op* out);

/* Names an instruction.
 *   builder  whose program is not built yet.
 *   op       the instruction.
 *   name     of it; copied.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_set_name(xffi_rt_builder* builder, xffi_rt_op op, const char* name);

/* The shape of an instruction.
 *   builder  whose program is not built yet.
 *   op       the instruction.
 *   out      a text: the caller's, for xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for an instruction of another
 *            builder, or one that a mistake left without a shape.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_shape(const xffi_rt_builder* builder, xffi_rt_op op, char** out);

/* The last instruction.
 *   builder  whose program is not built yet.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND where there is none.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_last(const xffi_rt_builder* builder, xffi_rt_op* out);

/* Verifies the program and ends the builder, which is used up whatever comes of it and is still to
 * be destroyed.
 *   builder  whose program is not built yet.
 *   root     the instruction whose value is the program's result.
 *   out      the program: the caller's, for xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with all mistakes, one a
 *            line.
 *   Threads  one at a time for a builder. */
xffi_rt_status* xffi_rt_builder_build(xffi_rt_builder* builder, xffi_rt_op root,
                                      xffi_rt_program** out);

/* An array in host memory, row by row. */
typedef struct xffi_rt_array {
  XLA_FFI_DataType dtype;
  /* Not negative. */
  int64_t rank;
  /* May be NULL when `rank` is 0. */
  const int64_t* dims;
  /* May be NULL when there are no elements. Small elements share bytes, the first in the low bits. */
  const void* data;
} xffi_rt_array;
/* An earlier header that leaves `#pragma pack` open, or -fpack-struct (/Zp), changes all layouts. */
typedef char xffi_rt_array_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_array) == 32 ? 1 : -1];

/* --- programs ---------------------------------------------------------------------------------- */

/* Destroys a program. What was made of it keeps what it needs.
 *   program  no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the program. */
void xffi_rt_program_destroy(xffi_rt_program* program);

/* A program from HLO text, as XLA and xffi_rt_program_hlo print it.
 *   hlo      parameters, constants, tuples and custom calls; copied.
 *   out      the program: the caller's, for xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with the line where the text is no HLO,
 *            and with all mistakes of the program; UNIMPLEMENTED for other instructions, which a real XLA takes
 *            as StableHLO (xla_ffi/pjrt.h).
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_parse(const char* hlo, xffi_rt_program** out);

/* The program as HLO text.
 *   program  stays as it is.
 *   out      a text: the caller's, for xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for what HLO text has no
 *            words for.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_hlo(const xffi_rt_program* program, char** out);

/* The program as an MLIR module of the StableHLO dialect.
 *   program  stays as it is.
 *   out      a text: the caller's, for xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for what StableHLO has no
 *            words for.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_stablehlo(const xffi_rt_program* program, char** out);

/* How many parameters there are.
 *   program  NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_program_parameter_count(const xffi_rt_program* program);

/* The shape of a parameter.
 *   program  stays as it is.
 *   number   of the parameter, from 0.
 *   out      a text: the caller's, for xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a parameter that does
 *            not exist.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_parameter_shape(const xffi_rt_program* program, size_t number,
                                                char** out);

/* The shape of the result.
 *   program  stays as it is.
 *   out      a text: the caller's, for xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_result_shape(const xffi_rt_program* program, char** out);

/* --- execution --------------------------------------------------------------------------------- */

/* How tuples reach legacy targets. */
#define XFFI_RT_TUPLES_TODAY 0        /* one pointer a leaf, as today's XLA */
#define XFFI_RT_TUPLES_CPU_ROOTS 1    /* CPU: the root of each, as the first documents */
#define XFFI_RT_TUPLES_DEVICE_NODES 2 /* devices: every node, as the first documents */
#define XFFI_RT_TUPLES_DEVICE_NULLS 3 /* the same with null for the nodes inside of operands */

/* How a program runs. What is zero is left away. */
typedef struct xffi_rt_compile_options {
  size_t struct_size;
  /* For which targets are looked up; NULL for the CPU. */
  const char* platform;
  int tuples;
  /* Gives the calls a device that is a thread: its stream and its scratch memory. */
  int with_device;
  /* Looks for what calls leave unwritten, typed and legacy ones: as
   * xffi_rt_call_set_check_unwritten. */
  int check_unwritten;
  /* Runs the program on a real XLA: the client's plugin compiles it, and the handlers and legacy CPU targets that it
   * names are registered there, where the runtime knows them. The two fields before and the one behind are then 0, and
   * the platform is NULL or the client's. What was compiled keeps what it needs of the client. */
  const xffi_rt_client* client;
  /* How long to wait for each call of an asynchronous handler; negative: for ever, 0: 60 seconds. */
  int64_t milliseconds;
} xffi_rt_compile_options;
#define XFFI_RT_COMPILE_OPTIONS_INIT \
  {sizeof(xffi_rt_compile_options), NULL, XFFI_RT_TUPLES_TODAY, 0, 0, NULL, 0}

/* Finds the program's targets; instantiate stages run here. Calls without a side effect that
 * nobody reads are left away, as by XLA.
 *   runtime  with which the targets are registered.
 *   program  stays as it is; what is needed of it is kept.
 *   options  begun with XFFI_RT_COMPILE_OPTIONS_INIT, copied; NULL for the defaults.
 *   out      what can be run: the caller's, for xffi_rt_compiled_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a target that is not
 *            registered, and what the instantiate stages answer.
 *   Threads  any. */
xffi_rt_status* xffi_rt_compile(xffi_rt* runtime, const xffi_rt_program* program,
                                const xffi_rt_compile_options* options, xffi_rt_compiled** out);

/* Destroys a compiled program; what runs goes on.
 *   compiled  no longer the caller's; NULL is fine.
 *   Threads   any, while no other thread uses it. */
void xffi_rt_compiled_destroy(xffi_rt_compiled* compiled);

/* How many arrays the parameters have, all tuples taken apart.
 *   compiled  NULL is fine.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_count(const xffi_rt_compiled* compiled);

/* How many arrays the result has, all tuples taken apart.
 *   compiled  NULL is fine.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_count(const xffi_rt_compiled* compiled);

/* The size of an array of the parameters.
 *   compiled  NULL is fine.
 *   index     of the array, from 0.
 *   Returns   bytes; 0 where there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_bytes(const xffi_rt_compiled* compiled, size_t index);

/* The size of an array of the result.
 *   compiled  NULL is fine.
 *   index     of the array, from 0.
 *   Returns   bytes; 0 where there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_bytes(const xffi_rt_compiled* compiled, size_t index);

/* Runs the program: one pointer for each array of the parameters and of the result, in pre-order,
 * row-major whatever the layouts. Handlers read and write the caller's arrays in place where these begin
 * at a multiple of 16 bytes; others are copied, and so are results that are parameters, constants, not
 * row-major, in the memory of an operand, or twice in the result. A call that takes longer than its time
 * limit (`milliseconds` of the options) is the status DEADLINE_EXCEEDED (4): its arrays belong to the handler
 * until it has completed its future, which xffi_rt_wait_for_calls waits for; so they do behind another error where
 * the handler left a future beside it. The program, what it was compiled from and the runtime may go at
 * once. On a real XLA everything is copied, and there is no limit.
 *   compiled   stays as it is.
 *   args       the arguments' arrays, which are only read. May be NULL when there are none.
 *   arg_count  xffi_rt_compiled_arg_count.
 *   rets       where the result's arrays go, which overlap neither each other nor an argument; NULL for one
 *              that is not wanted. What they hold after a failure is not said. May be NULL when there are
 *              none.
 *   ret_count  xffi_rt_compiled_ret_count.
 *   Returns    NULL, or a status that the caller destroys: what the handlers answer.
 *   Threads    any, several at once. */
xffi_rt_status* xffi_rt_compiled_run(const xffi_rt_compiled* compiled, const void* const* args,
                                     size_t arg_count, void* const* rets, size_t ret_count);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_PROGRAM_H_ */
