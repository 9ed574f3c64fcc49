/* Builds, prints and runs a program of two custom calls without XLA. The first call fills a tuple, whose second element
 * is unused scratch memory. The second call has a status, and its result is in the memory of its operand. Link the
 * program with libxla_ffi_runtime. If its argument is the path of a PJRT plugin, the program runs on a real XLA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "xla/service/custom_call_status.h"
#include "xla_ffi/pjrt.h"

enum { ROWS = 3, COLUMNS = 4 };

/* Computes (out, scratch): the sum of squares of each row, and the scratch memory of the computation. */
static void squares(void* out, const void** in) {
  const float* x = in[0];
  float* sums = ((float**)out)[0];
  float* scratch = ((float**)out)[1];
  int i, j;
  for (i = 0; i < ROWS; ++i) {
    for (j = 0; j < COLUMNS; ++j) scratch[j] = x[i * COLUMNS + j] * x[i * COLUMNS + j];
    for (sums[i] = 0, j = 0; j < COLUMNS; ++j) sums[i] += scratch[j];
  }
}

/* Computes square roots in place, or fails if an element is not a number. */
static void roots(void* out, const void** in, XlaCustomCallStatus* status) {
  float* x = out;
  int i;
  if (out != in[0]) XlaCustomCallStatusSetFailure(status, "not in place", 12);
  for (i = 0; i < ROWS; ++i) {
    if (isnan(x[i])) XlaCustomCallStatusSetFailure(status, "not a number", 12);
    x[i] = sqrtf(x[i]);
  }
}

static void check(xffi_rt_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "error %d: %s\n", (int)xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  exit(1);
}

static xffi_rt_program* norms(void) {
  const xffi_rt_alias in_place = {NULL, 0, 0, NULL, 0};
  xffi_rt_custom_call call = XFFI_RT_CUSTOM_CALL_INIT, root = XFFI_RT_CUSTOM_CALL_INIT;
  xffi_rt_builder* b = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_op x, pair, sums, result;

  check(xffi_rt_builder_create("norms", &b));
  check(xffi_rt_builder_parameter(b, 0, "f32[3,4]", "x", &x));
  call.target = "squares";
  call.operands = &x;
  call.operand_count = 1;
  call.shape = "(f32[3], f32[4])";
  check(xffi_rt_builder_custom_call(b, &call, &pair));
  check(xffi_rt_builder_get_tuple_element(b, pair, 0, &sums));
  root.target = "roots";
  root.operands = &sums;
  root.operand_count = 1;
  root.shape = "f32[3]";
  root.aliases = &in_place;
  root.alias_count = 1;
  root.api_version = XFFI_RT_API_STATUS_RETURNING;
  check(xffi_rt_builder_custom_call(b, &root, &result));
  check(xffi_rt_builder_build(b, result, &program));
  xffi_rt_builder_destroy(b);
  return program;
}

int main(int argc, char** argv) {
  float x[ROWS * COLUMNS] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, y[ROWS] = {0};
  const void* args[1];
  void* rets[1];
  xffi_rt* runtime = NULL;
  xffi_rt_program* program = norms();
  xffi_rt_compiled* compiled = NULL;
  xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;
  xffi_rt_client* client = NULL;
  xffi_rt_status* status;
  char* text = NULL;
  int i;

  check(xffi_rt_program_hlo(program, &text));
  printf("%s", text);
  xffi_rt_text_destroy(text);

  check(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  status = xffi_rt_compile(runtime, program, NULL, &compiled);
  if (status == NULL) return 2; /* an error is expected, because the targets are not registered yet */
  printf("%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  check(xffi_rt_register_legacy(runtime, "squares", "Host", (void*)squares, XFFI_RT_LEGACY_CPU));
  check(xffi_rt_register_legacy(runtime, "roots", "Host", (void*)roots, XFFI_RT_LEGACY_CPU_STATUS));
  if (argc > 1) check(xffi_rt_client_open(argv[1], &client));
  options.client = client; /* NULL selects the embedded runtime */
  check(xffi_rt_compile(runtime, program, &options, &compiled));
  args[0] = x;
  rets[0] = y;
  check(xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL));
  for (i = 0; i < ROWS; ++i) printf("%g ", y[i]);

  /* The call fails, because the target `roots` reports an error for NaN. */
  x[0] = NAN;
  status = xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL);
  if (status == NULL) return 3;
  printf("%s\n", xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  xffi_rt_compiled_destroy(compiled);
  xffi_rt_program_destroy(program);
  xffi_rt_client_destroy(client);
  xffi_rt_destroy(runtime);
  return 0;
}
