/* A real XLA for C and C++ programs, without Python: a PJRT plugin compiles and runs programs that call the
 * handlers of any library. Conventions are those of runtime.h; link the same library.
 *
 *   xffi_rt_client* client;
 *   xffi_rt_status* status = xffi_rt_client_open("xla_cpu_pjrt.so", &client);
 *
 * What program.h builds runs here by one field: `options.client = client` for xffi_rt_compile. StableHLO of any
 * other origin is compiled by xffi_rt_client_compile.
 *
 * Names are registered with the copy of XLA in the plugin: for all its clients, until the program ends. */

#ifndef XLA_FFI_PJRT_H_
#define XLA_FFI_PJRT_H_

#include "xla_ffi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plugin has compiled. */
typedef struct xffi_rt_loaded xffi_rt_loaded;
/* The arrays that an execution gave. */
typedef struct xffi_rt_results xffi_rt_results;

/* --- plugins ----------------------------------------------------------------------------------- */

/* Loads a plugin and makes a client of it, whose first device programs run on. The
 * plugin stays loaded until the program ends.
 *   path     of the plugin's file, xla_cpu_pjrt.so of the wheel xla-cpu-pjrt for instance; copied.
 *   out      the client: the caller's, for xffi_rt_client_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a missing file, INVALID_ARGUMENT for one
 *            that is no library or no plugin, FAILED_PRECONDITION for a PJRT that
 *            is too old or a machine without the device, and what the plugin answers.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_open(const char* path, xffi_rt_client** out);

/* Gives a client back. What was compiled with it keeps what it needs of it.
 *   client   no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_client_destroy(xffi_rt_client* client);

/* The platform, as handlers are registered for it.
 *   client   NULL is fine.
 *   Returns  "cpu" or "cuda" for instance, "" for NULL; it belongs to the client and lives as long.
 *   Threads  any. */
const char* xffi_rt_client_platform(const xffi_rt_client* client);

/* The version of PJRT that the plugin speaks.
 *   client   of the caller's.
 *   major    out: the first number.
 *   minor    out: the second number.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_version(const xffi_rt_client* client, int* major, int* minor);

/* --- registration ------------------------------------------------------------------------------ */

/* Registers functions of this program as a handler, all stages that there are. Equal registrations are fine.
 *   client   in whose plugin programs name the handler from now on.
 *   name     copied.
 *   bundle   one function a stage, NULL for stages that there are not; execute is required. Copied; the
 *            functions stay loaded.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND without an execute stage, and what XLA
 *            refuses, with its version.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register(const xffi_rt_client* client, const char* name,
                                        const XLA_FFI_Handler_Bundle* bundle);

/* Registers all handlers of a library that are for this platform, under their own names: by its own xla_ffi_register, as
 * Rust's have it, or else those that it describes (XFFI_LIBRARY, XLA_FFI_LIBRARY).
 *   client   in whose plugin programs name the handlers from now on.
 *   library  built with this SDK; its file is still there.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND for a library that has neither, or no handler for
 *            this platform, and what is refused, one line for each handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register_library(const xffi_rt_client* client,
                                                const xffi_rt_library* library);

/* The number of a user type in the plugin's copy of XLA, for xffi_rt_object: the one that a library has registered
 * it with, or a new one, which libraries take over. Of a type of a library's ask when its handlers are registered.
 *   client   of the caller's.
 *   name     of the type; copied.
 *   out      the number.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_type_id(const xffi_rt_client* client, const char* name,
                                       int64_t* out);

/* --- execution --------------------------------------------------------------------------------- */

/* Compiles a program for one device; instantiate stages run here.
 *   client   of the caller's.
 *   code     StableHLO, as text or as byte code; copied. HLO text is read by xffi_rt_program_parse.
 *   size     its bytes, without a NUL.
 *   out      what can be run: the caller's, for xffi_rt_loaded_destroy.
 *   Returns  NULL, or a status that the caller destroys: what the compiler says, and what the instantiate
 *            stages answer.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_compile(const xffi_rt_client* client, const char* code, size_t size,
                                       xffi_rt_loaded** out);

/* Destroys what was compiled.
 *   loaded   no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses it. */
void xffi_rt_loaded_destroy(xffi_rt_loaded* loaded);

/* How many arrays an execution gives, all tuples taken apart.
 *   loaded   NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_loaded_ret_count(const xffi_rt_loaded* loaded);

/* An object of the program's for handlers. */
typedef struct xffi_rt_object {
  /* The number of its type in the plugin's XLA: xffi_rt_client_type_id. */
  int64_t type_id;
  /* Of that type, usable from any thread; the caller's, until the execution is over, also one that goes on past its
   * time limit. */
  const void* object;
} xffi_rt_object;

/* How a program runs. What is zero is left away. */
typedef struct xffi_rt_launch_options {
  size_t struct_size;
  /* What handlers see as the run id; 0: XLA chooses. */
  int32_t run_id;
  /* How long to wait for the end; 0: for ever. With a limit the execution runs on a thread of its own, which goes
   * on by itself past it. */
  int64_t milliseconds;
  /* User data; may be NULL when there is none. */
  const xffi_rt_object* objects;
  size_t object_count;
} xffi_rt_launch_options;
#define XFFI_RT_LAUNCH_OPTIONS_INIT {sizeof(xffi_rt_launch_options), 0, 0, NULL, 0}
/* An earlier header that leaves `#pragma pack` open, or -fpack-struct (/Zp), changes all layouts. */
typedef char xffi_rt_launch_options_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_launch_options) == 40 ? 1 : -1];

/* Copies arrays to the device, runs the program on them, and copies the results back.
 *   loaded     stays as it is.
 *   args       the arguments, only read, until this returns. May be NULL when there are none.
 *   arg_count  how many.
 *   options    begun with XFFI_RT_LAUNCH_OPTIONS_INIT; NULL for the defaults.
 *   out        the results: the caller's, for xffi_rt_results_destroy.
 *   Returns    NULL, or a status that the caller destroys: what a handler answers, with its code; what XLA says of
 *              arguments of another number or shape; UNIMPLEMENTED for element types that PJRT does not have;
 *              DEADLINE_EXCEEDED (4) when time is up.
 *   Threads    any, several at once. */
xffi_rt_status* xffi_rt_loaded_run(const xffi_rt_loaded* loaded, const xffi_rt_array* args,
                                   size_t arg_count, const xffi_rt_launch_options* options,
                                   xffi_rt_results** out);

/* How many arrays there are.
 *   results  NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_results_count(const xffi_rt_results* results);

/* One of the arrays.
 *   results  of the caller's.
 *   index    from 0.
 *   out      the array, whose dimensions and data belong to the results and live as long.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for an array that does not exist.
 *   Threads  any. */
xffi_rt_status* xffi_rt_results_get(const xffi_rt_results* results, size_t index,
                                    xffi_rt_array* out);

/* Destroys results.
 *   results  no longer the caller's; NULL is fine.
 *   Threads  any, while no other thread uses them. */
void xffi_rt_results_destroy(xffi_rt_results* results);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_PJRT_H_ */
