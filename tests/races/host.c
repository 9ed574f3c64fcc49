/* A host that uses only pthreads, so that thread-checking tools see every lock. It loads a library
 * with the conformance handlers (tests/jax/README.md). Many threads call all handlers concurrently,
 * including the first calls of the process. Two function tables represent two copies of XLA in one
 * process; the second has no futures.
 *
 *   host LIBRARY THREADS ROUNDS */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32
#include <windows.h>
#define dlopen(path, how) ((void*)LoadLibraryA(path))
#define dlsym(library, name) ((void*)(uintptr_t)GetProcAddress((HMODULE)(library), name))
#define dlerror() "LoadLibrary fails"
#else
#include <dlfcn.h>
#endif

#include "xla/ffi/api/c_api.h"

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "FAIL: %s\n", what);
  abort();
}

/* The errors of this host */

struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  char message[512];
};

static XLA_FFI_Error* new_error(XLA_FFI_Error_Code code, const char* message) {
  XLA_FFI_Error* error = calloc(1, sizeof(*error));
  check(error != NULL, "memory");
  error->code = code;
  snprintf(error->message, sizeof(error->message), "%s", message);
  return error;
}

static XLA_FFI_Error* error_create(XLA_FFI_Error_Create_Args* args) {
  return new_error(args->errc, args->message);
}

static void error_details(XLA_FFI_Error_GetDetails_Args* args) {
  args->message = args->error->message;
  args->errc = args->error->code;
}

static void error_destroy(XLA_FFI_Error_Destroy_Args* args) { free(args->error); }

/* The types and handlers of one copy of XLA. */

typedef struct xla {
  XLA_FFI_Api api; /* first, because the table's address identifies the copy of XLA */
  pthread_mutex_t lock;
  struct {
    char name[300];
    void (*deleter)(void*);
  } types[1024];
  int type_count, registrations;
} xla;

static xla copies[2];

struct XLA_FFI_InvokeContext {
  xla* copy;
  int64_t type_id; /* the type of the state that the instantiate stage set */
  void* state;
};

static XLA_FFI_Error* type_register_in(xla* copy, XLA_FFI_Type_Register_Args* args) {
  XLA_FFI_Error* error = NULL;
  int i;
  pthread_mutex_lock(&copy->lock);
  for (i = 0; i < copy->type_count; ++i) {
    if (strlen(copy->types[i].name) == args->name.len &&
        memcmp(copy->types[i].name, args->name.ptr, args->name.len) == 0) {
      break;
    }
  }
  if (i < copy->type_count && args->type_id->type_id != i + 1) {
    error = new_error(XLA_FFI_Error_Code_ALREADY_EXISTS, "the name of a type is taken");
  } else if (i == copy->type_count) {
    check(i < 1024 && args->name.len < 300, "room for the type");
    memcpy(copy->types[i].name, args->name.ptr, args->name.len);
    copy->types[i].deleter = args->type_info->deleter;
    args->type_id->type_id = ++copy->type_count;
  }
  pthread_mutex_unlock(&copy->lock);
  return error;
}

static XLA_FFI_Error* type_register_0(XLA_FFI_Type_Register_Args* args) {
  return type_register_in(&copies[0], args);
}
static XLA_FFI_Error* type_register_1(XLA_FFI_Type_Register_Args* args) {
  return type_register_in(&copies[1], args);
}

static XLA_FFI_Error* handler_register_in(xla* copy) {
  pthread_mutex_lock(&copy->lock);
  ++copy->registrations;
  pthread_mutex_unlock(&copy->lock);
  return NULL;
}

static XLA_FFI_Error* handler_register_0(XLA_FFI_Handler_Register_Args* args) {
  return args->name.len > 0 ? handler_register_in(&copies[0]) : NULL;
}
static XLA_FFI_Error* handler_register_1(XLA_FFI_Handler_Register_Args* args) {
  return args->name.len > 0 ? handler_register_in(&copies[1]) : NULL;
}

/* Contexts. Only the thread of a call uses its context, and contexts are read-only after creation. */

static XLA_FFI_Error* no_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = NULL;
  return new_error(XLA_FFI_Error_Code_UNIMPLEMENTED, "no stream");
}

static XLA_FFI_Error* state_set(XLA_FFI_State_Set_Args* args) {
  check(args->ctx->state == NULL, "state is set once");
  args->ctx->type_id = args->type_id->type_id;
  args->ctx->state = args->state;
  return NULL;
}

static XLA_FFI_Error* state_get(XLA_FFI_State_Get_Args* args) {
  if (args->ctx->state == NULL || args->ctx->type_id != args->type_id->type_id) {
    return new_error(XLA_FFI_Error_Code_NOT_FOUND, "no state of this type");
  }
  args->state = args->ctx->state;
  return NULL;
}

/* The thread pool of this host */

typedef struct task {
  void (*run)(void*);
  void* data;
  struct task* next;
} task;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pool_changed = PTHREAD_COND_INITIALIZER;
static task *pool_first, **pool_end = &pool_first;
static int pool_over;
enum { POOL = 4 };

static void* pool_thread(void* unused) {
  (void)unused;
  for (;;) {
    task* own;
    pthread_mutex_lock(&pool_lock);
    while (pool_first == NULL && !pool_over) pthread_cond_wait(&pool_changed, &pool_lock);
    own = pool_first;
    if (own != NULL && (pool_first = own->next) == NULL) pool_end = &pool_first;
    pthread_mutex_unlock(&pool_lock);
    if (own == NULL) return NULL;
    own->run(own->data);
    free(own);
  }
}

static pthread_t pool[POOL];

static void start_pool(void) {
  int i;
  pool_over = 0;
  for (i = 0; i < POOL; ++i) check(pthread_create(&pool[i], NULL, pool_thread, NULL) == 0, "thread");
}

static void end_pool(void) {
  int i;
  pthread_mutex_lock(&pool_lock);
  pool_over = 1;
  pthread_cond_broadcast(&pool_changed);
  pthread_mutex_unlock(&pool_lock);
  for (i = 0; i < POOL; ++i) pthread_join(pool[i], NULL);
}

static XLA_FFI_Error* schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  task* own = calloc(1, sizeof(*own));
  check(own != NULL, "memory");
  own->run = args->task;
  own->data = args->data;
  pthread_mutex_lock(&pool_lock);
  *pool_end = own;
  pool_end = &own->next;
  pthread_cond_signal(&pool_changed);
  pthread_mutex_unlock(&pool_lock);
  return NULL;
}

static XLA_FFI_Error* num_threads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = POOL;
  return NULL;
}

/* The futures of this host */

struct XLA_FFI_Future {
  pthread_mutex_t lock;
  pthread_cond_t done;
  int completed;
  XLA_FFI_Error* error;
};

static XLA_FFI_Error* future_create(XLA_FFI_Future_Create_Args* args) {
  XLA_FFI_Future* future = calloc(1, sizeof(*future));
  check(future != NULL, "memory");
  pthread_mutex_init(&future->lock, NULL);
  pthread_cond_init(&future->done, NULL);
  args->future = future;
  return NULL;
}

static XLA_FFI_Error* future_complete(XLA_FFI_Future* future, XLA_FFI_Error* error) {
  pthread_mutex_lock(&future->lock);
  check(!future->completed, "a future is completed once");
  future->completed = 1;
  future->error = error;
  pthread_cond_signal(&future->done);
  pthread_mutex_unlock(&future->lock);
  return NULL;
}

static XLA_FFI_Error* future_available(XLA_FFI_Future_SetAvailable_Args* args) {
  return future_complete(args->future, NULL);
}

static XLA_FFI_Error* future_error(XLA_FFI_Future_SetError_Args* args) {
  return future_complete(args->future, args->error);
}

static XLA_FFI_Error* future_wait(XLA_FFI_Future* future) {
  XLA_FFI_Error* error;
  pthread_mutex_lock(&future->lock);
  while (!future->completed) pthread_cond_wait(&future->done, &future->lock);
  error = future->error;
  pthread_mutex_unlock(&future->lock);
  pthread_cond_destroy(&future->done);
  pthread_mutex_destroy(&future->lock);
  free(future);
  return error;
}

static void make_tables(void) {
  int i;
  for (i = 0; i < 2; ++i) {
    XLA_FFI_Api* api = &copies[i].api;
    pthread_mutex_init(&copies[i].lock, NULL);
    api->struct_size = sizeof(*api);
    api->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    api->api_version.major_version = XLA_FFI_API_MAJOR;
    api->api_version.minor_version = XLA_FFI_API_MINOR;
    api->XLA_FFI_Error_Create = error_create;
    api->XLA_FFI_Error_GetDetails = error_details;
    api->XLA_FFI_Error_Destroy = error_destroy;
    api->XLA_FFI_Handler_Register = i == 0 ? handler_register_0 : handler_register_1;
    api->XLA_FFI_Stream_Get = no_stream;
    api->XLA_FFI_Type_Register = i == 0 ? type_register_0 : type_register_1;
    api->XLA_FFI_State_Set = state_set;
    api->XLA_FFI_State_Get = state_get;
    api->XLA_FFI_ThreadPool_Schedule = schedule;
    api->XLA_FFI_ThreadPool_NumThreads = num_threads;
    if (i == 0) {
      api->XLA_FFI_Future_Create = future_create;
      api->XLA_FFI_Future_SetAvailable = future_available;
      api->XLA_FFI_Future_SetError = future_error;
    }
  }
}

/* Calls of handlers */

#define F32 XLA_FFI_DataType_F32
#define S64 XLA_FFI_DataType_S64
enum { LONGEST = 64 };

typedef struct attribute {
  const char* name;
  XLA_FFI_DataType dtype; /* INVALID for a string */
  union {
    float f32;
    int32_t s32;
    int64_t s64;
    const char* text;
  } value;
} attribute;

typedef struct operand {
  XLA_FFI_DataType dtype;
  void* data;
  int64_t rank, count;
} operand;

static void* library;

/* Calls a handler and waits until it finishes; returns null or its error. */
static XLA_FFI_Error* call(XLA_FFI_InvokeContext* context, const char* name,
                           XLA_FFI_ExecutionStage stage, const operand* args, int arg_count,
                           const operand* rets, int ret_count, const attribute* attributes,
                           int attribute_count) {
  XLA_FFI_Handler* handler;
  XLA_FFI_CallFrame frame;
  XLA_FFI_Buffer buffers[8];
  XLA_FFI_ArgType arg_types[4];
  XLA_FFI_RetType ret_types[4];
  XLA_FFI_AttrType types[4];
  XLA_FFI_ByteSpan names[4], texts[4], *name_places[4];
  XLA_FFI_Scalar scalars[4];
  int64_t dims[8];
  void *arg_places[4], *ret_places[4], *values[4], *symbol = dlsym(library, name);
  XLA_FFI_Error* error;
  int i;
  check(symbol != NULL, name);
  memcpy(&handler, &symbol, sizeof(handler));
  memset(&frame, 0, sizeof(frame));
  memset(buffers, 0, sizeof(buffers));
  for (i = 0; i < arg_count + ret_count; ++i) {
    const operand* one = i < arg_count ? &args[i] : &rets[i - arg_count];
    buffers[i].struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
    buffers[i].dtype = one->dtype;
    buffers[i].data = one->data;
    buffers[i].rank = one->rank;
    buffers[i].dims = &dims[i];
    dims[i] = one->count;
    if (i < arg_count) {
      arg_types[i] = XLA_FFI_ArgType_BUFFER;
      arg_places[i] = &buffers[i];
    } else {
      ret_types[i - arg_count] = XLA_FFI_RetType_BUFFER;
      ret_places[i - arg_count] = &buffers[i];
    }
  }
  for (i = 0; i < attribute_count; ++i) {
    names[i].ptr = attributes[i].name;
    names[i].len = strlen(attributes[i].name);
    name_places[i] = &names[i];
    if (attributes[i].dtype == XLA_FFI_DataType_INVALID) {
      types[i] = XLA_FFI_AttrType_STRING;
      texts[i].ptr = attributes[i].value.text;
      texts[i].len = strlen(attributes[i].value.text);
      values[i] = &texts[i];
    } else {
      types[i] = XLA_FFI_AttrType_SCALAR;
      scalars[i].dtype = attributes[i].dtype;
      scalars[i].value = (void*)(uintptr_t)&attributes[i].value;
      values[i] = &scalars[i];
    }
  }
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &context->copy->api;
  frame.ctx = context;
  frame.stage = stage;
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.args.size = arg_count;
  frame.args.types = arg_types;
  frame.args.args = arg_places;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.rets.size = ret_count;
  frame.rets.types = ret_types;
  frame.rets.rets = ret_places;
  frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  frame.attrs.size = attribute_count;
  frame.attrs.types = types;
  frame.attrs.names = name_places;
  frame.attrs.attrs = values;
  error = handler(&frame);
  if (error == NULL && frame.future != NULL) error = future_wait(frame.future);
  return error;
}

#define EXECUTE XLA_FFI_ExecutionStage_EXECUTE
#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static void well(XLA_FFI_Error* error, const char* what) {
  if (error == NULL) return;
  fprintf(stderr, "%s: %s\n", what, error->message);
  check(0, what);
}

/* Makes a handler's metadata query, which also registers the handler's types. */
static void metadata(XLA_FFI_InvokeContext* context, const char* name) {
  XLA_FFI_Handler* handler;
  XLA_FFI_Metadata about;
  XLA_FFI_Metadata_Extension extension;
  XLA_FFI_CallFrame frame;
  void* symbol = dlsym(library, name);
  memcpy(&handler, &symbol, sizeof(handler));
  memset(&about, 0, sizeof(about));
  memset(&extension, 0, sizeof(extension));
  memset(&frame, 0, sizeof(frame));
  about.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  about.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  extension.extension_base.struct_size = XLA_FFI_Metadata_Extension_STRUCT_SIZE;
  extension.extension_base.type = XLA_FFI_Extension_Metadata;
  extension.metadata = &about;
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &context->copy->api;
  frame.extension_start = &extension.extension_base;
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  well(handler(&frame), "metadata");
  check(about.api_version.minor_version <= XLA_FFI_API_MINOR, "the version");
}

static int64_t count_up(XLA_FFI_InvokeContext* context) {
  float x = 0;
  int64_t y = -1;
  const operand arg = {F32, &x, 0, 1}, ret = {S64, &y, 0, 1};
  const attribute start = {"start", S64, {.s64 = 5}};
  well(call(context, "counter", EXECUTE, &arg, 1, &ret, 1, &start, 1), "counter");
  return y;
}

static void instantiate(XLA_FFI_InvokeContext* context) {
  const attribute start = {"start", S64, {.s64 = 5}};
  well(call(context, "counter_instantiate", XLA_FFI_ExecutionStage_INSTANTIATE, NULL, 0, NULL, 0,
            &start, 1),
       "counter_instantiate");
}

static void drop_state(XLA_FFI_InvokeContext* context) {
  void (*deleter)(void*);
  pthread_mutex_lock(&context->copy->lock);
  deleter = context->copy->types[context->type_id - 1].deleter;
  pthread_mutex_unlock(&context->copy->lock);
  deleter(context->state);
}

static void expect_failure(XLA_FFI_Error* error) {
  check(error != NULL, "it is to fail");
  check(error->code == XLA_FFI_Error_Code_DATA_LOSS, "the code of the failure");
  check(strstr(error->message, "as asked") != NULL, "the words of the failure");
  free(error);
}

static void all_handlers(XLA_FFI_InvokeContext* context, int64_t seed) {
  float x[LONGEST], y[LONGEST], sum = 0, expected = 0;
  int64_t i, tasks[2], threads;
  const int64_t count = 1 + seed % LONGEST;
  const operand arg = {F32, x, 1, count}, ret = {F32, y, 1, count};
  const operand sums[] = {{F32, &sum, 0, 1}, {S64, tasks, 1, 2}}, number = {S64, &threads, 0, 1};
  const attribute scaled[] = {{"delay_ms", S64, {.s64 = 0}}, {"factor", F32, {.f32 = 3}}};
  const attribute pieces = {"tasks", S64, {.s64 = 1 + seed % 5}};
  const attribute failure[] = {{"code", XLA_FFI_DataType_S32, {.s32 = 15}},
                               {"message", XLA_FFI_DataType_INVALID, {.text = "as asked"}}};
  for (i = 0; i < count; ++i) expected += x[i] = (float)((seed + i) % 100);
  well(call(context, "scale", EXECUTE, &arg, 1, &ret, 1, &scaled[1], 1), "scale");
  for (i = 0; i < count; ++i) check(y[i] == 3 * x[i], "y = 3 x");
#ifndef _WIN32 /* these handlers detach threads, which winpthreads of MinGW-w64 10 does not support */
  memset(y, 0, sizeof(y));
  well(call(context, "async_scale", EXECUTE, &arg, 1, &ret, 1, scaled, 2), "async_scale");
  for (i = 0; i < count; ++i) check(y[i] == 3 * x[i], "y = 3 x, later");
  expect_failure(call(context, "async_fail", EXECUTE, &arg, 1, &ret, 1, failure, COUNT(failure)));
#endif
  well(call(context, "pool_sum", EXECUTE, &arg, 1, sums, 2, &pieces, 1), "pool_sum");
  check(sum == expected && tasks[0] == pieces.value.s64, "the sum in pieces");
  well(call(context, "pool_threads", EXECUTE, NULL, 0, &number, 1, NULL, 0), "pool_threads");
  check(threads == POOL, "the size of the pool");
  expect_failure(call(context, "fail", EXECUTE, &arg, 1, &ret, 1, failure, COUNT(failure)));
  /* This decoding error has a long message. */
  {
    XLA_FFI_Error* error = call(context, "scale", EXECUTE, &arg, 1, sums, 1, NULL, 0);
    check(error != NULL, "a wrong call is refused");
    free(error);
  }
}

/* The threads that call handlers concurrently */

static pthread_barrier_t begin;
static int thread_count, rounds;

/* For each copy of XLA, a state that all threads increment. */
static XLA_FFI_InvokeContext shared[2];
static pthread_mutex_t shared_lock[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int64_t shared_calls[2];

static void* caller(void* data) {
  const int number = (int)(intptr_t)data;
  xla* copy = &copies[number % 2];
  XLA_FFI_Error* (*enroll)(const XLA_FFI_Api*, const char*);
  void* symbol = dlsym(library, "xla_ffi_register");
  int round;
  check(symbol != NULL, "xla_ffi_register");
  memcpy(&enroll, &symbol, sizeof(enroll));
  pthread_barrier_wait(&begin);
  for (round = 0; round < rounds; ++round) {
    XLA_FFI_InvokeContext own = {copy, 0, NULL};
    int64_t i;
    /* Threads call functions in different orders, so that different functions run first. */
    if (number % 4 < 2) metadata(&own, number % 3 == 0 ? "counter" : "counter_instantiate");
    if (number % 8 < 4) well(enroll(&copy->api, "cpu"), "xla_ffi_register");
    instantiate(&own);
    for (i = 0; i < 3; ++i) check(count_up(&own) == 5 + i, "a state of one's own");
    drop_state(&own);
    pthread_mutex_lock(&shared_lock[number % 2]);
    if (shared[number % 2].state == NULL) {
      shared[number % 2].copy = copy;
      instantiate(&shared[number % 2]);
    }
    pthread_mutex_unlock(&shared_lock[number % 2]);
    check(count_up(&shared[number % 2]) >= 5, "the shared state");
    __atomic_fetch_add(&shared_calls[number % 2], 1, __ATOMIC_RELAXED);
    own.state = NULL;
    all_handlers(&own, number + 17 * round);
  }
  return NULL;
}

int main(int count, char** arguments) {
  pthread_t threads[256];
  int64_t stats[2];
  const operand ret = {S64, stats, 1, 2};
  int i;
  check(count == 4, "host LIBRARY THREADS ROUNDS");
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  check(library != NULL, "dlopen");
  thread_count = atoi(arguments[2]);
  rounds = atoi(arguments[3]);
  check(thread_count >= 2 && thread_count <= 256, "2 to 256 threads");
  make_tables();
  pthread_barrier_init(&begin, NULL, (unsigned)thread_count);
  start_pool();
  for (i = 0; i < thread_count; ++i) {
    check(pthread_create(&threads[i], NULL, caller, (void*)(intptr_t)i) == 0, "thread");
  }
  for (i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
  end_pool();
  for (i = 0; i < 2; ++i) {
    check(count_up(&shared[i]) == 5 + shared_calls[i], "each call of the shared state counted once");
    drop_state(&shared[i]);
    check(copies[i].registrations > 0, "handlers were registered");
    printf("copy %d: %d types\n", i, copies[i].type_count);
  }
  {
    XLA_FFI_InvokeContext context = {&copies[0], 0, NULL};
    well(call(&context, "counter_stats", EXECUTE, NULL, 0, &ret, 1, NULL, 0), "counter_stats");
  }
  check(stats[0] == stats[1] && stats[0] == (int64_t)thread_count * rounds + 2, "states dropped");
  printf("%d threads, %d rounds\n", thread_count, rounds);
  return 0;
}
