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
 *   Strings    NUL-terminated UTF-8; copied.
 *   Out        An out-parameter is written on success only.
 *   Data       The operands' data of a call belong to it while it is open. A call is open from
 *              xffi_rt_call_run until its handler is done: that is until xffi_rt_call_run or
 *              xffi_rt_call_wait returns anything but XLA_FFI_Error_Code_DEADLINE_EXCEEDED (4), or a
 *              callback of xffi_rt_call_on_end is called. After the time limit the handler goes on,
 *              and reads and writes them as before. Destroying an open call does not end it. */

#ifndef XLA_FFI_RUNTIME_H_
#define XLA_FFI_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

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

/* The newest revision that this library knows. */
#define XFFI_RT_NEWEST (-1)

/* --- status ------------------------------------------------------------------------------------ */

/* The absl code, XLA_FFI_Error_Code_OK for NULL. */
XLA_FFI_Error_Code xffi_rt_status_code(const xffi_rt_status* status);
/* The text, "" for NULL; lives as long as the status. */
const char* xffi_rt_status_message(const xffi_rt_status* status);
/* Whether a hazard was seen: what a real XLA would not have survived, or survived by luck. */
int xffi_rt_status_is_hazard(const xffi_rt_status* status);
/* NULL is fine. */
void xffi_rt_status_destroy(xffi_rt_status* status);

/* --- runtimes ---------------------------------------------------------------------------------- */

/* A runtime that behaves as the hosts of a revision, 0 to 10 or XFFI_RT_NEWEST. */
xffi_rt_status* xffi_rt_create(int revision, xffi_rt** out);
/* The runtime behind XLA_FFI_GetApi(), of the newest revision: what handlers that register
 * themselves at program start are registered with. Destroy it like any other; it lives on. */
xffi_rt* xffi_rt_global(void);
/* NULL is fine. Calls keep what they need of a runtime. */
void xffi_rt_destroy(xffi_rt* runtime);
/* The function table that handlers are given. */
const XLA_FFI_Api* xffi_rt_api(const xffi_rt* runtime);

/* Registers functions of this program, asked what they need as XLA asks. */
xffi_rt_status* xffi_rt_register(xffi_rt* runtime, const char* name, const char* platform,
                                 const XLA_FFI_Handler_Bundle* bundle, XLA_FFI_Handler_Traits traits);

/* What a legacy target is called as; the numbers of xla/service/custom_call_target_registry.h. */
#define XFFI_RT_LEGACY_UNKNOWN 0    /* as each call's API version says */
#define XFFI_RT_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_RT_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_RT_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_RT_LEGACY_GPU_STATUS 4 /* the same with a last XlaCustomCallStatus* */
#define XFFI_RT_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */
/* Registers a function of this program as a target of one of the original conventions. */
xffi_rt_status* xffi_rt_register_legacy(xffi_rt* runtime, const char* name, const char* platform,
                                        void* function, uint32_t signature);

/* --- libraries --------------------------------------------------------------------------------- */

/* Loads a library, in a child process first: a crash there is a status here. */
xffi_rt_status* xffi_rt_library_load(xffi_rt* runtime, const char* path, xffi_rt_library** out);
/* NULL is fine. */
void xffi_rt_library_destroy(xffi_rt_library* library);
/* Registers the handler that these symbols make up; stages that it has not are NULL. */
xffi_rt_status* xffi_rt_library_register(xffi_rt_library* library, const char* name,
                                         const char* platform, const char* execute,
                                         const char* instantiate, const char* prepare,
                                         const char* initialize);

/* --- streams ----------------------------------------------------------------------------------- */

/* A stream whose work runs on a thread of its own, in order: a device for tests. */
typedef struct xffi_rt_stream xffi_rt_stream;
xffi_rt_status* xffi_rt_stream_create(xffi_rt_stream** out);
/* NULL is fine. What is queued still runs. */
void xffi_rt_stream_destroy(xffi_rt_stream* stream);
/* What handlers get as the platform's stream; for xffi_rt_call_set_stream. */
void* xffi_rt_stream_handle(const xffi_rt_stream* stream);
/* Puts work on the stream with this handle, from inside a handler for instance. */
xffi_rt_status* xffi_rt_stream_enqueue(void* handle, XLA_FFI_Task* task, void* data);

/* --- calls ------------------------------------------------------------------------------------- */

/* Makes an executable of a registered handler and a call of it. `attributes` is an MLIR dictionary,
 * "{eps = 1.0e-5 : f32}", or NULL for none. The instantiate stage runs here. */
xffi_rt_status* xffi_rt_call_create(xffi_rt* runtime, const char* name, const char* platform,
                                    const char* attributes, xffi_rt_call** out);
/* NULL is fine. Safe while the call is open, in any order with runtime, library and stream: the
 * library keeps what is its own until the handler is done. The operands' data are the caller's, and
 * have to stay until then: ask to be told before (xffi_rt_call_on_end), or wait. */
void xffi_rt_call_destroy(xffi_rt_call* call);

/* Adds an argument or a result. `dims` may be NULL when `rank` is 0, `data` when there are no
 * elements. The caller keeps the data, and lets them alone while the call is open. */
xffi_rt_status* xffi_rt_call_arg(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);
xffi_rt_status* xffi_rt_call_ret(xffi_rt_call* call, XLA_FFI_DataType dtype, int64_t rank,
                                 const int64_t* dims, void* data);
/* Other data for operand `index`, of the same shape; cheap. For the next run: one that is open goes on
 * with the data that it has. */
xffi_rt_status* xffi_rt_call_set_arg_data(xffi_rt_call* call, size_t index, void* data);
xffi_rt_status* xffi_rt_call_set_ret_data(xffi_rt_call* call, size_t index, void* data);

/* The context; all before the first run. */
xffi_rt_status* xffi_rt_call_set_run_id(xffi_rt_call* call, int64_t run_id);
xffi_rt_status* xffi_rt_call_set_device_ordinal(xffi_rt_call* call, int32_t ordinal);
xffi_rt_status* xffi_rt_call_set_stream(xffi_rt_call* call, void* stream);
/* Milliseconds that xffi_rt_call_run waits for a future; negative: for ever. 60000 unless set. */
xffi_rt_status* xffi_rt_call_set_time_limit(xffi_rt_call* call, int64_t milliseconds);
/* Whether to look for what the handler leaves unwritten; off (0) unless set. Random bytes lie in the
 * results before each run then, and where eight of them or more in a row are still there after a
 * success, the status is XLA_FFI_Error_Code_INTERNAL and a hazard that names result and elements.
 * Shorter gaps are let pass, and results of less than eight bytes, but for those of four bytes or more
 * of which nothing was written. Results that share memory with another operand are not looked at. */
xffi_rt_status* xffi_rt_call_set_check_unwritten(xffi_rt_call* call, int check);

/* Runs the execute stage (prepare and initialize before the first time) and waits until it is
 * complete. May be called again, unless the call is open or has not been waited for.
 * XLA_FFI_Error_Code_DEADLINE_EXCEEDED (4): the time limit is over and the call is open, see "Data"
 * above. */
xffi_rt_status* xffi_rt_call_run(xffi_rt_call* call);
/* Waits for a call that was open when xffi_rt_call_run returned; negative: for ever, 0: not at all.
 * The status is what xffi_rt_call_run would have given; XLA_FFI_Error_Code_DEADLINE_EXCEEDED while the
 * call is still open. NULL where there is nothing to wait for. */
xffi_rt_status* xffi_rt_call_wait(xffi_rt_call* call, int64_t milliseconds);
/* Whether the operands' data belong to the call; 0 for NULL. */
int xffi_rt_call_is_open(const xffi_rt_call* call);
/* Calls `callback` with `user` once when the call is no longer open, whether it still exists or not:
 * on the thread that ends it, or here and now where it is not open. From then on the operands' data are
 * the caller's. The callback may free them; it must neither throw nor use the call, which another
 * thread may be using. More than one may be asked for. */
xffi_rt_status* xffi_rt_call_on_end(xffi_rt_call* call, void (*callback)(void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_RUNTIME_H_ */
