/* The services of a call's context: stream, scratch memory, thread pool and parallel loops, ids, options, extensions.
 * Part of <xla_ffi/handler.h>. All returned values are invalid after the call.
 *
 * Each function returns null, or an error to return from the handler. If the host lacks a service, the error is
 * UNIMPLEMENTED and names the service, the host and the first jaxlib that has it.
 */
#ifndef XLA_FFI_CONTEXT_H_
#define XLA_FFI_CONTEXT_H_

#include "xla_ffi/attribute.h"
#include "xla_ffi/cancellation.h"

/* Returns null if the call is not cancelled; otherwise the error to return, whose code is the reason
 * (xffi_cancelled_code). */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_check_cancelled(const xffi_call* call,
                                                                const xffi_cancellation* cancellation) {
  const XLA_FFI_Error_Code code = xffi_cancelled_code(cancellation);
  if (code == XLA_FFI_Error_Code_OK) return NULL;
  return xffi_error(call, code, "%s", xffi_cancelled_reason(code));
}

/* Gets the platform's stream (a `CUstream` on CUDA). Available in every revision. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_stream(const xffi_call* call, void** stream) {
  XLA_FFI_Stream_Get_Args args;
  XLA_FFI_Error* error;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  error = XFFI_ASK_(call->api, XLA_FFI_Stream_Get, &args);
  *stream = args.stream;
  return error;
}

/* Frees memory that xffi_scratch allocated. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_scratch_free(const xffi_call* call, void* data, size_t size) {
  XLA_FFI_DeviceMemory_Free_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.size = size;
  args.data = data;
  return XFFI_ASK_(call->api, XLA_FFI_DeviceMemory_Free, &args);
}

/* Allocates scratch memory on the device. Free the memory with xffi_scratch_free before the handler returns, because
 * XLA does not free it. `alignment` is a power of two up to 256, the alignment of XLA's GPU memory; XLA itself accepts
 * at most 16. Available in every revision. Errors: INVALID_ARGUMENT for any other alignment, INTERNAL if the host
 * returns memory that is not aligned. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_scratch(const xffi_call* call, size_t size, size_t alignment,
                                        void** data) {
  XLA_FFI_DeviceMemory_Allocate_Args args;
  XLA_FFI_Error* error;
  *data = NULL;
  if (alignment == 0 || alignment > 256 || (alignment & (alignment - 1)) != 0) {
    return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                      "the alignment of scratch memory is %zu, which is not a power of two up to 256", alignment);
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.size = size;
  args.alignment = alignment < 16 ? alignment : 16;
  error = XFFI_ASK_(call->api, XLA_FFI_DeviceMemory_Allocate, &args);
  if (error != NULL) return error;
  if ((uintptr_t)args.data % alignment != 0) {
    error = xffi_scratch_free(call, args.data, size);
    if (error != NULL) return error;
    return xffi_error(call, XLA_FFI_Error_Code_INTERNAL, "the address of the host's scratch memory is not a multiple of %zu",
                      alignment);
  }
  *data = args.data;
  return NULL;
}

/* Runs `task(data)` on a thread of the host's pool, never on the calling thread. Available from r1 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_schedule(const xffi_call* call, XLA_FFI_Task* task, void* data) {
  XLA_FFI_ThreadPool_Schedule_Args args;
  if (!XFFI_HOST_HAS_(call->api, XLA_FFI_ThreadPool_Schedule)) {
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(THREAD_POOL));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.task = task;
  args.data = data;
  return XFFI_ASK_(call->api, XLA_FFI_ThreadPool_Schedule, &args);
}

/* Gets the number of threads in the host's pool. Available from r3 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_num_threads(const xffi_call* call, int64_t* count) {
  XLA_FFI_ThreadPool_NumThreads_Args args;
  *count = 0;
  if (xffi_host_revision(call->api) < XFFI_SINCE_(THREAD_POOL_SIZE) ||
      !XFFI_HOST_HAS_(call->api, XLA_FFI_ThreadPool_NumThreads)) { /* in r2, this position has a different function */
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(THREAD_POOL_SIZE));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.num_threads = count;
  return XFFI_ASK_(call->api, XLA_FFI_ThreadPool_NumThreads, &args);
}

/* Gets the run id of this execution, which is the same on all devices. Available from r4 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_run_id(const xffi_call* call, int64_t* id) {
  XLA_FFI_RunId_Get_Args args;
  XLA_FFI_Error* error;
  *id = 0;
  if (!XFFI_HOST_HAS_(call->api, XLA_FFI_RunId_Get)) {
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(RUN_ID));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  error = XFFI_ASK_(call->api, XLA_FFI_RunId_Get, &args);
  *id = args.run_id;
  return error;
}

/* Gets the global ordinal of the device. Available from r5 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_device_ordinal(const xffi_call* call, int32_t* ordinal) {
  XLA_FFI_DeviceOrdinal_Get_Args args;
  XLA_FFI_Error* error;
  *ordinal = 0;
  if (!XFFI_HOST_HAS_(call->api, XLA_FFI_DeviceOrdinal_Get)) {
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(DEVICE_ORDINAL));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  error = XFFI_ASK_(call->api, XLA_FFI_DeviceOrdinal_Get, &args);
  *ordinal = args.device_ordinal;
  return error;
}

/* Gets the user data of type `id` that the caller attached to the execution. Available in every revision. If the object
 * may be absent, use xffi_find_user_data (state.h), which distinguishes absence from failure. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_user_data(const xffi_call* call, XLA_FFI_TypeId id, void** data) {
  XLA_FFI_InvokeContext_Get_Args args;
  XLA_FFI_Error* error;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.type_id = &id;
  error = XFFI_ASK_(call->api, XLA_FFI_InvokeContext_Get, &args);
  *data = error == NULL ? args.data : NULL;
  return error;
}

/* Gets the custom options of this execution, a dictionary that may be empty. Available from r10 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_custom_options(const xffi_call* call, xffi_dict* options) {
  static const XLA_FFI_Attrs none = {XLA_FFI_Attrs_STRUCT_SIZE, NULL, 0, NULL, NULL, NULL};
  XLA_FFI_CustomOptions_Get_Args args;
  XLA_FFI_Error* error;
  memset(options, 0, sizeof(*options));
  options->path = "options";
  options->attrs = &none;
  if (!XFFI_HOST_HAS_(call->api, XLA_FFI_CustomOptions_Get)) {
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(CUSTOM_OPTIONS));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  error = XFFI_ASK_(call->api, XLA_FFI_CustomOptions_Get, &args);
  /* If the execution has no options, the host may return null. */
  if (error == NULL && args.attrs != NULL) options->attrs = args.attrs;
  return error;
}

/* Gets the host's extension of this type, or null if the context has no such extension. Available from r9 on. */
XFFI_MUST_USE_ XFFI_INLINE_ XLA_FFI_Error* xffi_extension(const xffi_call* call, int64_t type,
                                          const XLA_FFI_Extension** extension) {
  XLA_FFI_InvokeContext_FindExtension_Args args;
  XLA_FFI_Error* error;
  *extension = NULL;
  if (!XFFI_HOST_HAS_(call->api, XLA_FFI_InvokeContext_FindExtension)) {
    return xffi_missing_feature_(call->api, XFFI_FEATURE_(EXTENSIONS));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE;
  args.ctx = call->ctx;
  args.extension_type = type;
  error = XFFI_ASK_(call->api, XLA_FFI_InvokeContext_FindExtension, &args);
  *extension = error == NULL ? args.extension : NULL;
  return error;
}

/* --- loops shared by the calling thread and the host's thread pool --- */

/* The body of a loop, which processes the elements from `begin` to `end` (exclusive). */
typedef void xffi_range_body(void* data, int64_t begin, int64_t end);

/* The state of one loop, which its last user frees: the caller or a pool task. A task that starts after the loop
 * has ended finds XFFI_GATE_CLOSED_ in `inside`, and uses neither `body` nor `data`. */
typedef struct xffi_loop_ {
  xffi_range_body* body;
  void* data;
  int64_t count, grain;
  int64_t step;     /* number of elements per step, large enough to limit `turns` */
  long turns, next; /* number of steps, and number of started steps */
  long inside;      /* number of running tasks, plus XFFI_GATE_CLOSED_ once no task may start */
  long users;       /* number of users: the caller, and the tasks that have not ended */
} xffi_loop_;

#define XFFI_MOST_TURNS_ (1L << 29)
#define XFFI_GATE_CLOSED_ (1L << 29)

/* Calls the body for consecutive ranges of at most `grain` elements from `begin` to `end`. */
XFFI_INLINE_ void xffi_loop_ranges_(const xffi_loop_* loop, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t next = end - begin > loop->grain ? begin + loop->grain : end;
    loop->body(loop->data, begin, next);
    begin = next;
  }
}

/* Runs steps of the loop until all steps are started. */
XFFI_INLINE_ void xffi_loop_work_(xffi_loop_* loop) {
  for (;;) {
    const long turn = XFFI_ADD_(&loop->next, 1);
    int64_t begin;
    if (turn >= loop->turns) return;
    begin = turn * loop->step;
    xffi_loop_ranges_(loop, begin, loop->count - begin > loop->step ? begin + loop->step : loop->count);
  }
}

XFFI_INLINE_ void xffi_loop_leave_(xffi_loop_* loop, long users) {
  if (XFFI_ADD_(&loop->users, -users) == users) free(loop);
}

XFFI_INLINE_ void xffi_loop_help_(void* data) {
  xffi_loop_* const loop = (xffi_loop_*)data;
  if (XFFI_ADD_(&loop->inside, 1) < XFFI_GATE_CLOSED_) xffi_loop_work_(loop);
  XFFI_ADD_(&loop->inside, -1);
  xffi_loop_leave_(loop, 1);
}

/* Calls `body(data, begin, end)` for ranges of at most `grain` elements that together cover 0 to `count`, each once.
 * The calling thread and the host's thread pool share the work. The function returns when all ranges are done, and
 * waits only for ranges that other threads have started. It therefore works even if the pool has only one thread, or
 * runs its tasks late or never.
 *
 * If the host has no pool (before r1) or memory is exhausted, the calling thread runs all ranges. With a `grain` of 0
 * or less, each thread gets about four ranges. `body` is called from several threads at once, and must not throw. */
XFFI_INLINE_ void xffi_for_each_range(const xffi_call* call, int64_t count, int64_t grain, xffi_range_body* body,
                                     void* data) {
  int64_t threads = 0, each, ranges, helpers;
  xffi_loop_ whole;
  xffi_loop_* loop = NULL;
  XLA_FFI_Error* error;
  if (count <= 0) return;
  if (XFFI_HOST_HAS_(call->api, XLA_FFI_ThreadPool_Schedule) &&
      (error = xffi_num_threads(call, &threads)) != NULL) {
    /* Hosts before r3 do not report the number of threads. If the number is too high, surplus tasks find no work and
     * end. */
    xffi_error_free(call->api, error);
    threads = 16;
  }
  if (threads > 1024) threads = 1024;
  each = threads > 0 ? threads * 4 : 1;
  if (grain <= 0) grain = (count - 1) / each + 1;
  ranges = (count - 1) / grain + 1;
  memset(&whole, 0, sizeof(whole));
  whole.body = body;
  whole.data = data;
  whole.count = count;
  whole.grain = grain;
  whole.step = grain * ((ranges - 1) / XFFI_MOST_TURNS_ + 1);
  whole.turns = (long)((count - 1) / whole.step + 1);
  helpers = whole.turns - 1 < threads ? whole.turns - 1 : threads;
  if (helpers > 0) loop = (xffi_loop_*)malloc(sizeof(*loop));
  if (loop == NULL) {
    xffi_loop_ranges_(&whole, 0, count);
    return;
  }
  *loop = whole;
  loop->users = (long)helpers + 1;
  for (; helpers > 0; --helpers) {
    error = xffi_schedule(call, xffi_loop_help_, loop);
    if (error == NULL) continue;
    /* The pool accepts no more tasks, so the remaining helpers do not start. */
    xffi_error_free(call->api, error);
    xffi_loop_leave_(loop, (long)helpers);
    break;
  }
  xffi_loop_work_(loop);
  XFFI_ADD_(&loop->inside, XFFI_GATE_CLOSED_);
  while (XFFI_LOAD_(&loop->inside) != XFFI_GATE_CLOSED_) XFFI_YIELD_();
  xffi_loop_leave_(loop, 1);
}

#endif  /* XLA_FFI_CONTEXT_H_ */
