/* The conformance handlers (tests/jax/README.md) in plain C: every feature that the matrix tries on
 * each jaxlib, in a library without a manifest. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "xla_ffi/handler.h"

#define F32 XLA_FFI_DataType_F32
#define F64 XLA_FFI_DataType_F64
#define S64 XLA_FFI_DataType_S64

/* Defines an exported execute handler NAME with the floor r0, its body following. */
#define EXECUTE(name)                                   \
  static XLA_FFI_Error* name##_impl(xffi_call* call);   \
  XFFI_HANDLER(name, name##_impl);                      \
  static XLA_FFI_Error* name##_impl(xffi_call* call)

/* Asks for a length of a rank-1 result. */
static void want_count(xffi_call* call, const char* name, const xffi_buffer* buffer, int64_t count) {
  if (buffer->present && buffer->count != count) {
    xffi_problem(call, "'%s': expected %lld elements, got %lld", name, (long long)count,
                 (long long)buffer->count);
  }
}

static void scaled(float* y, const float* x, int64_t count, float factor) {
  int64_t i;
  for (i = 0; i < count; ++i) y[i] = x[i] * factor;
}

EXECUTE(scale) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  const float factor = xffi_attr_f32(call, "factor");
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  scaled((float*)y.data, (const float*)x.data, x.count, factor);
  return NULL;
}

EXECUTE(echo_bool) {
  xffi_buffer y = xffi_ret(call, "y", S64, 0);
  const int value = xffi_attr_bool(call, "value");
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  *(int64_t*)y.data = value != 0;
  return NULL;
}

EXECUTE(echo_ints) {
  xffi_buffer y = xffi_ret(call, "y", S64, 1);
  int64_t values[8];
  XLA_FFI_Error* error;
  values[0] = xffi_attr_i8(call, "i8");
  values[1] = xffi_attr_i16(call, "i16");
  values[2] = xffi_attr_i32(call, "i32");
  values[3] = xffi_attr_i64(call, "i64");
  values[4] = xffi_attr_u8(call, "u8");
  values[5] = xffi_attr_u16(call, "u16");
  values[6] = xffi_attr_u32(call, "u32");
  values[7] = (int64_t)xffi_attr_u64(call, "u64");
  want_count(call, "y", &y, 8);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, values, sizeof(values));
  return NULL;
}

EXECUTE(echo_floats) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  double values[2];
  XLA_FFI_Error* error;
  values[0] = xffi_attr_f32(call, "f32");
  values[1] = xffi_attr_f64(call, "f64");
  want_count(call, "y", &y, 2);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, values, sizeof(values));
  return NULL;
}

EXECUTE(echo_string) {
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_U8, 1);
  const XLA_FFI_ByteSpan text = xffi_attr_str(call, "text");
  XLA_FFI_Error* error;
  want_count(call, "y", &y, (int64_t)text.len);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, text.ptr, text.len);
  return NULL;
}

#define FETCH(kind)                                                 \
  xffi_##kind##_array kind = xffi_attr_##kind##_array(call, #kind); \
  total += kind.size
#define STORE(kind) \
  for (i = 0; i < kind.size; ++i) *out++ = (double)kind.data[i]

EXECUTE(echo_arrays) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  double* out = (double*)y.data;
  size_t total = 0, i;
  XLA_FFI_Error* error;
  FETCH(i8);
  FETCH(i16);
  FETCH(i32);
  FETCH(i64);
  FETCH(f32);
  FETCH(f64);
  want_count(call, "y", &y, (int64_t)total);
  if ((error = xffi_decoded(call)) != NULL) return error;
  STORE(i8);
  STORE(i16);
  STORE(i32);
  STORE(i64);
  STORE(f32);
  STORE(f64);
  return NULL;
}

EXECUTE(echo_unsigned_arrays) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  double* out = (double*)y.data;
  size_t total = 0, i;
  XLA_FFI_Error* error;
  FETCH(u8);
  FETCH(u16);
  FETCH(u32);
  FETCH(u64);
  want_count(call, "y", &y, (int64_t)total);
  if ((error = xffi_decoded(call)) != NULL) return error;
  STORE(u8);
  STORE(u16);
  STORE(u32);
  STORE(u64);
  return NULL;
}

EXECUTE(echo_dict) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  xffi_dict options = xffi_attr_dict(call, "options");
  double values[4];
  XLA_FFI_Error* error;
  values[0] = xffi_dict_bool(call, &options, "flag") != 0;
  values[1] = (double)xffi_dict_i64(call, &options, "n");
  values[2] = xffi_dict_f64(call, &options, "x");
  values[3] = (double)xffi_dict_str(call, &options, "name").len;
  xffi_dict_done(call, &options);
  want_count(call, "y", &y, 4);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, values, sizeof(values));
  return NULL;
}

EXECUTE(echo_nested) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  xffi_dict options = xffi_attr_dict(call, "options");
  xffi_dict inner = xffi_dict_dict(call, &options, "inner");
  const xffi_i64_array list = xffi_dict_i64_array(call, &options, "list");
  double values[3];
  size_t i;
  XLA_FFI_Error* error;
  values[0] = (double)xffi_dict_i64(call, &options, "n");
  values[1] = xffi_dict_f64(call, &inner, "x");
  values[2] = 0;
  xffi_dict_done(call, &inner);
  xffi_dict_done(call, &options);
  want_count(call, "y", &y, 3);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < list.size; ++i) values[2] += (double)list.data[i];
  memcpy(y.data, values, sizeof(values));
  return NULL;
}

EXECUTE(echo_optional) {
  xffi_buffer y = xffi_ret(call, "y", F64, 1);
  double values[2];
  XLA_FFI_Error* error;
  values[0] = (double)xffi_attr_i64_or(call, "n", 7);
  values[1] = xffi_attr_f64_or(call, "x", -1);
  want_count(call, "y", &y, 2);
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, values, sizeof(values));
  return NULL;
}

EXECUTE(describe) {
  xffi_buffer x = xffi_arg(call, "x", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", S64, 1);
  int64_t* out = (int64_t*)y.data;
  int64_t i;
  XLA_FFI_Error* error;
  want_count(call, "y", &y, 8);
  if ((error = xffi_decoded(call)) != NULL) return error;
  out[0] = (int64_t)x.dtype;
  out[1] = x.rank;
  out[2] = x.count;
  out[3] = (int64_t)xffi_size_bytes(&x);
  for (i = 0; i < 4; ++i) out[4 + i] = i < x.rank ? x.dims[i] : -1;
  return NULL;
}

EXECUTE(copy) {
  xffi_buffer x = xffi_arg(call, "x", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XFFI_ANY_DTYPE, XFFI_ANY_RANK);
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if (x.present && y.present && x.dtype != y.dtype) xffi_problem(call, "'x' and 'y': dtypes differ");
  if ((error = xffi_decoded(call)) != NULL) return error;
  memcpy(y.data, x.data, xffi_size_bytes(&x));
  return NULL;
}

/* Bits of a packed element type, or 0 after noting a problem. r3 and r4 send such types as dtype 0,
 * so that nobody can tell which it is. */
static XLA_FFI_Error* packing(xffi_call* call, const char* name, const xffi_buffer* buffer,
                              unsigned* bits) {
  *bits = xffi_dtype_bits(buffer->dtype);
  if (*bits == 2 || *bits == 4) return NULL;
  if (buffer->dtype == XLA_FFI_DataType_INVALID && xffi_host_revision(call->api) < XFFI_R5) {
    return xffi_lacks(call->api, "the number of a sub-byte element type", XFFI_R5);
  }
  return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "'%s': expected S4, U4, S2, U2 or F4E2M1FN, got %s", name,
                    xffi_dtype_name(buffer->dtype));
}

static XLA_FFI_Error* unpack_any(xffi_call* call, XLA_FFI_DataType dtype) {
  xffi_buffer x = xffi_arg(call, "x", dtype, 1);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S8, 1);
  const uint8_t* in = (const uint8_t*)x.data;
  unsigned bits;
  int64_t i;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = packing(call, "x", &x, &bits)) != NULL) return error;
  for (i = 0; i < x.count; ++i) {
    const size_t at = (size_t)i * bits;
    int value = in[at / 8] >> (at % 8) & ((1 << bits) - 1);
    const int is_signed = x.dtype == XLA_FFI_DataType_S4 || x.dtype == XLA_FFI_DataType_S2;
    if (is_signed && value >> (bits - 1) != 0) value -= 1 << bits;
    ((int8_t*)y.data)[i] = (int8_t)value;
  }
  return NULL;
}

EXECUTE(unpack) { return unpack_any(call, XFFI_ANY_DTYPE); }

EXECUTE(unpack_s4) { return unpack_any(call, XLA_FFI_DataType_S4); }

EXECUTE(pack) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_S8, 1);
  xffi_buffer y = xffi_ret(call, "y", XFFI_ANY_DTYPE, 1);
  uint8_t* out = (uint8_t*)y.data;
  unsigned bits;
  int64_t i;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = packing(call, "y", &y, &bits)) != NULL) return error;
  memset(out, 0, xffi_size_bytes(&y));
  for (i = 0; i < x.count; ++i) {
    const size_t at = (size_t)i * bits;
    const int value = ((const int8_t*)x.data)[i] & ((1 << bits) - 1);
    out[at / 8] = (uint8_t)(out[at / 8] | value << (at % 8));
  }
  return NULL;
}

EXECUTE(sum_all) {
  xffi_buffer y = xffi_ret(call, "y", F32, 0);
  float sum = 0;
  XLA_FFI_Error* error;
  while (xffi_args_left(call) > 0) {
    xffi_buffer x = xffi_arg(call, "xs", F32, XFFI_ANY_RANK);
    int64_t i;
    for (i = 0; x.present && i < x.count; ++i) sum += ((const float*)x.data)[i];
  }
  if ((error = xffi_decoded(call)) != NULL) return error;
  *(float*)y.data = sum;
  return NULL;
}

static XLA_FFI_Error* add_one(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  int64_t i;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (i = 0; i < x.count; ++i) ((float*)y.data)[i] = ((const float*)x.data)[i] + 1;
  return NULL;
}

EXECUTE(add_tokens) {
  xffi_arg(call, "t", XLA_FFI_DataType_TOKEN, 0);
  xffi_ret(call, "t", XLA_FFI_DataType_TOKEN, 0);
  return add_one(call);
}

EXECUTE(increment) { return add_one(call); }

/* The code and the text that the caller asks for. A NUL would end the text: it is written out. */
typedef struct asked_error {
  XLA_FFI_Error_Code code;
  char text[8192];
} asked_error;

static XLA_FFI_Error* fetch_error(xffi_call* call, asked_error* asked) {
  XLA_FFI_ByteSpan message;
  size_t i, at = 0;
  xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  asked->code = (XLA_FFI_Error_Code)xffi_attr_i32(call, "code");
  message = xffi_attr_str(call, "message");
  for (i = 0; i < message.len && at + 3 < sizeof(asked->text); ++i) {
    if (message.ptr[i] != '\0') {
      asked->text[at++] = message.ptr[i];
    } else {
      asked->text[at++] = '\\';
      asked->text[at++] = '0';
    }
  }
  asked->text[at] = '\0';
  return xffi_decoded(call);
}

EXECUTE(fail) {
  asked_error asked;
  XLA_FFI_Error* error;
  if ((error = fetch_error(call, &asked)) != NULL) return error;
  return xffi_error_new(call->api, asked.code, asked.text);
}

/* State: built at compile time, dropped with the executable. */
typedef struct counter_state {
  int64_t next;
} counter_state;

static int64_t built, dropped;

static void drop_counter(void* state) {
  __atomic_fetch_add(&dropped, 1, __ATOMIC_SEQ_CST);
  free(state);
}

static xffi_type counter_type = XFFI_TYPE("conformance_c.Counter", drop_counter);

static XLA_FFI_Error* counter_instantiate_impl(xffi_call* call) {
  const int64_t start = xffi_attr_i64(call, "start");
  counter_state* state;
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  if (start < 0) {
    return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "start is to be 0 or more, got %lld",
                      (long long)start);
  }
  state = (counter_state*)malloc(sizeof(*state));
  if (state == NULL) return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  state->next = start;
  __atomic_fetch_add(&built, 1, __ATOMIC_SEQ_CST);
  return xffi_set_state(call, &counter_type, state);
}
XFFI_HANDLER_WITH(counter_instantiate, counter_instantiate_impl, XLA_FFI_ExecutionStage_INSTANTIATE,
                  XFFI_R1, 0, &counter_type);

static XLA_FFI_Error* counter_impl(xffi_call* call) {
  void* state;
  xffi_buffer y;
  XLA_FFI_Error* error;
  xffi_arg(call, "x", F32, 0);
  y = xffi_ret(call, "y", S64, 0);
  xffi_attr_i64(call, "start");
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_get_state(call, &counter_type, XLA_FFI_ExecutionStage_INSTANTIATE, &state);
  if (error != NULL) return error;
  *(int64_t*)y.data = __atomic_fetch_add(&((counter_state*)state)->next, 1, __ATOMIC_SEQ_CST);
  return NULL;
}
XFFI_HANDLER_WITH(counter, counter_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, &counter_type);

EXECUTE(counter_stats) {
  xffi_buffer y = xffi_ret(call, "y", S64, 1);
  XLA_FFI_Error* error;
  want_count(call, "y", &y, 2);
  if ((error = xffi_decoded(call)) != NULL) return error;
  ((int64_t*)y.data)[0] = __atomic_load_n(&built, __ATOMIC_SEQ_CST);
  ((int64_t*)y.data)[1] = __atomic_load_n(&dropped, __ATOMIC_SEQ_CST);
  return NULL;
}

/* Work for a thread of its own: only data pointers outlive the call, everything else is copied. */
typedef struct job {
  xffi_promise* promise;
  void (*work)(struct job* job);
  const float* x;
  void* y;
  int64_t count, delay_ms;
  float factor;
  pthread_t caller;
  asked_error asked;
} job;

static void* job_thread(void* data) {
  job* own = (job*)data;
  own->work(own);
  free(own);
  return NULL;
}

static job* new_job(xffi_call* call, void (*work)(job*)) {
  job* own = (job*)calloc(1, sizeof(*own));
  if (own == NULL) return NULL;
  own->promise = xffi_promise_new(call);
  if (own->promise == NULL) {
    free(own);
    return NULL;
  }
  own->work = work;
  own->caller = pthread_self();
  return own;
}

static XLA_FFI_Error* start_job(xffi_call* call, job* own) {
  xffi_promise* promise;
  pthread_t thread;
  if (own == NULL) return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  promise = own->promise;
  if (pthread_create(&thread, NULL, job_thread, own) != 0) {
    xffi_promise_free(promise);
    free(own);
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no thread");
  }
  pthread_detach(thread);
  return xffi_promise_return(call, promise);
}

static void sleep_ms(int64_t ms) {
  struct timespec time;
  time.tv_sec = (time_t)(ms / 1000);
  time.tv_nsec = (long)(ms % 1000) * 1000000;
  nanosleep(&time, NULL);
}

static void scale_job(job* own) {
  sleep_ms(own->delay_ms);
  scaled((float*)own->y, own->x, own->count, own->factor);
  xffi_promise_done(own->promise);
}

EXECUTE(async_scale) {
  xffi_buffer x = xffi_arg(call, "x", F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", F32, XFFI_ANY_RANK);
  const float factor = xffi_attr_f32(call, "factor");
  const int64_t delay_ms = xffi_attr_i64(call, "delay_ms");
  job* own;
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((own = new_job(call, scale_job)) != NULL) {
    own->x = (const float*)x.data;
    own->y = y.data;
    own->count = x.count;
    own->factor = factor;
    own->delay_ms = delay_ms;
  }
  return start_job(call, own);
}

static void probe_job(job* own) {
  int64_t* out = (int64_t*)own->y;
  sleep_ms(20);
  out[0] = !pthread_equal(own->caller, pthread_self());
  /* Without futures the host cannot be handed one: the handler waits. */
  out[1] = xffi_future_slot(own->promise->api) != 0;
  xffi_promise_done(own->promise);
}

EXECUTE(async_probe) {
  xffi_buffer y = xffi_ret(call, "y", S64, 1);
  job* own;
  XLA_FFI_Error* error;
  want_count(call, "y", &y, 2);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((own = new_job(call, probe_job)) != NULL) own->y = y.data;
  return start_job(call, own);
}

static void fail_job(job* own) { xffi_promise_fail(own->promise, own->asked.code, own->asked.text); }

EXECUTE(async_fail) {
  asked_error asked;
  job* own;
  XLA_FFI_Error* error;
  if ((error = fetch_error(call, &asked)) != NULL) return error;
  if ((own = new_job(call, fail_job)) != NULL) own->asked = asked;
  return start_job(call, own);
}

/* A sum in pieces on the host's pool; the last piece completes the promise. */
typedef struct pool_work {
  xffi_promise* promise;
  const float* x;
  float* y;
  int64_t* tasks;
  int64_t count, pieces, left, ran, elsewhere;
  pthread_t caller;
  double sums[64];
} pool_work;

typedef struct pool_piece {
  pool_work* work;
  int64_t index;
} pool_piece;

static void run_piece(void* data) {
  pool_piece piece = *(pool_piece*)data;
  pool_work* work = piece.work;
  int64_t i;
  free(data);
  for (i = work->count * piece.index / work->pieces;
       i < work->count * (piece.index + 1) / work->pieces; ++i) {
    work->sums[piece.index] += work->x[i];
  }
  __atomic_fetch_add(&work->ran, 1, __ATOMIC_SEQ_CST);
  if (!pthread_equal(work->caller, pthread_self())) {
    __atomic_fetch_add(&work->elsewhere, 1, __ATOMIC_SEQ_CST);
  }
  if (__atomic_sub_fetch(&work->left, 1, __ATOMIC_SEQ_CST) == 0) {
    double total = 0;
    for (i = 0; i < work->pieces; ++i) total += work->sums[i];
    *work->y = (float)total;
    work->tasks[0] = work->ran;
    work->tasks[1] = work->elsewhere;
    xffi_promise_done(work->promise);
    free(work);
  }
}

static XLA_FFI_Error* pool_sum_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", F32, 1);
  xffi_buffer y = xffi_ret(call, "y", F32, 0);
  xffi_buffer tasks = xffi_ret(call, "tasks", S64, 1);
  const int64_t pieces = xffi_attr_i64(call, "tasks");
  pool_work* work;
  xffi_promise* promise;
  int64_t i;
  XLA_FFI_Error* error;
  want_count(call, "tasks", &tasks, 2);
  if (pieces < 1 || pieces > 64) xffi_problem(call, "attribute 'tasks': expected 1 to 64");
  if ((error = xffi_decoded(call)) != NULL) return error;
  work = (pool_work*)calloc(1, sizeof(*work));
  promise = xffi_promise_new(call);
  if (work == NULL || promise == NULL) {
    free(work);
    if (promise != NULL) xffi_promise_free(promise);
    return xffi_error(call, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory");
  }
  work->promise = promise;
  work->x = (const float*)x.data;
  work->y = (float*)y.data;
  work->tasks = (int64_t*)tasks.data;
  work->count = x.count;
  work->pieces = work->left = pieces;
  work->caller = pthread_self();
  for (i = 0; i < pieces; ++i) {
    pool_piece* piece = (pool_piece*)malloc(sizeof(*piece));
    if (piece == NULL) abort(); /* 16 bytes; earlier pieces are running already */
    piece->work = work;
    piece->index = i;
    error = xffi_schedule(call, run_piece, piece);
    if (error == NULL) continue;
    free(piece);
    if (i == 0) { /* nothing runs yet: tell why */
      free(work);
      xffi_promise_free(promise);
      return error;
    }
    xffi_error_free(call->api, error);
    {
      pool_piece own = {work, i}; /* a pool that closes: do the piece here */
      pool_piece* copy = (pool_piece*)malloc(sizeof(*copy));
      if (copy == NULL) abort();
      *copy = own;
      run_piece(copy);
    }
  }
  return xffi_promise_return(call, promise);
}
XFFI_HANDLER_WITH(pool_sum, pool_sum_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R1, 0, NULL);

EXECUTE(pool_threads) {
  xffi_buffer y = xffi_ret(call, "y", S64, 0);
  XLA_FFI_Error* error;
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_num_threads(call, (int64_t*)y.data);
}

EXECUTE(run_id) {
  xffi_buffer y;
  XLA_FFI_Error* error;
  xffi_arg(call, "x", F32, 0);
  y = xffi_ret(call, "y", S64, 0);
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_run_id(call, (int64_t*)y.data);
}

EXECUTE(device_ordinal) {
  xffi_buffer y;
  XLA_FFI_Error* error;
  xffi_arg(call, "x", F32, 0);
  y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  if ((error = xffi_decoded(call)) != NULL) return error;
  return xffi_device_ordinal(call, (int32_t*)y.data);
}

static XLA_FFI_Error* custom_options_impl(xffi_call* call) {
  xffi_buffer y;
  xffi_dict options;
  XLA_FFI_Error* error;
  xffi_arg(call, "x", F32, 0);
  y = xffi_ret(call, "y", S64, 0);
  if ((error = xffi_decoded(call)) != NULL) return error;
  if ((error = xffi_custom_options(call, &options)) != NULL) return error;
  *(int64_t*)y.data = options.attrs->size;
  return NULL;
}
/* The floor is left at r0, as a plain-C library without a manifest may do: older hosts take it and
 * the call tells what they lack. */
XFFI_HANDLER(custom_options, custom_options_impl);

EXECUTE(optional_parts) {
  xffi_buffer y;
  int64_t* out;
  int64_t number;
  int32_t ordinal;
  XLA_FFI_Error* error;
  xffi_arg(call, "x", F32, 0);
  y = xffi_ret(call, "y", S64, 1);
  out = (int64_t*)y.data;
  want_count(call, "y", &y, 3);
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_run_id(call, &number);
  out[0] = error == NULL;
  if (error != NULL) xffi_error_free(call->api, error);
  error = xffi_device_ordinal(call, &ordinal);
  out[1] = error == NULL;
  if (error != NULL) xffi_error_free(call->api, error);
  error = xffi_num_threads(call, &number);
  out[2] = error == NULL;
  if (error != NULL) xffi_error_free(call->api, error);
  return NULL;
}

/* Registers handlers of this library with the host that calls: "conformance_c.NAME". */
XFFI_EXPORT XLA_FFI_Error* xla_ffi_register(const XLA_FFI_Api* api, const char* platform);
XFFI_EXPORT XLA_FFI_Error* xla_ffi_register(const XLA_FFI_Api* api, const char* platform) {
  XLA_FFI_Handler_Bundle bundle;
  memset(&bundle, 0, sizeof(bundle));
  bundle.execute = scale;
  return xffi_register_handler(api, "conformance_c.scale", platform, &bundle, 0);
}
