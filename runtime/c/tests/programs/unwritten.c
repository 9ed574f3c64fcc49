/* Tests that elements which a handler leaves unwritten result in an error status, if this is
 * requested, for calls and for programs. */
#include <stdio.h>
#include <string.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/program.h"

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: " #condition "\n", __LINE__); \
      return 1;                                               \
    }                                                         \
  } while (0)

/* A handler that writes only the first half of its result. */
static XLA_FFI_Error* half_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t i;
  if (error != NULL) return error;
  for (i = 0; i < y.count / 2; ++i) ((float*)y.data)[i] = 1;
  return NULL;
}
XFFI_HANDLER(half, half_impl);

static void half_target(void* out, const void** in) {
  (void)in;
  memset(out, 0, 8);
}

static int told(xffi_rt_status* status) {
  const int right = xffi_rt_status_code(status) == XLA_FFI_Error_Code_INTERNAL &&
                    xffi_rt_status_is_hazard(status) &&
                    strstr(xffi_rt_status_message(status), "never wrote elements 2 to 3") != NULL;
  if (!right) fprintf(stderr, "%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return right;
}

int main(void) {
  XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, half, NULL};
  xffi_rt_custom_call spec = XFFI_RT_CUSTOM_CALL_INIT;
  xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
  const int64_t four = 4;
  float y[4] = {5, 6, 7, 8};
  void* rets[1];
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  int check, typed;

  CHECK(xffi_rt_create(XFFI_RT_NEWEST, &runtime) == NULL);
  CHECK(xffi_rt_register(runtime, "half", "Host", &bundle) == NULL);
  CHECK(xffi_rt_register_legacy(runtime, "half_target", "Host", (void*)half_target,
                                XFFI_RT_LEGACY_CPU) == NULL);
  for (check = 0; check < 2; ++check) {
    CHECK(xffi_rt_call_create(runtime, "half", "cpu", NULL, &call) == NULL);
    CHECK(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, &four, y) == NULL);
    if (check) CHECK(xffi_rt_call_set_check_unwritten(call, 1) == NULL);
    if (check) {
      CHECK(told(xffi_rt_call_run(call)) && told(xffi_rt_call_run(call)));
    } else {
      CHECK(xffi_rt_call_run(call) == NULL);
      CHECK(y[1] == 1 && y[2] == 7); /* By default, results are not filled with random bytes. */
    }
    xffi_rt_call_destroy(call);

    for (typed = 0; typed < 2; ++typed) {
      xffi_rt_builder* builder = NULL;
      xffi_rt_program* program = NULL;
      xffi_rt_compiled* compiled = NULL;
      xffi_rt_op root;
      CHECK(xffi_rt_builder_create("unwritten", &builder) == NULL);
      spec.target = typed ? "half" : "half_target";
      spec.shape = "f32[4]";
      spec.api_version = typed ? XFFI_RT_API_TYPED_FFI : XFFI_RT_API_ORIGINAL;
      CHECK(xffi_rt_builder_custom_call(builder, &spec, &root) == NULL);
      CHECK(xffi_rt_builder_build(builder, root, &program) == NULL);
      xffi_rt_builder_destroy(builder);
      options.check_unwritten = check;
      CHECK(xffi_rt_compile(runtime, program, &options, &compiled) == NULL);
      rets[0] = y;
      if (check) {
        CHECK(told(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, NULL)));
      } else {
        CHECK(xffi_rt_compiled_run(compiled, NULL, 0, rets, 1, NULL) == NULL);
      }
      xffi_rt_compiled_destroy(compiled);
      xffi_rt_program_destroy(program);
    }
  }
  xffi_rt_destroy(runtime);
  printf("done\n");
  return 0;
}
