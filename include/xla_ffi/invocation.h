/* The embedded runtime's own view of a call, for handlers that are linked with the runtime, statically, into one
 * program or library: its stream, device allocator, threads, called computation, and errors that arrive whole. In C++
 * xla/ffi/ffi.h binds them; this is what lies under it. Conventions are those of runtime.h.
 *
 * None of this reaches a real XLA, or a runtime in another image: xffi_rt_refuse says so, and nothing else of a call
 * is touched before it has said nothing. An image is a program's file or a shared library's: handler, runtime and
 * whoever makes the calls are built together, by one toolchain, or objects that they pass each other would not be
 * what they seem. */

#ifndef XLA_FFI_INVOCATION_H_
#define XLA_FFI_INVOCATION_H_

#include "xla_ffi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The image that a source file becomes a part of, as its linker says. */
#if defined(_WIN32)
extern const char __ImageBase;
#define XFFI_RT_IMAGE (&__ImageBase)
#else
/* Under a name of our own: g++ has declared the linker's, without C linkage, once it has seen a static with a destructor. */
#define XFFI_RT_TEXT_OF_(word) #word
#define XFFI_RT_SYMBOL_(prefix, name) XFFI_RT_TEXT_OF_(prefix) name
extern void* xffi_image_ __asm__(XFFI_RT_SYMBOL_(__USER_LABEL_PREFIX__, "__dso_handle"))
    __attribute__((visibility("hidden")));
#define XFFI_RT_IMAGE (&xffi_image_)
#endif

/* A call, for its handler, until that returns. */
typedef struct xffi_rt_invocation xffi_rt_invocation;
/* A device's stream as the runtime has it. */
typedef struct xffi_rt_device_stream xffi_rt_device_stream;
/* Where a device's memory comes from. */
typedef struct xffi_rt_allocator xffi_rt_allocator;

/* --- the guard --------------------------------------------------------------------------------- */

/* Whether the functions below may be used in a call.
 *   api      the table in the call frame; NULL where a host asks for metadata without one.
 *   image    XFFI_RT_IMAGE, in the handler's own source.
 *   Returns  NULL where the host is a runtime of the image that the handler is in; otherwise why not, a text that stays
 *            until the program ends. The handler's answer is then FAILED_PRECONDITION (9), also to the question for
 *            metadata, so that it is not registered.
 *   Threads  any. */
const char* xffi_rt_refuse(const XLA_FFI_Api* api, const void* image);

/* The view of a call.
 *   api      the table in the call frame.
 *   ctx      the context in the call frame.
 *   image    XFFI_RT_IMAGE, in the handler's own source.
 *   out      the view, which is the runtime's and ends when the handler returns.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION for what xffi_rt_refuse refuses and
 *            after the handler has returned.
 *   Threads  any. */
xffi_rt_status* xffi_rt_invocation_of(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                      const void* image, const xffi_rt_invocation** out);

/* --- the execution context --------------------------------------------------------------------- */

/* The runtime that makes the call.
 *   invocation  of the current call; NULL is fine.
 *   Returns     a handle: the caller's, for xffi_rt_destroy; NULL for NULL.
 *   Threads     any. */
xffi_rt* xffi_rt_invocation_runtime(const xffi_rt_invocation* invocation);

/* The stage.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the stage; XLA_FFI_ExecutionStage_EXECUTE for NULL.
 *   Threads     any. */
XLA_FFI_ExecutionStage xffi_rt_invocation_stage(const xffi_rt_invocation* invocation);

/* The number of the execution.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the number; 0 for NULL.
 *   Threads     any. */
int64_t xffi_rt_invocation_run_id(const xffi_rt_invocation* invocation);

/* The number of the device.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the number; 0 for NULL.
 *   Threads     any. */
int32_t xffi_rt_invocation_device_ordinal(const xffi_rt_invocation* invocation);

/* The stream object.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the stream: the caller's, for xffi_rt_device_stream_destroy, also after the call; NULL where there
 *               is none, on the CPU for instance.
 *   Threads     any. */
xffi_rt_device_stream* xffi_rt_invocation_stream(const xffi_rt_invocation* invocation);

/* Gives a stream back. What is queued still runs.
 *   stream   no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_device_stream_destroy(xffi_rt_device_stream* stream);

/* What the platform's own functions take, a CUstream for instance.
 *   stream   NULL is fine.
 *   Returns  the platform's handle, NULL for NULL; it is the stream's and valid as long.
 *   Threads  any. */
void* xffi_rt_device_stream_handle(const xffi_rt_device_stream* stream);

/* Puts work of the host's behind everything that is on the stream.
 *   stream   of the caller's.
 *   task     called once, on a thread of the stream's; it must not throw.
 *   data     what the task gets; may be NULL. It has to live until then.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION for a stream of which the runtime knows
 *            the platform's handle alone, and in a fork of the process that made a CPU stream.
 *   Threads  any. */
xffi_rt_status* xffi_rt_device_stream_enqueue(const xffi_rt_device_stream* stream,
                                              XLA_FFI_Task* task, void* data);

/* Waits until everything on the stream has run; at once for a stream of which the runtime knows the platform's
 * handle alone, whose owner waits.
 *   stream   of the caller's.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION on the stream's own thread.
 *   Threads  any. */
xffi_rt_status* xffi_rt_device_stream_synchronize(const xffi_rt_device_stream* stream);

/* The allocator of device memory, of which nothing is freed by itself.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the allocator: the caller's, for xffi_rt_allocator_destroy, also after the call; NULL where the call
 *               has none.
 *   Threads     any. */
xffi_rt_allocator* xffi_rt_invocation_allocator(const xffi_rt_invocation* invocation);

/* Gives an allocator back; its memory stays.
 *   allocator  no longer the caller's; NULL is fine.
 *   Threads    any, while no other thread uses the handle. */
void xffi_rt_allocator_destroy(xffi_rt_allocator* allocator);

/* Allocates device memory.
 *   allocator  of the caller's.
 *   size       bytes, not 0.
 *   alignment  a power of two.
 *   out        the memory: the caller's, for xffi_rt_allocator_free of the same allocator.
 *   Returns    NULL, or a status that the caller destroys: RESOURCE_EXHAUSTED where there is none,
 *              INVALID_ARGUMENT for another size or alignment, INTERNAL where the program's allocator gives memory
 *              that lies elsewhere.
 *   Threads    any. */
xffi_rt_status* xffi_rt_allocator_allocate(const xffi_rt_allocator* allocator, size_t size,
                                           size_t alignment, void** out);

/* Frees device memory, at once: whoever works with it on a stream waits before.
 *   allocator  which gave it; NULL is fine.
 *   data       the memory; NULL is fine.
 *   size       as it was asked for.
 *   Threads    any. */
void xffi_rt_allocator_free(const xffi_rt_allocator* allocator, void* data, size_t size);

/* How many threads the thread pool has.
 *   invocation  of the current call.
 *   out         the number.
 *   Returns     NULL, or a status that the caller destroys: UNIMPLEMENTED where the call has no pool.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_num_threads(const xffi_rt_invocation* invocation, size_t* out);

/* Runs a task on the thread pool.
 *   invocation  of the current call.
 *   task        called once, on another thread; it must not throw.
 *   data        what the task gets; may be NULL. It has to live until then.
 *   Returns     NULL, or a status that the caller destroys: UNIMPLEMENTED where the call has no pool.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_spawn(const xffi_rt_invocation* invocation, XLA_FFI_Task* task,
                                         void* data);

/* --- called computations ----------------------------------------------------------------------- */

/* Passes an object along with a call's runs, for handlers that look for one of its type.
 *   call     whose next run it is for, and those behind.
 *   type     what says what the object is: an address that stands for one type in this program.
 *   object   usable from any thread. Without a deleter it is the caller's, and outlives all calls that have it;
 *            otherwise it is the call's from here on if this succeeds.
 *   deleter  called once with the object when no call has it any more, on whatever thread that is; NULL for none.
 *   Returns  NULL, or a status that the caller destroys: FAILED_PRECONDITION while the call is open.
 *   Threads  one at a time for a call. */
xffi_rt_status* xffi_rt_call_set_called_computation(xffi_rt_call* call, const void* type,
                                                    void* object, void (*deleter)(void* object));

/* The object that the caller has passed along.
 *   invocation  of the current call; NULL is fine.
 *   type        as it was given with the object.
 *   Returns     the object, the caller's; NULL where there is none, or one of another type.
 *   Threads     any. */
const void* xffi_rt_invocation_called(const xffi_rt_invocation* invocation, const void* type);

/* How many computations a custom call of a program calls.
 *   invocation  of the current call; NULL is fine.
 *   Returns     the number; 0 for NULL and where no program makes the call.
 *   Threads     any. */
size_t xffi_rt_invocation_called_count(const xffi_rt_invocation* invocation);

/* A computation that a custom call of a program calls.
 *   invocation  of the current call.
 *   index       from 0.
 *   out         the program: the caller's, for xffi_rt_program_destroy, also after the call.
 *   Returns     NULL, or a status that the caller destroys: OUT_OF_RANGE for one that does not exist.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_called_program(const xffi_rt_invocation* invocation,
                                                  size_t index, xffi_rt_program** out);

/* The literal of a program's custom call.
 *   invocation  of the current call.
 *   out         the array, which is the program's and stays until the handler returns.
 *   Returns     NULL, or a status that the caller destroys: NOT_FOUND where there is none.
 *   Threads     any. */
xffi_rt_status* xffi_rt_invocation_literal(const xffi_rt_invocation* invocation,
                                           xffi_rt_array* out);

/* --- errors ------------------------------------------------------------------------------------ */

/* An error that carries an object to whoever gets it: the program that made the call, by xffi_rt_status_object.
 *   code     OK is INTERNAL here, and what absl does not know UNKNOWN.
 *   message  copied; need not end with a NUL. May be NULL when `size` is 0.
 *   size     of the message in bytes.
 *   causes   texts of what caused it, the nearest first, which xffi_rt_status_cause tells; copied. May be NULL when
 *            `cause_count` is 0.
 *   cause_count  how many.
 *   type     what says what the object is: an address that stands for one type in this program.
 *   object   usable from any thread, the error's from here on; NULL for none.
 *   deleter  called once with the object when the error is gone, on whatever thread that is; NULL for none.
 *   Returns  the error, which a handler returns to a host that xffi_rt_refuse does not refuse.
 *   Threads  any. */
XLA_FFI_Error* xffi_rt_raise(XLA_FFI_Error_Code code, const char* message, size_t size,
                             const char* const* causes, size_t cause_count, const void* type,
                             void* object, void (*deleter)(void* object));

/* The object that an error carries.
 *   status   NULL is fine.
 *   type     as it was given with the object.
 *   Returns  the object, which is the status's and lives as long; NULL where there is none, or one of another
 *            type.
 *   Threads  any. */
const void* xffi_rt_status_object(const xffi_rt_status* status, const void* type);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_INVOCATION_H_ */
