/* The embedded runtime's own view of a call: stream, device allocator, threads, called computations, and errors that
 * carry objects. This header is for handlers that are statically linked with the runtime into one program or library.
 * In C++, xla/ffi/ffi.h wraps these functions. The conventions are those of runtime.h.
 *
 * The functions do not work with a real XLA, or with a runtime in a different image: a different program file or shared
 * library. A handler must call xffi_rt_refuse first, which detects both cases. Build handler, runtime and caller
 * together, with one toolchain, because they pass C++ objects to each other. */

#ifndef XLA_FFI_INVOCATION_H_
#define XLA_FFI_INVOCATION_H_

#include "xla_ffi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XFFI_RT_IMAGE: an address in the image that contains the source file, which the linker defines. */
#if defined(_WIN32)
extern const char __ImageBase;
#define XFFI_RT_IMAGE (&__ImageBase)
#else
/* Declares the linker's symbol under a different C name, because g++ declares the original name without C linkage for
 * static objects with destructors. */
#define XFFI_RT_TEXT_OF_(word) #word
#define XFFI_RT_SYMBOL_(prefix, name) XFFI_RT_TEXT_OF_(prefix) name
extern void* xffi_image_ __asm__(XFFI_RT_SYMBOL_(__USER_LABEL_PREFIX__, "__dso_handle"))
    __attribute__((visibility("hidden")));
#define XFFI_RT_IMAGE (&xffi_image_)
#endif

/* The view of a call, for its handler; valid until the handler returns. */
typedef struct xffi_rt_invocation xffi_rt_invocation;
/* A stream of a device of the runtime. */
typedef struct xffi_rt_device_stream xffi_rt_device_stream;
/* An allocator of device memory of the runtime. */
typedef struct xffi_rt_allocator xffi_rt_allocator;

/* --- the guard --------------------------------------------------------------------------------- */

/* Tests whether a handler may use the functions below in a call.
 *   api      the function table in the call frame; NULL if a metadata query has none.
 *   image    XFFI_RT_IMAGE, evaluated in the handler's source file.
 *   Returns  NULL if the host is a runtime in the handler's image; otherwise a text with the reason, which is valid
 *            until the program ends. The handler must then return FAILED_PRECONDITION (9), also for a metadata query,
 *            so that it is not registered.
 *   Threads  any. */
const char* xffi_rt_refuse(const XLA_FFI_Api* api, const void* image);

/* Gets the view of a call.
 *   api      the function table in the call frame.
 *   ctx      the context in the call frame.
 *   image    XFFI_RT_IMAGE, evaluated in the handler's source file.
 *   out      the view; owned by the runtime, valid until the handler returns.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION if xffi_rt_refuse refuses the call, or
 *            after the handler has returned.
 *   Threads  any. */
xffi_rt_status* xffi_rt_invocation_of(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                      const void* image, const xffi_rt_invocation** out);

/* --- the execution context --------------------------------------------------------------------- */

/* Returns the runtime that makes the call.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     a handle that the caller destroys with xffi_rt_destroy; NULL for NULL.
 *   Threads     any. */
xffi_rt* xffi_rt_invocation_runtime(const xffi_rt_invocation* invocation);

/* Returns the stage of the call.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     the stage; XLA_FFI_ExecutionStage_EXECUTE for NULL.
 *   Threads     any. */
XLA_FFI_ExecutionStage xffi_rt_invocation_stage(const xffi_rt_invocation* invocation);

/* Returns the run id of the execution.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     the run id; 0 for NULL.
 *   Threads     any. */
int64_t xffi_rt_invocation_run_id(const xffi_rt_invocation* invocation);

/* Returns the ordinal of the device.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     the ordinal; 0 for NULL.
 *   Threads     any. */
int32_t xffi_rt_invocation_device_ordinal(const xffi_rt_invocation* invocation);

/* Returns the call's stream.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     a stream, which may outlive the call and which the caller destroys with
 *               xffi_rt_device_stream_destroy; NULL if the call has no stream, for example on the CPU.
 *   Threads     any. */
xffi_rt_device_stream* xffi_rt_invocation_stream(const xffi_rt_invocation* invocation);

/* Releases a stream. Queued work still runs.
 *   stream   may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_device_stream_destroy(xffi_rt_device_stream* stream);

/* Returns the platform's handle of a stream, for example a CUstream.
 *   stream   may be NULL.
 *   Returns  the handle, owned by the stream and valid as long as the stream; NULL for a NULL stream.
 *   Threads  any. */
void* xffi_rt_device_stream_handle(const xffi_rt_device_stream* stream);

/* Enqueues a host function that runs after all previous work on the stream.
 *   stream   the stream.
 *   task     called once, on a thread of the stream; it must not throw.
 *   data     passed to the task; may be NULL. It must stay valid until the task has run.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION if the runtime only knows the stream's
 *            platform handle, or in a fork of the process that created a CPU stream.
 *   Threads  any. */
xffi_rt_status* xffi_rt_device_stream_enqueue(const xffi_rt_device_stream* stream,
                                              XLA_FFI_Task* task, void* data);

/* Waits until all work on the stream has run. If the runtime only knows the stream's platform handle, the function
 * returns at once, and the owner of the stream must wait.
 *   stream   the stream.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION on the stream's own thread.
 *   Threads  any. */
xffi_rt_status* xffi_rt_device_stream_synchronize(const xffi_rt_device_stream* stream);

/* Returns the allocator of device memory. Allocations are never freed automatically.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     an allocator, which may outlive the call and which the caller destroys with
 *               xffi_rt_allocator_destroy; NULL if the call has no allocator.
 *   Threads     any. */
xffi_rt_allocator* xffi_rt_invocation_allocator(const xffi_rt_invocation* invocation);

/* Releases an allocator. Its allocations stay valid.
 *   allocator  may be NULL; invalid after this call.
 *   Threads    any, while no other thread uses the handle. */
void xffi_rt_allocator_destroy(xffi_rt_allocator* allocator);

/* Allocates device memory.
 *   allocator  the allocator.
 *   size       the size in bytes, not 0.
 *   alignment  a power of two.
 *   out        the memory, which the caller frees with xffi_rt_allocator_free of the same allocator.
 *   Returns    NULL, or a status that the caller destroys: RESOURCE_EXHAUSTED if there is not enough memory,
 *              INVALID_ARGUMENT for any other size or alignment, INTERNAL if the program's allocator returns memory
 *              that is not aligned.
 *   Threads    any. */
xffi_rt_status* xffi_rt_allocator_allocate(const xffi_rt_allocator* allocator, size_t size,
                                           size_t alignment, void** out);

/* Frees device memory immediately. First, wait for all streams that use the memory.
 *   allocator  the allocator of the memory; may be NULL.
 *   data       the memory; may be NULL.
 *   size       the size that was requested.
 *   Threads    any. */
void xffi_rt_allocator_free(const xffi_rt_allocator* allocator, void* data, size_t size);

/* Gets the number of threads in the thread pool.
 *   invocation  the view of the current call.
 *   out         the number.
 *   Returns     NULL, or a status that the caller destroys: UNIMPLEMENTED if the call has no pool.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_num_threads(const xffi_rt_invocation* invocation, size_t* out);

/* Runs a task on the thread pool.
 *   invocation  the view of the current call.
 *   task        called once, on another thread; it must not throw.
 *   data        passed to the task; may be NULL. It must stay valid until the task has run.
 *   Returns     NULL, or a status that the caller destroys: UNIMPLEMENTED if the call has no pool.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_spawn(const xffi_rt_invocation* invocation, XLA_FFI_Task* task,
                                         void* data);

/* --- called computations ----------------------------------------------------------------------- */

/* Attaches an object to a call's runs, for handlers that look for an object of its type.
 *   call     the call; all later runs have the object.
 *   type     identifies the object's type: an address that is unique to one type in this program.
 *   object   the object, usable from any thread. Without a deleter, the caller owns the object, which must outlive all
 *            calls that have it. With a deleter, the call owns the object as soon as this function succeeds.
 *   deleter  called once with the object, on any thread, when no call has the object any more; NULL for none.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time per call. */
xffi_rt_status* xffi_rt_call_set_called_computation(xffi_rt_call* call, const void* type,
                                                    void* object, void (*deleter)(void* object));

/* Returns the object that the caller attached to the call.
 *   invocation  the view of the current call; may be NULL.
 *   type        the type identifier that was attached with the object.
 *   Returns     the object, owned by the caller; NULL if the call has no object, or an object of a different type.
 *   Threads     any. */
const void* xffi_rt_invocation_called(const xffi_rt_invocation* invocation, const void* type);

/* Returns the number of computations that a program's custom call calls.
 *   invocation  the view of the current call; may be NULL.
 *   Returns     the number; 0 for NULL, and if the call is not part of a program.
 *   Threads     any. */
size_t xffi_rt_invocation_called_count(const xffi_rt_invocation* invocation);

/* Gets a computation that a program's custom call calls.
 *   invocation  the view of the current call.
 *   index       the index, from 0.
 *   out         the program, which may outlive the call and which the caller destroys with xffi_rt_program_destroy.
 *   Returns     NULL, or a status that the caller destroys: OUT_OF_RANGE if there is no such computation.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_called_program(const xffi_rt_invocation* invocation,
                                                  size_t index, xffi_rt_program** out);

/* Gets the literal of a program's custom call.
 *   invocation  the view of the current call.
 *   out         the array, owned by the program and valid until the handler returns.
 *   Returns     NULL, or a status that the caller destroys: NOT_FOUND if the call has no literal.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_literal(const xffi_rt_invocation* invocation,
                                           xffi_rt_array* out);

/* --- errors ------------------------------------------------------------------------------------ */

/* Creates an error that carries an object to the program that made the call. The program reads the object with
 * xffi_rt_status_object.
 *   code     the error code; OK becomes INTERNAL, and codes that absl does not know become UNKNOWN.
 *   message  the error's text; copied; need not end with a NUL. May be NULL if `size` is 0.
 *   size     the size of the message in bytes.
 *   causes   the texts of the error's causes, nearest first, for xffi_rt_status_cause; copied. May be NULL if
 *            `cause_count` is 0.
 *   cause_count  the number of causes.
 *   type     identifies the object's type: an address that is unique to one type in this program.
 *   object   the object, usable from any thread and owned by the error from now on; NULL for none.
 *   deleter  called once with the object, on any thread, when the error is destroyed; NULL for none.
 *   Returns  the error, which a handler may return to any host that xffi_rt_refuse accepts.
 *   Threads  any. */
XLA_FFI_Error* xffi_rt_raise(XLA_FFI_Error_Code code, const char* message, size_t size,
                             const char* const* causes, size_t cause_count, const void* type,
                             void* object, void (*deleter)(void* object));

/* Returns the object that an error carries.
 *   status   may be NULL.
 *   type     the type identifier that was passed to xffi_rt_raise with the object.
 *   Returns  the object, owned by the status and valid as long as the status; NULL if the error has no object, or an
 *            object of a different type.
 *   Threads  any. */
const void* xffi_rt_status_object(const xffi_rt_status* status, const void* type);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_INVOCATION_H_ */
