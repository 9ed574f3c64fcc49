/* Runs calls and programs whose first, second or later allocation fails. Each scenario runs in a
 * separate process. As runtime.h documents, it ends with the correct result, with a status, or
 * with an abort of Rust's allocator. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/program.h"

#include "allocator.h"
#include "checks.h"

/* Computes y = x + 1. */
static XLA_FFI_Error* next_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t i;
  for (i = 0; error == NULL && i < x.count; ++i) ((float*)y.data)[i] = ((float*)x.data)[i] + 1;
  return error;
}
XFFI_HANDLER(next, next_impl);

static float x[4] __attribute__((aligned(64))) = {1, 2, 3, 4};
static float y[4] __attribute__((aligned(64)));
static const int64_t dims[1] = {4};

/* Ends the process if the function returns a status. */
#define TRY(status)                                                                  \
  do {                                                                               \
    xffi_rt_status* said = (status);                                                 \
    if (said != NULL) {                                                              \
      fprintf(stderr, "%s\n", xffi_rt_status_message(said));                         \
      _exit(xffi_rt_status_code(said) == XLA_FFI_Error_Code_RESOURCE_EXHAUSTED ? 3 : 4); \
    }                                                                                \
  } while (0)

static xffi_rt* runtime_with_next(void) {
  XLA_FFI_Handler_Bundle bundle;
  xffi_rt* runtime = NULL;
  memset(&bundle, 0, sizeof(bundle));
  bundle.execute = next;
  TRY(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  TRY(xffi_rt_register(runtime, "next", "Host", &bundle));
  return runtime;
}

static void call(void) {
  xffi_rt* runtime = runtime_with_next();
  xffi_rt_call* call = NULL;
  TRY(xffi_rt_call_create(runtime, "next", "cpu", NULL, &call));
  TRY(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 1, dims, x));
  TRY(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 1, dims, y));
  TRY(xffi_rt_call_run(call));
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
}

static void program(void) {
  xffi_rt* runtime = runtime_with_next();
  xffi_rt_custom_call next_call = XFFI_RT_CUSTOM_CALL_INIT;
  xffi_rt_builder* builder = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* compiled = NULL;
  const void* args[1] = {x};
  void* rets[1] = {y};
  xffi_rt_op in, out;
  TRY(xffi_rt_builder_create("program", &builder));
  TRY(xffi_rt_builder_parameter(builder, 0, "f32[4]", "x", &in));
  next_call.target = "next";
  next_call.operands = &in;
  next_call.operand_count = 1;
  next_call.shape = "f32[4]";
  next_call.api_version = XFFI_RT_API_TYPED_FFI;
  TRY(xffi_rt_builder_custom_call(builder, &next_call, &out));
  TRY(xffi_rt_builder_build(builder, out, &program));
  TRY(xffi_rt_compile(runtime, program, NULL, &compiled));
  TRY(xffi_rt_compiled_run(compiled, args, 1, rets, 1, NULL));
  xffi_rt_compiled_destroy(compiled);
  xffi_rt_program_destroy(program);
  xffi_rt_builder_destroy(builder);
  xffi_rt_destroy(runtime);
}

/* Runs a scenario in a child process. Returns 'r' for the correct result, 's' for a status, 'a'
 * for an abort, or '?' for any other end. */
static char outcome(void (*scenario)(void), long fail, long* allocations) {
  char said[4096];
  size_t size = 0;
  ssize_t n;
  int ends[2], status = 0;
  pid_t child;
  CHECK(pipe(ends) == 0 && (child = fork()) >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    alarm(10);
    atomic_store(&failing, fail);
    atomic_store(&count, 0);
    scenario();
    dprintf(2, "%ld", atomic_load(&count));
    _exit(y[0] == 2 && y[3] == 5 ? 0 : 1);
  }
  close(ends[1]);
  while ((n = read(ends[0], said + size, sizeof(said) - 1 - size)) > 0) size += (size_t)n;
  said[size] = '\0';
  close(ends[0]);
  CHECK(waitpid(child, &status, 0) == child);
  if (fail < 0) *allocations = atol(said);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3)) return WEXITSTATUS(status) ? 's' : 'r';
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, "memory allocation of") != NULL) return 'a';
  fprintf(stderr, "allocation %ld: status %x: %s\n", fail, (unsigned)status, said);
  return '?';
}

int main(void) {
  static const struct {
    const char* name;
    void (*run)(void);
  } scenarios[] = {{"call", call}, {"program", program}};
  size_t i;
  for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); ++i) {
    long allocations = 0, fail, counts[256] = {0};
    CHECK(outcome(scenarios[i].run, -1, &allocations) == 'r' && allocations > 0);
    for (fail = 0; fail < allocations; ++fail) ++counts[(unsigned char)outcome(scenarios[i].run, fail, NULL)];
    fprintf(stderr, "%s: %ld allocations: %ld right, %ld statuses, %ld aborts\n", scenarios[i].name, allocations,
            counts['r'], counts['s'], counts['a']);
    CHECK(counts['?'] == 0 && counts['a'] > 0);
  }
  puts("done");
  return 0;
}
