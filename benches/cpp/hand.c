/* The same handlers as a careful programmer writes them in C without any library: every check, no
 * more. */
#include <string.h>

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* fail(const XLA_FFI_CallFrame* frame, const char* message)
    __attribute__((noinline, cold));
static XLA_FFI_Error* fail(const XLA_FFI_CallFrame* frame, const char* message) {
  XLA_FFI_Error_Create_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_INVALID_ARGUMENT;
  return frame->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Error* metadata(const XLA_FFI_CallFrame* frame) __attribute__((noinline, cold));
static XLA_FFI_Error* metadata(const XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata* m = ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
  m->api_version.major_version = 0;
  m->api_version.minor_version = 1;
  m->traits = 0;
  return NULL;
}

#define GUARD()                                                             \
  if (frame->extension_start != NULL) return metadata(frame);               \
  if (frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE) return fail(frame, "frame"); \
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return fail(frame, "stage")

static inline const XLA_FFI_Buffer* buffer(int type, void* at, int64_t rank) {
  const XLA_FFI_Buffer* b = (const XLA_FFI_Buffer*)at;
  if (type != 1 || b->dtype != XLA_FFI_DataType_F32 || (rank >= 0 && b->rank != rank)) return NULL;
  return b;
}
#define ARG(name, i, rank)                                                                    \
  const XLA_FFI_Buffer* name = buffer((int)frame->args.types[i], frame->args.args[i], rank); \
  if (name == NULL) return fail(frame, #name)
#define RET(name, i, rank)                                                                    \
  const XLA_FFI_Buffer* name = buffer((int)frame->rets.types[i], frame->rets.rets[i], rank); \
  if (name == NULL) return fail(frame, #name)
#define COUNTS(a, r, t)                                                                     \
  if (frame->args.size != (a) || frame->rets.size != (r) || ((t) >= 0 && frame->attrs.size != (t))) \
  return fail(frame, "counts")

static inline int named(const XLA_FFI_CallFrame* frame, int i, const char* name, size_t length) {
  const XLA_FFI_ByteSpan* at = frame->attrs.names[i];
  return at->len == length && memcmp(at->ptr, name, length) == 0;
}
static inline const void* scalar(const XLA_FFI_CallFrame* frame, int i, XLA_FFI_DataType dtype) {
  const XLA_FFI_Scalar* s = (const XLA_FFI_Scalar*)frame->attrs.attrs[i];
  return frame->attrs.types[i] == XLA_FFI_AttrType_SCALAR && s->dtype == dtype ? s->value : NULL;
}
#define SCALAR(type, name, i, text, dtype)                                 \
  if (!named(frame, i, text, sizeof(text) - 1)) return fail(frame, text);  \
  const void* name##_at = scalar(frame, i, dtype);                         \
  if (name##_at == NULL) return fail(frame, text);                         \
  const type name = *(const type*)name##_at
#define DATA(b) ((float*)(b)->data)

XLA_FFI_Error* hand_one_buffer(XLA_FFI_CallFrame* frame) {
  GUARD();
  COUNTS(1, 1, -1);
  ARG(x, 0, -1);
  RET(y, 0, -1);
  DATA(y)[0] = DATA(x)[0];
  return NULL;
}

XLA_FFI_Error* hand_ten_buffers(XLA_FFI_CallFrame* frame) {
  GUARD();
  COUNTS(8, 2, -1);
  ARG(a, 0, 1);
  ARG(b, 1, 1);
  ARG(c, 2, 1);
  ARG(d, 3, 1);
  ARG(e, 4, 1);
  ARG(f, 5, 1);
  ARG(g, 6, 1);
  ARG(h, 7, 1);
  RET(y, 0, 1);
  RET(z, 1, 1);
  DATA(y)[0] = DATA(a)[0] + DATA(b)[0] + DATA(c)[0] + DATA(d)[0];
  DATA(z)[0] = DATA(e)[0] + DATA(f)[0] + DATA(g)[0] + DATA(h)[0];
  return NULL;
}

XLA_FFI_Error* hand_four_attrs(XLA_FFI_CallFrame* frame) {
  GUARD();
  COUNTS(1, 1, 4);
  ARG(x, 0, -1);
  RET(y, 0, -1);
  SCALAR(int32_t, axis, 0, "axis", XLA_FFI_DataType_S32);
  SCALAR(float, eps, 1, "epsilon", XLA_FFI_DataType_F32);
  SCALAR(unsigned char, flag, 2, "flag", XLA_FFI_DataType_PRED);
  SCALAR(int64_t, size, 3, "size", XLA_FFI_DataType_S64);
  DATA(y)[0] = DATA(x)[0] + eps + (float)(axis + size + (flag != 0));
  return NULL;
}

XLA_FFI_Error* hand_arrays(XLA_FFI_CallFrame* frame) {
  GUARD();
  COUNTS(1, 1, 2);
  ARG(x, 0, -1);
  RET(y, 0, -1);
  if (!named(frame, 0, "mode", 4) || frame->attrs.types[0] != XLA_FFI_AttrType_STRING) {
    return fail(frame, "mode");
  }
  if (!named(frame, 1, "shape", 5) || frame->attrs.types[1] != XLA_FFI_AttrType_ARRAY ||
      ((const XLA_FFI_Array*)frame->attrs.attrs[1])->dtype != XLA_FFI_DataType_S64) {
    return fail(frame, "shape");
  }
  const XLA_FFI_Array* shape = (const XLA_FFI_Array*)frame->attrs.attrs[1];
  const XLA_FFI_ByteSpan* mode = (const XLA_FFI_ByteSpan*)frame->attrs.attrs[0];
  DATA(y)[0] = DATA(x)[0] + (float)((const int64_t*)shape->data)[0] + (float)mode->len;
  return NULL;
}

XLA_FFI_Error* hand_stream(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Stream_Get_Args args;
  GUARD();
  COUNTS(1, 1, -1);
  ARG(x, 0, -1);
  RET(y, 0, -1);
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.extension_start = NULL;
  args.ctx = frame->ctx;
  args.stream = NULL;
  XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args);
  if (error != NULL) return error;
  DATA(y)[0] = DATA(x)[0] + (args.stream != NULL);
  return NULL;
}

XLA_FFI_Error* hand_remaining(XLA_FFI_CallFrame* frame) {
  float sum = 0;
  GUARD();
  if (frame->rets.size != 1) return fail(frame, "counts");
  RET(y, 0, -1);
  for (int64_t i = 0; i < frame->args.size; ++i) {
    ARG(x, i, -1);
    sum += DATA(x)[0];
  }
  DATA(y)[0] = sum;
  return NULL;
}

static inline int find(const XLA_FFI_CallFrame* frame, const char* name, size_t length) {
  for (int i = 0; i < frame->attrs.size; ++i) {
    if (named(frame, i, name, length)) return i;
  }
  return -1;
}
XLA_FFI_Error* hand_dictionary(XLA_FFI_CallFrame* frame) {
  GUARD();
  COUNTS(1, 1, -1);
  ARG(x, 0, -1);
  RET(y, 0, -1);
  const int e = find(frame, "epsilon", 7), s = find(frame, "size", 4);
  if (e < 0 || s < 0) return fail(frame, "attributes");
  const void* eps = scalar(frame, e, XLA_FFI_DataType_F32);
  const void* size = scalar(frame, s, XLA_FFI_DataType_S64);
  if (eps == NULL || size == NULL) return fail(frame, "attributes");
  DATA(y)[0] = DATA(x)[0] + *(const float*)eps + (float)*(const int64_t*)size;
  return NULL;
}
