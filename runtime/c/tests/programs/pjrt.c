/* Checks that mistakes of a C program with a PJRT plugin result in a status. Also tests run ids,
 * user data, time limits and libraries in C. The arguments are the plugin ("-" for no plugin), a
 * library with `xla_ffi_register`, and the variants of pjrt_library.c. The variants are
 * complete, with refused handlers, without a manifest, and for a different platform. */
#include "xla_ffi/pjrt.h"

#include "checks.h"
#include "xla_ffi/handler.h"

/* --- handlers of this program -------------------------------------------------------------------- */

typedef struct Factor {
  int64_t by;
} Factor;
static xffi_type factor_type = XFFI_SHARED_TYPE("pjrt_c.Factor", NULL);

/* Computes y = run id * factor. */
static XLA_FFI_Error* seen_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  void* factor = NULL;
  int64_t id = 0;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_run_id(call, &id)) != NULL) return error;
  if ((error = xffi_find_user_data(call, &factor_type, &factor)) != NULL) return error;
  if (factor == NULL) return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "no user data");
  *(int64_t*)y.data = id * ((Factor*)factor)->by;
  return NULL;
}
XFFI_HANDLER(seen, seen_impl);

static XLA_FFI_Error* fails_impl(xffi_call* call) {
  XLA_FFI_Error* error;
  xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "nothing %s", "here");
}
XFFI_HANDLER(fails, fails_impl);

/* Checks for an error of XLA with this text. The status has the error code of XLA. */
static void refused_at(xffi_rt_status* status, const char* words, int line) {
  if (status == NULL || strstr(xffi_rt_status_message(status), words) == NULL) {
    fprintf(stderr, "line %d: not '%s': %s\n", line, words, xffi_rt_status_message(status));
    exit(1);
  }
  xffi_rt_status_destroy(status);
}
#define refused(status, words) refused_at(status, words, __LINE__)

static const char* text(const char* target) {
  static char code[512];
  snprintf(code, sizeof(code),
           "func.func @main() -> tensor<i64> {\n  %%0 = stablehlo.custom_call @%s() {api_version = 4 : i32} : () -> "
           "tensor<i64>\n  return %%0 : tensor<i64>\n}\n",
           target);
  return code;
}

static xffi_rt_loaded* compiled(const xffi_rt_client* client, const char* code) {
  xffi_rt_loaded* loaded = NULL;
  right(xffi_rt_client_compile(client, code, strlen(code), &loaded));
  return loaded;
}

static int64_t number(const xffi_rt_loaded* loaded, const xffi_rt_launch_options* options) {
  xffi_rt_results* results = NULL;
  xffi_rt_array array;
  int64_t found;
  right(xffi_rt_loaded_run(loaded, NULL, 0, options, &results));
  CHECK(xffi_rt_results_count(results) == 1 && xffi_rt_loaded_ret_count(loaded) == 1);
  right(xffi_rt_results_get(results, 0, &array));
  CHECK(array.dtype == XLA_FFI_DataType_S64 && array.rank == 0);
  found = *(const int64_t*)array.data;
  wrong(xffi_rt_results_get(results, 1, &array), OUT_OF_RANGE, "array 1 is asked for, there are 1");
  wrong(xffi_rt_results_get(results, 0, NULL), INVALID_ARGUMENT, "the out-parameter");
  xffi_rt_results_destroy(results);
  return found;
}

/* --- without a plugin ---------------------------------------------------------------------------- */

static void mistakes(const char* not_a_plugin) {
  xffi_rt_client* client = NULL;
  xffi_rt_loaded* loaded = NULL;
  xffi_rt_results* results = NULL;
  xffi_rt_program* program = NULL;
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, seen, NULL};
  int major = 0, minor = 0;
  int64_t id = 0;
  wrong(xffi_rt_client_open(NULL, &client), INVALID_ARGUMENT, "path is a null pointer");
  wrong(xffi_rt_client_open("no/such/plugin.so", &client), NOT_FOUND, "no/such/plugin.so");
  wrong(xffi_rt_client_open("/", &client), INVALID_ARGUMENT, "PJRT plugin /");
  wrong(xffi_rt_client_open(not_a_plugin, &client), INVALID_ARGUMENT, "exports no GetPjrtApi");
  wrong(xffi_rt_client_open("\xff", &client), INVALID_ARGUMENT, "not UTF-8");
  CHECK(client == NULL && strcmp(xffi_rt_client_platform(NULL), "") == 0);
  wrong(xffi_rt_client_version(NULL, &major, &minor), INVALID_ARGUMENT, "client is a null pointer");
  wrong(xffi_rt_client_register(NULL, "a", &bundle), INVALID_ARGUMENT, "client is a null pointer");
  wrong(xffi_rt_client_register_library(NULL, NULL), INVALID_ARGUMENT, "client is a null pointer");
  wrong(xffi_rt_client_type_id(NULL, "a", &id), INVALID_ARGUMENT, "client is a null pointer");
  wrong(xffi_rt_client_compile(NULL, "", 0, &loaded), INVALID_ARGUMENT, "client is a null pointer");
  wrong(xffi_rt_loaded_run(NULL, NULL, 0, NULL, &results), INVALID_ARGUMENT, "loaded is a null pointer");
  wrong(xffi_rt_results_get(NULL, 0, NULL), INVALID_ARGUMENT, "results is a null pointer");
  CHECK(xffi_rt_loaded_ret_count(NULL) == 0 && xffi_rt_results_count(NULL) == 0);
  xffi_rt_client_destroy(NULL);
  xffi_rt_loaded_destroy(NULL);
  xffi_rt_results_destroy(NULL);
  wrong(xffi_rt_program_parse(NULL, &program), INVALID_ARGUMENT, "hlo is a null pointer");
  wrong(xffi_rt_program_parse("HloModule", &program), INVALID_ARGUMENT, "HLO text, line 1: expected the module's name");
  wrong(xffi_rt_program_parse("HloModule m\nENTRY e {\n ROOT x = f32[] add(a, b)\n}", &program), UNIMPLEMENTED,
        "line 3: 'x' is an 'add'");
  wrong(xffi_rt_program_parse("HloModule m\nENTRY e {\n ROOT x = f32[] parameter(0)\n}", NULL), INVALID_ARGUMENT,
        "the out-parameter");
  CHECK(program == NULL && loaded == NULL && results == NULL);
}

/* --- with a plugin -------------------------------------------------------------------------------- */

static void described(const xffi_rt_client* client, xffi_rt* runtime, char** paths) {
  const char* const whole = paths[0];
  const char* const wrongly = paths[1];
  const char* const silent = paths[2];
  const char* const elsewhere = paths[3];
  xffi_rt_library* library = NULL;
  xffi_rt_loaded* loaded = NULL;
  const char* code;
  /* A library with a manifest: its handlers for this platform are registered with all stages.
   * The registration can be repeated. */
  right(xffi_rt_library_load(runtime, whole, &library));
  right(xffi_rt_client_register_library(client, library));
  right(xffi_rt_client_register_library(client, library));
  loaded = compiled(client, text("described.nine"));
  CHECK(number(loaded, NULL) == 9);
  xffi_rt_loaded_destroy(loaded);
  code = text("described.elsewhere");
  refused(xffi_rt_client_compile(client, code, strlen(code), &loaded), "described.elsewhere");
  xffi_rt_library_destroy(library);
  /* A library with two handlers that are refused, each with a message: one lacks a symbol, the
   * other has a name that is already registered. */
  right(xffi_rt_library_load(runtime, wrongly, &library));
  wrong(xffi_rt_client_register_library(client, library), NOT_FOUND, "2 of 3 handlers not registered");
  wrong(xffi_rt_client_register_library(client, library), NOT_FOUND, "exports no symbol 'nowhere'");
  wrong(xffi_rt_client_register_library(client, library), NOT_FOUND, "handler 'pjrt_library.nine'");
  loaded = compiled(client, text("wrongly.nine"));
  CHECK(number(loaded, NULL) == 9);
  xffi_rt_loaded_destroy(loaded);
  xffi_rt_library_destroy(library);
  /* A library without a manifest, and a library for other platforms. */
  right(xffi_rt_library_load(runtime, silent, &library));
  wrong(xffi_rt_client_register_library(client, library), NOT_FOUND, "C needs XFFI_LIBRARY");
  xffi_rt_library_destroy(library);
  right(xffi_rt_library_load(runtime, elsewhere, &library));
  wrong(xffi_rt_client_register_library(client, library), NOT_FOUND, "describes no handler for platform 'cpu'");
  xffi_rt_library_destroy(library);
}

static void runs(const xffi_rt_client* client, xffi_rt* runtime, const char* path) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, seen, NULL};
  const XLA_FFI_Handler_Bundle failing = {NULL, NULL, NULL, fails, NULL};
  const XLA_FFI_Handler_Bundle empty = {NULL, NULL, NULL, NULL, NULL};
  XLA_FFI_Handler_Bundle nine = {NULL, NULL, NULL, NULL, NULL};
  void* symbol = NULL;
  const int64_t two = 2, minus = -1;
  const float x[2] = {1, 2};
  xffi_rt_array array = {XLA_FFI_DataType_F32, 1, &two, x};
  Factor factor = {7};
  xffi_rt_object object = {0, &factor};
  xffi_rt_launch_options options = XFFI_RT_LAUNCH_OPTIONS_INIT;
  xffi_rt_compile_options compile = XFFI_RT_COMPILE_OPTIONS_INIT;
  xffi_rt_loaded* loaded = NULL;
  xffi_rt_results* results = NULL;
  xffi_rt_library* library = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* never = NULL;
  const char* code;
  int major = -1, minor = -1;

  right(xffi_rt_client_version(client, &major, &minor));
  CHECK(major == 0 && minor >= 57);
  wrong(xffi_rt_client_register(client, "pjrt_c.seen", &empty), NOT_FOUND, "no execute stage");
  wrong(xffi_rt_client_register(client, "pjrt_c.seen", NULL), INVALID_ARGUMENT, "bundle is a null pointer");
  right(xffi_rt_client_register(client, "pjrt_c.seen", &bundle));
  right(xffi_rt_client_register(client, "pjrt_c.seen", &bundle));
  refused(xffi_rt_client_register(client, "pjrt_c.seen", &failing), "pjrt_c.seen");
  right(xffi_rt_client_register(client, "pjrt_c.fails", &failing));

  loaded = compiled(client, text("pjrt_c.seen"));
  right(xffi_rt_client_type_id(client, "pjrt_c.Factor", &object.type_id));
  options.run_id = 6;
  options.objects = &object;
  options.object_count = 1;
  CHECK(number(loaded, &options) == 42);
  options.milliseconds = 60000;
  CHECK(number(loaded, &options) == 42);
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, NULL, &results), NOT_FOUND, "user data");
  options.milliseconds = -1;
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, &options, &results), INVALID_ARGUMENT, "time limit of -1 ms");
  options.milliseconds = 0;
  options.struct_size = 4;
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, &options, &results), INVALID_ARGUMENT, "struct_size is 4");
  options.struct_size = sizeof(options);
  object.object = NULL;
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, &options, &results), INVALID_ARGUMENT, "an object is a null pointer");
  options.objects = NULL;
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, &options, &results), INVALID_ARGUMENT, "objects is a null pointer");
  /* The arrays are invalid, or their number differs from the number of parameters. */
  wrong(xffi_rt_loaded_run(loaded, NULL, 1, NULL, &results), INVALID_ARGUMENT, "args is a null pointer");
  array.rank = -1;
  wrong(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), INVALID_ARGUMENT, "argument 0: the rank is -1");
  array.rank = 1;
  array.dims = &minus;
  wrong(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), INVALID_ARGUMENT, "argument 0");
  array.dims = NULL;
  wrong(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), INVALID_ARGUMENT, "dims is a null pointer");
  array.dims = &two;
  array.data = NULL;
  wrong(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), INVALID_ARGUMENT, "its data is a null pointer");
  array.data = x;
  array.dtype = (XLA_FFI_DataType)99;
  wrong(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), INVALID_ARGUMENT, "99 is not an element type");
  array.dtype = XLA_FFI_DataType_F32;
  refused(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), "supplied 1 buffers");
  xffi_rt_loaded_destroy(loaded);

  /* The errors are those of a handler and of the compiler. */
  loaded = compiled(client, text("pjrt_c.fails"));
  wrong(xffi_rt_loaded_run(loaded, NULL, 0, NULL, &results), NOT_FOUND, "nothing here");
  xffi_rt_loaded_destroy(loaded);
  code = "not a program";
  refused(xffi_rt_client_compile(client, code, strlen(code), &loaded), "this");
  wrong(xffi_rt_client_compile(client, NULL, 4, &loaded), INVALID_ARGUMENT, "code is a null pointer");
  refused(xffi_rt_client_compile(client, NULL, 0, &loaded), "");
  code = text("pjrt_c.unknown");
  refused(xffi_rt_client_compile(client, code, strlen(code), &loaded), "pjrt_c.unknown");
  /* The shape of the argument differs from that of the parameter. */
  loaded = compiled(client, "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n  return %x : tensor<3xf32>\n}\n");
  refused(xffi_rt_loaded_run(loaded, &array, 1, NULL, &results), "");
  xffi_rt_loaded_destroy(loaded);

  /* A library with `xla_ffi_register`, and the registration of one of its functions. */
  right(xffi_rt_library_load(runtime, path, &library));
  right(xffi_rt_client_register_library(client, library));
  loaded = compiled(client, text("pjrt_library.nine"));
  CHECK(number(loaded, NULL) == 9);
  xffi_rt_loaded_destroy(loaded);
  wrong(xffi_rt_library_symbol(library, "no_such", &symbol), NOT_FOUND, "no_such");
  right(xffi_rt_library_symbol(library, "nine", &symbol));
  memcpy(&nine.execute, &symbol, sizeof(symbol));
  right(xffi_rt_client_register(client, "pjrt_c.nine", &nine));
  loaded = compiled(client, text("pjrt_c.nine"));
  CHECK(number(loaded, NULL) == 9);
  xffi_rt_loaded_destroy(loaded);
  xffi_rt_library_destroy(library);

  /* XLA refuses options that only the embedded runtime supports. */
  right(xffi_rt_program_parse("HloModule m\nENTRY e {\n ROOT x = f32[] parameter(0)\n}", &program));
  compile.client = client;
  compile.platform = "CUDA";
  wrong(xffi_rt_compile(runtime, program, &compile, &never), INVALID_ARGUMENT, "the plugin is one of 'cpu'");
  compile.platform = "HOST";
  compile.with_device = 1;
  wrong(xffi_rt_compile(runtime, program, &compile, &never), INVALID_ARGUMENT, "its own devices");
  compile.with_device = 0;
  compile.check_unwritten = 1;
  wrong(xffi_rt_compile(runtime, program, &compile, &never), INVALID_ARGUMENT, "only the embedded runtime");
  compile.check_unwritten = 0;
  compile.milliseconds = 20;
  wrong(xffi_rt_compile(runtime, program, &compile, &never), INVALID_ARGUMENT, "set a time limit");
  xffi_rt_program_destroy(program);
}

int main(int argc, char** argv) {
  xffi_rt_client* client = NULL;
  xffi_rt* runtime = NULL;
  CHECK(argc == 7);
  mistakes(argv[2]);
  if (strcmp(argv[1], "-") == 0) return 0;
  right(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  right(xffi_rt_client_open(argv[1], &client));
  CHECK(strcmp(xffi_rt_client_platform(client), "cpu") == 0);
  runs(client, runtime, argv[2]);
  described(client, runtime, argv + 3);
  xffi_rt_client_destroy(client);
  xffi_rt_destroy(runtime);
  printf("done\n");
  return 0;
}
