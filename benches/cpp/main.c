/* Times the handlers of the other files: nanoseconds a call, the best of several rounds. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "xla/ffi/api/c_api.h"

#define LIST(X) X(one_buffer) X(ten_buffers) X(four_attrs) X(arrays) X(stream) X(remaining) X(dictionary)
#define DECLARE(name)                                \
  XLA_FFI_Error* hand_##name(XLA_FFI_CallFrame*);    \
  XLA_FFI_Error* helper_##name(XLA_FFI_CallFrame*);  \
  XLA_FFI_Error* ours_##name(XLA_FFI_CallFrame*);    \
  XLA_FFI_Error* upstream_##name(XLA_FFI_CallFrame*);
LIST(DECLARE)

static float values[16];
static int64_t dims[1] = {1};
static XLA_FFI_Buffer buffer = {sizeof(XLA_FFI_Buffer), NULL, XLA_FFI_DataType_F32, values, 1, dims};

static XLA_FFI_Error* stream_get(XLA_FFI_Stream_Get_Args* args) {
  args->stream = values;
  return NULL;
}
static XLA_FFI_Error* error_create(XLA_FFI_Error_Create_Args* args) {
  printf("unexpected error: %s\n", args->message);
  return (XLA_FFI_Error*)1;
}

/* One short round; short, so that some rounds are not disturbed by other programs. */
static double round_of(XLA_FFI_Handler* handler, XLA_FFI_CallFrame* frame) {
  const long count = 4000;
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (long i = 0; i < count; ++i) {
    handler(frame);
    __asm__ volatile("" ::: "memory");
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)count;
}

/* The best of many rounds, the contestants in turn. */
static void best(XLA_FFI_Handler* const* handlers, double* least, int n, XLA_FFI_CallFrame* frame) {
  for (int i = 0; i < n; ++i) {
    least[i] = 1e9;
    if (handlers[i](frame) != NULL) least[i] = -1;
  }
  for (int round = 0; round < 2000; ++round) {
    for (int i = 0; i < n; ++i) {
      const double ns = round_of(handlers[i], frame);
      if (ns < least[i]) least[i] = ns;
    }
  }
}

int main(void) {
  static XLA_FFI_Api api;
  void* pointers[10];
  XLA_FFI_ArgType arg_types[10];
  XLA_FFI_RetType ret_types[10];
  int32_t axis = 1;
  float eps = 0.5f;
  unsigned char flag = 1;
  int64_t size = 3;
  XLA_FFI_Scalar scalars[4] = {{XLA_FFI_DataType_S32, &axis},
                               {XLA_FFI_DataType_F32, &eps},
                               {XLA_FFI_DataType_PRED, &flag},
                               {XLA_FFI_DataType_S64, &size}};
  XLA_FFI_ByteSpan names[4] = {{"axis", 4}, {"epsilon", 7}, {"flag", 4}, {"size", 4}};
  XLA_FFI_ByteSpan* name_pointers[4] = {&names[0], &names[1], &names[2], &names[3]};
  void* scalar_pointers[4] = {&scalars[0], &scalars[1], &scalars[2], &scalars[3]};
  XLA_FFI_AttrType scalar_types[4] = {XLA_FFI_AttrType_SCALAR, XLA_FFI_AttrType_SCALAR,
                                      XLA_FFI_AttrType_SCALAR, XLA_FFI_AttrType_SCALAR};
  XLA_FFI_Array shape = {XLA_FFI_DataType_S64, 1, dims};
  XLA_FFI_ByteSpan mode = {"fast", 4}, array_names[2] = {{"mode", 4}, {"shape", 5}};
  XLA_FFI_ByteSpan* array_name_pointers[2] = {&array_names[0], &array_names[1]};
  void* array_pointers[2] = {&mode, &shape};
  XLA_FFI_AttrType array_types[2] = {XLA_FFI_AttrType_STRING, XLA_FFI_AttrType_ARRAY};
  XLA_FFI_Attrs none = {sizeof(XLA_FFI_Attrs), NULL, 0, NULL, NULL, NULL};
  XLA_FFI_Attrs four = {sizeof(XLA_FFI_Attrs), NULL, 4, scalar_types, name_pointers,
                        scalar_pointers};
  XLA_FFI_Attrs arrays = {sizeof(XLA_FFI_Attrs), NULL, 2, array_types, array_name_pointers,
                          array_pointers};
  XLA_FFI_CallFrame frame;
  double worst = 0;
  for (int i = 0; i < 10; ++i) {
    pointers[i] = &buffer;
    arg_types[i] = XLA_FFI_ArgType_BUFFER;
    ret_types[i] = XLA_FFI_RetType_BUFFER;
  }
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version.minor_version = XLA_FFI_API_MINOR;
  api.XLA_FFI_Stream_Get = stream_get;
  api.XLA_FFI_Error_Create = error_create;
  memset(&frame, 0, sizeof(frame));
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args.struct_size = sizeof(XLA_FFI_Args);
  frame.args.types = arg_types;
  frame.args.args = pointers;
  frame.rets.struct_size = sizeof(XLA_FFI_Rets);
  frame.rets.types = ret_types;
  frame.rets.rets = pointers;
  printf("%-12s %8s %8s %8s %8s %14s\n", "ns a call", "C", "C+SDK", "C++ SDK", "C++ XLA",
         "SDK / C");
#define TIME(name)                                                                              \
  {                                                                                             \
    const int ten = strcmp(#name, "ten_buffers") == 0, rest = strcmp(#name, "remaining") == 0;  \
    frame.args.size = ten ? 8 : rest ? 6 : 1;                                                   \
    frame.rets.size = ten ? 2 : 1;                                                              \
    frame.attrs = strcmp(#name, "arrays") == 0 ? arrays                                         \
                  : strcmp(#name, "four_attrs") == 0 || strcmp(#name, "dictionary") == 0 ? four \
                                                                                         : none; \
    XLA_FFI_Handler* const all[4] = {hand_##name, helper_##name, ours_##name, upstream_##name}; \
    double t[4];                                                                                \
    best(all, t, 4, &frame);                                                                    \
    printf("%-12s %8.2f %8.2f %8.2f %8.2f %7.2f %6.2f\n", #name, t[0], t[1], t[2], t[3],        \
           t[1] / t[0], t[2] / t[0]);                                                           \
    if (t[2] / t[0] > worst) worst = t[2] / t[0];                                               \
  }
  LIST(TIME)
  printf("the worst of C++ SDK / C: %.2f\n", worst);
  return 0;
}
