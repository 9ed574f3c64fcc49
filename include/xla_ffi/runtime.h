/* The embedded runtime: a host for XLA FFI handlers that needs no XLA.
 *
 * Link libxla_ffi_runtime.so, or libxla_ffi_runtime.a with -lstdc++ -lpthread -ldl -lm.
 *
 * Conventions
 *   Ownership  The caller owns the results of *_create and *_load functions and calls the *_destroy function of their
 *              type once. The same applies to every status other than NULL.
 *   Status     NULL is success. Otherwise the status has one of the 16 absl codes and a text.
 *   NULL       Pointers must not be NULL unless documented otherwise; for NULL, functions return an error status.
 *   Threads    A runtime may be used from any thread. A call is used by one thread at a time.
 *   Code       Functions of the program that the runtime calls (handlers, tasks, deleters, callbacks) must return.
 *              Handlers, tasks and deleters may also throw an exception. Ending a thread inside such a function
 *              (pthread_exit, pthread_cancel) ends the process. Do not leave such a function with longjmp: the call
 *              would never end, and waiting for the call would never return. Changes that a handler makes to its thread
 *              (rounding mode, flush-to-zero, errno, locale, signal mask) remain in effect for the caller.
 *   Memory     If an internal allocation of the runtime fails, the process ends (abort). Arrays that exceed the
 *              available memory are refused with RESOURCE_EXHAUSTED.
 *   Strings    NUL-terminated UTF-8; copied.
 *   Out        An out-parameter is only written on success.
 *   Data       A call's operand data belong to the call while it is open. A call is open from xffi_rt_call_run until
 *              its handler is done: until xffi_rt_call_run or xffi_rt_call_wait returns a status other than
 *              XLA_FFI_Error_Code_DEADLINE_EXCEEDED (4), or until a callback of xffi_rt_call_on_end is called. After
 *              the time limit, the handler continues to read and write the data. Destroying an open call does not end
 *              the call. Functions that the runtime calls during a run (a stage of the handler, an allocator) must not
 *              use the call. Work that a handler has put on a stream uses the data until xffi_rt_stream_synchronize
 *              returns. Sub-byte elements are packed like those of the revision's hosts: the first element is in the
 *              low bits from revision 5 on, and in the high bits before revision 5. */

#ifndef XLA_FFI_RUNTIME_H_
#define XLA_FFI_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

/* XLA's include directory may only precede this SDK's if its headers are of the newest revision, because
 * XLA_FFI_Handler_Bundle is shorter in older headers. */
#if XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR < 5
#error "this c_api.h is of an older XLA, whose structs are others: name this SDK's include directory before XLA's"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A runtime: the function table, registries and threads of one emulated copy of XLA. */
typedef struct xffi_rt xffi_rt;
/* A loaded library. The library stays loaded until the process ends. */
typedef struct xffi_rt_library xffi_rt_library;
/* A call of one handler, with attributes, state and operands, which can run many times. */
typedef struct xffi_rt_call xffi_rt_call;
/* The outcome of a function: an error with a code, a text, findings and causes. NULL is success. */
typedef struct xffi_rt_status xffi_rt_status;

/* User data: objects of the program for its handlers. */
typedef struct xffi_rt_user_data xffi_rt_user_data;

/* The version of this header. Until version 1.0, incompatible changes increment the second number. */
#define XFFI_RT_VERSION "0.1.0"

/* The value of `revision` for the newest revision that this library knows. */
#define XFFI_RT_NEWEST (-1)

/* --- status ------------------------------------------------------------------------------------ */

/* Returns the absl code of a status.
 *   status   may be NULL.
 *   Returns  the code; XLA_FFI_Error_Code_OK for NULL.
 *   Threads  any. */
XLA_FFI_Error_Code xffi_rt_status_code(const xffi_rt_status* status);

/* Returns the text of a status.
 *   status   may be NULL.
 *   Returns  the text; "" for NULL; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_message(const xffi_rt_status* status);

/* Tests whether a status reports a hazard: a problem that can crash a real XLA or corrupt its results.
 *   status   may be NULL.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  any. */
int xffi_rt_status_is_hazard(const xffi_rt_status* status);

/* Returns a finding of a status: the name of a hazard, and its remedy.
 *   status   may be NULL.
 *   index    the index, from 0.
 *   Returns  the text; NULL after the last finding; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_finding(const xffi_rt_status* status, size_t index);

/* Returns a direct or indirect cause of an error. Causes are available for errors of Rust handlers with sources, for
 * errors of xla/ffi/ffi.h, and for errors of this library.
 *   status   may be NULL.
 *   index    the index, from 0, the nearest cause first.
 *   Returns  the text; NULL after the last cause; owned by the status and valid as long as the status.
 *   Threads  any. */
const char* xffi_rt_status_cause(const xffi_rt_status* status, size_t index);

/* Destroys a status, including its text.
 *   status   may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the status. */
void xffi_rt_status_destroy(xffi_rt_status* status);

/* --- runtimes ---------------------------------------------------------------------------------- */

/* Creates a runtime that behaves like the hosts of a revision.
 *   revision  the revision, 0 to 10, or XFFI_RT_NEWEST.
 *   out       the runtime, which the caller destroys with xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other revision.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create(int revision, xffi_rt** out);

/* Creates a runtime like xffi_rt_create, with a thread pool of a given size. xffi_rt_create uses one thread per core.
 * The threads start when a handler first uses the pool.
 *   revision  the revision, 0 to 10, or XFFI_RT_NEWEST.
 *   threads   the size of the pool, 1 to 1024.
 *   out       the runtime, which the caller destroys with xffi_rt_destroy.
 *   Returns   NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other revision or number of threads.
 *   Threads   any. */
xffi_rt_status* xffi_rt_create_with_threads(int revision, size_t threads, xffi_rt** out);

/* Returns the version of the library, for comparison with XFFI_RT_VERSION.
 *   Returns  the version, for example "0.1.0"; valid until the process ends.
 *   Threads  any. */
const char* xffi_rt_version(void);

/* Reports findings that occurred outside any call, for example in tasks of the thread pool, since the previous report.
 * Repeated findings are reported once.
 *   runtime  the runtime, which discards the reported findings.
 *   told     called for each finding before this function returns, with `user` and a text that is valid in the
 *            callback.
 *   user     the first argument of `told`; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_take_findings(const xffi_rt* runtime,
                                      void (*told)(void* user, const char* text), void* user);

/* Returns the runtime whose function table XLA_FFI_GetApi() returns, of the newest revision. Handlers that register
 * themselves when the program starts are registered with this runtime.
 *   Returns  a handle, never NULL, which the caller destroys with xffi_rt_destroy; the runtime itself is never
 *            destroyed.
 *   Threads  any. */
xffi_rt* xffi_rt_global(void);

/* Releases a runtime. Its calls, libraries and compiled programs stay valid.
 *   runtime  may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_destroy(xffi_rt* runtime);

/* Returns the function table that is passed to handlers.
 *   runtime  may be NULL.
 *   Returns  the table; NULL for NULL; valid until the process ends.
 *   Threads  any. */
const XLA_FFI_Api* xffi_rt_api(const xffi_rt* runtime);

/* Waits until no call of the runtime is running in its handler or open, including calls that other threads start
 * during the wait. Does not wait for work that handlers put on a stream: use xffi_rt_stream_synchronize.
 *   runtime       the runtime of the calls.
 *   milliseconds  the time limit; negative: none.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) at the time limit, with the
 *                 names of the handlers that are not done.
 *   Threads       any, except in a handler or in work on a stream of a call, which would wait for its own end. A
 *                 callback of xffi_rt_call_on_end may call this function, unless the callback runs within this
 *                 function or xffi_rt_shutdown. */
xffi_rt_status* xffi_rt_wait_for_calls(const xffi_rt* runtime, int64_t milliseconds);

/* Ends a runtime: later calls fail with UNAVAILABLE (14), running calls are cancelled for handlers that poll, and this
 * function waits until no call is running. Afterwards, handlers no longer use any data of the program, except in work
 * on a stream (xffi_rt_stream_synchronize). May be called again. The handle must still be destroyed.
 *   runtime       the runtime, possibly that of xffi_rt_global.
 *   milliseconds  the time limit, not negative.
 *   Returns       NULL, or a status that the caller destroys: DEADLINE_EXCEEDED (4) at the time limit, with the
 *                 names of the handlers that are not done; INVALID_ARGUMENT for a negative time limit.
 *   Threads       as for xffi_rt_wait_for_calls. */
xffi_rt_status* xffi_rt_shutdown(const xffi_rt* runtime, int64_t milliseconds);

/* The outcomes of the executions of a handler since the runtime was created. */
typedef struct xffi_rt_handler_counts {
  /* The name of the handler; valid during the callback. */
  const char* name;
  /* The number of executions that are running in the handler or have an open future. */
  uint64_t in_flight;
  uint64_t succeeded;
  /* The numbers of failures, refusals and exceeded time limits, by error code (XLA_FFI_Error_Code). Each execution is
   * counted once, with the first outcome that its caller received. */
  uint64_t failed[17];
} xffi_rt_handler_counts;

/* Reports the outcomes of all executions, by handler. Counting is always on and costs about 1 ns per execution.
 *   runtime  the runtime of the calls.
 *   told     called once per handler that was called, before this function returns; `counts` is valid during the
 *            callback.
 *   user     the first argument of `told`; may be NULL.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_counts(const xffi_rt* runtime,
                               void (*told)(void* user, const xffi_rt_handler_counts* counts),
                               void* user);

/* An execution that has ended, for xffi_rt_observe. */
typedef struct xffi_rt_execution {
  /* The name of the handler; valid during the callback. */
  const char* handler;
  /* The run id of the execution, as set with xffi_rt_call_set_run_id. */
  int64_t run_id;
  /* The time from the start of the handler until it returned, or until its future was complete. */
  uint64_t nanoseconds;
  /* The error code of the execution; OK for a success. */
  XLA_FFI_Error_Code code;
} xffi_rt_execution;

/* Sets a function that is called at the end of executions with their duration, for example for a histogram or a log.
 * Can be set once per runtime.
 *   runtime  the runtime of the calls.
 *   every    the sampling interval: one in `every` executions of a call is reported. 1 reports all executions, at about
 *            100 ns each (two readings of the clock and a copy of the name); 16 costs a few nanoseconds per
 *            execution on average. 0 has the effect of 1.
 *   told     called on the thread that ends the execution, by several threads at once; must not throw. Executions that
 *            are refused before their handler is called are not reported.
 *   user     the first argument of `told`; may be NULL. Must outlive the runtime.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS if a function is already set.
 *   Threads  any. */
xffi_rt_status* xffi_rt_observe(const xffi_rt* runtime, uint32_t every,
                                void (*told)(void* user, const xffi_rt_execution* execution),
                                void* user);

/* The severities of log messages. */
#define XFFI_RT_LOG_ERROR 1
#define XFFI_RT_LOG_WARNING 2
#define XFFI_RT_LOG_INFO 3

/* Sets the function that receives log messages of all runtimes: problems that no call can return, for example an
 * exception thrown by a deleter. By default, messages are printed to standard error.
 *   told     called with `user`, one of XFFI_RT_LOG_* and a text that is valid during the callback; must not throw.
 *            NULL for standard error. Messages that `told` itself causes are printed to standard error. After this
 *            function returns, the previous function is no longer called.
 *   user     the first argument of `told`; may be NULL. Must stay valid until the function is replaced.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION if called by a log function.
 *   Threads  any; `told` is called on any thread, by several threads at once. */
xffi_rt_status* xffi_rt_set_logger(void (*told)(void* user, int level, const char* text), void* user);

/* Registers functions of this program as the stages of a handler, after the same metadata queries as in XLA.
 *   runtime   the runtime to register with.
 *   name      the handler's name; copied.
 *   platform  the platform's name, in any spelling, for example "Host" or "CUDA"; copied.
 *   bundle    one function per stage, NULL for missing stages; execute is required. Copied; the functions must stay
 *             loaded.
 *   Returns   NULL, or a status that the caller destroys: the errors that a registration with XLA returns.
 *   Threads   any. */
xffi_rt_status* xffi_rt_register(xffi_rt* runtime, const char* name, const char* platform,
                                 const XLA_FFI_Handler_Bundle* bundle);

/* Checks that handlers or targets of original custom calls are registered. A linker omits unreferenced objects of a
 * static library, including their handlers, so call this function when the program starts.
 *   runtime   the runtime, possibly that of xffi_rt_global.
 *   platform  the platform's name, in any spelling.
 *   names     the names of the handlers. May be NULL if `count` is 0.
 *   count     the number of names.
 *   Returns   NULL, or a status that the caller destroys: NOT_FOUND (5) with all missing names and a remedy: link the
 *             library whole (-Wl,--whole-archive), or make it a CMake OBJECT library.
 *   Threads   any. */
xffi_rt_status* xffi_rt_require(const xffi_rt* runtime, const char* platform,
                                const char* const* names, size_t count);

/* The signatures of targets of original custom calls, numbered as in xla/service/custom_call_target_registry.h. */
#define XFFI_RT_LEGACY_UNKNOWN 0    /* unknown: depends on each call's API version */
#define XFFI_RT_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_RT_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_RT_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_RT_LEGACY_GPU_STATUS 4 /* (stream, void** buffers, const char* opaque, size_t len, XlaCustomCallStatus*) */
#define XFFI_RT_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */

/* Registers a function of this program as a target of original custom calls.
 *   runtime    the runtime to register with.
 *   name       the target's name; copied.
 *   platform   the platform's name, in any spelling; copied.
 *   function   a function of this signature, which must stay loaded.
 *   signature  one of XFFI_RT_LEGACY_*.
 *   Returns    NULL, or a status that the caller destroys: INVALID_ARGUMENT for a signature of a different
 *              platform, ALREADY_EXISTS if the name has a different function.
 *   Threads    any. */
xffi_rt_status* xffi_rt_register_legacy(xffi_rt* runtime, const char* name, const char* platform,
                                        void* function, uint32_t signature);

/* --- user data --------------------------------------------------------------------------------- */

/* Creates user data: objects of the program that handlers look up by the name of their type. Handlers declare the type
 * with XFFI_SHARED_TYPE in C, with a named UserType in Rust, and with XLA_FFI_REGISTER_TYPE in C++.
 *   runtime  the runtime of the calls; calls of a different runtime refuse the data.
 *   out      the data, which the caller destroys with xffi_rt_user_data_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_user_data_create(const xffi_rt* runtime, xffi_rt_user_data** out);

/* Adds an object to user data, before any call uses the user data. The type need not be registered yet.
 *   data     the user data.
 *   name     the name of the type, which must denote the same type for all its users; copied.
 *   size     the size of the object in bytes, sizeof(T), which must match other sizes given for the type; 0 if unknown.
 *   object   the object, usable from any thread. Without a deleter, the caller owns the object, which must outlive all
 *            calls that use it. With a deleter, the user data owns the object if this function succeeds.
 *   deleter  called once with the object, on any thread, after the user data and all calls that use it are destroyed;
 *            NULL for none.
 *   Returns  NULL, or a status that the caller destroys: ALREADY_EXISTS for a second object of a type, INVALID_ARGUMENT
 *            for a different size, FAILED_PRECONDITION if a call already uses the user data.
 *   Threads  one at a time per user data. */
xffi_rt_status* xffi_rt_user_data_add(xffi_rt_user_data* data, const char* name, size_t size,
                                      void* object, void (*deleter)(void* object));

/* Releases user data. Calls that use the user data stay valid.
 *   data     may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the user data. */
void xffi_rt_user_data_destroy(xffi_rt_user_data* data);

/* --- libraries --------------------------------------------------------------------------------- */

/* Loads a library, which stays loaded until the process ends. If the file was replaced after an earlier load, loads the
 * new file.
 *   runtime  the runtime that the library's handlers will be registered with.
 *   path     the path of the file; copied.
 *   out      the library, which the caller destroys with xffi_rt_library_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing file, INVALID_ARGUMENT if the file
 *            cannot be loaded.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_load(xffi_rt* runtime, const char* path, xffi_rt_library** out);

/* Releases the handle of a library; the library stays loaded.
 *   library  may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_library_destroy(xffi_rt_library* library);

/* Registers the handlers that the library's manifest describes (XFFI_LIBRARY in C, XLA_FFI_LIBRARY in C++, library! in
 * Rust), under their names and for each of their platforms. If a handler is refused, the others are still registered.
 *   runtime  the runtime to register with.
 *   library  the library, whose file must still exist.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the library has no manifest; the errors that a
 *            registration with XLA returns, one line per handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_register_library(xffi_rt* runtime, const xffi_rt_library* library);

/* Gets the address of an exported symbol, to create a handler bundle for a library without a manifest.
 *   library  the library.
 *   name     the name of the symbol.
 *   out      the address.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing symbol.
 *   Threads  any. */
xffi_rt_status* xffi_rt_library_symbol(const xffi_rt_library* library, const char* name, void** out);

/* --- streams ----------------------------------------------------------------------------------- */

/* A stream that runs its work in order on its own thread, for tests of handlers that need a device. */
typedef struct xffi_rt_stream xffi_rt_stream;

/* Creates a stream.
 *   out      the stream, which the caller destroys with xffi_rt_stream_destroy.
 *   Returns  NULL, or a status that the caller destroys: RESOURCE_EXHAUSTED if no thread can be started.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_create(xffi_rt_stream** out);

/* Releases a stream. Queued work still runs.
 *   stream   may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the stream. */
void xffi_rt_stream_destroy(xffi_rt_stream* stream);

/* Returns the handle of a stream, for xffi_rt_call_set_stream. Handlers receive the handle as the platform's stream.
 *   stream   may be NULL.
 *   Returns  the handle; NULL for NULL; owned by the stream and valid as long as the stream.
 *   Threads  any. */
void* xffi_rt_stream_handle(const xffi_rt_stream* stream);

/* Enqueues work on a stream, for example inside a handler.
 *   handle   the handle of a stream of this library that is not destroyed.
 *   task     called once, on the stream's thread; must not throw.
 *   data     the argument of the task; may be NULL. Must stay valid until the task has run.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other handle, FAILED_PRECONDITION in
 *            a fork of the process that created the stream, which lacks the stream's thread.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_enqueue(void* handle, XLA_FFI_Task* task, void* data);

/* Waits until all work on the stream has run. Until then, the work of a handler may use the operands' data, even if the
 * handler's call is no longer open.
 *   stream   the stream.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION on the stream's own thread, and in a fork
 *            of the process that created the stream.
 *   Threads  any. */
xffi_rt_status* xffi_rt_stream_synchronize(const xffi_rt_stream* stream);

/* --- calls ------------------------------------------------------------------------------------- */

/* Creates an executable of a registered handler, and a call of the executable. Runs the instantiate stage.
 *   runtime     the runtime with which the handler is registered. It may be destroyed before the call.
 *   name        the name of the handler.
 *   platform    the platform's name, in any spelling.
 *   attributes  an MLIR dictionary, for example "{eps = 1.0e-5 : f32}", or NULL for none; copied.
 *   out         the call, which the caller destroys with xffi_rt_call_destroy.
 *   Returns     NULL, or a status that the caller destroys: NOT_FOUND for a name that is not registered,
 *               INVALID_ARGUMENT for attributes that cannot be parsed, or that no jaxlib of the revision supports,
 *               and errors from the instantiate stage.
 *   Threads     any. */
xffi_rt_status* xffi_rt_call_create(xffi_rt* runtime, const char* name, const char* platform,
                                    const char* attributes, xffi_rt_call** out);

/* Destroys a call, which may be open. Runtime, library and stream may be destroyed before or after the call. The data
 * of the operands must stay valid until the handler is done: wait first, or request a callback (xffi_rt_call_on_end).
 *   call     may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the call. */
void xffi_rt_call_destroy(xffi_rt_call* call);

/* Adds an argument.
 *   call     a call that has not run yet.
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
 *   call     a call that has not run yet.
 *   dtype    the element type.
 *   rank     the number of dimensions, not negative.
 *   dims     the dimensions, copied; may be NULL if `rank` is 0.
 *   data     owned by the caller, who must not use it while the call is open; may be NULL if there are no elements.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for an invalid shape, FAILED_PRECONDITION
 *            after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);

/* Adds an argument in the memory of a DLPack tensor of a different library, without a copy.
 *   call     a call that has not run yet.
 *   tensor   a DLTensor of dlpack.h (`&managed->dl_tensor` of a DLManagedTensor) in host memory, row-major, with
 *            elements at a multiple of 16 bytes. The description is copied; the data are owned by the caller, who must
 *            not use them while the call is open.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_arg_dlpack(xffi_rt_call* call, const void* tensor);

/* Adds a result in the memory of a DLPack tensor of a different library, without a copy.
 *   call     a call that has not run yet.
 *   tensor   as for xffi_rt_call_arg_dlpack.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other tensor,
 *            FAILED_PRECONDITION after the first run.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret_dlpack(xffi_rt_call* call, const void* tensor);

/* Adds an argument like xffi_rt_call_arg_dlpack, for a tensor with a version and flags.
 *   call     a call that has not run yet.
 *   managed  a DLManagedTensorVersioned of dlpack.h, of version 1.x. The caller still owns the tensor, and
 *            calls its deleter after the call has ended. The tensor may be read-only, because handlers do not write
 *            arguments.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for any other version, whose fields are not
 *            read; otherwise as for xffi_rt_call_arg_dlpack.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_arg_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* Adds a result like xffi_rt_call_ret_dlpack, for a tensor with a version and flags.
 *   call     a call that has not run yet.
 *   managed  as for xffi_rt_call_arg_dlpack_versioned.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT for a read-only tensor
 *            (DLPACK_FLAG_BITMASK_READ_ONLY); otherwise as for xffi_rt_call_arg_dlpack_versioned.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_ret_dlpack_versioned(xffi_rt_call* call, const void* managed);

/* Removes all operands, so that operands of different shapes can be added for the next runs.
 *   call     the call, whether it has run or not.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open. If a stage before
 *            execute has received the operands, the next run fails with FAILED_PRECONDITION.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_clear_operands(xffi_rt_call* call);

/* Replaces the data of an argument, at a low cost.
 *   call     the call; the next run uses the data, and an open run continues with the previous data. If a stage before
 *            execute has received the data of the first run, a run with different data fails with FAILED_PRECONDITION;
 *            create a new call or a clone instead.
 *   index    the index of the argument, from 0.
 *   data     data of the same shape, with the same conditions as the previous data.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for an argument that does not exist.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_arg_data(xffi_rt_call* call, size_t index, void* data);

/* Replaces the data of a result, at a low cost.
 *   call     the call; the next run uses the data, and an open run continues with the previous data. If a stage before
 *            execute has received the data of the first run, a run with different data fails with FAILED_PRECONDITION;
 *            create a new call or a clone instead.
 *   index    the index of the result, from 0.
 *   data     data of the same shape, with the same conditions as the previous data.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for a result that does not
 *            exist.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_ret_data(xffi_rt_call* call, size_t index, void* data);

/* Sets the user data of a call, which its handler can look up.
 *   call     the call; affects all later runs.
 *   data     the user data, shared with the call from now on; no more objects can be added.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open. INVALID_ARGUMENT
 *            for data of a different runtime.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_user_data(xffi_rt_call* call, const xffi_rt_user_data* data);

/* Sets the custom options of the executions of a call, which handlers receive from revision 10 on.
 *   call     the call; affects all later runs.
 *   options  an MLIR dictionary, for example "{speed = 1 : i64}"; copied.
 *   Returns  NULL, or a status that the caller destroys: INVALID_ARGUMENT if the options cannot be parsed,
 *            FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_custom_options(xffi_rt_call* call, const char* options);

/* Sets the allocator of scratch memory; by default, calls have no scratch memory. Memory that a handler does not free
 * is freed when the call ends.
 *   call      the call; affects all later runs.
 *   allocate  called with `user`, a number of bytes (not 0) and an alignment (256, as for XLA's memory on GPUs).
 *             Returns memory of that size at a multiple of the alignment, or NULL; must not throw. Misaligned memory is
 *             freed, and the handler gets an error.
 *   free      called with `user`, memory from `allocate`, and its size; must not throw.
 *   user      the first argument of both functions; may be NULL. Must outlive the call.
 *   Returns   NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads   one at a time per call; `allocate` and `free` are called on any thread. */
xffi_rt_status* xffi_rt_call_set_allocator(xffi_rt_call* call,
                                           void* (*allocate)(void* user, size_t size,
                                                             size_t alignment),
                                           void (*free)(void* user, void* data, size_t size),
                                           void* user);

/* Sets the executor for tasks that handlers start on the thread pool and, from revision 9 on, for the bodies of
 * `async fn` handlers in Rust. By default, tasks run on threads of the runtime, and bodies on threads of their library.
 *   call         the call; affects all later runs.
 *   execute      called with `user`, a task and its data. Must run task(data) once, soon, on a thread that does not
 *                wait for other tasks. Must not run it on the calling thread, because the handler may wait for the
 *                task. Must not throw. NULL for the runtime's threads.
 *   num_threads  the number of tasks that run at a time, 1 to 1024, which is reported to handlers.
 *   user         the first argument of `execute`; may be NULL. Must outlive the call.
 *   Returns      NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open,
 *                INVALID_ARGUMENT for any other number of threads.
 *   Threads      one at a time per call; `execute` is called on any thread. */
xffi_rt_status* xffi_rt_call_set_executor(xffi_rt_call* call,
                                          void (*execute)(void* user, XLA_FFI_Task* task,
                                                          void* data),
                                          size_t num_threads, void* user);

/* Sets the run id of the executions of a call.
 *   call     the call; affects all later runs.
 *   run_id   the run id that handlers receive; the default is 0.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_run_id(xffi_rt_call* call, int64_t run_id);

/* Sets the ordinal of the device of a call.
 *   call     the call; affects all later runs.
 *   ordinal  the ordinal that handlers receive; the default is 0.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_device_ordinal(xffi_rt_call* call, int32_t ordinal);

/* Sets the stream of a call; by default, calls have no stream.
 *   call     the call; affects all later runs.
 *   stream   a handle from xffi_rt_stream_handle, or the stream pointer of any platform. The caller owns the stream,
 *            which must outlive the runs. Runs do not wait for the stream; use xffi_rt_stream_synchronize.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_stream(xffi_rt_call* call, void* stream);

/* Sets the time limit of each run. After the limit, xffi_rt_call_run returns, handlers that poll
 * (xla_ffi/cancellation.h) are cancelled, and a run that has not started is refused, each with DEADLINE_EXCEEDED (4). A
 * synchronous handler blocks xffi_rt_call_run until it returns, because a function cannot be interrupted. Handlers that
 * run for a long time should therefore poll or be asynchronous. A result that is complete after the limit is still
 * accepted. By default, the runtime waits 60 s for asynchronous handlers and does not cancel handlers.
 *   call          the call; affects all later runs.
 *   milliseconds  the time limit from the start of a run; negative: no limit.
 *   Returns       NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads       one at a time per call. */
xffi_rt_status* xffi_rt_call_set_time_limit(xffi_rt_call* call, int64_t milliseconds);

/* An object that cancels calls. */
typedef struct xffi_rt_canceller xffi_rt_canceller;

/* Creates a canceller.
 *   out      the canceller, which the caller destroys with xffi_rt_canceller_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_canceller_create(xffi_rt_canceller** out);

/* Cancels the calls that have the canceller; this cannot be undone. Handlers can detect the cancellation by polling
 * (xla_ffi/cancellation.h), and runs that have not started are refused with CANCELLED (1). This function neither stops
 * handlers nor ends waits for handlers.
 *   canceller  the canceller.
 *   Returns    NULL, or a status that the caller destroys.
 *   Threads    any, even while another thread runs the call. */
xffi_rt_status* xffi_rt_canceller_cancel(const xffi_rt_canceller* canceller);

/* Releases a canceller. Calls that have the canceller stay valid.
 *   canceller  may be NULL; invalid after this call.
 *   Threads    any, while no other thread uses the canceller. */
void xffi_rt_canceller_destroy(xffi_rt_canceller* canceller);

/* Sets the canceller of a call.
 *   call       the call; affects all later runs.
 *   canceller  the canceller, shared with the call; NULL for none.
 *   Returns    NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads    one at a time per call. */
xffi_rt_status* xffi_rt_call_set_canceller(xffi_rt_call* call, const xffi_rt_canceller* canceller);

/* Sets whether runs detect result elements that the handler leaves unwritten. If so, the results are filled with random
 * bytes before each run. If eight or more consecutive bytes are unchanged after a success, the status is a hazard with
 * the code XLA_FFI_Error_Code_INTERNAL, and names the result and the elements. Shorter gaps are not detected. A result
 * of four to seven bytes is only detected if no byte was written. Shorter results, and results that share memory with
 * other operands, are not checked. Each run waits for the call's stream, before and after the handler.
 *   call     the call; affects all later runs.
 *   check    0: no detection (default); other values: detection.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_check_unwritten(xffi_rt_call* call, int check);

/* Runs the execute stage, and before the first run also prepare and initialize, and waits until the stage is complete.
 * May be repeated, unless the call is open or a wait for the previous run is missing.
 *   call     the call; from now on, only the handler may use the operands' data (see "Data" in this header's
 *            conventions).
 *   Returns  NULL, or a status that the caller destroys: the handler's error, or DEADLINE_EXCEEDED (4) at the time
 *            limit, with the call still open. After any other error, the call is open if the handler also left a
 *            future: check xffi_rt_call_is_open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_run(xffi_rt_call* call);

/* Starts a run like xffi_rt_call_run, without waiting: if the handler is not done, the call is open.
 *   call     the call; from now on, only the handler may use the operands' data (see "Data" in this header's
 *            conventions).
 *   Returns  NULL, or a status that the caller destroys: the handler's immediate error. As for xffi_rt_call_run, the
 *            call may be open after an error.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_start(xffi_rt_call* call);

/* Starts a run like xffi_rt_call_start, with a callback at the end of the run, for event loops. After the callback,
 * xffi_rt_call_wait(call, 0) returns the outcome, on any thread.
 *   call      the call; from now on, only the handler may use the operands' data (see "Data" in this header's
 *             conventions).
 *   callback  called once if this function succeeds, when the handler is done or at the time limit (60 s by default).
 *             May be called on any thread, and within this function. Must neither throw nor use the call.
 *   user      the argument of the callback; may be NULL. Must stay valid until the callback.
 *   Returns   NULL, or a status that the caller destroys: the handler's immediate error.
 *   Threads   one at a time per call. */
xffi_rt_status* xffi_rt_call_run_async(xffi_rt_call* call, void (*callback)(void* user), void* user);

/* Copies a call, for use on a different thread. The copy shares state and user data with the call. The operands have
 * the same shapes and, until replaced, the same data. Stages before execute run again.
 *   call     the call, open or not.
 *   out      the copy, which the caller destroys with xffi_rt_call_destroy.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_clone(const xffi_rt_call* call, xffi_rt_call** out);

/* Waits for a call that was open when xffi_rt_call_run returned.
 *   call          the call, open or not.
 *   milliseconds  the time limit; negative: none; 0: does not wait.
 *   Returns       the status that xffi_rt_call_run would have returned, or DEADLINE_EXCEEDED (4) while the call is
 *                 still open; NULL if there is nothing to wait for. The caller destroys the status.
 *   Threads       one at a time per call. */
xffi_rt_status* xffi_rt_call_wait(xffi_rt_call* call, int64_t milliseconds);

/* Returns 1 if the call is open: the data of its operands then belong to the call.
 *   call     may be NULL.
 *   Returns  1 or 0; 0 for NULL.
 *   Threads  one at a time per call. */
int xffi_rt_call_is_open(const xffi_rt_call* call);

/* Requests a callback when the call is no longer open, even if the open call is destroyed. After the callback, only
 * work that the handler put on a stream may still use the operands' data. If an open call is destroyed, scratch memory
 * from the program's allocator is freed later, before xffi_rt_wait_for_calls or xffi_rt_shutdown returns. A call can
 * have several callbacks.
 *   call      the call, open or not.
 *   callback  called once, on the thread that ends the call, or within this function if the call is not open. The
 *             callback may free the data, but must neither throw nor use the call, which a different thread may use.
 *   user      the argument of the callback; may be NULL. Must stay valid until the callback.
 *   Returns   NULL, or a status that the caller destroys.
 *   Threads   one at a time per call. */
xffi_rt_status* xffi_rt_call_on_end(xffi_rt_call* call, void (*callback)(void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_RUNTIME_H_ */
