/* A thread that ends inside of a handler, a task or a deleter: the process ends, and says why. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xla_ffi/handler.h"
#include "xla_ffi/runtime.h"

#include "checks.h"

static int cancels, in_deleter;
static int begun;

static void end(void) {
  __atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
  if (!cancels) pthread_exit(NULL);
  for (;;) usleep(1000);
}

static XLA_FFI_Error* ends_impl(xffi_call* call) {
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error == NULL && !in_deleter) end();
  return error;
}
XFFI_HANDLER(ends, ends_impl);

static void deleter(void* object) {
  CHECK(*(int*)object == 5);
  end();
}

static void* run(void* call) {
  right(xffi_rt_call_run((xffi_rt_call*)call));
  xffi_rt_call_destroy((xffi_rt_call*)call);
  return NULL;
}

int main(int count, char** words) {
  const XLA_FFI_Handler_Bundle bundle = {NULL, NULL, NULL, ends, NULL};
  static int object = 5;
  xffi_rt* runtime = NULL;
  xffi_rt_call* call = NULL;
  xffi_rt_user_data* data = NULL;
  pthread_t thread;
  CHECK(count == 2);
  cancels = strcmp(words[1], "cancelled") == 0;
  in_deleter = strcmp(words[1], "deleter") == 0;
  right(xffi_rt_create(-1, &runtime));
  right(xffi_rt_register(runtime, "ends", "Host", &bundle, 0));
  right(xffi_rt_user_data_create(runtime, &data));
  right(xffi_rt_user_data_add(data, "ended.v1", sizeof(object), &object, deleter));
  right(xffi_rt_call_create(runtime, "ends", "Host", NULL, &call));
  right(xffi_rt_call_set_user_data(call, data));
  xffi_rt_user_data_destroy(data);
  CHECK(pthread_create(&thread, NULL, run, call) == 0);
  while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)) usleep(1000);
  if (cancels) pthread_cancel(thread);
  pthread_join(thread, NULL);
  printf("went on\n");
  return 0;
}
