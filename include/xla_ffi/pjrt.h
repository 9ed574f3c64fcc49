/* A real XLA for C and C++ programs, without Python: a PJRT plugin compiles and runs programs that call the
 * handlers of any library. The conventions are those of runtime.h; link the same library.
 *
 *   xffi_rt_client* client;
 *   xffi_rt_status* status = xffi_rt_client_open("xla_cpu_pjrt.so", &client);
 *
 * To run programs of program.h here, set `options.client = client` for xffi_rt_compile. For StableHLO of any other
 * origin, use xffi_rt_client_compile.
 *
 * Names are registered with the copy of XLA in the plugin: for all its clients, until the program ends. */

#ifndef XLA_FFI_PJRT_H_
#define XLA_FFI_PJRT_H_

#include "xla_ffi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that a plugin has compiled. */
typedef struct xffi_rt_loaded xffi_rt_loaded;
/* The arrays that an execution returned. */
typedef struct xffi_rt_results xffi_rt_results;

/* --- plugins ----------------------------------------------------------------------------------- */

/* Loads a plugin and creates a client. Programs run on its first device. The plugin stays loaded until the program
 * ends.
 *   path     of the plugin's file, for example xla_cpu_pjrt.so of the wheel xla-cpu-pjrt; copied.
 *   out      the client, which the caller destroys with xffi_rt_client_destroy.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the file is missing, INVALID_ARGUMENT if it is
 *            not a library or not a plugin, FAILED_PRECONDITION if its PJRT is too old or the machine lacks the
 *            device, and errors from the plugin.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_open(const char* path, xffi_rt_client** out);

/* Releases a client. Programs compiled with it keep what they need of it.
 *   client   no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses the handle. */
void xffi_rt_client_destroy(xffi_rt_client* client);

/* Returns the platform's name, as used for registering handlers.
 *   client   NULL is fine.
 *   Returns  for example "cpu" or "cuda", "" for NULL; owned by the client and valid as long as the client.
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

/* Registers functions of this program as a handler, with all its stages. Repeating a registration is fine.
 *   client   the client in whose plugin programs can name the handler from now on.
 *   name     copied.
 *   bundle   one function per stage, NULL for missing stages; execute is required. Copied; the functions must stay
 *            loaded.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND without an execute stage, and errors from XLA,
 *            with its version.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register(const xffi_rt_client* client, const char* name,
                                        const XLA_FFI_Handler_Bundle* bundle);

/* Registers all handlers of a library for this platform, under their own names. This function calls the library's
 * xla_ffi_register if it exports one, as Rust libraries do. Otherwise, it reads the manifest (XFFI_LIBRARY,
 * XLA_FFI_LIBRARY).
 *   client   the client in whose plugin programs can name the handlers from now on.
 *   library  a library built with this SDK, whose file still exists.
 *   Returns  NULL, or a status that the caller destroys: NOT_FOUND if the library has neither, or no handler for this
 *            platform, and refused registrations, one line per handler.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_register_library(const xffi_rt_client* client,
                                                const xffi_rt_library* library);

/* Gets the number of a user type in the plugin's copy of XLA, for xffi_rt_object. A type that no library has registered
 * gets a new number, which libraries then use. For a type of a library, call this after registering its handlers.
 *   client   the client.
 *   name     of the type; copied.
 *   out      the number.
 *   Returns  NULL, or a status that the caller destroys.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_type_id(const xffi_rt_client* client, const char* name,
                                       int64_t* out);

/* --- execution --------------------------------------------------------------------------------- */

/* Compiles a program for one device; instantiate stages run here.
 *   client   the client.
 *   code     StableHLO, as text or byte code; copied. For HLO text, use xffi_rt_program_parse.
 *   size     in bytes, without a NUL.
 *   out      the compiled program, which the caller destroys with xffi_rt_loaded_destroy.
 *   Returns  NULL, or a status that the caller destroys: errors from the compiler and from instantiate stages.
 *   Threads  any. */
xffi_rt_status* xffi_rt_client_compile(const xffi_rt_client* client, const char* code, size_t size,
                                       xffi_rt_loaded** out);

/* Destroys a compiled program.
 *   loaded   no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses it. */
void xffi_rt_loaded_destroy(xffi_rt_loaded* loaded);

/* Returns the number of arrays that an execution returns, with all tuples flattened.
 *   loaded   NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_loaded_ret_count(const xffi_rt_loaded* loaded);

/* User data: an object of the program for handlers. */
typedef struct xffi_rt_object {
  /* The number of its type in the plugin's XLA, from xffi_rt_client_type_id. */
  int64_t type_id;
  /* An object of that type, usable from any thread and owned by the caller. It must outlive the execution, even one
   * that exceeds its time limit. */
  const void* object;
} xffi_rt_object;

/* The options of an execution. Fields that are 0 have no effect. */
typedef struct xffi_rt_launch_options {
  size_t struct_size;
  /* The run id that handlers see; 0: XLA chooses. */
  int32_t run_id;
  /* Time limit in milliseconds; 0: none. With a limit, the execution runs on its own thread, which continues after
   * the limit. */
  int64_t milliseconds;
  /* User data; may be NULL if there is none. */
  const xffi_rt_object* objects;
  size_t object_count;
} xffi_rt_launch_options;
#define XFFI_RT_LAUNCH_OPTIONS_INIT {sizeof(xffi_rt_launch_options), 0, 0, NULL, 0}
/* An earlier header that leaves `#pragma pack` open, or -fpack-struct (/Zp), changes all layouts. */
typedef char xffi_rt_launch_options_is_packed_by_an_open_pragma_pack_or_by_fpack_struct[sizeof(xffi_rt_launch_options) == 40 ? 1 : -1];

/* Copies arrays to the device, runs the program on them, and copies the results back.
 *   loaded     the compiled program; not changed.
 *   args       the arguments, only read, and only until this returns. May be NULL if there are none.
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

/* Returns the number of arrays.
 *   results  NULL is fine.
 *   Returns  the number; 0 for NULL.
 *   Threads  any. */
size_t xffi_rt_results_count(const xffi_rt_results* results);

/* Gets one of the arrays.
 *   results  the results.
 *   index    from 0.
 *   out      the array; its dimensions and data are owned by the results and valid as long as the results.
 *   Returns  NULL, or a status that the caller destroys: OUT_OF_RANGE for an array that does not exist.
 *   Threads  any. */
xffi_rt_status* xffi_rt_results_get(const xffi_rt_results* results, size_t index,
                                    xffi_rt_array* out);

/* Destroys results.
 *   results  no longer usable by the caller; NULL is fine.
 *   Threads  any, while no other thread uses them. */
void xffi_rt_results_destroy(xffi_rt_results* results);

#ifdef __cplusplus
}
#endif

#endif /* XLA_FFI_PJRT_H_ */
