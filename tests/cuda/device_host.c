/* A CPU host that behaves like a GPU host. It wraps handlers so that their context provides a stream, and scratch
 * memory that is valid during the call. Together with the emulated driver, this host lets JAX on CPU run libraries
 * built for GPUs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define API __attribute__((visibility("default")))
#define SLOTS 64

static XLA_FFI_Handler* handlers[SLOTS];
static int used;
static void* the_stream;

/* The host's API table, and a copy in which three functions are replaced. */
static const XLA_FFI_Api* host;
static char table[4096] __attribute__((aligned(16)));

struct memory {
  struct memory* next;
  void* data;
};
static _Thread_local struct memory* scratch;

static XLA_FFI_Error* stream_get(XLA_FFI_Stream_Get_Args* args) {
  args->stream = the_stream;
  return NULL;
}

static XLA_FFI_Error* allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  struct memory* memory = malloc(sizeof *memory);
  const size_t alignment = args->alignment < 256 ? 256 : args->alignment;
  memory->data = aligned_alloc(alignment, (args->size + alignment - 1) / alignment * alignment);
  memory->next = scratch;
  scratch = memory;
  args->data = memory->data;
  return NULL;
}

/* Does nothing, because all memory is freed when the call ends. */
static XLA_FFI_Error* leave(XLA_FFI_DeviceMemory_Free_Args* args) {
  (void)args;
  return NULL;
}

static const XLA_FFI_Api* with_device(const XLA_FFI_Api* api) {
  if (host == NULL) {
    XLA_FFI_Api* ours = (XLA_FFI_Api*)(void*)table;
    if (api->struct_size > sizeof table) abort();
    memcpy(table, api, api->struct_size);
    ours->XLA_FFI_Stream_Get = stream_get;
    ours->XLA_FFI_DeviceMemory_Allocate = allocate;
    ours->XLA_FFI_DeviceMemory_Free = leave;
    host = api;
  }
  if (api != host) abort();
  return (const XLA_FFI_Api*)(const void*)table;
}

static XLA_FFI_Error* call(int slot, XLA_FFI_CallFrame* frame) {
  const XLA_FFI_Api* api = frame->api;
  struct memory* before = scratch;
  XLA_FFI_Error* error;
  scratch = NULL;
  if (api != NULL) frame->api = with_device(api);
  error = handlers[slot](frame);
  frame->api = api;
  while (scratch != NULL) {
    struct memory* memory = scratch;
    scratch = memory->next;
    free(memory->data);
    free(memory);
  }
  scratch = before;
  return error;
}

#define ONE(n) \
  static XLA_FFI_Error* call_##n(XLA_FFI_CallFrame* frame) { return call(n, frame); }
#define EIGHT(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7)
EIGHT(0) EIGHT(01) EIGHT(02) EIGHT(03) EIGHT(04) EIGHT(05) EIGHT(06) EIGHT(07)
#define NAMES(n) \
  call_##n##0, call_##n##1, call_##n##2, call_##n##3, call_##n##4, call_##n##5, call_##n##6, call_##n##7
static XLA_FFI_Handler* const calls[SLOTS] = {NAMES(0),  NAMES(01), NAMES(02), NAMES(03),
                                              NAMES(04), NAMES(05), NAMES(06), NAMES(07)};

/* Sets the stream that wrapped handlers get. */
API void device_host_stream(void* stream) { the_stream = stream; }

/* Returns a wrapped handler whose calls have a device, or null if all slots are used. */
API void* device_host_wrap(void* handler) {
  if (used == SLOTS) return NULL;
  handlers[used] = (XLA_FFI_Handler*)(uintptr_t)handler;
  return (void*)(uintptr_t)calls[used++];
}
