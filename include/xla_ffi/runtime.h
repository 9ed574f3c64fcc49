/* The embedded runtime: a host for XLA FFI handlers that needs no XLA.
 *
 * Link libxla_ffi_runtime.a or libxla_ffi_runtime.so (with -lstdc++ -lpthread -ldl -lm for the
 * static one).
 *
 * Conventions
 *   Ownership  The caller owns the results of *_create and *_load functions and calls the *_destroy function of their
 *              type once. The same applies to every status other than NULL.
 *   Status     NULL is success. Otherwise the status has one of the 16 absl codes and a text.
 *   NULL       Pointers must not be NULL unless documented otherwise; for NULL, functions return an error status.
 *   Threads    A runtime may be used from any thread. A call is used by one thread at a time.
 *   Code       Functions of the program that are called here (handlers, their tasks, deleters, callbacks) must return.
 *              Handlers, tasks and deleters may also throw an exception. Ending a thread inside such a function
 *              (pthread_exit, pthread_cancel) ends the process. longjmp out of one is not allowed: its call never ends,
 *              and waiting for the call never returns. Changes that a handler makes to its thread (rounding mode,
 *              flush-to-zero, errno, locale, signal mask) remain visible to the caller.
 *   Memory     If an allocation of the runtime itself fails, the process ends (abort). Arrays that the machine cannot
 *              hold are refused with RESOURCE_EXHAUSTED.
 *   Strings    NUL-terminated UTF-8; copied.
 *   Out        An out-parameter is written on success only.
 *   Data       A call's operand data belong to the call while it is open. A call is open from xffi_rt_call_run until
 *              its handler is done: until xffi_rt_call_run or xffi_rt_call_wait returns anything but
 *              XLA_FFI_Error_Code_DEADLINE_EXCEEDED (4), or until a callback of xffi_rt_call_on_end is called. After
 *              the time limit, the handler continues to read and write the data. Destroying an open call does not end
 *              it. Functions that run on its thread during a run (a stage of the handler, an allocator) must not use
 *              the call. Work that a handler has put on a stream uses the data until the stream has been waited for
 *              (xffi_rt_stream_synchronize). Sub-byte elements are packed like those of the revision's hosts: the first
 *              is in the low bits from revision 5 on, in the high bits before. */

#ifndef XLA_FFI_RUNTIME_H_
#define XLA_FFI_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

/* XLA's include directory may precede this one only if its headers are of the newest revision: older bundles are
 * shorter. */
#if XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR < 5
#error "this c_api.h is of an older XLA, whose structs are others: name this SDK's include directory before XLA's"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A runtime: the tables, registries and threads of one copy of XLA. */
typedef struct xffi_rt xffi_rt;
/* A loaded library; stays loaded until the program ends. */
typedef struct xffi_rt_library xffi_rt_library;
/* A handler with attributes and state, and operands for its runs. */
typedef struct xffi_rt_call xffi_rt_call;
/* An error: a code, a text, findings and causes. */
typedef struct xffi_rt_status xffi_rt_status;

/* Objects that the program passes to handlers. */
typedef struct xffi_rt_user_data xffi_rt_user_data;

/* The version of this header. Until version 1.0, incompatible changes increment the second number. */
#define XFFI_RT_VERSION "0.1.0"

/* The newest revision that this library knows. */
#define XFFI_RT_NEWEST (-1)

/* --- status ------------------------------------------------------------------------------------ */

/* Returns the absl code of a status.
 *   status   NULL is fine.
 *   Returns  the code, XLA_FFI_Error_Code_OK for NULL.
 *   Threads  any. */
XLA_FFI_Error_Code xffi_rt_status_code(const xffi_rt_status* status);

/* Returns the text of a status.
 *   status   NULL is fine.
 *   Returns  the text, "" for NULL; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_message(const xffi_rt_status* status);

/* Tests whether the status reports a hazard, a problem that a real XLA survives only by chance or not at all.
 *   status   NULL is fine.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  any. */
int xffi_rt_status_is_hazard(const xffi_rt_status* status);

/* Returns a finding: the name of a hazard, and its remedy.
 *   status   NULL is fine.
 *   index    from 0.
 *   Returns  the text, NULL after the last one; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_finding(const xffi_rt_status* status, size_t index);

/* Returns a cause of an error, or a cause of a cause. Available for errors of Rust handlers that keep their sources,
 * for errors of xla/ffi/ffi.h, and for errors of this library.
 *   status   NULL is fine.
 *   index    from 0, the nearest cause first.
 *   Returns  the text, NULL after the last one; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_cause(const xffi_rt_status* status, size_t index);

/* Destroys a status, including its text.
 *   status   no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the status. */
void xffi_rt_status_destroy(xffi_rt_status* status);

/* --- runtimes ---------------------------------------------------------------------------------- */

/* Creates a runtime that behaves like the hosts of a revision.
 *   revision  0 to 10, or XFFI_RT_NEWEST.
 *   out       the runtime, which the caller destroys with xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other revision.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create(int revision, xffi_rt** out);

/* Creates a runtime like xffi_rt_create, with a thread pool of this size; the default is one thread per core. The
 * threads start when a handler first uses the pool.
 *   revision  0 to 10, or XFFI_RT_NEWEST.
 *   threads   1 to 1024.
 *   out       the runtime, which the caller destroys with xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other revision or number of threads.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create_with_threads(int revision, size_t threads, xffi_rt** out);

/* Returns the version of the library, for comparison with XFFI_RT_VERSION.
 *   Returns  for example "0.1.0"; valid until the program ends.
 *   Threads  any. */
const char* xffi_rt_version(void);

/* Reports the findings since the last call of this function that occurred outside any call, for example in tasks of the
 * thread pool. Repeated findings are reported once.
 *   runtime  its findings are reported and forgotten.
 *   told     called for each finding, before this returns, with `user` and a text that is valid during the call.
 *   user     its first argument; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_take_findings(const xffi_rt* runtime,
                                      void (*told)(void* user, const char* text), void* user);

/* Returns the runtime of XLA_FFI_GetApi(), of the newest revision. Handlers that register themselves at program start
 * are registered with it.
 *   Returns  a handle, never NULL, which the caller destroys with xffi_rt_destroy; the runtime itself is never
 *            destroyed.
 *   Threads  any. */
xffi_rt* xffi_rt_global(void);

/* Releases a runtime. Calls, libraries and compiled programs keep what they need of it.
 *   runtime  no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_destroy(xffi_rt* runtime);

/* Returns the function table that is passed to handlers.
 *   runtime  NULL is fine.
 *   Returns  the table, NULL for NULL; valid until the program ends.
 *   Threads  any. */
const XLA_FFI_Api* xffi_rt_api(const xffi_rt* runtime);

/* Waits until no call of the runtime is inside its handler or open. Calls that other threads start meanwhile are also
 * waited for. Work that handlers put on a stream is not: use xffi_rt_stream_synchronize.
 *   runtime       the runtime of the calls.
 *   milliseconds  negative: forever.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) at the time limit, with the
 *                 handlers that are late.
 *   Threads       any, except in a handler or in work on a stream of a call, which would wait for themselves. A
 *                 callback of xffi_rt_call_on_end may call it, unless the callback runs within this function or
 *                 xffi_rt_shutdown. */
xffi_rt_status* xffi_rt_wait_for_calls(const xffi_rt* runtime, int64_t milliseconds);

/* Ends a runtime: every later call is UNAVAILABLE (14), handlers that poll see their calls cancelled, and this waits
 * until no call is running. Then everything that the program lent to handlers belongs to the program again, except for
 * data of work on a stream (xffi_rt_stream_synchronize). May be called again. The handle must still be destroyed.
 *   runtime       the runtime, or the one of xffi_rt_global.
 *   milliseconds  not negative.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) at the time limit, with the
 *                 handlers that are late; INVALID_ARGUMENT for a negative time.
 *   Threads       as for xffi_rt_wait_for_calls. */
xffi_rt_status* xffi_rt_shutdown(const xffi_rt* runtime, int64_t milliseconds);

/* The outcomes of a handler's executions since the runtime was created. */
typedef struct xffi_rt_handler_counts {
  /* Valid during the callback. */
  const char* name;
  /* Executions inside the handler, or with an open future. */
  uint64_t in_flight;
  uint64_t succeeded;
  /* Failures, refusals and exceeded time limits, by error code (XLA_FFI_Error_Code). An execution counts once, with the
   * outcome that its caller saw first. */
  uint64_t failed[17];
} xffi_rt_handler_counts;

/* Reports the outcomes of the executions, by handler. Counting is always on and costs about a nanosecond per execution.
 *   runtime  the runtime of the calls.
 *   told     called for each handler that was called, before this returns; the counts are valid during the callback.
 *   user     its first argument; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_counts(const xffi_rt* runtime,
                               void (*told)(void* user, const xffi_rt_handler_counts* counts),
                               void* user);

/* A finished execution. */
typedef struct xffi_rt_execution {
  /* The handler's name; valid during the callback. */
  const char* handler;
  /* The run id, from xffi_rt_call_set_run_id. */
  int64_t run_id;
  /* The time from the call of the handler until it returned, or until its future was complete. */
  uint64_t nanoseconds;
  /* The code of the handler's error; OK after a success. */
  XLA_FFI_Error_Code code;
} xffi_rt_execution;

/* Calls a function at the end of executions, with their duration: for a histogram or a log. Set it once per runtime.
 *   runtime  the runtime of the calls.
 *   every    one in this many executions of a call is reported. 1 reports all, at about 100 ns each (two readings of
 *            the clock and a copy of the name); 16 costs a few nanoseconds on average. 0 counts as 1.
 *   told     called on the thread that ends the execution, by several threads at once; must not throw. Executions that
 *            are refused before their handler is called are not reported.
 *   user     its first argument; may be NULL. It must outlive the runtime.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS if the runtime has such a function.
 *   Threads  any. */
xffi_rt_status* xffi_rt_observe(const xffi_rt* runtime, uint32_t every,
                                void (*told)(void* user, const xffi_rt_execution* execution),
                                void* user);

/* Severities of log messages. */
#define XFFI_RT_LOG_ERROR 1
#define XFFI_RT_LOG_WARNING 2
#define XFFI_RT_LOG_INFO 3

/* Sets the function that receives log messages of all runtimes: problems that no call can return, for example an
 * exception that left a deleter. Without a function, messages are printed to standard error.
 *   told     called with `user`, one of XFFI_RT_LOG_* and a text that is valid during the call; must not throw. NULL
 *            for standard error, which also gets the messages that its own calls cause. When this returns, the previous
 *            function is no longer called.
 *   user     its first argument; may be NULL. It must stay valid until the function is replaced.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION from within such a function.
 *   Threads  any; the function is called on any thread, by several at once. */
xffi_rt_status* xffi_rt_set_logger(void (*told)(void* user, int level, const char* text), void* user);

/* Registers functions of this program as a handler, after the same metadata calls as in XLA.
 *   runtime   the runtime to register with.
 *   name      copied.
 *   platform  in any spelling, for example "Host" or "CUDA"; copied.
 *   bundle    one function per stage, NULL for missing stages; execute is required. Copied; the functions must stay
 *             loaded.
 *   Returns   NULL, or a status that the caller destroys: the errors of a registration with XLA.
 *   Threads   any. */
xffi_rt_status* xffi_rt_register(xffi_rt* runtime, const char* name, const char* platform,
                                 const XLA_FFI_Handler_Bundle* bundle);

/* Checks that handlers or legacy targets are registered. Call it when the program starts, because a linker omits the
 * objects of a static library that nothing refers to, including their handlers.
 *   runtime   the runtime, or the one of xffi_rt_global.
 *   platform  in any spelling.
 *   names     names of the handlers. May be NULL if `count` is 0.
 *   count     number of names.
 *   Returns   NULL, or a status that the caller destroys: NOT_FOUND (5) with all missing names and a remedy: link the
 *             library whole (-Wl,--whole-archive), or make it a CMake OBJECT library.
 *   Threads   any. */
xffi_rt_status* xffi_rt_require(const xffi_rt* runtime, const char* platform,
                                const char* const* names, size_t count);

/* Signatures of legacy targets, numbered as in xla/service/custom_call_target_registry.h. */
#define XFFI_RT_LEGACY_UNKNOWN 0    /* by each call's API version */
#define XFFI_RT_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_RT_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_RT_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_RT_LEGACY_GPU_STATUS 4 /* the same, and a final XlaCustomCallStatus* */
#define XFFI_RT_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */

/* Registers a function of this program as a target of one of the original conventions.
 *   runtime    the runtime to register with.
 *   name       copied.
 *   platform   in any spelling; copied.
 *   function   a function of that signature; it must stay loaded.
 *   signature  one of XFFI_RT_LEGACY_*.
 *   Returns    NULL, or a status that the caller destroys: INVALID_ARGUMENT for a signature that the platform does not
 *              call, ALREADY_EXISTS for a different function under the name.
 *   Threads    any. */
xffi_rt_status* xffi_rt_register_legacy(xffi_rt* runtime, const char* name, const char* platform,
                                        void* function, uint32_t signature);

/* --- user data --------------------------------------------------------------------------------- */

/* Creates user data: objects of the program that handlers find by the name of their type. In C, this is
 * XFFI_SHARED_TYPE; in Rust, a UserType with a name; in C++, XLA_FFI_REGISTER_TYPE.
 *   runtime  the runtime of the calls; calls of a different runtime refuse the data.
 *   out      the data, which the caller destroys with xffi_rt_user_data_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_user_data_create(const xffi_rt* runtime, xffi_rt_user_data** out);

/* Adds an object, before or after its type is registered, but before a call has the data.
 *   data     the user data.
 *   name     the name of the type, which must denote the same type for all its users; copied.
 *   size     of the object in bytes, sizeof(T), which must match other sizes given for the type; 0 if unknown.
 *   object   usable from any thread. Without a deleter, the caller owns it, and it must outlive all calls that have it.
 *            With a deleter, the data owns it if this succeeds.
 *   deleter  called once with the object, on any thread, when neither the caller nor a call has the data any more; NULL
 *            for none.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS for a second object of a type, INVALID_ARGUMENT
 *            for a different size, FAILED_PRECONDITION if a call has the data.
 *   Threads  one at a time per user data. */
xffi_rt_status* xffi_rt_user_data_add(xffi_rt_user_data* data, const char* name, size_t size,
                                      void* object, void (*deleter)(void* object));

/* Releases user data. Calls keep what they need of it.
 *   data     no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses it. */
void xffi_rt_user_data_destroy(xffi_rt_user_data* data);

/* --- libraries --------------------------------------------------------------------------------- */

/* Loads a library into this process; it stays loaded until the program ends. If the file was replaced since it was
 * loaded, the new file is loaded.
 *   runtime  the runtime that the library's handlers will be registered with.
 *   path     of the file; copied.
 *   out      the library, which the caller destroys with xffi_rt_library_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing file, INVALID_ARGUMENT if it cannot be
 *            loaded.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_load(xffi_rt* runtime, const char* path, xffi_rt_library** out);

/* Releases the handle of a library; the library stays loaded.
 *   library  no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_library_destroy(xffi_rt_library* library);

/* Registers the handlers that the library's manifest describes (XFFI_LIBRARY in C, XLA_FFI_LIBRARY in C++, library! in
 * Rust), under their names and for each of their platforms. One refused handler does not stop the others.
 *   runtime  the runtime to register with.
 *   library  the library, whose file must still exist.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND without a manifest, and errors of a registration
 *            with XLA, one line per handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_register_library(xffi_rt* runtime, const xffi_rt_library* library);

/* Gets the address of an exported symbol, for a bundle of a library without a manifest.
 *   library  the library.
 *   name     of the symbol.
 *   out      the address.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing symbol.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_symbol(const xffi_rt_library* library, const char* name, void** out);

/* --- streams ----------------------------------------------------------------------------------- */

/* A stream that runs its work in order on its own thread: a device for tests. */
typedef struct xffi_rt_stream xffi_rt_stream;

/* Creates a stream.
 *   out      the stream, which the caller destroys with xffi_rt_stream_destroy.
 *   Returns  NULL, or a status that the caller destroys: RESOURCE_EXHAUSTED if no thread can be started.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_create(xffi_rt_stream** out);

/* Releases a stream. Queued work still runs.
 *   stream   no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the stream. */
void xffi_rt_stream_destroy(xffi_rt_stream* stream);

/* Returns the handle that handlers get as the platform's stream; for xffi_rt_call_set_stream.
 *   stream   NULL is fine.
 *   Returns  the handle, NULL for NULL; owned by the stream and valid as long as the stream.
 *   Threads  any. */
void* xffi_rt_stream_handle(const xffi_rt_stream* stream);

/* Enqueues work on the stream with this handle, for example inside a handler.
 *   handle   of an existing stream of this library.
 *   task     called once, on the stream's thread; it must not throw.
 *   data     passed to the task; may be NULL. It must stay valid until the task has run.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other handle, FAILED_PRECONDITION in
 *            a fork of the process that created the stream, which has no such thread.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_enqueue(void* handle, XLA_FFI_Task* task, void* data);

/* Waits until all work on the stream has run. Until then, work of a handler may use the operands' data, even if its
 * call is no longer open.
 *   stream   the stream.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION on the stream's own thread, and in a fork
 *            of the process that created the stream.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_synchronize(const xffi_rt_stream* stream);

/* --- calls ------------------------------------------------------------------------------------- */

/* Creates an executable of a registered handler, and a call of it. The instantiate stage runs here.
 *   runtime     the runtime that the handler is registered with; the call keeps what it needs of it.
 *   name        of the handler.
 *   platform    in any spelling.
 *   attributes  an MLIR dictionary, for example "{eps = 1.0e-5 : f32}", or NULL for none; copied.
 *   out         the call, which the caller destroys with xffi_rt_call_destroy.
 *   Returns     NULL, or a status that the caller destroys: NOT_FOUND for a name that is not registered,
 *               INVALID_ARGUMENT for attributes that cannot be parsed, or that no jaxlib of the revision passes, and
 *               errors from the instantiate stage.
 *   Threads     any. */
xffi_rt_status* xffi_rt_call_create(xffi_rt* runtime, const char* name, const char* platform,
                                    const char* attributes, xffi_rt_call** out);

/* Destroys a call. Safe while it is open, and in any order with runtime, library and stream: this library keeps its own
 * data until the handler is done. The operands' data belong to the caller and must stay valid until then: wait first,
 * or request a callback (xffi_rt_call_on_end).
 *   call     no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the call. */
void xffi_rt_call_destroy(xffi_rt_call* call);

/* Adds an argument.
 *   call     before its first run.
 *   dtype    the element type.
 *   rank     the number of dimensions, not negative.
 *   dims     the dimensions, copied; may be NULL if `rank` is 0.
 *   data     owned by the caller, who must not use it while the call is open; may be NULL if there are no elements.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for an invalid shape, FAILED_PRECONDITION
 *            after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_arg(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);

/* Adds a result.
 *   call     before its first run.
 *   dtype    the element type.
 *   rank     the number of dimensions, not negative.
 *   dims     the dimensions, copied; may be NULL if `rank` is 0.
 *   data     owned by the caller, who must not use it while the call is open; may be NULL if there are no elements.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for an invalid shape, FAILED_PRECONDITION
 *            after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);

/* Adds an argument that another library describes as a DLPack tensor, without a copy.
 *   call     before its first run.
 *   tensor   a DLTensor of dlpack.h (`&managed->dl_tensor` of a DLManagedTensor) in host memory, row-major, with
 *            elements at a multiple of 16 bytes. The description is copied; the data are owned by the caller, who must
 *            not use them while the call is open.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_arg_dlpack(xffi_rt_call* call, const void* tensor);

/* Adds a result in the memory of another library's DLPack tensor.
 *   call     before its first run.
 *   tensor   as for xffi_rt_call_arg_dlpack.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret_dlpack(xffi_rt_call* call, const void* tensor);

/* Adds an argument like xffi_rt_call_arg_dlpack, for a tensor with a version and flags.
 *   call     before its first run.
 *   managed  a DLManagedTensorVersioned of dlpack.h, of version 1.x. The caller still owns it, and calls its deleter
 *            after the call is over. It may be read-only, because handlers do not write arguments.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other version, whose fields are not
 *            read; otherwise as for xffi_rt_call_arg_dlpack.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_arg_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* Adds a result like xffi_rt_call_ret_dlpack, for a tensor with a version and flags.
 *   call     before its first run.
 *   managed  as for xffi_rt_call_arg_dlpack_versioned.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a read-only tensor
 *            (DLPACK_FLAG_BITMASK_READ_ONLY); otherwise as for xffi_rt_call_arg_dlpack_versioned.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* Removes all operands, so that operands of different shapes can be added for the next runs.
 *   call     with or without previous runs.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open. If a stage before
 *            execute has seen the operands, the next run is FAILED_PRECONDITION.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_clear_operands(xffi_rt_call* call);

/* Replaces the data of an argument, at a low cost.
 *   call     its next run uses the data; an open run continues with the previous data. If a stage before execute has
 *            seen the data of the first run, different data make the next run FAILED_PRECONDITION; create another call,
 *            or a clone.
 *   index    of the argument, from 0.
 *   data     of the same shape, with the same conditions as the previous data.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for an argument that does not exist.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_arg_data(xffi_rt_call* call, size_t index, void* data);

/* Replaces the data of a result, at a low cost.
 *   call     its next run uses the data; an open run continues with the previous data. If a stage before execute has
 *            seen the data of the first run, different data make the next run FAILED_PRECONDITION; create another call,
 *            or a clone.
 *   index    of the result, from 0.
 *   data     of the same shape, with the same conditions as the previous data.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a result that does not
 *            exist.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_ret_data(xffi_rt_call* call, size_t index, void* data);

/* Sets the user data that handlers find.
 *   call     the call; affects the next run and those after it.
 *   data     shared with the call from now on; no more objects can be added.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open. INVALID_ARGUMENT
 *            for data of a different runtime.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_user_data(xffi_rt_call* call, const xffi_rt_user_data* data);

/* Sets the options of the execution, which handlers see from revision 10 on.
 *   call     the call; affects the next run and those after it.
 *   options  an MLIR dictionary, for example "{speed = 1 : i64}"; copied.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT if it cannot be parsed, FAILED_PRECONDITION
 *            while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_custom_options(xffi_rt_call* call, const char* options);

/* Sets the source of scratch memory; by default there is none. Memory that a handler does not free is freed when its
 * call is over.
 *   call      the call; affects the next run and those after it.
 *   allocate  called with `user`, a number of bytes (not 0) and an alignment (256, as for XLA's memory on GPUs).
 *             Returns memory of that size at a multiple of the alignment, or NULL; must not throw. Misaligned memory is
 *             freed, and the handler gets an error.
 *   free      called with `user`, memory from `allocate`, and its size; must not throw.
 *   user      the first argument of both; may be NULL. It must outlive the call.
 *   Returns   NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads   one at a time per call; the functions are called on any thread. */
xffi_rt_status* xffi_rt_call_set_allocator(xffi_rt_call* call,
                                           void* (*allocate)(void* user, size_t size,
                                                             size_t alignment),
                                           void (*free)(void* user, void* data, size_t size),
                                           void* user);

/* Sets the executor of the work that handlers start: tasks on the thread pool and, from revision 9 on, the bodies of
 * `async fn` handlers in Rust. By default, tasks run on the runtime's threads, and bodies on threads of their library.
 *   call         the call; affects the next run and those after it.
 *   execute      called with `user`, a task and its data. It must run task(data) once, soon, on a thread that does not
 *                wait for other tasks. It must not run it on the calling thread, because the handler may wait for the
 *                task. Must not throw. NULL for the runtime's threads.
 *   num_threads  1 to 1024: the number of tasks that run at a time, as reported to handlers.
 *   user         the first argument of `execute`; may be NULL. It must outlive the call.
 *   Returns      NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open,
 *                INVALID_ARGUMENT for any other number of threads.
 *   Threads      one at a time per call; the function is called on any thread. */
xffi_rt_status* xffi_rt_call_set_executor(xffi_rt_call* call,
                                          void (*execute)(void* user, XLA_FFI_Task* task,
                                                          void* data),
                                          size_t num_threads, void* user);

/* Sets the number of the execution.
 *   call     the call; affects the next run and those after it.
 *   run_id   as handlers see it; the default is 0.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_run_id(xffi_rt_call* call, int64_t run_id);

/* Sets the device's number.
 *   call     the call; affects the next run and those after it.
 *   ordinal  as handlers see it; the default is 0.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_device_ordinal(xffi_rt_call* call, int32_t ordinal);

/* Sets the platform's stream; by default there is none.
 *   call     the call; affects the next run and those after it.
 *   stream   a handle of xffi_rt_stream_handle, or any pointer of a platform. The caller owns the stream, which must
 *            outlive the runs. Runs do not wait for it; use xffi_rt_stream_synchronize.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_stream(xffi_rt_call* call, void* stream);

/* Sets the time limit of each run. A synchronous handler blocks xffi_rt_call_run beyond the limit, until it returns.
 * Nothing can interrupt a function, so handlers that run for a long time have to poll or be asynchronous. After the
 * limit, xffi_rt_call_run returns, handlers that poll (xla_ffi/cancellation.h) see the cancellation, and a run that has
 * not started is refused, all with DEADLINE_EXCEEDED (4). A result that is complete later is still accepted. By
 * default, the runtime waits 60 s for asynchronous handlers and cancels none.
 *   call          the call; affects the next run and those after it.
 *   milliseconds  from the start of a run; negative: no limit.
 *   Returns       NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads       one at a time per call. */
xffi_rt_status* xffi_rt_call_set_time_limit(xffi_rt_call* call, int64_t milliseconds);

/* Cancels calls. */
typedef struct xffi_rt_canceller xffi_rt_canceller;

/* Creates a canceller, which has not cancelled anything.
 *   out      the canceller, which the caller destroys with xffi_rt_canceller_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_canceller_create(xffi_rt_canceller** out);

/* Cancels the calls that have the canceller; this cannot be undone. Handlers that poll (xla_ffi/cancellation.h) see the
 * cancellation, and a run that has not started is refused as CANCELLED (1). Cancelling neither stops a handler nor ends
 * a wait for it.
 *   canceller  the canceller.
 *   Returns    NULL, or a status that the caller destroys.
 *   Threads    any, even while another thread runs the call. */
xffi_rt_status* xffi_rt_canceller_cancel(const xffi_rt_canceller* canceller);

/* Releases a canceller. Calls keep what they need of it.
 *   canceller  no longer usable by the caller; NULL is fine.
 *   Threads    any, while no other thread uses it. */
void xffi_rt_canceller_destroy(xffi_rt_canceller* canceller);

/* Makes the call cancellable.
 *   call       the call; affects the next run and those after it.
 *   canceller  shared with the call; NULL for none.
 *   Returns    NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads    one at a time per call. */
xffi_rt_status* xffi_rt_call_set_canceller(xffi_rt_call* call, const xffi_rt_canceller* canceller);

/* Sets whether elements that the handler leaves unwritten are detected. If so, the results are filled with random bytes
 * before each run. If eight or more consecutive bytes are unchanged after a success, the status is
 * XLA_FFI_Error_Code_INTERNAL and a hazard, and names the result and the elements. Shorter gaps are not detected.
 * Results of less than eight bytes are only detected if they have four bytes or more and none was written. Results that
 * share memory with another operand are not checked. Each run waits for the call's stream, before and after.
 *   call     the call; affects the next run and those after it.
 *   check    0: off (default); otherwise on.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_check_unwritten(xffi_rt_call* call, int check);

/* Runs the execute stage (the first time after prepare and initialize) and waits until it is complete. May be called
 * again, unless the call is open or has not been waited for.
 *   call     its operands' data belong to it from here on; see "Data" above.
 *   Returns  NULL, or a status that the caller destroys: the handler's error, or DEADLINE_EXCEEDED (4) at the time
 *            limit, with the call still open. It is also open after another error if the handler left a future in
 *            addition to it: check xffi_rt_call_is_open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_run(xffi_rt_call* call);

/* Runs the call like xffi_rt_call_run, without waiting: if the handler is not done, the call is open.
 *   call     its operands' data belong to it from here on; see "Data" above.
 *   Returns  NULL, or a status that the caller destroys: the handler's immediate error. The call may nevertheless be
 *            open, as for xffi_rt_call_run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_start(xffi_rt_call* call);

/* Starts a run like xffi_rt_call_start, with a callback at its end, for event loops. After the callback,
 * xffi_rt_call_wait(call, 0) returns the outcome, on any thread.
 *   call      its operands' data belong to it from here on; see "Data" above.
 *   callback  called once if this succeeds, when the handler is done or at the time limit (60 s by default). It is
 *             called on any thread, possibly within this function. It must neither throw nor use the call.
 *   user      its argument; may be NULL. It must stay valid until then.
 *   Returns   NULL, or a status that the caller destroys: the handler's immediate error.
 *   Threads   one at a time per call. */
xffi_rt_status* xffi_rt_call_run_async(xffi_rt_call* call, void (*callback)(void* user), void* user);

/* Copies a call for another thread. State and user data are the same. Operands have the same shapes and, until they are
 * set, the same data. Stages before execute run again.
 *   call     open or not.
 *   out      the call, which the caller destroys with xffi_rt_call_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_clone(const xffi_rt_call* call, xffi_rt_call** out);

/* Waits for a call that was open when xffi_rt_call_run returned.
 *   call          open or not.
 *   milliseconds  negative: forever; 0: not at all.
 *   Returns       the status that xffi_rt_call_run would have returned, or DEADLINE_EXCEEDED (4) while the call is
 *                 still open; NULL if there is nothing to wait for. The caller destroys the status.
 *   Threads       one at a time per call. */
xffi_rt_status* xffi_rt_call_wait(xffi_rt_call* call, int64_t milliseconds);

/* Returns 1 if the call is open, so that the operands' data belong to it.
 *   call     NULL is fine.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  one at a time per call. */
int xffi_rt_call_is_open(const xffi_rt_call* call);

/* Requests a callback for the time when the call is no longer open, even if it is destroyed before. From then on the
 * operands' data belong to the caller, except for work that the handler put on a stream. Memory of the program's
 * allocator that a destroyed open call has is freed later, before xffi_rt_wait_for_calls and xffi_rt_shutdown return. A
 * call can have several callbacks.
 *   call      open or not.
 *   callback  called once, on the thread that ends the call, or within this function if the call is not open. It may
 *             free the data; it must neither throw nor use the call, which another thread may be using.
 *   user      passed to the callback; may be NULL. It must stay valid until then.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time per call. */
xffi_rt_status* xffi_rt_call_on_end(xffi_rt_call* call, void (*callback)(void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_RUNTIME_H_ */
