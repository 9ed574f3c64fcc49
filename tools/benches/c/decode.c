/* The handlers of the benchmark in hand-written C, with the same checks as the Rust API: the fastest code that a
 * careful author can write with only c_api.h. ../src/handlers.rs has the same handlers.
 *
 * With UNCHECKED defined, the handlers make only the checks of a careless author: kinds, element types,
 * ranks, counts and names, but not the sizes of structs or the validity of memory. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* A number derived from the values that the last call decoded; all languages must agree on it. */
static volatile size_t sink;

size_t bench_sink(void) { return sink; }

/* The contents of a buffer that passed every check. */
typedef struct {
  float* data;
  const int64_t* dims;
  size_t count;
} array;

static inline size_t seen(array a) { return (size_t)a.data + a.count; }

__attribute__((cold, noinline)) static XLA_FFI_Error* fail(
    const XLA_FFI_CallFrame* frame, const char* handler, const char* what, const char* why) {
  if (frame->api == NULL || frame->api->XLA_FFI_Error_Create == NULL) return NULL; /* the error cannot be reported */
  char text[256];
  snprintf(text, sizeof(text), "%s: %s: %s", handler, what, why);
  XLA_FFI_Error_Create_Args args = {
      XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return frame->api->XLA_FFI_Error_Create(&args);
}

__attribute__((cold, noinline)) static XLA_FFI_Error* wrong_array(
    const XLA_FFI_CallFrame* frame, const char* handler, const char* name, const XLA_FFI_Buffer* b) {
  char why[96];
  snprintf(why, sizeof(why), "expected F32 of rank 2, got element type %d of rank %lld",
           (int)b->dtype, (long long)b->rank);
  return fail(frame, handler, name, why);
}

/* Answers the metadata call: a frame whose extension chain has a metadata extension. */
__attribute__((cold, noinline)) static int metadata(const XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_InternalExtension* e = frame->extension_start; e != NULL; e = e->next) {
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata* data = ((XLA_FFI_Metadata_Extension*)e)->metadata;
      data->api_version.major_version = 0;
      data->api_version.minor_version = 1;
      data->traits = 0;
      return 1;
    }
  }
  return 0;
}

#ifndef UNCHECKED
/* The slow path of to_array, for dimensions of any size and for empty arrays, which may have any address. */
__attribute__((cold, noinline)) static int to_any_array(const XLA_FFI_Buffer* b, array* out) {
  size_t count = 1;
  int over = 0, empty = 0;
  for (int i = 0; i < 2; ++i) {
    if (b->dims[i] < 0) return 0;
    empty |= b->dims[i] == 0;
    over |= __builtin_mul_overflow(count, (size_t)b->dims[i], &count);
  }
  if (empty) {
    count = 0;
  } else if (over || count > PTRDIFF_MAX / sizeof(float) || b->data == NULL ||
             (uintptr_t)b->data % _Alignof(float) != 0) {
    return 0;
  }
  out->data = b->data;
  out->dims = b->dims;
  out->count = count;
  return 1;
}
#endif

/* Decodes a buffer of f32 with rank 2. */
static inline int to_array(const XLA_FFI_Buffer* b, array* out) {
#ifndef UNCHECKED
  if (b == NULL || b->struct_size < XLA_FFI_Buffer_STRUCT_SIZE) return 0;
#endif
  if (b->dtype != XLA_FFI_DataType_F32 || b->rank != 2) return 0;
#ifndef UNCHECKED
  if (b->dims == NULL) return 0;
  /* The product of two dimensions below 2^30 does not overflow. */
  if (!LIKELY((uint64_t)(b->dims[0] | b->dims[1]) >> 30 == 0 && b->data != NULL &&
              (uintptr_t)b->data % _Alignof(float) == 0)) {
    array any;
    if (!to_any_array(b, &any)) return 0;
    *out = any;
    return 1;
  }
#endif
  out->data = b->data;
  out->dims = b->dims;
  out->count = (size_t)b->dims[0] * (size_t)b->dims[1];
  return 1;
}

/* Returns 1 if two arrays overlap. */
static inline int overlap(array a, array b) {
  uintptr_t a0 = (uintptr_t)a.data, b0 = (uintptr_t)b.data;
  uintptr_t a1 = a0 + a.count * sizeof(float), b1 = b0 + b.count * sizeof(float);
  return (a0 < b1) & (b0 < a1) & (a.count != 0) & (b.count != 0);
}

/* Returns 1 if a result overlaps an argument or a different result. */
static inline int overlaps(const array* args, int arg_count, const array* rets, int ret_count) {
  int bad = 0;
#ifdef UNCHECKED
  return bad;
#endif
  for (int r = 0; r < ret_count; ++r) {
    for (int a = 0; a < arg_count; ++a) bad |= overlap(rets[r], args[a]);
    for (int other = 0; other < r; ++other) bad |= overlap(rets[r], rets[other]);
  }
  return bad;
}

#ifndef UNCHECKED
/* The API table of the last host whose calls have no stream. Operands of such calls are in host memory. */
static const XLA_FFI_Api* volatile host;

__attribute__((cold, noinline)) static int ask_for_stream(const XLA_FFI_CallFrame* frame) {
  if (frame->api->XLA_FFI_Error_Create == NULL) return 0;
  XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};
  XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args);
  if (error != NULL) {
    XLA_FFI_Error_Destroy_Args destroy = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
    frame->api->XLA_FFI_Error_Destroy(&destroy);
  } else if (args.stream != NULL) {
    return 0;
  }
  host = frame->api;
  return 1;
}
#endif

static inline int named(const XLA_FFI_ByteSpan* span, const char* name, size_t length) {
  return span->len == length && span->ptr != NULL && memcmp(span->ptr, name, length) == 0;
}

/* Reads the attribute `name` as an i32. Hosts sort attributes by name, so `guess` is probably its index. */
static inline int to_i32(const XLA_FFI_Attrs* attrs, int64_t guess, const char* name,
                         size_t length, int32_t* out) {
  int64_t at = guess;
  if (!LIKELY(guess < attrs->size && named(attrs->names[guess], name, length))) {
    for (at = 0; at < attrs->size; ++at) {
      if (named(attrs->names[at], name, length)) break;
    }
    if (at == attrs->size) return 0;
  }
  if (attrs->types[at] != XLA_FFI_AttrType_SCALAR) return 0;
  const XLA_FFI_Scalar* scalar = attrs->attrs[at];
  if (scalar == NULL || scalar->value == NULL || scalar->dtype != XLA_FFI_DataType_S32) return 0;
  memcpy(out, scalar->value, sizeof(*out));
  return 1;
}

/* The checks that every handler makes first. */
#ifdef UNCHECKED
#define SIZES()
#define ON_HOST()
#else
#define SIZES()                                                         \
  if (frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE ||             \
      frame->api == NULL ||                                             \
      frame->args.struct_size < XLA_FFI_Args_STRUCT_SIZE ||             \
      frame->rets.struct_size < XLA_FFI_Rets_STRUCT_SIZE ||             \
      frame->attrs.struct_size < XLA_FFI_Attrs_STRUCT_SIZE)             \
  return fail(frame, self, "call frame", "a struct is too short")
#define ON_HOST()                                      \
  if (!LIKELY(host == frame->api) && !ask_for_stream(frame)) \
  return fail(frame, self, "operands", "in a device's memory")
#endif
#define BEGIN(handler, arg_count, ret_count, attr_count)                                          \
  HEAD(handler);                                                                                  \
  if ((arg_count) + (ret_count) > 0) {                                                            \
    ON_HOST();                                                                                    \
  }                                                                                               \
  COUNTS(arg_count, ret_count, attr_count)
#define BEGIN_ANYWHERE(handler, arg_count, ret_count, attr_count)                                 \
  HEAD(handler);                                                                                  \
  COUNTS(arg_count, ret_count, attr_count)
#define HEAD(handler)                                                                             \
  static const char* const self = handler;                                                        \
  if (frame->extension_start != NULL && metadata(frame)) return NULL;                             \
  SIZES();                                                                                        \
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return fail(frame, self, "stage", "wrong")
#define COUNTS(arg_count, ret_count, attr_count)                                                  \
  if (frame->args.size != (arg_count)) return fail(frame, self, "arguments", "wrong number");     \
  if (frame->rets.size != (ret_count)) return fail(frame, self, "results", "wrong number");       \
  if (frame->attrs.size != (attr_count)) return fail(frame, self, "attributes", "wrong number")

#define ARG(index, name)                                                                  \
  array name;                                                                             \
  if (frame->args.types[index] != XLA_FFI_ArgType_BUFFER)                                 \
    return fail(frame, self, #name, "not a buffer");                                      \
  if (!to_array(frame->args.args[index], &name))                                       \
  return wrong_array(frame, self, #name, frame->args.args[index])

#define RET(index, name)                                                                  \
  array name;                                                                             \
  if (frame->rets.types[index] != XLA_FFI_RetType_BUFFER)                                 \
    return fail(frame, self, #name, "not a buffer");                                      \
  if (!to_array(frame->rets.rets[index], &name))                                       \
  return wrong_array(frame, self, #name, frame->rets.rets[index])

#define FOUR(OPERAND, first, a, b, c, d) \
  OPERAND(first, a);                     \
  OPERAND(first + 1, b);                 \
  OPERAND(first + 2, c);                 \
  OPERAND(first + 3, d)

#define ATTR(attrs, index, name)                                \
  int32_t name;                                                 \
  if (!to_i32(attrs, index, #name, sizeof(#name) - 1, &name))   \
  return fail(frame, self, #name, "missing or not an i32")

XLA_FFI_Error* args_1(XLA_FFI_CallFrame* frame) {
  BEGIN("args_1", 1, 0, 0);
  ARG(0, a);
  sink = seen(a);
  return NULL;
}

XLA_FFI_Error* args_4(XLA_FFI_CallFrame* frame) {
  BEGIN("args_4", 4, 0, 0);
  FOUR(ARG, 0, a, b, c, d);
  sink = seen(a) + seen(b) + seen(c) + seen(d);
  return NULL;
}

XLA_FFI_Error* args_8(XLA_FFI_CallFrame* frame) {
  BEGIN("args_8", 8, 0, 0);
  FOUR(ARG, 0, a, b, c, d);
  FOUR(ARG, 4, e, f, g, h);
  sink = seen(a) + seen(b) + seen(c) + seen(d) + seen(e) + seen(f) + seen(g) + seen(h);
  return NULL;
}

XLA_FFI_Error* args_16(XLA_FFI_CallFrame* frame) {
  BEGIN("args_16", 16, 0, 0);
  FOUR(ARG, 0, a, b, c, d);
  FOUR(ARG, 4, e, f, g, h);
  FOUR(ARG, 8, i, j, k, l);
  FOUR(ARG, 12, m, n, o, p);
  sink = seen(a) + seen(b) + seen(c) + seen(d) + seen(e) + seen(f) + seen(g) + seen(h) + seen(i) +
         seen(j) + seen(k) + seen(l) + seen(m) + seen(n) + seen(o) + seen(p);
  return NULL;
}

XLA_FFI_Error* rets_8(XLA_FFI_CallFrame* frame) {
  BEGIN("rets_8", 0, 8, 0);
  FOUR(RET, 0, a, b, c, d);
  FOUR(RET, 4, e, f, g, h);
  const array rets[8] = {a, b, c, d, e, f, g, h};
  if (overlaps(NULL, 0, rets, 8)) return fail(frame, self, "results", "two of them overlap");
  sink = seen(a) + seen(b) + seen(c) + seen(d) + seen(e) + seen(f) + seen(g) + seen(h);
  return NULL;
}

XLA_FFI_Error* args_8_rets_8(XLA_FFI_CallFrame* frame) {
  BEGIN("args_8_rets_8", 8, 8, 0);
  FOUR(ARG, 0, a, b, c, d);
  FOUR(ARG, 4, e, f, g, h);
  FOUR(RET, 0, i, j, k, l);
  FOUR(RET, 4, m, n, o, p);
  const array args[8] = {a, b, c, d, e, f, g, h}, rets[8] = {i, j, k, l, m, n, o, p};
  if (overlaps(args, 8, rets, 8)) return fail(frame, self, "results", "one overlaps an operand");
  sink = seen(a) + seen(b) + seen(c) + seen(d) + seen(e) + seen(f) + seen(g) + seen(h) + seen(i) +
         seen(j) + seen(k) + seen(l) + seen(m) + seen(n) + seen(o) + seen(p);
  return NULL;
}

XLA_FFI_Error* attrs_1(XLA_FFI_CallFrame* frame) {
  BEGIN("attrs_1", 0, 0, 1);
  ATTR(&frame->attrs, 0, alpha);
  sink = (size_t)alpha;
  return NULL;
}

XLA_FFI_Error* attrs_4(XLA_FFI_CallFrame* frame) {
  BEGIN("attrs_4", 0, 0, 4);
  ATTR(&frame->attrs, 0, alpha);
  ATTR(&frame->attrs, 1, beta);
  ATTR(&frame->attrs, 2, delta);
  ATTR(&frame->attrs, 3, gamma);
  sink = (size_t)alpha + (size_t)beta + (size_t)gamma + (size_t)delta;
  return NULL;
}

#define EIGHT(attrs)          \
  ATTR(attrs, 0, alpha);      \
  ATTR(attrs, 1, beta);       \
  ATTR(attrs, 2, delta);      \
  ATTR(attrs, 3, epsilon);    \
  ATTR(attrs, 4, eta);        \
  ATTR(attrs, 5, gamma);      \
  ATTR(attrs, 6, theta);      \
  ATTR(attrs, 7, zeta);       \
  sink = (size_t)alpha + (size_t)beta + (size_t)gamma + (size_t)delta + (size_t)epsilon + \
         (size_t)zeta + (size_t)eta + (size_t)theta

XLA_FFI_Error* attrs_8(XLA_FFI_CallFrame* frame) {
  BEGIN("attrs_8", 0, 0, 8);
  EIGHT(&frame->attrs);
  return NULL;
}

XLA_FFI_Error* struct_attributes(XLA_FFI_CallFrame* frame) {
  BEGIN("struct_attributes", 0, 0, 8);
  EIGHT(&frame->attrs);
  return NULL;
}

XLA_FFI_Error* struct_dictionary(XLA_FFI_CallFrame* frame) {
  BEGIN("struct_dictionary", 0, 0, 1);
  if (!named(frame->attrs.names[0], "config", 6) ||
      frame->attrs.types[0] != XLA_FFI_AttrType_DICTIONARY || frame->attrs.attrs[0] == NULL)
    return fail(frame, self, "config", "missing or not a dictionary");
  const XLA_FFI_Attrs* config = frame->attrs.attrs[0];
  if (config->struct_size < XLA_FFI_Attrs_STRUCT_SIZE || config->size != 8)
    return fail(frame, self, "config", "a short struct or a wrong number of entries");
  EIGHT(config);
  return NULL;
}

XLA_FFI_Error* mixed(XLA_FFI_CallFrame* frame) {
  BEGIN("mixed", 1, 1, 1);
  ARG(0, x);
  RET(0, y);
  ATTR(&frame->attrs, 0, alpha);
  if (overlaps(&x, 1, &y, 1)) return fail(frame, self, "y", "overlaps x");
  sink = seen(x) + seen(y) + (size_t)alpha;
  return NULL;
}

XLA_FFI_Error* device(XLA_FFI_CallFrame* frame) {
  BEGIN_ANYWHERE("device", 1, 1, 1);
  ARG(0, x);
  RET(0, y);
  ATTR(&frame->attrs, 0, alpha);
  XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};
  XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args);
  if (error != NULL) return error;
  sink = seen(x) + seen(y) + (size_t)alpha + (size_t)args.stream;
  return NULL;
}

XLA_FFI_Error* contract(XLA_FFI_CallFrame* frame) {
  BEGIN("contract", 2, 1, 0);
  ARG(0, x);
  ARG(1, y);
  RET(0, z);
  const array args[2] = {x, y};
  if (overlaps(args, 2, &z, 1)) return fail(frame, self, "z", "overlaps an argument");
  if (x.dims[1] != y.dims[0] || z.dims[0] != x.dims[0] || z.dims[1] != y.dims[1])
    return fail(frame, self, "shapes", "expected [b, n], [n, m] -> [b, m]");
  sink = seen(x) + seen(y) + seen(z);
  return NULL;
}

XLA_FFI_Error* async_inline(XLA_FFI_CallFrame* frame) {
  BEGIN("async_inline", 1, 0, 0);
  ARG(0, x);
  const XLA_FFI_Api* api = frame->api;
  /* A shorter function table lacks the three functions for futures that this handler calls. */
  if (api->struct_size < XLA_FFI_STRUCT_SIZE(XLA_FFI_Api, XLA_FFI_Future_SetError))
    return fail(frame, self, "future", "not offered by this host");
  XLA_FFI_Future_Create_Args create = {XLA_FFI_Future_Create_Args_STRUCT_SIZE, NULL, NULL};
  XLA_FFI_Error* error = api->XLA_FFI_Future_Create(&create);
  if (error != NULL) return error;
  sink = seen(x);
  XLA_FFI_Future_SetAvailable_Args done = {
      XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, NULL, create.future};
  error = api->XLA_FFI_Future_SetAvailable(&done);
  if (error != NULL) return error;
  frame->future = create.future;
  return NULL;
}

XLA_FFI_Error* singular(XLA_FFI_CallFrame* frame) {
  BEGIN("singular", 1, 0, 0);
  ARG(0, x);
  sink = seen(x);
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL,
                                    "the matrix is singular to working precision",
                                    XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return frame->api->XLA_FFI_Error_Create(&args);
}
