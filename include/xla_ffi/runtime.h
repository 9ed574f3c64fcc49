/* The embedded runtime: a host for XLA FFI handlers that needs no XLA.
 *
 * Link libxla_ffi_runtime.a or libxla_ffi_runtime.so (with -lstdc++ -lpthread -ldl -lm for the
 * static one).
 *
 * Conventions
 *   Ownership  What a *_create or *_load function gives is the caller's, to be handed to the *_destroy
 *              function of its type once. A status other than NULL is the caller's, too.
 *   Status     NULL is success. Otherwise the status has one of the 16 absl codes and a text.
 *   NULL       No pointer may be NULL unless its line says so; a NULL is answered with a status.
 *   Threads    A runtime may be used from any thread. A call is used by one thread at a time.
 *   Code       What a function calls of the program's (handlers, their tasks, deleters, callbacks) leaves it by
 *              returning; a handler, a task or a deleter also by an exception. A thread that is ended inside of a
 *              function (pthread_exit, pthread_cancel) ends the process, and longjmp out of one is not allowed:
 *              the call that it leaves is running for good, and whoever waits for it waits as long. How a handler
 *              leaves its thread (rounding mode, flush-to-zero, errno, locale, signal mask) the caller finds it.
 *   Strings    NUL-terminated UTF-8; copied.
 *   Out        An out-parameter is written on success only.
 *   Data       The operands' data of a call belong to it while it is open. A call is open from
 *              xffi_rt_call_run until its handler is done: that is until xffi_rt_call_run or
 *              xffi_rt_call_wait returns anything but XLA_FFI_Error_Code_DEADLINE_EXCEEDED (4), or a
 *              callback of xffi_rt_call_on_end is called. After the time limit the handler goes on,
 *              and reads and writes them as before. Destroying an open call does not end it. While it runs, what is
 *              called on its own thread (a stage of the handler, an allocator) leaves it alone. What a handler
 *              has put on a stream works on them until that has been waited for (xffi_rt_stream_synchronize).
 *              Small elements share bytes, as hosts of the revision pack them: the first in the low bits from
 *              revision 5 on, in the high bits before. */

#ifndef XLA_FFI_RUNTIME_H_
#define XLA_FFI_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

/* Behind an include directory of XLA's: of the newest revision it is the same, of an older one bundles are shorter. */
#if XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR < 5
#error "this c_api.h is of an older XLA, whose structs are others: name this SDK's include directory before XLA's"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One copy of XLA's tables, registries and threads. */
typedef struct xffi_rt xffi_rt;
/* A loaded library; stays loaded until the program ends. */
typedef struct xffi_rt_library xffi_rt_library;
/* A handler with attributes and state, and operands to run it on. */
typedef struct xffi_rt_call xffi_rt_call;
/* Why something did not work. */
typedef struct xffi_rt_status xffi_rt_status;

/* Objects of the program's own for handlers. */
typedef struct xffi_rt_user_data xffi_rt_user_data;

/* The version that this header is of. It changes in the second place with what is incompatible, until
 * the first place is 1. */
#define XFFI_RT_VERSION "0.1.0"

/* The newest revision that this library knows. */
#define XFFI_RT_NEWEST (-1)

/* --- status ------------------------------------------------------------------------------------ */

/* The absl code of a status.
 *   status   NULL is fine.
 *   Returns  the code, XLA_FFI_Error_Code_OK for NULL.
 *   Threads  any. */
XLA_FFI_Error_Code xffi_rt_status_code(const xffi_rt_status* status);

/* The text of a status.
 *   status   NULL is fine.
 *   Returns  the text, "" for NULL; it belongs to the status and lives as long.
 *   Threads  any. */
const char* xffi_rt_status_message(const xffi_rt_status* status);

/* Whether a hazard was seen: what a real XLA would not have survived, or survived by luck.
 *   status   NULL is fine.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  any. */
int xffi_rt_status_is_hazard(const xffi_rt_status* status);

/* What was seen: the name of a hazard, and what to do about it.
 *   status   NULL is fine.
 *   index    from 0.
 *   Returns  the text, NULL behind the last; it belongs to the status and lives as long.
 *   Threads  any. */
const char* xffi_rt_status_finding(const xffi_rt_status* status, size_t index);

/* What caused an error, and that in turn: of a handler in Rust that returns its errors whole, of one of
 * xla/ffi/ffi.h, and of the library's own.
 *   status   NULL is fine.
 *   index    from 0, the nearest cause first.
 *   Returns  the text, NULL behind the last; it belongs to the status and lives as long.
 *   Threads  any. */
const char* xffi_rt_status_cause(const xffi_rt_status* status, size_t index);

/* Destroys a status, its text with it.
 *   status   no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the status. */
void xffi_rt_status_destroy(xffi_rt_status* status);

/* --- runtimes ---------------------------------------------------------------------------------- */

/* Makes a runtime that behaves as the hosts of a revision.
 *   revision  0 to 10, or XFFI_RT_NEWEST.
 *   out       the runtime: the caller's, for xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for another revision.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create(int revision, xffi_rt** out);

/* As xffi_rt_create, with a thread pool of this size; otherwise it has a thread for each core. The
 * threads start when a handler first asks for the pool.
 *   revision  0 to 10, or XFFI_RT_NEWEST.
 *   threads   1 to 1024.
 *   out       the runtime: the caller's, for xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for another revision or
 *             number of threads.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create_with_threads(int revision, size_t threads, xffi_rt** out);

/* The version of the library, to be held against XFFI_RT_VERSION.
 *   Returns  "0.1.0" for instance; it stays until the program ends.
 *   Threads  any. */
const char* xffi_rt_version(void);

/* Tells what was seen outside of any call, in tasks of the thread pool for instance, since the last
 * time. The same is told once.
 *   runtime  whose findings are told and forgotten.
 *   told     called for each, here and now, with `user` and a text that ends with the call.
 *   user     what it gets first; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_take_findings(const xffi_rt* runtime,
                                      void (*told)(void* user, const char* text), void* user);

/* The runtime behind XLA_FFI_GetApi(), of the newest revision: what handlers that register
 * themselves at program start are registered with.
 *   Returns  a handle, never NULL: the caller's, for xffi_rt_destroy; the runtime itself lives on.
 *   Threads  any. */
xffi_rt* xffi_rt_global(void);

/* Gives a runtime back. Calls, libraries and compiled programs keep what they need of it.
 *   runtime  no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_destroy(xffi_rt* runtime);

/* The function table that handlers are given.
 *   runtime  NULL is fine.
 *   Returns  the table, NULL for NULL; it stays until the program ends.
 *   Threads  any. */
const XLA_FFI_Api* xffi_rt_api(const xffi_rt* runtime);

/* Waits until no call of the runtime is under way: none inside of its handler, and none open. Calls that
 * others make meanwhile are waited for, too. What handlers put on a stream is not: xffi_rt_stream_synchronize.
 *   runtime       whose calls.
 *   milliseconds  negative: for ever.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) when time is up, with
 *                 the handlers that are late.
 *   Threads       any, but not a handler, nor work on a stream of a call, which would wait for themselves. A
 *                 callback of xffi_rt_call_on_end may, unless it is called within one of these. */
xffi_rt_status* xffi_rt_wait_for_calls(const xffi_rt* runtime, int64_t milliseconds);

/* Ends a runtime: every call from here on is UNAVAILABLE (14), handlers that poll see their calls
 * cancelled, and this waits until none is under way. What the program lent to handlers is its own then, but for
 * what they put on a stream to work on (xffi_rt_stream_synchronize). May be asked again. The handle stays to be
 * destroyed.
 *   runtime       of the caller's, or that of xffi_rt_global.
 *   milliseconds  not negative.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) when time is up, with
 *                 the handlers that are late; INVALID_ARGUMENT for a negative time.
 *   Threads       as xffi_rt_wait_for_calls. */
xffi_rt_status* xffi_rt_shutdown(const xffi_rt* runtime, int64_t milliseconds);

/* What became of the executions of a handler, since the runtime was made. */
typedef struct xffi_rt_handler_counts {
  /* Ends with the callback. */
  const char* name;
  /* Inside the handler, or with an open future. */
  uint64_t in_flight;
  uint64_t succeeded;
  /* By error code (XLA_FFI_Error_Code): failures, refusals, exceeded time limits. An execution counts once, with the
   * outcome that its caller saw first. */
  uint64_t failed[17];
} xffi_rt_handler_counts;

/* Reports what became of the executions. Counting is always on and costs about a nanosecond per execution.
 *   runtime  whose calls.
 *   told     called for each handler that was called, here and now; the counts end with the callback.
 *   user     its first argument; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_counts(const xffi_rt* runtime,
                               void (*told)(void* user, const xffi_rt_handler_counts* counts),
                               void* user);

/* An execution that is over. */
typedef struct xffi_rt_execution {
  /* The handler's name; ends with the callback. */
  const char* handler;
  /* As xffi_rt_call_set_run_id set it. */
  int64_t run_id;
  /* From the call of the handler until it returned, or its future was complete. */
  uint64_t nanoseconds;
  /* Of the handler's error; OK after a success. */
  XLA_FFI_Error_Code code;
} xffi_rt_execution;

/* Calls a function at the end of executions, with their duration: for a histogram or a log. Set it once per runtime.
 *   runtime  whose calls.
 *   every    of how many executions of a call one is reported: 1 for all, at about 100 ns each (two readings of the clock
 *            and a copy of the name), 16 for a few nanoseconds on average. 0 counts as 1.
 *   told     called on the thread that ends the execution, by several at once; must not throw. Executions that are
 *            refused before their handler is called are not reported.
 *   user     its first argument; may be NULL. It has to live as long as the runtime.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS if the runtime has such a function.
 *   Threads  any. */
xffi_rt_status* xffi_rt_observe(const xffi_rt* runtime, uint32_t every,
                                void (*told)(void* user, const xffi_rt_execution* execution),
                                void* user);

/* How much what is logged matters. */
#define XFFI_RT_LOG_ERROR 1
#define XFFI_RT_LOG_WARNING 2
#define XFFI_RT_LOG_INFO 3

/* Sets who is told what nobody is left to answer to, of all runtimes: an exception that left a deleter, for
 * instance. It goes to standard error where nobody is.
 *   told     gets `user`, one of XFFI_RT_LOG_* and a text that ends with the call; must not throw. NULL for
 *            standard error, where also goes what calls of its own have to say. When this returns the one
 *            before is called no more.
 *   user     what it gets first; may be NULL. It has to live as long.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION from within such a function.
 *   Threads  any; the function is called on any thread, by several at once. */
xffi_rt_status* xffi_rt_set_logger(void (*told)(void* user, int level, const char* text), void* user);

/* Registers functions of this program as a handler, asked what they need as XLA asks.
 *   runtime   which knows the handler from now on.
 *   name      copied.
 *   platform  in any spelling, "Host" or "CUDA" for instance; copied.
 *   bundle    one function a stage, NULL for stages that there are not; execute is required.
 *             Copied; the functions stay loaded.
 *   Returns   NULL, or a status that the caller destroys: what a registration with XLA refuses.
 *   Threads   any. */
xffi_rt_status* xffi_rt_register(xffi_rt* runtime, const char* name, const char* platform,
                                 const XLA_FFI_Handler_Bundle* bundle);

/* Checks that handlers or legacy targets are registered. Programs call it when they start, because a linker omits the
 * objects of a static library that nothing names, with the handlers in them.
 *   runtime   of the caller's, or that of xffi_rt_global.
 *   platform  in any spelling.
 *   names     of the handlers. May be NULL when `count` is 0.
 *   count     how many.
 *   Returns   NULL, or a status that the caller destroys: NOT_FOUND (5) with all names that are missing and what to do:
 *             link the library whole (-Wl,--whole-archive), or make it a CMake OBJECT library.
 *   Threads   any. */
xffi_rt_status* xffi_rt_require(const xffi_rt* runtime, const char* platform,
                                const char* const* names, size_t count);

/* What a legacy target is called as; the numbers of xla/service/custom_call_target_registry.h. */
#define XFFI_RT_LEGACY_UNKNOWN 0    /* as each call's API version says */
#define XFFI_RT_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_RT_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_RT_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_RT_LEGACY_GPU_STATUS 4 /* the same with a last XlaCustomCallStatus* */
#define XFFI_RT_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */

/* Registers a function of this program as a target of one of the original conventions.
 *   runtime    which knows the target from now on.
 *   name       copied.
 *   platform   in any spelling; copied.
 *   function   of that signature; it stays loaded.
 *   signature  one of XFFI_RT_LEGACY_*.
 *   Returns    NULL, or a status that the caller destroys: INVALID_ARGUMENT for a signature that
 *              the platform does not call, ALREADY_EXISTS for another function under the name.
 *   Threads    any. */
xffi_rt_status* xffi_rt_register_legacy(xffi_rt* runtime, const char* name, const char* platform,
                                        void* function, uint32_t signature);

/* --- user data --------------------------------------------------------------------------------- */

/* Makes room for objects of the program's own, which handlers of its calls find by the name of their
 * type: XFFI_SHARED_TYPE in C, a UserType with a name in Rust, XLA_FFI_REGISTER_TYPE in C++.
 *   runtime  for whose calls it is; those of another one refuse it.
 *   out      the data: the caller's, for xffi_rt_user_data_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_user_data_create(const xffi_rt* runtime, xffi_rt_user_data** out);

/* Adds an object, before or after its type is registered, and before a call has the data.
 *   data     of the caller's.
 *   name     of the type: whoever knows it means the same; copied.
 *   size     of the object in bytes, sizeof(T), which is held against what others said of the type;
 *            0 where it is not known.
 *   object   usable from any thread. Without a deleter it is the caller's, and outlives all calls
 *            that have it; otherwise it is the data's from here on if this succeeds.
 *   deleter  called once with the object when neither the caller nor a call has the data any more, on
 *            whatever thread that is; NULL for none.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS for a second object of a
 *            type, INVALID_ARGUMENT for another size, FAILED_PRECONDITION when a call has the data.
 *   Threads  one at a time for the data. */
xffi_rt_status* xffi_rt_user_data_add(xffi_rt_user_data* data, const char* name, size_t size,
                                      void* object, void (*deleter)(void* object));

/* Gives user data back. Calls keep what they need of it.
 *   data     no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses it. */
void xffi_rt_user_data_destroy(xffi_rt_user_data* data);

/* --- libraries --------------------------------------------------------------------------------- */

/* Loads a library into this process; it stays loaded until the program ends. A file that replaced one that was loaded
 * from the same path is loaded anew.
 *   runtime  with which the library's handlers will be registered.
 *   path     of the file; copied.
 *   out      the library: the caller's, for xffi_rt_library_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing file,
 *            INVALID_ARGUMENT for what cannot be loaded.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_load(xffi_rt* runtime, const char* path, xffi_rt_library** out);

/* Gives the handle of a library back; the library stays loaded.
 *   library  no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_library_destroy(xffi_rt_library* library);

/* Registers the handlers that the library's manifest describes (XFFI_LIBRARY in C, XLA_FFI_LIBRARY in C++, library! in
 * Rust), under their names and for each of their platforms. All are tried.
 *   runtime  which knows the handlers from now on.
 *   library  of the caller's; its file still exists.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND without a manifest, and what a
 *            registration with XLA refuses, one line per handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_register_library(xffi_rt* runtime, const xffi_rt_library* library);

/* The address of an exported symbol, for a bundle of a library without a manifest.
 *   library  of the caller's.
 *   name     of the symbol.
 *   out      the address.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing symbol.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_symbol(const xffi_rt_library* library, const char* name, void** out);

/* --- streams ----------------------------------------------------------------------------------- */

/* A stream whose work runs on a thread of its own, in order: a device for tests. */
typedef struct xffi_rt_stream xffi_rt_stream;

/* Makes a stream.
 *   out      the stream: the caller's, for xffi_rt_stream_destroy.
 *   Returns  NULL, or a status that the caller destroys: RESOURCE_EXHAUSTED when no thread can be
 *            started.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_create(xffi_rt_stream** out);

/* Gives a stream back. What is queued still runs.
 *   stream   no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the stream. */
void xffi_rt_stream_destroy(xffi_rt_stream* stream);

/* What handlers get as the platform's stream; for xffi_rt_call_set_stream.
 *   stream   NULL is fine.
 *   Returns  the handle, NULL for NULL; it is the stream's and valid as long as the stream.
 *   Threads  any. */
void* xffi_rt_stream_handle(const xffi_rt_stream* stream);

/* Puts work on the stream with this handle, from inside a handler for instance.
 *   handle   of a living stream of this library.
 *   task     called once, on the stream's thread; it must not throw.
 *   data     what the task gets; may be NULL. It has to live until then.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for another handle,
 *            FAILED_PRECONDITION in a fork of the process that made the stream, whose thread is there.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_enqueue(void* handle, XLA_FFI_Task* task, void* data);

/* Waits until everything on the stream has run: until then what a handler has put there reads and writes
 * the operands' data, also when its call is not open any more.
 *   stream   of the caller's.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION on the stream's own thread,
 *            and in a fork of the process that made the stream.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_synchronize(const xffi_rt_stream* stream);

/* --- calls ------------------------------------------------------------------------------------- */

/* Makes an executable of a registered handler and a call of it. The instantiate stage runs here.
 *   runtime     with which the handler is registered; the call keeps what it needs of it.
 *   name        of the handler.
 *   platform    in any spelling.
 *   attributes  an MLIR dictionary, "{eps = 1.0e-5 : f32}" for instance, or NULL for none; copied.
 *   out         the call: the caller's, for xffi_rt_call_destroy.
 *   Returns     NULL, or a status that the caller destroys: NOT_FOUND for a name that is not
 *               registered, INVALID_ARGUMENT for attributes that do not parse or that no
 *               jaxlib of the revision passes, and what the instantiate stage answers.
 *   Threads     any. */
xffi_rt_status* xffi_rt_call_create(xffi_rt* runtime, const char* name, const char* platform,
                                    const char* attributes, xffi_rt_call** out);

/* Destroys a call. Safe while it is open, in any order with runtime, library and stream: this
 * library keeps what is its own until the handler is done. The operands' data are the caller's,
 * and have to stay until then: ask to be told before (xffi_rt_call_on_end), or wait.
 *   call     no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the call. */
void xffi_rt_call_destroy(xffi_rt_call* call);

/* Adds an argument.
 *   call     before its first run.
 *   dtype    the element type.
 *   rank     the number of dimensions, not negative.
 *   dims     the dimensions, copied; may be NULL when `rank` is 0.
 *   data     the caller's, who lets them alone while the call is open; may be NULL when there are
 *            no elements.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for what is no shape,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_arg(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);

/* Adds a result.
 *   call     before its first run.
 *   dtype    the element type.
 *   rank     the number of dimensions, not negative.
 *   dims     the dimensions, copied; may be NULL when `rank` is 0.
 *   data     the caller's, who lets them alone while the call is open; may be NULL when there are
 *            no elements.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for what is no shape,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_ret(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);

/* Adds an argument that another library describes, without a copy.
 *   call     before its first run.
 *   tensor   a DLTensor of dlpack.h (`&managed->dl_tensor` of a DLManagedTensor) in host memory, row-major,
 *            its elements at a multiple of 16 bytes. What it says is copied; its data are the caller's, who
 *            lets them alone while the call is open.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_arg_dlpack(xffi_rt_call* call, const void* tensor);

/* Adds a result in the memory of an array of another library's.
 *   call     before its first run.
 *   tensor   as for xffi_rt_call_arg_dlpack.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_ret_dlpack(xffi_rt_call* call, const void* tensor);

/* As xffi_rt_call_arg_dlpack, of a tensor that has a version and flags.
 *   call     before its first run.
 *   managed  a DLManagedTensorVersioned of dlpack.h, of version 1.x. It stays the caller's, who calls its
 *            deleter when the call is over; it may be read-only, which handlers keep to with arguments.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for another version, whose
 *            fields are not read, and as xffi_rt_call_arg_dlpack.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_arg_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* As xffi_rt_call_ret_dlpack, of a tensor that has a version and flags.
 *   call     before its first run.
 *   managed  as for xffi_rt_call_arg_dlpack_versioned.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a tensor that is
 *            read-only (DLPACK_FLAG_BITMASK_READ_ONLY), and as there.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_ret_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* Takes all operands away, so that others, of other shapes, can be added for the runs to come.
 *   call     run before or not.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open. A handler
 *            with a stage before execute has seen the operands: the next run is FAILED_PRECONDITION then.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_clear_operands(xffi_rt_call* call);

/* Other data for an argument; cheap.
 *   call     whose next run it is for: one that is open goes on with the data that it has.
 *            A handler with a stage before execute has seen the data of the first run: where they
 *            are others, the next run is FAILED_PRECONDITION (make another call, or a clone).
 *   index    of the argument, from 0.
 *   data     the caller's, of the same shape, as for the data before.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a argument that does not
 *            exist.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_arg_data(xffi_rt_call* call, size_t index, void* data);

/* Other data for a result; cheap.
 *   call     whose next run it is for: one that is open goes on with the data that it has.
 *            A handler with a stage before execute has seen the data of the first run: where they
 *            are others, the next run is FAILED_PRECONDITION (make another call, or a clone).
 *   index    of the result, from 0.
 *   data     the caller's, of the same shape, as for the data before.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a result that does not
 *            exist.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_ret_data(xffi_rt_call* call, size_t index, void* data);

/* Sets the program's objects that handlers find.
 *   call     whose next run it is for, and those behind.
 *   data     shared with the call from here on; no object can be added any more.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open. INVALID_ARGUMENT for
 *            data of a different runtime.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_user_data(xffi_rt_call* call, const xffi_rt_user_data* data);

/* Sets the options of the execution, which handlers see from revision 10 on.
 *   call     whose next run it is for, and those behind.
 *   options  an MLIR dictionary, "{speed = 1 : i64}" for instance; copied.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for what does not parse,
 *            FAILED_PRECONDITION while it is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_custom_options(xffi_rt_call* call, const char* options);

/* Sets where scratch memory comes from; there is none unless set. What a handler does not give back
 * is freed when its call is over.
 *   call      whose next run it is for, and those behind.
 *   allocate  gets `user`, a number of bytes (not 0) and an alignment (256, as XLA's memory on GPUs
 *             has), and gives memory of that size at a multiple of the alignment, or NULL; must not
 *             throw. Memory that lies elsewhere is given back, and the handler told.
 *   free      gets `user`, and takes back what `allocate` gave, with its size; must not throw.
 *   user      what both get first; may be NULL. It outlives the call.
 *   Returns   NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads   one at a time for a call; the functions are called on any thread. */
xffi_rt_status* xffi_rt_call_set_allocator(xffi_rt_call* call,
                                           void* (*allocate)(void* user, size_t size,
                                                             size_t alignment),
                                           void (*free)(void* user, void* data, size_t size),
                                           void* user);

/* Sets who runs what handlers start: the tasks that they put on the thread pool (the runtime's threads unless set) and,
 * from revision 9 on, the bodies of `async fn` handlers in Rust (threads of their library unless set).
 *   call         whose next run it is for, and those behind.
 *   execute      gets `user`, and a task and its data: it has task(data) called once, soon, on a thread
 *                that does not wait for other tasks, and not on this one, because the handler may wait for
 *                it; must not throw. NULL for the runtime's threads.
 *   num_threads  1 to 1024: how many tasks run at a time, as handlers are told.
 *   user         what `execute` gets first; may be NULL. It outlives the call.
 *   Returns      NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open,
 *                INVALID_ARGUMENT for another number of threads.
 *   Threads      one at a time for a call; the function is called on any thread. */
xffi_rt_status* xffi_rt_call_set_executor(xffi_rt_call* call,
                                          void (*execute)(void* user, XLA_FFI_Task* task,
                                                          void* data),
                                          size_t num_threads, void* user);

/* Sets the number of the execution.
 *   call     whose next run it is for, and those behind.
 *   run_id   what handlers see; 0 unless set.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_run_id(xffi_rt_call* call, int64_t run_id);

/* Sets the device's number.
 *   call     whose next run it is for, and those behind.
 *   ordinal  what handlers see; 0 unless set.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_device_ordinal(xffi_rt_call* call, int32_t ordinal);

/* Sets the platform's stream; there is none unless set.
 *   call     whose next run it is for, and those behind.
 *   stream   a handle of xffi_rt_stream_handle, or any pointer of a platform's; the stream is the
 *            caller's and outlives the runs, which do not wait for it: xffi_rt_stream_synchronize does.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_stream(xffi_rt_call* call, void* stream);

/* Sets how long each run may take. A synchronous handler blocks xffi_rt_call_run beyond the limit, until it returns:
 * nothing can interrupt a function, so handlers that work for long have to poll or be asynchronous. After that, xffi_rt_call_run returns, handlers that poll
 * (xla_ffi/cancellation.h) see the call cancelled, and a run that has not started is refused; all as
 * DEADLINE_EXCEEDED (4). A result that is complete later is still accepted. By default, asynchronous handlers are
 * waited for 60 s, and no handler is cancelled.
 *   call          the next run and those after it.
 *   milliseconds  from the start of a run; negative: no limit.
 *   Returns       NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is
 *                 open.
 *   Threads       one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_time_limit(xffi_rt_call* call, int64_t milliseconds);

/* Cancels calls. */
typedef struct xffi_rt_canceller xffi_rt_canceller;

/* Makes a canceller, which has not cancelled anything.
 *   out      the canceller: the caller's, for xffi_rt_canceller_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_canceller_create(xffi_rt_canceller** out);

/* Cancels the calls that have it, for good: handlers that poll (xla_ffi/cancellation.h) see it, and a run
 * that has not begun is refused as CANCELLED (1). It ends neither the handler nor the waiting for it.
 *   canceller  of the caller's.
 *   Returns    NULL, or a status that the caller destroys.
 *   Threads    any, also while another one runs the call. */
xffi_rt_status* xffi_rt_canceller_cancel(const xffi_rt_canceller* canceller);

/* Gives a canceller back. Calls keep what they need of it.
 *   canceller  no longer the caller's; NULL is fine.
 *   Threads    any, while no other thread uses it. */
void xffi_rt_canceller_destroy(xffi_rt_canceller* canceller);

/* Lets the call be cancelled.
 *   call       whose next run it is for, and those behind.
 *   canceller  shared with the call; NULL for none.
 *   Returns    NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads    one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_canceller(xffi_rt_call* call, const xffi_rt_canceller* canceller);

/* Whether to look for what the handler leaves unwritten. Random bytes lie in the results before
 * each run then, and where eight of them or more in a row are still there after a success, the
 * status is XLA_FFI_Error_Code_INTERNAL and a hazard that names result and elements. Shorter gaps
 * are let pass, and results of less than eight bytes, but for those of four bytes or more of which
 * nothing was written. Results that share memory with another operand are not looked at. Each run
 * waits for what is on the call's stream, before and after.
 *   call     whose next run it is for, and those behind.
 *   check    0 or not; off unless set.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while it is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_check_unwritten(xffi_rt_call* call, int check);

/* Runs the execute stage (prepare and initialize before the first time) and waits until it is
 * complete. May be called again, unless the call is open or has not been waited for.
 *   call     whose operands' data belong to it from here on, see "Data" above.
 *   Returns  NULL, or a status that the caller destroys: what the handler answers, or
 *            DEADLINE_EXCEEDED (4) when the time limit is over and the call is open. It is open behind another
 *            error, too, where the handler left a future beside it: ask xffi_rt_call_is_open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_run(xffi_rt_call* call);

/* As xffi_rt_call_run, without waiting: where the handler is not done the call is open.
 *   call     whose operands' data belong to it from here on, see "Data" above.
 *   Returns  NULL, or a status that the caller destroys: what the handler answers at once. The call may be
 *            open all the same, as for xffi_rt_call_run.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_start(xffi_rt_call* call);

/* As xffi_rt_call_start, for a loop of events: then xffi_rt_call_wait(call, 0) returns the outcome, from any thread.
 *   call      whose operands' data belong to it from here on, see "Data" above.
 *   callback  called once, if this succeeds: when the handler is done, or when the time limit is over (60 s unless set),
 *             on any thread, also within this function. It must neither throw nor use the call.
 *   user      its argument; may be NULL. It has to live until then.
 *   Returns   NULL, or a status that the caller destroys: what the handler answers at once.
 *   Threads   one at a time for a call. */
xffi_rt_status* xffi_rt_call_run_async(xffi_rt_call* call, void (*callback)(void* user), void* user);

/* The same call once more, for another thread: state and user data are the same, operands have the
 * same shapes and, until they are set, the same data. Stages before execute run again.
 *   call     open or not.
 *   out      the call: the caller's, for xffi_rt_call_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_clone(const xffi_rt_call* call, xffi_rt_call** out);

/* Waits for a call that was open when xffi_rt_call_run returned.
 *   call          open or not.
 *   milliseconds  negative: for ever, 0: not at all.
 *   Returns       what xffi_rt_call_run would have given, or DEADLINE_EXCEEDED (4) while the call
 *                 is still open; NULL where there is nothing to wait for. A status is the
 *                 caller's.
 *   Threads       one at a time for a call. */
xffi_rt_status* xffi_rt_call_wait(xffi_rt_call* call, int64_t milliseconds);

/* Whether the operands' data belong to the call.
 *   call     NULL is fine.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  one at a time for a call. */
int xffi_rt_call_is_open(const xffi_rt_call* call);

/* Asks to be told when the call is no longer open, whether it still exists or not. From then on
 * the operands' data are the caller's, but for what the handler put on a stream to work on; what an allocator has
 * given to a call that was destroyed open comes back later, before xffi_rt_wait_for_calls and xffi_rt_shutdown
 * return. More than one callback may be asked for.
 *   call      open or not.
 *   callback  called once, on the thread that ends the call, or here and now where it is not open.
 *             It may free the data; it must neither throw nor use the call, which another thread
 *             may be using.
 *   user      what the callback gets; may be NULL. It has to live until then.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time for a call. */
xffi_rt_status* xffi_rt_call_on_end(xffi_rt_call* call, void (*callback)(void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_RUNTIME_H_ */
