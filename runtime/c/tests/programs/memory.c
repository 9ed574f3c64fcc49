/* Tests which memory handlers receive. If possible, it is the memory of the caller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/program.h"

#include "checks.h"

/* The addresses of the operands in the last call. */
static const void* x_at;
static const void* y_at;

/* Computes y = x + 1. */
static XLA_FFI_Error* next_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t i;
  if (error != NULL) return error;
  x_at = x.data;
  y_at = y.data;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = ((float*)x.data)[i] + 1;
  return NULL;
}
XFFI_HANDLER(next, next_impl);

static void next_target(void* out, const void** in) {
  x_at = in[0];
  y_at = out;
  *(float*)out = *(const float*)in[0] + 1;
}

/* Compiles a program with the given result. For a `root` of 0, this is the result of a call; for
 * 1, the result of a call in the parameter's memory; for 2, the parameter. For 3, it is a tuple
 * that contains the result of a call twice, and the result of a second call. */
static xffi_rt_compiled* compiled(xffi_rt* runtime, const char* shape, int root, int typed) {
  const xffi_rt_alias in_place = {NULL, 0, 0, NULL, 0};
  xffi_rt_custom_call call = XFFI_RT_CUSTOM_CALL_INIT;
  xffi_rt_builder* b = NULL;
  xffi_rt_program* program = NULL;
  xffi_rt_compiled* result = NULL;
  xffi_rt_op x, y, z, three[3];
  right(xffi_rt_builder_create("memory", &b));
  right(xffi_rt_builder_parameter(b, 0, shape, "x", &x));
  call.target = typed ? "next" : "next_target";
  call.operands = &x;
  call.operand_count = 1;
  call.shape = shape;
  call.api_version = typed ? XFFI_RT_API_TYPED_FFI : XFFI_RT_API_ORIGINAL;
  if (root == 1) {
    call.aliases = &in_place;
    call.alias_count = 1;
  }
  right(xffi_rt_builder_custom_call(b, &call, &y));
  if (root == 3) {
    call.operands = &y;
    right(xffi_rt_builder_custom_call(b, &call, &z));
    three[0] = three[1] = y;
    three[2] = z;
    right(xffi_rt_builder_tuple(b, three, 3, &y));
  }
  right(xffi_rt_builder_build(b, root == 2 ? x : y, &program));
  right(xffi_rt_compile(runtime, program, NULL, &result));
  xffi_rt_builder_destroy(b);
  xffi_rt_program_destroy(program);
  return result;
}

static void run(xffi_rt_compiled* program, const float* x, float* y) {
  const void* args[1];
  void* rets[1];
  args[0] = x;
  rets[0] = y;
  right(xffi_rt_compiled_run(program, args, 1, rets, 1, NULL));
}

static void programs(xffi_rt* runtime, int typed) {
  /* `malloc` returns memory that is aligned to 16 bytes, as handlers require. */
  float* x = (float*)malloc(64);
  float* y = (float*)malloc(64);
  float* z = (float*)malloc(64);
  float* w = (float*)malloc(64);
  xffi_rt_compiled* program = compiled(runtime, "f32[1]", 0, typed);
  CHECK(x != NULL && y != NULL && z != NULL && w != NULL);
  x[0] = 1;
  x[1] = 5;
  run(program, x, y);
  CHECK(y[0] == 2 && x_at == x && y_at == y);
  /* An array at an address that is not aligned to 16 bytes is copied. */
  run(program, x + 1, y);
  CHECK(y[0] == 6 && x_at != x + 1 && y_at == y);
  run(program, x, y + 1);
  CHECK(y[1] == 2 && x_at == x && y_at != y + 1);
  run(program, x, NULL);
  xffi_rt_compiled_destroy(program);

  /* A call whose result is in the memory of its argument uses a copy of the argument. */
  program = compiled(runtime, "f32[1]", 1, typed);
  run(program, x, y);
  CHECK(y[0] == 2 && x[0] == 1 && x_at != x);
  xffi_rt_compiled_destroy(program);

  program = compiled(runtime, "f32[1]", 2, typed);
  run(program, x + 1, y);
  CHECK(y[0] == 5);
  xffi_rt_compiled_destroy(program);

  program = compiled(runtime, "f32[1]", 3, typed);
  {
    const void* args[1];
    void* rets[3];
    args[0] = x;
    rets[0] = y;
    rets[1] = z;
    rets[2] = w;
    right(xffi_rt_compiled_run(program, args, 1, rets, 3, NULL));
    CHECK(y[0] == 2 && z[0] == 2 && w[0] == 3 && x_at == y && y_at == w);
    rets[0] = NULL;
    y[0] = 7;
    right(xffi_rt_compiled_run(program, args, 1, rets, 3, NULL));
    CHECK(y[0] == 7 && z[0] == 2 && w[0] == 3 && y_at == w);
  }
  xffi_rt_compiled_destroy(program);
  free(x);
  free(y);
  free(z);
  free(w);
}

/* The structs of dlpack.h that this test uses. */
typedef struct tensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} tensor;

typedef struct managed {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct managed*);
  uint64_t flags;
  tensor tensor;
} managed;

static void dlpack(xffi_rt* runtime) {
  float* memory = (float*)malloc(128);
  int64_t shape[1] = {3}, strides[1] = {1};
  tensor x = {NULL, 1, 0, 1, 2, 32, 1, NULL, NULL, 16}, y, odd;
  managed given = {1, 3, NULL, NULL, 1, {NULL, 1, 0, 1, 2, 32, 1, NULL, NULL, 16}};
  xffi_rt_call* call = NULL;
  int i;
  CHECK(memory != NULL);
  for (i = 0; i < 32; ++i) memory[i] = (float)i;
  x.data = memory;
  x.shape = shape;
  x.strides = strides;
  y = x;
  y.byte_offset = 32;
  right(xffi_rt_call_create(runtime, "next", "cpu", NULL, &call));
  odd = x;
  odd.device_type = 2;
  wrong(xffi_rt_call_arg_dlpack(call, &odd), INVALID_ARGUMENT, "device type 2");
  wrong(xffi_rt_call_arg_dlpack(call, NULL), INVALID_ARGUMENT, "tensor");
  right(xffi_rt_call_arg_dlpack(call, &x));
  right(xffi_rt_call_ret_dlpack(call, &y));
  right(xffi_rt_call_run(call));
  CHECK(x_at == memory + 4 && y_at == memory + 8 && memory[8] == 5 && memory[10] == 7);
  CHECK(memory[11] == 11);
  right(xffi_rt_call_clear_operands(call));
  /* A read-only tensor of DLPack 1.3 is accepted as an argument and refused as a result. */
  given.tensor = x;
  wrong(xffi_rt_call_ret_dlpack_versioned(call, &given), INVALID_ARGUMENT, "read-only");
  right(xffi_rt_call_arg_dlpack_versioned(call, &given));
  given.flags = 0;
  given.tensor = y;
  given.major = 2;
  wrong(xffi_rt_call_ret_dlpack_versioned(call, &given), INVALID_ARGUMENT, "version 2.3");
  given.major = 1;
  wrong(xffi_rt_call_arg_dlpack_versioned(call, NULL), INVALID_ARGUMENT, "managed");
  right(xffi_rt_call_ret_dlpack_versioned(call, &given));
  memory[8] = 0;
  right(xffi_rt_call_run(call));
  CHECK(x_at == memory + 4 && y_at == memory + 8 && memory[8] == 5);
  xffi_rt_call_destroy(call);
  free(memory);
}

/* A handler's work, which computes y = x + 1 later, on the stream. */
typedef struct job {
  const float* x;
  float* y;
} job;

static void nap(void* data) {
  const clock_t end = clock() + CLOCKS_PER_SEC / 20;
  (void)data;
  while (clock() < end) continue;
}

static void add(void* data) {
  job* own = (job*)data;
  own->y[0] = own->x[0] + 1;
  free(own);
}

static XLA_FFI_Error* queued_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 0);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 0);
  XLA_FFI_Error* error = xffi_decoded(call);
  void* stream = NULL;
  job* own = (job*)malloc(sizeof(*own));
  CHECK(own != NULL);
  if (error == NULL) error = xffi_stream(call, &stream);
  if (error != NULL) {
    free(own);
    return error;
  }
  own->x = (const float*)x.data;
  own->y = (float*)y.data;
  right(xffi_rt_stream_enqueue(stream, nap, NULL));
  right(xffi_rt_stream_enqueue(stream, add, own));
  return NULL;
}
XFFI_HANDLER(queued, queued_impl);

/* Runs calls on the thread of their stream. */
typedef struct {
  xffi_rt_stream* stream;
  xffi_rt_call* call;
  int done;
} own_thread;

static void on_its_thread(void* data) {
  own_thread* own = (own_thread*)data;
  wrong(xffi_rt_stream_synchronize(own->stream), FAILED_PRECONDITION, "own thread");
  xffi_rt_call_destroy(own->call);
  own->done = 1;
}

/* A run does not wait for the stream. The caller waits for it before it reads the results. */
static void streams(xffi_rt* runtime) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, queued, NULL};
  xffi_rt_stream* stream = NULL;
  xffi_rt_call* call = NULL;
  own_thread own = {NULL, NULL, 0};
  float x = 1, y = 0;
  right(xffi_rt_register(runtime, "queued", "Host", &bundle));
  right(xffi_rt_call_create(runtime, "queued", "cpu", NULL, &call));
  right(xffi_rt_call_arg(call, XLA_FFI_DataType_F32, 0, NULL, &x));
  right(xffi_rt_call_ret(call, XLA_FFI_DataType_F32, 0, NULL, &y));
  right(xffi_rt_stream_create(&stream));
  right(xffi_rt_call_set_stream(call, xffi_rt_stream_handle(stream)));
  right(xffi_rt_call_run(call));
  right(xffi_rt_stream_synchronize(stream));
  CHECK(y == 2);
  x = 5;
  right(xffi_rt_call_run(call));
  right(xffi_rt_stream_synchronize(stream));
  CHECK(y == 6);
  own.stream = stream;
  own.call = call;
  right(xffi_rt_stream_enqueue(xffi_rt_stream_handle(stream), on_its_thread, &own));
  right(xffi_rt_stream_synchronize(stream));
  CHECK(own.done);
  /* A thread that waits for the stream frees the data of the call. */
  right(xffi_rt_wait_for_calls(runtime, 20000));
  nap(NULL);
  wrong(xffi_rt_stream_synchronize(NULL), INVALID_ARGUMENT, "stream");
  xffi_rt_stream_destroy(stream);
}

/* Allocators that violate the contract of `xffi_rt_call_set_allocator`. */
static int given = 0;

static void* odd_memory(void* user, size_t size, size_t alignment) {
  (void)user;
  ++given;
  return (char*)malloc(size + alignment) + 1;
}

static void* no_memory(void* user, size_t size, size_t alignment) {
  (void)user;
  (void)size;
  (void)alignment;
  return NULL;
}

static void take_odd_memory(void* user, void* data, size_t size) {
  (void)user;
  CHECK(size == 64);
  --given;
  free((char*)data - 1);
}

static XLA_FFI_Error* scratch_impl(xffi_call* call) {
  XLA_FFI_Error* error = xffi_decoded(call);
  void* data;
  return error != NULL ? error : xffi_scratch(call, 64, 64, &data);
}
XFFI_HANDLER(scratch, scratch_impl);

static void allocators(xffi_rt* runtime) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, scratch, NULL};
  xffi_rt_call* call = NULL;
  right(xffi_rt_register(runtime, "scratch", "Host", &bundle));
  right(xffi_rt_call_create(runtime, "scratch", "cpu", NULL, &call));
  wrong(xffi_rt_call_run(call), INVALID_ARGUMENT, "no device memory allocator");
  right(xffi_rt_call_set_allocator(call, no_memory, take_odd_memory, NULL));
  wrong(xffi_rt_call_run(call), RESOURCE_EXHAUSTED, "64 bytes of device memory");
  right(xffi_rt_call_set_allocator(call, odd_memory, take_odd_memory, NULL));
  wrong(xffi_rt_call_run(call), INTERNAL, "was asked for a multiple of 256");
  CHECK(given == 0);
  xffi_rt_call_destroy(call);
}

int main(void) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, next, NULL};
  xffi_rt* runtime = NULL;
  right(xffi_rt_create(XFFI_RT_NEWEST, &runtime));
  right(xffi_rt_register(runtime, "next", "Host", &bundle));
  right(xffi_rt_register_legacy(runtime, "next_target", "Host", (void*)next_target,
                                XFFI_RT_LEGACY_CPU));
  programs(runtime, 1);
  programs(runtime, 0);
  dlpack(runtime);
  streams(runtime);
  allocators(runtime);
  /* `xffi_rt_wait_for_calls` also waits for the calls of programs. */
  {
    float* x = (float*)calloc(16, sizeof(float));
    const void* args[1];
    void* rets[1];
    xffi_rt_compiled* programs[2];
    int typed;
    for (typed = 0; typed < 2; ++typed) programs[typed] = compiled(runtime, "f32[1]", 0, typed);
    right(xffi_rt_shutdown(runtime, 0));
    args[0] = x;
    rets[0] = x + 8;
    for (typed = 0; typed < 2; ++typed) {
      xffi_rt_status* status = xffi_rt_compiled_run(programs[typed], args, 1, rets, 1, NULL);
      CHECK(xffi_rt_status_code(status) == XLA_FFI_Error_Code_UNAVAILABLE);
      CHECK(strstr(xffi_rt_status_message(status), "was shut down") != NULL);
      xffi_rt_status_destroy(status);
      xffi_rt_compiled_destroy(programs[typed]);
    }
    free(x);
  }
  xffi_rt_destroy(runtime);
  printf("in place\n");
  return 0;
}
