/* The program's logger uses the library, whatever the library does when it tells something: no lock is held then. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/invocation.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static int logs, over, refused;
static int get(int* what) { return __atomic_load_n(what, __ATOMIC_ACQUIRE); }
static void add(int* what) { __atomic_fetch_add(what, 1, __ATOMIC_ACQ_REL); }

static void told(void* user, int level, const char* text) {
  xffi_rt* other = NULL;
  CHECK(user == NULL && level == XFFI_RT_LOG_WARNING && text[0] != '\0');
  add(&logs);
  right(xffi_rt_create(-1, &other));
  xffi_rt_destroy(other);
}

/* A handler that gives its scratch memory not back: its runtime tells so when it goes. */
static XLA_FFI_Error* leaky_impl(xffi_call* call) {
  XLA_FFI_DeviceMemory_Allocate_Args args;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.size = 64;
  args.alignment = 16;
  return call->api->XLA_FFI_DeviceMemory_Allocate(&args);
}
XFFI_HANDLER(leaky, leaky_impl);

static void* allocate(void* user, size_t size, size_t alignment) {
  void* data = NULL;
  CHECK(user == NULL && posix_memalign(&data, alignment, size) == 0);
  return data;
}

static void give_back(void* user, void* data, size_t size) {
  CHECK(user == NULL && size == 64);
  free(data);
}

static void leak(void) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, leaky, NULL};
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  right(xffi_rt_create(-1, &runtime));
  right(xffi_rt_register(runtime, "leaky", "Host", &bundle, 0));
  right(xffi_rt_call_create(runtime, "leaky", "Host", NULL, &call));
  right(xffi_rt_call_set_allocator(call, allocate, give_back, NULL));
  right(xffi_rt_call_run(call));
  xffi_rt_call_destroy(call);
  xffi_rt_destroy(runtime);
}

/* Looks for the runtime of a table that is no runtime's: it passes all that there are, while they go. */
static void* look(void* user) {
  static XLA_FFI_Api foreign;
  static int internal;
  (void)user;
  foreign.struct_size = sizeof(foreign);
  foreign.internal_api = (XLA_FFI_InternalApi*)(void*)&internal;
  while (!get(&over)) {
    CHECK(xffi_rt_refuse(&foreign, XFFI_RT_IMAGE) != NULL);
    add(&refused);
  }
  return NULL;
}

static void* make(void* user) {
  int i;
  (void)user;
  for (i = 0; i < 2000; ++i) leak();
  return NULL;
}

int main(void) {
  pthread_t looks, makes[2];
  int i;
  alarm(120); /* A deadlock ends this. */
  right(xffi_rt_set_logger(told, NULL));
  CHECK(pthread_create(&looks, NULL, look, NULL) == 0);
  for (i = 0; i < 2; ++i) CHECK(pthread_create(&makes[i], NULL, make, NULL) == 0);
  for (i = 0; i < 2; ++i) pthread_join(makes[i], NULL);
  over = 1;
  pthread_join(looks, NULL);
  CHECK(get(&logs) == 4000 && get(&refused) > 0);
  printf("done\n");
  return 0;
}
