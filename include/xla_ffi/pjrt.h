/* Runs a real XLA in C and C++ programs, without Python: a PJRT plugin compiles and runs programs that call the
 * handlers of any library. The conventions are those of runtime.h. Link libxla_ffi_runtime.
 *
 *   xffi_rt_client* client;
 *   xffi_rt_status* status = xffi_rt_client_open("xla_cpu_pjrt.so", &client);
 *
 * To run a program of program.h on the plugin, set `options.client = client` for xffi_rt_compile. To compile StableHLO
 * from other sources, use xffi_rt_client_compile.
 *
 * Handlers are registered with the copy of XLA in the plugin, for all clients of the plugin, until the program ends. */

#ifndef XLA_FFI_PJRT_H_
#define XLA_FFI_PJRT_H_

#include "xla_ffi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that a PJRT plugin has compiled. */
typedef struct xffi_rt_loaded xffi_rt_loaded;
/* The result arrays of one execution. */
typedef struct xffi_rt_results xffi_rt_results;

/* --- plugins ----------------------------------------------------------------------------------- */

/* Loads a PJRT plugin and creates a client, whose programs run on the plugin's first device. The plugin stays loaded
 * until the process ends.
 *   path     the path of the plugin's file, for example xla_cpu_pjrt.so of the wheel xla-cpu-pjrt; copied.
 *   out      the client, which the caller destroys with xffi_rt_client_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the file is missing, INVALID_ARGUMENT if it is
 *            not a library or not a plugin, FAILED_PRECONDITION if its PJRT is too old or the machine lacks the
 *            device, and errors from the plugin.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_open(const char* path, xffi_rt_client** out);

/* Releases a client. Programs that were compiled with the client stay valid.
 *   client   may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_client_destroy(xffi_rt_client* client);

/* Returns the platform's name, as used for registering handlers.
 *   client   may be NULL.
 *   Returns  for example "cpu" or "cuda"; "" for NULL; owned by the client and valid as long as the client.
 *   Threads  any. */
const char* xffi_rt_client_platform(const xffi_rt_client* client);

/* Gets the version of PJRT that the plugin implements.
 *   client   the client.
 *   major    out: the major version.
 *   minor    out: the minor version.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_version(const xffi_rt_client* client, int* major, int* minor);

/* --- registration ------------------------------------------------------------------------------ */

/* Registers functions of this program as the stages of a handler. A registration may be repeated.
 *   client   a client of the plugin; its programs can call the handler from now on.
 *   name     the handler's name; copied.
 *   bundle   one function per stage, NULL for missing stages; execute is required. Copied; the functions must stay
 *            loaded.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND without an execute stage, and errors from XLA,
 *            with its version.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register(const xffi_rt_client* client, const char* name,
                                        const XLA_FFI_Handler_Bundle* bundle);

/* Registers all handlers of a library for the client's platform, under the names that the library defines. If the
 * library exports xla_ffi_register, as Rust libraries do, calls that function. Otherwise, reads the library's manifest
 * (XFFI_LIBRARY, XLA_FFI_LIBRARY).
 *   client   a client of the plugin; its programs can call the handlers from now on.
 *   library  a library built with this SDK, whose file still exists.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the library has neither that function nor a
 *            manifest, or no handler for this platform; errors of refused registrations, one line per handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register_library(const xffi_rt_client* client,
                                                const xffi_rt_library* library);

/* Gets the id of a type of user data in the plugin's copy of XLA, for xffi_rt_object. If no library has registered the
 * type, registers it, and libraries then use the new id. For a type that a library defines, call this function after
 * registering the library's handlers.
 *   client   the client.
 *   name     the name of the type; copied.
 *   out      the id.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_type_id(const xffi_rt_client* client, const char* name,
                                       int64_t* out);

/* --- execution --------------------------------------------------------------------------------- */

/* Compiles a program for one device, and runs the instantiate stages of its handlers.
 *   client   the client.
 *   code     StableHLO, as text or byte code; copied. For HLO text, use xffi_rt_program_parse.
 *   size     the size in bytes, without a NUL.
 *   out      the compiled program, which the caller destroys with xffi_rt_loaded_destroy.
 *   Returns  NULL, or a status that the caller destroys: errors from the compiler and from instantiate stages.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_compile(const xffi_rt_client* client, const char* code, size_t size,
                                       xffi_rt_loaded** out);

/* Destroys a compiled program.
 *   loaded   may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the program. */
void xffi_rt_loaded_destroy(xffi_rt_loaded* loaded);

/* Returns the number of arrays that an execution returns, with all tuples flattened.
 *   loaded   may be NULL.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_loaded_ret_count(const xffi_rt_loaded* loaded);

/* User data: an object that the program attaches to an execution, for its handlers. */
typedef struct xffi_rt_object {
  /* The id of the object's type in the plugin's XLA, from xffi_rt_client_type_id. */
  int64_t type_id;
  /* The object, usable from any thread and owned by the caller. It must outlive the execution, even if the time limit
   * is exceeded. */
  const void* object;
} xffi_rt_object;

/* The options of one execution. Fields that are 0 have no effect. */
typedef struct xffi_rt_launch_options {
  size_t struct_size;
  /* The run id that handlers receive; 0: XLA chooses a run id. */
  int32_t run_id;
  /* The time limit in milliseconds; 0: none. With a limit, the execution runs on a separate thread, which continues
   * after the limit. */
  int64_t milliseconds;
  /* The user data of the execution; may be NULL if there is none. */
  const xffi_rt_object* objects;
  size_t object_count;
} xffi_rt_launch_options;
#define XFFI_RT_LAUNCH_OPTIONS_INIT {sizeof(xffi_rt_launch_options), 0, 0, NULL, 0}
/* A compile error here means that an open `#pragma pack` of an earlier header, or -fpack-struct (/Zp), changes the
 * layouts of structs. */
typedef char xffi_rt_launch_options_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_launch_options) == 40 ? 1 : -1];

/* Copies the arguments to the device, runs the program, and copies the results back.
 *   loaded     the compiled program; not changed.
 *   args       the arguments, which are read until this function returns. May be NULL if there are none.
 *   arg_count  number of arguments.
 *   options    initialised with XFFI_RT_LAUNCH_OPTIONS_INIT; NULL for the defaults.
 *   out        the results, which the caller destroys with xffi_rt_results_destroy.
 *   Returns    NULL, or a status that the caller destroys: errors from handlers, with their codes; XLA's error if the
 *              number or shape of arguments is wrong; UNIMPLEMENTED for element types that PJRT does not have;
 *              DEADLINE_EXCEEDED (4) after the time limit.
 *   Threads    any, several at once. */
xffi_rt_status* xffi_rt_loaded_run(const xffi_rt_loaded* loaded, const xffi_rt_array* args,
                                   size_t arg_count, const xffi_rt_launch_options* options,
                                   xffi_rt_results** out);

/* Returns the number of result arrays.
 *   results  may be NULL.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_results_count(const xffi_rt_results* results);

/* Gets a result array.
 *   results  the results.
 *   index    the index, from 0.
 *   out      the array; its dimensions and data are owned by the results and valid as long as the results.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for an array that does not exist.
 *   Threads  any. */
xffi_rt_status* xffi_rt_results_get(const xffi_rt_results* results, size_t index,
                                    xffi_rt_array* out);

/* Destroys the results of an execution.
 *   results  may be NULL; invalid after this call.
 *   Threads  any, while no other thread uses the results. */
void xffi_rt_results_destroy(xffi_rt_results* results);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_PJRT_H_ */
