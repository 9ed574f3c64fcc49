/* Handlers for functions that no C example uses, called by tests/c/functions.rs. */
#include <math.h>

#include "xla_ffi/handler.h"

/* y = x + m if the optional argument m is given; then the optional result `told` is 1. */
static XLA_FFI_Error* optional_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer m = xffi_optional_arg(call, "m", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  xffi_buffer told = xffi_optional_ret(call, "told", XLA_FFI_DataType_S32, 0);
  XLA_FFI_Error* error;
  int64_t i;
  if (m.present) xffi_same_shape(call, "x", &x, "m", &m);
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) {
    ((float*)y.data)[i] = ((const float*)x.data)[i] + (m.present ? ((const float*)m.data)[i] : 0.0f);
  }
  if (told.present) *(int32_t*)told.data = m.present;
  return NULL;
}
XFFI_HANDLER(optional, optional_impl);

/* Computes y = x + y in place and returns the sum of y. */
static XLA_FFI_Error* in_place_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_inout(call, "y", XLA_FFI_DataType_F32, 1);
  xffi_buffer sum = xffi_ret(call, "sum", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error;
  float total = 0;
  int64_t i;
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) total += ((float*)y.data)[i] += ((const float*)x.data)[i];
  ((float*)sum.data)[0] = total;
  return NULL;
}
XFFI_HANDLER(in_place, in_place_impl);

/* Counts the handler's requests for a stream. Ten rounds over eight hosts make only eight requests, because the stream
 * is cached per host. */
static int32_t asked;
static XLA_FFI_Error* no_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = NULL;
  ++asked;
  return NULL;
}

static XLA_FFI_Error* hosts_impl(xffi_call* call) {
  static XLA_FFI_Api hosts[8];
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  XLA_FFI_CallFrame frame = *call->frame;
  int i;
  for (i = 0, asked = 0; i < 80; ++i) {
    frame.api = &hosts[i % 8];
    hosts[i % 8].XLA_FFI_Stream_Get = no_stream;
    if (!xla_ffi_sdk_is_on_host(&frame)) return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "a host's");
  }
  ((int32_t*)y.data)[0] = asked;
  return xffi_decoded(call);
}
XFFI_HANDLER(hosts, hosts_impl);

/* y = -x. */
static XLA_FFI_Error* negated_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, 1);
  XLA_FFI_Error* error;
  int64_t i;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = -((const float*)x.data)[i];
  return NULL;
}
XFFI_HANDLER(negated, negated_impl);

/* Returns the length and the first byte of a text attribute, whose default is "none". */
static XLA_FFI_Error* words_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  const XLA_FFI_ByteSpan text = xffi_attr_str_or(call, "text", "none");
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  ((int32_t*)y.data)[0] = (int32_t)text.len;
  ((int32_t*)y.data)[1] = text.len > 0 ? text.ptr[0] : 0;
  return NULL;
}
XFFI_HANDLER(words, words_impl);

/* z = x y, for matrices. */
static XLA_FFI_Error* product_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, 2);
  xffi_buffer y = xffi_arg(call, "y", XLA_FFI_DataType_F32, 2);
  xffi_buffer z = xffi_ret(call, "z", XLA_FFI_DataType_F32, 2);
  XLA_FFI_Error* error;
  int64_t i, j, k;
  xffi_shapes(call, "n k, k m -> n m");
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.dims[0]; ++i) {
    for (j = 0; j < y.dims[1]; ++j) {
      float sum = 0;
      for (k = 0; k < x.dims[1]; ++k) {
        sum += ((const float*)x.data)[i * x.dims[1] + k] * ((const float*)y.data)[k * y.dims[1] + j];
      }
      ((float*)z.data)[i * z.dims[1] + j] = sum;
    }
  }
  return NULL;
}
XFFI_HANDLER(product, product_impl);

/* Returns an error if the C header or the host accepts an alignment that XLA does not support. */
static XLA_FFI_Error* refuses_odd_scratch(const xffi_call* call) {
  static const size_t odd[] = {0, 3, 512};
  XLA_FFI_DeviceMemory_Allocate_Args args;
  XLA_FFI_Error* error;
  size_t i;
  for (i = 0; i < 3; ++i) {
    void* data;
    error = xffi_scratch(call, 64, odd[i], &data);
    if (error == NULL || data != NULL) return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "odd scratch memory");
    xffi_error_free(call->api, error);
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.size = 64;
  args.alignment = 32;
  error = call->api->XLA_FFI_DeviceMemory_Allocate(&args);
  if (error == NULL) return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "the host takes 32");
  xffi_error_free(call->api, error);
  return NULL;
}

/* Returns the stream's address, and whether scratch memory is writable. */
static XLA_FFI_Error* device_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 1);
  void *stream, *scratch;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_stream(call, &stream)) != NULL) return error;
  error = refuses_odd_scratch(call);
  if (error != NULL) return error;
  if ((error = xffi_scratch(call, 4096, 64, &scratch)) != NULL) return error;
  memset(scratch, 7, 4096);
  ((int64_t*)y.data)[0] = (int64_t)(intptr_t)stream;
  ((int64_t*)y.data)[1] = ((unsigned char*)scratch)[4095] + ((uintptr_t)scratch % 64 == 0);
  return xffi_scratch_free(call, scratch, 4096);
}
XFFI_HANDLER(device, device_impl);

/* Returns whether the call's context has an extension of an unknown type. */
static XLA_FFI_Error* extension_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const XLA_FFI_Extension* found;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_extension(call, 77, &found)) != NULL) return error;
  *(int32_t*)y.data = found != NULL;
  return NULL;
}
XFFI_HANDLER(extension, extension_impl);

/* Returns the host's error for user data of a type that was never registered. */
static XLA_FFI_Error* nobodys_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  XLA_FFI_TypeId nobodys = {4711};
  XLA_FFI_Error_Code code;
  XLA_FFI_Error* error;
  void* data;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_user_data(call, nobodys, &data)) == NULL) {
    return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "there is user data of a type that nobody has");
  }
  *(int32_t*)y.data = strlen(xffi_error_details(call->api, error, &code)) > 0;
  xffi_error_free(call->api, error);
  return NULL;
}
XFFI_HANDLER(nobodys, nobodys_impl);

/* Reads a scalar, an absent scalar, an array element and a dictionary entry of every type. */
#define EACH_NUMBER(DO) DO(bool) DO(i8) DO(i16) DO(i32) DO(i64) DO(u8) DO(u16) DO(u32) DO(u64) DO(f32) DO(f64)
static XLA_FFI_Error* scalars_impl(xffi_call* call) {
  const xffi_c64 one = {1, 2};
  const xffi_c128 wide = {1, 2};
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F64, 1);
  xffi_dict in = xffi_attr_dict(call, "in");
  double values[13];
  int i = 0;
  XLA_FFI_Error* error;
#define NUMBER(type)                                                          \
  {                                                                           \
    const xffi_##type##_array list = xffi_attr_##type##_array(call, #type "s"); \
    values[i] = (double)xffi_attr_##type(call, #type);                        \
    values[i] += 10 * (double)xffi_attr_##type##_or(call, "no_" #type, 1);    \
    values[i] += list.size == 2 ? 100 * (double)list.data[1] : 0;             \
    values[i++] += 1000 * (double)xffi_dict_##type(call, &in, #type);         \
  }
#define COMPLEX(type, other)                                                  \
  {                                                                           \
    const xffi_##type at = xffi_attr_##type(call, #type);                     \
    const xffi_##type##_array list = xffi_attr_##type##_array(call, #type "s"); \
    values[i] = at.re + at.im + 10 * xffi_attr_##type##_or(call, "no_" #type, other).im; \
    values[i++] += (list.size == 2 ? 100 * list.data[1].im : 0) + 1000 * xffi_dict_##type(call, &in, #type).im; \
  }
  EACH_NUMBER(NUMBER)
  COMPLEX(c64, one)
  COMPLEX(c128, wide)
  xffi_dict_done(call, &in);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, values, (size_t)y.count * sizeof(double));
  return NULL;
}
XFFI_HANDLER(scalars, scalars_impl);

/* Returns the fields of a dictionary that is fetched twice and copied, and a field of a nested dictionary. */
static int64_t field_of(xffi_call* call, xffi_dict d) { return 100 * xffi_dict_i64_or(call, &d, "hi", 0); }
static XLA_FFI_Error* fields_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  const XLA_FFI_ByteSpan how = xffi_attr_str(call, "how");
  xffi_dict d = xffi_attr_dict(call, "d"), inner;
  int64_t sum = 0;
  XLA_FFI_Error* error;
  if (how.len != 0 && how.ptr[0] == 'r') { /* does not use the header's functions */
    sum = d.attrs != NULL ? d.attrs->size : 0;
  } else {
    sum = xffi_dict_i64_or(call, &d, "lo", 7) + 10 * xffi_dict_has(&d, "flag");
    sum += field_of(call, xffi_attr_dict(call, "d"));
    if (xffi_dict_has(&d, "inner")) {
      inner = xffi_dict_dict(call, &d, "inner");
      sum += 1000 * xffi_dict_i64_or(call, &inner, "x", 0);
    }
  }
  if (how.len != 0 && how.ptr[0] == 'o') call->open_attrs = 1;
  if (how.len != 0 && how.ptr[0] == 'd') xffi_dict_done(call, &d);
  if ((error = xffi_decoded(call)) != NULL) return error;
  *(int64_t*)y.data = sum;
  return NULL;
}
XFFI_HANDLER(fields, fields_impl);

/* Returns one value of the context, or an error if the host does not provide the value. */
static void drop(void* object) { *(int*)object += 1; }
static xffi_type left_type = XFFI_TYPE("c_functions.left", drop);
static xffi_type app_type = XFFI_SHARED_TYPE("c_functions.app", NULL);
static void nothing(void* data) { (void)data; }
static void add_up(void* sum, int64_t begin, int64_t end) {
  for (; begin < end; ++begin) __atomic_fetch_add((int64_t*)sum, begin, __ATOMIC_RELAXED);
}

static XLA_FFI_Error* leave_impl(xffi_call* call) {
  static int left = 0;
  XLA_FFI_Error* error;
  call->open_attrs = 1;
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_set_state(call, &left_type, &left);
}
XFFI_HANDLER_WITH(has_instantiate, leave_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R0, 0, &left_type);
XFFI_HANDLER_WITH(has_prepare, leave_impl, XLA_FFI_ExecutionStage_PREPARE, XFFI_R0, 0, NULL);
XFFI_HANDLER_WITH(has_initialize, leave_impl, XLA_FFI_ExecutionStage_INITIALIZE, XFFI_R0, 0, NULL);

/* Sets state of a type without a deleter, and returns the state. */
static xffi_type kept_type = XFFI_TYPE("c_functions.kept", NULL);
static XLA_FFI_Error* keep_impl(xffi_call* call) {
  static int32_t kept = 7;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_set_state(call, &kept_type, &kept);
}
XFFI_HANDLER_WITH(kept_instantiate, keep_impl, XLA_FFI_ExecutionStage_INSTANTIATE, XFFI_R1, 0, &kept_type);

static XLA_FFI_Error* kept_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  void* kept;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  error = xffi_get_state(call, &kept_type, XLA_FFI_ExecutionStage_INSTANTIATE, &kept);
  if (error != NULL) return error;
  *(int32_t*)y.data = *(int32_t*)kept;
  return NULL;
}
XFFI_HANDLER_WITH(kept, kept_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, NULL);

static XLA_FFI_Error* has_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  const XLA_FFI_ByteSpan what = xffi_attr_str(call, "what");
  XLA_FFI_TypeId nobodys = {4711};
  xffi_cancellation cancellation;
  xffi_dict options;
  const XLA_FFI_Extension* extension;
  int32_t ordinal;
  int64_t* number;
  void* data;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  number = (int64_t*)y.data;
  *number = 1;
#define ASKS_FOR(name) (what.len == sizeof(name) - 1 && memcmp(what.ptr, name, sizeof(name) - 1) == 0)
  if (ASKS_FOR("xffi_stream")) return xffi_stream(call, &data);
  if (ASKS_FOR("xffi_scratch")) return xffi_scratch(call, 64, 64, &data);
  if (ASKS_FOR("xffi_user_data")) return xffi_user_data(call, nobodys, &data);
  if (ASKS_FOR("xffi_find_user_data")) return xffi_find_user_data(call, &app_type, &data);
  if (ASKS_FOR("xffi_schedule")) return xffi_schedule(call, nothing, NULL);
  if (ASKS_FOR("xffi_for_each_range")) {
    *number = 0;
    xffi_for_each_range(call, 9, 2, add_up, number);
    *number = *number == 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8;
    return NULL;
  }
  if (ASKS_FOR("xffi_num_threads")) return xffi_num_threads(call, number);
  if (ASKS_FOR("xffi_run_id")) return xffi_run_id(call, number);
  if (ASKS_FOR("xffi_device_ordinal")) return xffi_device_ordinal(call, &ordinal);
  if (ASKS_FOR("xffi_extension")) return xffi_extension(call, 77, &extension);
  if (ASKS_FOR("xffi_custom_options")) return xffi_custom_options(call, &options);
  if (ASKS_FOR("xffi_get_state")) {
    return xffi_get_state(call, &left_type, XLA_FFI_ExecutionStage_INSTANTIATE, &data);
  }
  if (ASKS_FOR("prepare")) return xffi_get_state(call, &left_type, XLA_FFI_ExecutionStage_PREPARE, &data);
  if (ASKS_FOR("initialize")) return xffi_get_state(call, &left_type, XLA_FFI_ExecutionStage_INITIALIZE, &data);
  if (ASKS_FOR("futures")) {
    *number = xffi_future_slot_(call->api) != 0;
    return NULL;
  }
  if (ASKS_FOR("xffi_cancellation_of")) {
    cancellation = xffi_cancellation_of(call->api, call->ctx);
    *number = !xffi_is_cancelled(&cancellation);
    return NULL;
  }
  return xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, "nobody asks for %.*s", (int)what.len, what.ptr);
}
XFFI_HANDLER(has, has_impl);

/* Sets invalid state twice, and returns the number of destroyed objects. */
static XLA_FFI_Error* lost_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  int dropped = 0;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  error = xffi_set_state(call, &left_type, NULL);
  if (error == NULL) return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "a null pointer is state");
  if (strstr(xffi_error_details(call->api, error, NULL), "a null pointer as its state") == NULL) return error;
  xffi_error_free(call->api, error);
  error = xffi_set_state(call, &left_type, &dropped);
  if (error == NULL) return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "execute left state");
  xffi_error_free(call->api, error);
  *(int32_t*)y.data = dropped;
  return NULL;
}
XFFI_HANDLER(lost, lost_impl);

/* Handlers for tests of minimum versions and host memory. They accept any attributes. */
static XLA_FFI_Error* anything_impl(xffi_call* call) {
  call->open_attrs = 1;
  return xffi_decoded(call);
}
XFFI_HANDLER_WITH(since_r8, anything_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R8, 0, NULL);
XFFI_HOST_HANDLER(on_host, anything_impl);
XFFI_HANDLER(anywhere, anything_impl);

/* Three mistakes of handlers that ignore an invalid call: xffi_decoded is not called, its error is not returned, or an
 * attribute is fetched after xffi_decoded. The result y is filled with `by`. */
static void fill(const xffi_buffer* y, int32_t by) {
  int64_t i;
  for (i = 0; i < y->count; ++i) ((int32_t*)y->data)[i] = by;
}

static XLA_FFI_Error* never_asked_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  fill(&y, xffi_attr_i32(call, "by"));
  return NULL;
}
XFFI_HANDLER(never_asked, never_asked_impl);

static XLA_FFI_Error* not_returned_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  const int32_t by = xffi_attr_i32(call, "by");
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) xffi_error_free(call->api, error);
  fill(&y, by);
  return NULL;
}
XFFI_HANDLER(not_returned, not_returned_impl);

static XLA_FFI_Error* asked_too_early_impl(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  XLA_FFI_Error* error;
  call->open_attrs = 1;
  if ((error = xffi_decoded(call)) != NULL) return error;
  fill(&y, xffi_attr_i32(call, "by"));
  return NULL;
}
XFFI_HANDLER(asked_too_early, asked_too_early_impl);

/* Reads the call frame directly, without functions of the header. */
static XLA_FFI_Error* by_hand_impl(xffi_call* call) {
  const XLA_FFI_Buffer* y = (const XLA_FFI_Buffer*)call->frame->rets.rets[0];
  *(int32_t*)y->data = 3;
  return NULL;
}
XFFI_HANDLER(by_hand, by_hand_impl);

/* Handlers that have the same names as functions in the headers. */
static XLA_FFI_Error* handler(xffi_call* call) { return xffi_error(call, XLA_FFI_Error_Code_ABORTED, "handler"); }
XFFI_HANDLER(named_handler, handler);
static XLA_FFI_Error* frame(xffi_call* call) { return xffi_error(call, XLA_FFI_Error_Code_ABORTED, "frame"); }
XFFI_HOST_HANDLER(named_frame, frame);

/* Requests user data of a type that no program registers. */
static XLA_FFI_Error* find_private_impl(xffi_call* call) {
  void* data = call;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  error = xffi_find_user_data(call, &left_type, &data);
  return data == NULL ? error : NULL;
}
XFFI_HANDLER(find_private, find_private_impl);

static XLA_FFI_Error* asked_for_absent_impl(xffi_call* call) {
  (void)xffi_attr_i32_or(call, "scale", 5);
  return NULL;
}
XFFI_HANDLER(asked_for_absent, asked_for_absent_impl);

/* Returns the number of bytes of an argument and a result of any type, and of the optional argument m. */
static XLA_FFI_Error* any_bytes_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  xffi_buffer m = xffi_optional_arg(call, "m", XFFI_ANY_DTYPE, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  xffi_buffer z = xffi_ret(call, "z", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  memset(z.data, 0, xffi_size_bytes(&z));
  ((int32_t*)y.data)[0] = (int32_t)xffi_size_bytes(&x);
  ((int32_t*)y.data)[1] = (int32_t)xffi_size_bytes(&z);
  ((int32_t*)y.data)[2] = m.present ? (int32_t)xffi_size_bytes(&m) : -1;
  return NULL;
}
XFFI_HANDLER(any_bytes, any_bytes_impl);

/* Reads attributes that have bounds. */
static XLA_FFI_Error* bounded_impl(xffi_call* call) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const int64_t bins = xffi_attr_i64(call, "bins");
  const double eps = xffi_attr_f64_or(call, "eps", 0.5);
  const float width = xffi_attr_f32_or(call, "width", 0.1f);
  XLA_FFI_Error* error;
  xffi_range_i64(call, "bins", bins, 1, 64);
  xffi_range_f64(call, "eps", eps, 1e-6, INFINITY);
  xffi_range_f32(call, "width", width, 0, 0.1f);
  if ((error = xffi_decoded(call)) != NULL) return error;
  *(int32_t*)y.data = (int32_t)bins;
  return NULL;
}
XFFI_HANDLER(bounded, bounded_impl);
XFFI_LIBRARY(c_functions,
             XFFI_DESCRIBE(bounded, XFFI_ARGS(), XFFI_RETS(XFFI_OPERAND("y", S32, 0)),
                           XFFI_ATTRS(XFFI_ATTR_WITH("bins", i64, XFFI_MIN(1), XFFI_MAX(64)),
                                      XFFI_ATTR_WITH("eps", f64, XFFI_DEFAULT(0.5), XFFI_MIN(1e-6)),
                                      XFFI_ATTR_WITH("width", f32, XFFI_DEFAULT(0.1), XFFI_MIN(0), XFFI_MAX(0.1)))));

/* Returns whether results start at the address of another operand, in frames with `n` arguments and `n` results. */
static XLA_FFI_Error* clashes_impl(xffi_call* call) {
  static float memory[200];
  static XLA_FFI_Buffer buffers[200];
  static void* operands[200];
  static XLA_FFI_ArgType arg_types[100];
  static XLA_FFI_RetType ret_types[100];
  static int64_t one[] = {1}, none[] = {0}, square[] = {1, 1};
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 1);
  const int64_t n = xffi_attr_i64(call, "count");
  XLA_FFI_CallFrame frame = *call->frame;
  XLA_FFI_Error* error = xffi_decoded(call);
  int64_t i, which;
  if (error != NULL) return error;
  for (which = 0; which < y.count; ++which) {
    XLA_FFI_Buffer *arg = &buffers[n - 1], *ret = &buffers[n], *last = &buffers[2 * n - 1];
    for (i = 0; i < 2 * n; ++i) {
      buffers[i].struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      buffers[i].dtype = XLA_FFI_DataType_F32;
      buffers[i].data = &memory[i * 77 % (2 * n)];
      buffers[i].rank = 1;
      buffers[i].dims = one;
      operands[i] = &buffers[i];
      if (i < n) arg_types[i] = XLA_FFI_ArgType_BUFFER;
      if (i < n) ret_types[i] = XLA_FFI_RetType_BUFFER;
    }
    if (which > 0) last->data = which == 3 ? ret->data : arg->data;
    if (which == 2) last->rank = 2, last->dims = square;
    if (which == 4) ret->data = arg->data;
    if (which == 5) last->dims = none;
    frame.args.size = frame.rets.size = n;
    frame.args.types = arg_types;
    frame.rets.types = ret_types;
    frame.args.args = operands;
    frame.rets.rets = operands + n;
    ((int32_t*)y.data)[which] = xla_ffi_sdk_any_clash(&frame, n, n);
  }
  return NULL;
}
XFFI_HANDLER(clashes, clashes_impl);
