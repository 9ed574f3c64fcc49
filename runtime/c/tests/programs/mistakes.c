/* Checks that mistakes of a C program in building and running programs result in a status and
 * not in a crash. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xla_ffi/program.h"

static int count = 0;

/* Checks that the status has this code and that its message contains these words. */
static int wrong(xffi_rt_status* status, XLA_FFI_Error_Code code, const char* words, int line) {
  const int right = status != NULL && xffi_rt_status_code(status) == code &&
                    strstr(xffi_rt_status_message(status), words) != NULL;
  if (!right) fprintf(stderr, "line %d: %s\n", line, xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  ++count;
  return right;
}
#define WRONG(status, code, words) \
  if (!wrong(status, XLA_FFI_Error_Code_##code, words, __LINE__)) return 1
#define RIGHT(status)                                                       \
  do {                                                                      \
    xffi_rt_status* s = (status);                                           \
    if (s != NULL) {                                                        \
      fprintf(stderr, "line %d: %s\n", __LINE__, xffi_rt_status_message(s)); \
      return 1;                                                             \
    }                                                                       \
  } while (0)

static void copy(void* out, const void** in) { memcpy(out, in[0], 8); }

static XLA_FFI_Error* nothing(XLA_FFI_CallFrame* frame) {
  (void)frame;
  return NULL;
}

int main(void) {
  const xffi_rt_op none = XFFI_RT_NO_OP;
  const float two[2] = {1, 2};
  const int64_t minus = -1;
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, nothing, NULL};
  xffi_rt_call* rank = NULL;
  xffi_rt_user_data* data = NULL;
  xffi_rt_custom_call call = XFFI_RT_CUSTOM_CALL_INIT;
  xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
  xffi_rt_alias alias = {NULL, 0, 0, NULL, 0};
  xffi_rt_builder* b = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* compiled = NULL;
  xffi_rt* runtime = NULL;
  xffi_rt_op op = none, other = none;
  char* text = NULL;
  const void* args[1] = {NULL};
  void* rets[1] = {NULL};
  float out[2] = {0, 0};

  WRONG(xffi_rt_builder_create(NULL, &b), INVALID_ARGUMENT, "name is a null pointer");
  WRONG(xffi_rt_builder_create("x", NULL), INVALID_ARGUMENT, "out-parameter");
  WRONG(xffi_rt_builder_create("\xFF", &b), INVALID_ARGUMENT, "not UTF-8");
  WRONG(xffi_rt_builder_parameter(NULL, 0, "f32[2]", "x", &op), INVALID_ARGUMENT, "builder");
  RIGHT(xffi_rt_builder_create("mistakes", &b));
  WRONG(xffi_rt_builder_last(b, &op), NOT_FOUND, "no instruction");
  WRONG(xffi_rt_builder_parameter(b, -1, "f32[2]", "x", &op), INVALID_ARGUMENT, "number is -1");
  WRONG(xffi_rt_builder_parameter(b, 0, NULL, "x", &op), INVALID_ARGUMENT, "shape");
  WRONG(xffi_rt_builder_parameter(b, 0, "f33[2]", "x", &op), INVALID_ARGUMENT, "'f33'");
  WRONG(xffi_rt_builder_parameter(b, 0, "f32[2]", "x", NULL), INVALID_ARGUMENT, "out-parameter");
  WRONG(xffi_rt_builder_constant(b, "f32[2]", two, 7, &op), INVALID_ARGUMENT, "8 bytes, 7");
  WRONG(xffi_rt_builder_constant(b, "f32[2]", NULL, 8, &op), INVALID_ARGUMENT, "data");
  WRONG(xffi_rt_builder_constant(b, "(f32[2])", two, 8, &op), INVALID_ARGUMENT, "has none");
  WRONG(xffi_rt_builder_constant(b, "f32[1,2]{0,1}", two, 8, &op), INVALID_ARGUMENT, "row-major");
  WRONG(xffi_rt_builder_tuple(b, NULL, 1, &op), INVALID_ARGUMENT, "elements");
  WRONG(xffi_rt_builder_get_tuple_element(b, none, -1, &op), INVALID_ARGUMENT, "index is -1");
  WRONG(xffi_rt_builder_shape(b, none, &text), NOT_FOUND, "no instruction");
  RIGHT(xffi_rt_builder_parameter(b, 0, "f32[2]", NULL, &op));
  WRONG(xffi_rt_builder_shape(b, op, NULL), INVALID_ARGUMENT, "out-parameter");
  RIGHT(xffi_rt_builder_shape(b, op, &text));
  if (strcmp(text, "f32[2]{0}") != 0) return 2;
  xffi_rt_text_destroy(text);
  xffi_rt_text_destroy(NULL);

  WRONG(xffi_rt_builder_custom_call(b, NULL, &other), INVALID_ARGUMENT, "call is a null pointer");
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "target");
  call.target = "copy";
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "shape");
  call.shape = "f32[2]";
  call.operand_count = 1;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "operands");
  call.operands = &op;
  call.literal_shape = NULL;
  call.literal_size = 8;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "literal_shape is a null pointer");
  call.literal = NULL;
  call.literal_size = 0;
  call.operand_layout_count = 1;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "layouts is a null pointer");
  call.operand_layout_count = 0;
  call.api_version = 5;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "api_version 5");
  call.api_version = 0;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "api_version 0");
  call.api_version = XFFI_RT_API_ORIGINAL;
  call.schedule = 3;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "schedule 3");
  call.schedule = XFFI_RT_SCHEDULE_NONE;
  call.struct_size = 8;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "struct_size is 8");
  call.struct_size = sizeof(call);
  call.opaque_size = 3;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "opaque");
  call.opaque_size = 0;
  call.alias_count = 1;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "aliases");
  call.aliases = &alias;
  alias.output = &minus;
  alias.output_size = 1;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "output is -1");
  call.alias_count = 0;
  call.called_count = 1;
  WRONG(xffi_rt_builder_custom_call(b, &call, &other), INVALID_ARGUMENT, "called");
  call.called_count = 0;
  RIGHT(xffi_rt_builder_custom_call(b, &call, &other));
  WRONG(xffi_rt_builder_set_name(b, other, NULL), INVALID_ARGUMENT, "name");
  RIGHT(xffi_rt_builder_set_name(b, other, "call"));
  RIGHT(xffi_rt_builder_build(b, other, &program));
  WRONG(xffi_rt_builder_token(b, &op), FAILED_PRECONDITION, "another builder");
  WRONG(xffi_rt_builder_build(b, other, &program), FAILED_PRECONDITION, "another builder");
  xffi_rt_builder_destroy(b);
  xffi_rt_builder_destroy(NULL);
  RIGHT(xffi_rt_builder_create("mistakes", &b));
  WRONG(xffi_rt_builder_build(b, none, NULL), INVALID_ARGUMENT, "the root is not an instruction");
  xffi_rt_builder_destroy(b);

  WRONG(xffi_rt_program_hlo(NULL, &text), INVALID_ARGUMENT, "program");
  WRONG(xffi_rt_program_stablehlo(program, NULL), INVALID_ARGUMENT, "out-parameter");
  WRONG(xffi_rt_program_parameter_shape(program, 1, &text), OUT_OF_RANGE, "there are 1");
  if (xffi_rt_program_parameter_count(NULL) != 0) return 3;

  RIGHT(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  WRONG(xffi_rt_register_legacy(runtime, "copy", "Host", NULL, 1), INVALID_ARGUMENT, "null");
  WRONG(xffi_rt_register_legacy(runtime, "copy", "Host", (void*)copy, 6), INVALID_ARGUMENT, "6");
  RIGHT(xffi_rt_register_legacy(runtime, "copy", "Host", (void*)copy, XFFI_RT_LEGACY_CPU));
  WRONG(xffi_rt_compile(NULL, program, NULL, &compiled), INVALID_ARGUMENT, "runtime");
  WRONG(xffi_rt_compile(runtime, NULL, NULL, &compiled), INVALID_ARGUMENT, "program");
  options.tuples = 4;
  WRONG(xffi_rt_compile(runtime, program, &options, &compiled), INVALID_ARGUMENT, "tuples 4");
  options.struct_size = 0;
  WRONG(xffi_rt_compile(runtime, program, &options, &compiled), INVALID_ARGUMENT, "struct_size");
  RIGHT(xffi_rt_compile(runtime, program, NULL, &compiled));
  if (xffi_rt_compiled_arg_count(compiled) != 1 || xffi_rt_compiled_ret_bytes(compiled, 0) != 8 ||
      xffi_rt_compiled_arg_bytes(compiled, 1) != 0 || xffi_rt_compiled_ret_count(NULL) != 0) {
    return 4;
  }
  WRONG(xffi_rt_compiled_run(NULL, args, 1, rets, 1, NULL), INVALID_ARGUMENT, "program");
  WRONG(xffi_rt_compiled_run(compiled, args, 2, rets, 1, NULL), INVALID_ARGUMENT, "got 2 pointers");
  WRONG(xffi_rt_compiled_run(compiled, args, 1, rets, 0, NULL), INVALID_ARGUMENT, "got 0 pointers");
  WRONG(xffi_rt_compiled_run(compiled, NULL, 1, rets, 1, NULL), INVALID_ARGUMENT, "arguments");
  WRONG(xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL), INVALID_ARGUMENT, "argument 0");
  args[0] = two;
  RIGHT(xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL));
  rets[0] = out;
  RIGHT(xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL));
  if (out[0] != 1 || out[1] != 2) return 5;
  xffi_rt_compiled_destroy(compiled);
  xffi_rt_compiled_destroy(NULL);
  xffi_rt_program_destroy(program);
  xffi_rt_program_destroy(NULL);
  xffi_rt_destroy(runtime);

  RIGHT(xffi_rt_create(0, &runtime));
  RIGHT(xffi_rt_register(runtime, "nothing", "Host", &bundle));
  RIGHT(xffi_rt_call_create(runtime, "nothing", "cpu", NULL, &rank));
  WRONG(xffi_rt_call_ret(rank, XLA_FFI_DataType_F32, 1025, &minus, out), INVALID_ARGUMENT, "1025");
  WRONG(xffi_rt_call_arg(rank, XLA_FFI_DataType_F32, -1, &minus, out), INVALID_ARGUMENT, "-1");
  WRONG(xffi_rt_call_arg(rank, XLA_FFI_DataType_F32, 1, &minus, out), INVALID_ARGUMENT, "-1");
  WRONG(xffi_rt_call_set_arg_data(rank, 0, out), OUT_OF_RANGE, "there are 0");
  WRONG(xffi_rt_call_set_ret_data(rank, SIZE_MAX, out), OUT_OF_RANGE, "there are 0");
  xffi_rt_call_destroy(rank);
  WRONG(xffi_rt_create(-2, &runtime), INVALID_ARGUMENT, "0 to 10");
  WRONG(xffi_rt_create(11, &runtime), INVALID_ARGUMENT, "0 to 10");
  WRONG(xffi_rt_create_with_threads(0, 0, &runtime), INVALID_ARGUMENT, "1 to 1024");
  RIGHT(xffi_rt_user_data_create(runtime, &data));
  WRONG(xffi_rt_user_data_add(data, "x", SIZE_MAX, out, NULL), INVALID_ARGUMENT, "bytes");
  xffi_rt_user_data_destroy(data);
  xffi_rt_destroy(runtime);
  printf("%d mistakes told\n", count);
  return 0;
}
