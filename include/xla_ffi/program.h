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

/* A builder, to which instructions of a program are added. */
typedef struct xffi_rt_builder xffi_rt_builder;
/* A verified program, built or parsed. */
typedef struct xffi_rt_program xffi_rt_program;
/* A compiled program, whose targets are resolved. */
typedef struct xffi_rt_compiled xffi_rt_compiled;
/* A client of a PJRT plugin, which runs a real XLA: see xla_ffi/pjrt.h. */
typedef struct xffi_rt_client xffi_rt_client;
/* An instruction of a builder. Using XFFI_RT_NO_OP, or an instruction of a different builder, is reported when the
 * program is built. */
typedef struct xffi_rt_op {
  uint64_t builder;
  uint64_t index;
} xffi_rt_op;
#define XFFI_RT_NO_OP {0, 0}

/* Frees a text that a function returned.
 *   text     may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the text. */
void xffi_rt_text_destroy(char* text);

/* --- building ---------------------------------------------------------------------------------- */

/* Creates a builder for a new program.
 *   name     the name of the program; copied.
 *   out      the builder, which the caller destroys with xffi_rt_builder_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_builder_create(const char* name, xffi_rt_builder** out);

/* Destroys a builder. The built program stays valid.
 *   builder  may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the builder. */
void xffi_rt_builder_destroy(xffi_rt_builder* builder);

/* Adds a parameter to the program.
 *   builder  a builder whose program is not built yet.
 *   number   the number, from 0, in any order.
 *   shape    the parameter's shape; copied.
 *   name     the parameter's name, generated if NULL or empty; copied.
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
 *   size     the size in bytes; must match the shape.
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
 *   count     the number of elements.
 *   out       the instruction.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time per builder. */
xffi_rt_status* xffi_rt_builder_tuple(xffi_rt_builder* builder, const xffi_rt_op* elements,
                                      size_t count, xffi_rt_op* out);

/* Adds an instruction that gets an element of a tuple.
 *   builder  a builder whose program is not built yet.
 *   tuple    an instruction whose shape is a tuple.
 *   index    the index of the element, from 0.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_get_tuple_element(xffi_rt_builder* builder, xffi_rt_op tuple,
                                                  int64_t index, xffi_rt_op* out);

/* An alias: an output of a custom call that shares the memory of an operand. `output` and `operand_index` are paths of
 * tuple indices, empty for arrays. */
typedef struct xffi_rt_alias {
  const int64_t* output;
  size_t output_size;
  int64_t operand;
  const int64_t* operand_index;
  size_t operand_index_size;
} xffi_rt_alias;

/* The API versions of custom calls, numbered as in XLA. */
#define XFFI_RT_API_ORIGINAL 1
#define XFFI_RT_API_STATUS_RETURNING 2
#define XFFI_RT_API_STATUS_RETURNING_UNIFIED 3
#define XFFI_RT_API_TYPED_FFI 4
/* The schedules of custom calls, numbered as in XLA. */
#define XFFI_RT_SCHEDULE_NONE 0
#define XFFI_RT_SCHEDULE_LATEST 1
#define XFFI_RT_SCHEDULE_EARLIEST 2

/* The properties of a custom call. Fields that are 0 have no effect. */
typedef struct xffi_rt_custom_call {
  size_t struct_size;
  /* The name of the instruction; generated if NULL. */
  const char* name;
  const char* target;
  const xffi_rt_op* operands;
  size_t operand_count;
  const char* shape;
  /* One shape with a layout per operand; NULL if operands and result are row-major. */
  const char* const* operand_layouts;
  size_t operand_layout_count;
  /* Arbitrary bytes for the target. For API_TYPED_FFI: the text of an MLIR dictionary, or empty. */
  const char* opaque;
  size_t opaque_size;
  int has_side_effect;
  const xffi_rt_alias* aliases;
  size_t alias_count;
  /* The literal of the call: an array, as for xffi_rt_builder_constant. */
  const char* literal_shape;
  const void* literal;
  size_t literal_size;
  int schedule;
  int api_version;
  /* The called computations: programs that the target may run. */
  const xffi_rt_program* const* called;
  size_t called_count;
} xffi_rt_custom_call;
#define XFFI_RT_CUSTOM_CALL_INIT                                                                \
  {sizeof(xffi_rt_custom_call), NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, 0, NULL, 0, NULL, \
   NULL, 0, XFFI_RT_SCHEDULE_NONE, XFFI_RT_API_ORIGINAL, NULL, 0}

/* Adds a custom call.
 *   builder  a builder whose program is not built yet.
 *   call     initialised with XFFI_RT_CUSTOM_CALL_INIT. The data is copied; called programs are shared.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a wrong struct_size, an unknown
 *            schedule or API version, or a shape that cannot be parsed.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_custom_call(xffi_rt_builder* builder,
                                            const xffi_rt_custom_call* call, xffi_rt_op* out);

/* Sets the name of an instruction.
 *   builder  a builder whose program is not built yet.
 *   op       the instruction.
 *   name     the new name; copied.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_set_name(xffi_rt_builder* builder, xffi_rt_op op, const char* name);

/* Gets the shape of an instruction.
 *   builder  a builder whose program is not built yet.
 *   op       the instruction.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for an instruction of a different builder, or an
 *            instruction that has no shape because of a mistake.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_shape(const xffi_rt_builder* builder, xffi_rt_op op, char** out);

/* Gets the instruction that was added last.
 *   builder  a builder whose program is not built yet.
 *   out      the instruction.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the builder has no instruction.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_last(const xffi_rt_builder* builder, xffi_rt_op* out);

/* Verifies and returns the program. Afterwards, even after an error, the builder can only be destroyed.
 *   builder  a builder whose program is not built yet.
 *   root     the instruction whose value is the program's result.
 *   out      the program, which the caller destroys with xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with all mistakes, one per line.
 *   Threads  one at a time per builder. */
xffi_rt_status* xffi_rt_builder_build(xffi_rt_builder* builder, xffi_rt_op root,
                                      xffi_rt_program** out);

/* A row-major array in host memory: an argument or a result of an execution. */
typedef struct xffi_rt_array {
  XLA_FFI_DataType dtype;
  /* The number of dimensions, not negative. */
  int64_t rank;
  /* The dimensions; may be NULL if `rank` is 0. */
  const int64_t* dims;
  /* The elements; may be NULL if there are none. Sub-byte elements are packed, with the first in the low bits. */
  const void* data;
} xffi_rt_array;
/* A compile error here means that an open `#pragma pack` of an earlier header, or -fpack-struct (/Zp), changes the
 * layouts of structs. */
typedef char xffi_rt_array_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_array) == 32 ? 1 : -1];

/* --- programs ---------------------------------------------------------------------------------- */

/* Destroys a program. Compiled programs, and programs that call it, stay valid.
 *   program  may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the program. */
void xffi_rt_program_destroy(xffi_rt_program* program);

/* Parses a program from HLO text, as XLA and xffi_rt_program_hlo print it.
 *   hlo      the text, with parameters, constants, tuples and custom calls; copied.
 *   out      the program, which the caller destroys with xffi_rt_program_destroy.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT with the line of a syntax error, or with all
 *            mistakes of the program; UNIMPLEMENTED for other instructions. To use such instructions, pass
 *            StableHLO to a real XLA (xla_ffi/pjrt.h).
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_parse(const char* hlo, xffi_rt_program** out);

/* Prints the program as HLO text.
 *   program  the program; not changed.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for a program that HLO text cannot express.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_hlo(const xffi_rt_program* program, char** out);

/* Prints the program as an MLIR module of the StableHLO dialect.
 *   program  the program; not changed.
 *   out      a text, which the caller destroys with xffi_rt_text_destroy.
 *   Returns  NULL, or a status that the caller destroys: UNIMPLEMENTED for a program that StableHLO cannot express.
 *   Threads  any. */
xffi_rt_status* xffi_rt_program_stablehlo(const xffi_rt_program* program, char** out);

/* Returns the number of parameters.
 *   program  may be NULL.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_program_parameter_count(const xffi_rt_program* program);

/* Gets the shape of a parameter.
 *   program  the program; not changed.
 *   number   the number of the parameter, from 0.
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

/* The forms in which tuples are passed to targets of original custom calls. */
#define XFFI_RT_TUPLES_TODAY 0        /* one pointer per leaf, as in current XLA */
#define XFFI_RT_TUPLES_CPU_ROOTS 1    /* CPU: the root of each tuple, as in XLA's old documents */
#define XFFI_RT_TUPLES_DEVICE_NODES 2 /* devices: every node, as in XLA's old documents */
#define XFFI_RT_TUPLES_DEVICE_NULLS 3 /* devices: every node, with null for the inner nodes of operands */

/* The options for compiling a program. Fields that are 0 have no effect. */
typedef struct xffi_rt_compile_options {
  size_t struct_size;
  /* The name of the platform whose targets are used; NULL for the CPU. */
  const char* platform;
  int tuples;
  /* If not 0, each call runs on a CPU stream, like on a device, and has scratch memory. */
  int with_device;
  /* If not 0, runs detect elements that XLA FFI calls and original custom calls leave unwritten, like
   * xffi_rt_call_set_check_unwritten. */
  int check_unwritten;
  /* If not NULL, the program runs on a real XLA: the client's plugin compiles the program. The handlers and original
   * CPU targets of the runtime that the program uses are registered with the plugin. `tuples`, `with_device`,
   * `check_unwritten` and `milliseconds` must then be 0, and `platform` must be NULL or the client's platform. The
   * client may be destroyed before the compiled program. */
  const xffi_rt_client* client;
  /* The time limit for each call of an asynchronous handler; negative: none, 0: 60 seconds. */
  int64_t milliseconds;
} xffi_rt_compile_options;
#define XFFI_RT_COMPILE_OPTIONS_INIT \
  {sizeof(xffi_rt_compile_options), NULL, XFFI_RT_TUPLES_TODAY, 0, 0, NULL, 0}

/* Compiles a program: resolves its targets and runs the instantiate stages. As in XLA, calls without side effects
 * whose results are not used are omitted.
 *   runtime  the runtime with which the targets are registered.
 *   program  the program; not changed. It may be destroyed before the compiled program.
 *   options  initialised with XFFI_RT_COMPILE_OPTIONS_INIT, copied; NULL for the defaults.
 *   out      the compiled program, which the caller destroys with xffi_rt_compiled_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a target that is not registered, and errors from
 *            instantiate stages.
 *   Threads  any. */
xffi_rt_status* xffi_rt_compile(xffi_rt* runtime, const xffi_rt_program* program,
                                const xffi_rt_compile_options* options, xffi_rt_compiled** out);

/* Destroys a compiled program. Started executions continue.
 *   compiled  may be NULL; invalid after this call.
 *   Threads   any, while no other thread uses the compiled program. */
void xffi_rt_compiled_destroy(xffi_rt_compiled* compiled);

/* Returns the number of arrays in the parameters, with all tuples flattened.
 *   compiled  may be NULL.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_count(const xffi_rt_compiled* compiled);

/* Returns the number of arrays in the result, with all tuples flattened.
 *   compiled  may be NULL.
 *   Returns   the number; 0 for NULL.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_count(const xffi_rt_compiled* compiled);

/* Returns the size in bytes of an array of the parameters.
 *   compiled  may be NULL.
 *   index     the index of the array, from 0.
 *   Returns   the size; 0 if there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_arg_bytes(const xffi_rt_compiled* compiled, size_t index);

/* Returns the size in bytes of an array of the result.
 *   compiled  may be NULL.
 *   index     the index of the array, from 0.
 *   Returns   the size; 0 if there is no such array.
 *   Threads   any. */
size_t xffi_rt_compiled_ret_bytes(const xffi_rt_compiled* compiled, size_t index);

/* The options of one run. Fields that are 0 have no effect. */
typedef struct xffi_rt_run_options {
  size_t struct_size;
  /* User data for the XLA FFI handlers; must belong to the runtime for which the program was compiled. */
  const xffi_rt_user_data* user_data;
  /* Cancels the XLA FFI calls of this run. Handlers that poll for cancellation stop; calls that have not started fail
   * with CANCELLED (1). */
  const xffi_rt_canceller* canceller;
  /* The time limit in milliseconds of all XLA FFI calls of this run together. If it is 0 or negative, the limit per
   * call of the compile options applies instead. */
  int64_t milliseconds;
  /* The run id that handlers receive. */
  int64_t run_id;
} xffi_rt_run_options;
#define XFFI_RT_RUN_OPTIONS_INIT {sizeof(xffi_rt_run_options), NULL, NULL, 0, 0}

/* Runs the program. `args` and `rets` have one pointer per array of the parameters and of the result, in pre-order. All
 * arrays are row-major, for any layout of the parameters and the result.
 *
 * Handlers read and write the caller's arrays in place if the arrays are aligned to 16 bytes; other arrays are copied.
 * Results are also copied if they are parameters, constants, not row-major, in the memory of an operand, or twice in
 * the result. On a real XLA, all arrays are copied, and there is no time limit.
 *
 * A call that exceeds its time limit (`milliseconds` of the options) fails with DEADLINE_EXCEEDED (4). The handler then
 * uses the arrays until it completes its future; wait for the completion with xffi_rt_wait_for_calls. The same applies
 * after any other error if the handler also left a future. The compiled program, its source and the runtime may be
 * destroyed at any time.
 *   compiled   the compiled program; not changed.
 *   args       the arrays of the parameters, which are only read. May be NULL if there are none.
 *   arg_count  the result of xffi_rt_compiled_arg_count.
 *   rets       arrays for the results, which must not overlap each other or an argument; NULL for an unused result.
 *              After a failure, the contents are unspecified. May be NULL if there are no results.
 *   ret_count  the result of xffi_rt_compiled_ret_count.
 *   options    initialised with XFFI_RT_RUN_OPTIONS_INIT; NULL for the defaults. Original custom calls ignore
 *              the options.
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
