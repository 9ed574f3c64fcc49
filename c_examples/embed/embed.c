/* Calls the handler of a library on a real XLA, from C. Link the program with libxla_ffi_runtime.a. For the
 * embedded runtime, see embed_project/embedding.c.
 *   embed xla_cpu_pjrt.so LIBRARY.so     LIBRARY.so is the library of c_examples/operands.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla_ffi/pjrt.h"

static void check(xffi_rt_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "error %d: %s\n", (int)xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  exit(1);
}

static void expect_error(xffi_rt_status* status) {
  if (status == NULL) exit(2);
  printf("error %d: %.70s\n", (int)xffi_rt_status_code(status), xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
}

static void show(const float* x, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) printf("%g%c", x[i], i + 1 < count ? ' ' : '\n');
}

static const char kStableHlo[] =
    "func.func @main(%b: tensor<2xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = stablehlo.custom_call @tiled_add(%b, %c) {api_version = 4 : i32}\n"
    "      : (tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "  %1 = stablehlo.add %0, %c : tensor<4xf32>\n"
    "  return %1 : tensor<4xf32>\n"
    "}\n";

static const char kHlo[] =
    "HloModule tiled\n"
    "ENTRY main {\n"
    "  b = f32[2] parameter(0)\n"
    "  c = f32[4] constant({10, 20, 30, 40})\n"
    "  ROOT a = f32[4] custom-call(b, c), custom_call_target=\"tiled_add\",\n"
    "      api_version=API_VERSION_TYPED_FFI\n"
    "}\n";

/* Compiles and runs a StableHLO program, then the same program as HLO text, and prints expected errors. */
int main(int argc, char** argv) {
  const int64_t two = 2, four = 4;
  const float b[2] = {1, 2}, c[4] = {10, 20, 30, 40};
  float a[4] = {0};
  const xffi_rt_array args[2] = {{XLA_FFI_DataType_F32, 1, &two, b},
                                 {XLA_FFI_DataType_F32, 1, &four, c}};
  const void* arguments[1];
  void* rets[1];
  xffi_rt_array array;
  xffi_rt* runtime = NULL;
  xffi_rt_library* library = NULL;
  xffi_rt_client* client = NULL;
  xffi_rt_loaded* loaded = NULL;
  xffi_rt_results* results = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* compiled = NULL;
  xffi_rt_compile_options options = XFFI_RT_COMPILE_OPTIONS_INIT;

  if (argc != 3) return 2;
  check(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  check(xffi_rt_library_load(runtime, argv[2], &library));
  check(xffi_rt_client_open(argv[1], &client));
  printf("platform %s\n", xffi_rt_client_platform(client));
  check(xffi_rt_client_register_library(client, library));

  /* The client compiles any StableHLO program directly. */
  check(xffi_rt_client_compile(client, kStableHlo, strlen(kStableHlo), &loaded));
  check(xffi_rt_loaded_run(loaded, args, 2, NULL, &results));
  check(xffi_rt_results_get(results, 0, &array));
  show((const float*)array.data, 4);
  xffi_rt_results_destroy(results);
  expect_error(xffi_rt_loaded_run(loaded, args, 1, NULL, &results));
  xffi_rt_loaded_destroy(loaded);
  expect_error(xffi_rt_client_compile(client, "func", 4, &loaded));

  /* HLO text is parsed by the functions of program.h. Setting `options.client` runs the program on a real
   * XLA. */
  check(xffi_rt_program_parse(kHlo, &program));
  options.client = client;
  check(xffi_rt_compile(runtime, program, &options, &compiled));
  arguments[0] = b;
  rets[0] = a;
  check(xffi_rt_compiled_run(compiled, arguments, 1, rets, 1, NULL));
  show(a, 4);

  xffi_rt_compiled_destroy(compiled);
  xffi_rt_program_destroy(program);
  xffi_rt_client_destroy(client);
  xffi_rt_library_destroy(library);
  xffi_rt_destroy(runtime);
  return 0;
}
