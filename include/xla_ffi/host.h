/* The host of a call: its revision, the functions in its function table, and the creation of errors. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>.
 *
 * The API version does not determine the length of the function table, because version 0.1 has six layouts. From
 * revision r5 (jaxlib 0.6.0) on, the table's `struct_size` is correct. Before r5, `struct_size` is always 88, and the
 * size is the distance from the table to the object at `internal_api`. Finding the size needs no call of the host.
 */
#ifndef XLA_FFI_HOST_H_
#define XLA_FFI_HOST_H_

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/facts.h"
#include "xla_ffi/text.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* The revisions of the ABI, oldest first: XFFI_R0 to XFFI_R10. <xla_ffi/facts.h> lists the jaxlib releases of each
 * revision, and docs/versions.md lists the changes. */
typedef enum xffi_revision {
#define XFFI_REVISION_(number, minor, first, releases) XFFI_R##number = number,
  XLA_FFI_SDK_REVISIONS(XFFI_REVISION_)
#undef XFFI_REVISION_
#define XFFI_REVISION_(number, minor, first, releases) +1
  XFFI_NEWEST_REVISION_ = XLA_FFI_SDK_REVISIONS(XFFI_REVISION_) - 1
#undef XFFI_REVISION_
} xffi_revision;

/* The newest revision whose layouts are used. Tests define an older revision, to emulate libraries that know only older
 * hosts. */
#ifndef XFFI_NEWEST_KNOWN_
#define XFFI_NEWEST_KNOWN_ XFFI_NEWEST_REVISION_
#endif

/* XFFI_SINCE_: the oldest revision with a feature of <xla_ffi/facts.h>. XFFI_FEATURE_: the feature's arguments for
 * xffi_missing_feature_. */
#define XFFI_SINCE_(feature) ((xffi_revision)XLA_FFI_SDK_SINCE_##feature)
#define XFFI_FEATURE_(feature) XLA_FFI_SDK_NAME_##feature, XFFI_SINCE_(feature)

/* Returns the version of the first jaxlib with a revision. */
XFFI_COLD_ const char* xffi_first_jaxlib_(xffi_revision revision) {
  static const char* const names[] = {
#define XFFI_REVISION_(number, minor, first, releases) first,
      XLA_FFI_SDK_REVISIONS(XFFI_REVISION_)
#undef XFFI_REVISION_
  };
  return names[(size_t)revision < sizeof(names) / sizeof(*names) ? revision : XFFI_NEWEST_REVISION_];
}

/* Returns the name of a revision and the jaxlib releases that use it. */
XFFI_COLD_ const char* xffi_releases_(xffi_revision revision) {
  static const char* const names[] = {
#define XFFI_REVISION_(number, minor, first, releases) releases,
      XLA_FFI_SDK_REVISIONS(XFFI_REVISION_)
#undef XFFI_REVISION_
  };
  return names[(size_t)revision < sizeof(names) / sizeof(*names) ? revision : XFFI_NEWEST_REVISION_];
}

/* Returns the minor API version of a revision; the major version is always 0. */
XFFI_INLINE_ int xffi_minor_of_(xffi_revision revision) {
  switch ((int)revision) {
#define XFFI_REVISION_(number, minor, first, releases) \
  case number:                                         \
    return minor;
    XLA_FFI_SDK_REVISIONS(XFFI_REVISION_)
#undef XFFI_REVISION_
    default:
      return XLA_FFI_API_MINOR;
  }
}

/* Returns the host's minor API version from its function table (0 to 5 so far), or 1000 if the major version is not 0.
 * `api` is not null. */
XFFI_INLINE_ int xffi_stated_minor_(const XLA_FFI_Api* api) {
  return api->api_version.major_version > 0 ? 1000 : api->api_version.minor_version;
}

/* Returns 1 if the host is newer than every revision that this header knows. */
XFFI_INLINE_ int xffi_is_newer_(const XLA_FFI_Api* api) {
  return xffi_stated_minor_(api) > xffi_minor_of_((xffi_revision)XFFI_NEWEST_KNOWN_);
}

/* Returns the host's minor API version, limited to the newest version that this header knows. */
XFFI_INLINE_ int xffi_host_minor_(const XLA_FFI_Api* api) {
  if (XFFI_NEWEST_KNOWN_ != XFFI_NEWEST_REVISION_ && xffi_is_newer_(api)) {
    return xffi_minor_of_((xffi_revision)XFFI_NEWEST_KNOWN_);
  }
  return xffi_stated_minor_(api);
}

/* Returns 1 if the host is older than r0. The function table of such a host is shorter, so only its size may be
 * read. */
XFFI_INLINE_ int xffi_is_before_r0_(const XLA_FFI_Api* api) {
  return api->struct_size < XLA_FFI_SDK_SIZE_R0;
}

/* Returns the address of an error function in the host's function table. `offset` is the function's offset from r0 on.
 * Before r0, offsets differ, and tables start with their size and have no version. Returns null if the layout is
 * unknown. */
XFFI_COLD_ const void* xffi_error_slot_(const XLA_FFI_Api* api, size_t offset) {
  if (xffi_is_before_r0_(api)) {
    if (api->struct_size != XLA_FFI_SDK_SIZE_BEFORE_R0 ||
        api->api_version.struct_size == XLA_FFI_Api_Version_STRUCT_SIZE) {
      return NULL;
    }
    offset -= offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) - XLA_FFI_SDK_HEAD_BEFORE_R0;
  }
  return (const char*)api + offset;
}

/* Sets `function` to one of the host's three error functions. Does nothing if the table's layout is unknown. */
#define XFFI_ERROR_FUNCTION_(api, name, function)                                   \
  do {                                                                              \
    const void* slot_ = xffi_error_slot_(api, offsetof(XLA_FFI_Api, name));          \
    if (slot_ != NULL) memcpy(&(function), slot_, sizeof(function));                \
  } while (0)

/* Returns the true size of the host's function table in bytes, up to the newest function that this header knows. */
XFFI_INLINE_ size_t xffi_host_size_(const XLA_FFI_Api* api) {
  uintptr_t gap;
  if (api->struct_size >= XLA_FFI_SDK_TABLE_R5 && XFFI_NEWEST_KNOWN_ >= XFFI_R5) {
    const size_t known = XFFI_NEWEST_KNOWN_ < XFFI_R9    ? XLA_FFI_SDK_TABLE_R5
                         : XFFI_NEWEST_KNOWN_ < XFFI_R10 ? XLA_FFI_SDK_TABLE_R9
                                                         : api->struct_size;
    return api->struct_size < known ? api->struct_size : known;
  }
  if (xffi_host_minor_(api) < XLA_FFI_SDK_MINOR_R1) return XLA_FFI_SDK_TABLE_R0;
  gap = (uintptr_t)api->internal_api - (uintptr_t)api;
  return (gap == XLA_FFI_SDK_TABLE_R2 && XFFI_NEWEST_KNOWN_ >= XFFI_R2) ||
                 (gap == XLA_FFI_SDK_TABLE_R3 && XFFI_NEWEST_KNOWN_ >= XFFI_R3) ||
                 (gap == XLA_FFI_SDK_TABLE_R4 && XFFI_NEWEST_KNOWN_ >= XFFI_R4)
             ? (size_t)gap
             : XLA_FFI_SDK_TABLE_R1;
}

/* Returns 1 if the host's table includes a function pointer at byte `offset` and the pointer is not null. */
XFFI_INLINE_ int xffi_host_has_(const XLA_FFI_Api* api, size_t offset) {
  void (*function)(void);
  if (offset + sizeof(function) > xffi_host_size_(api)) return 0;
  memcpy(&function, (const char*)api + offset, sizeof(function));
  return function != NULL;
}

/* Tests whether the host has a function. For the future functions, whose offsets differ in r2, use
 * xffi_future_slot_. */
#define XFFI_HOST_HAS_(api, function) xffi_host_has_((api), offsetof(XLA_FFI_Api, function))

/* Returns the revision of the host. */
XFFI_INLINE_ xffi_revision xffi_host_revision(const XLA_FFI_Api* api) {
  const int minor = xffi_host_minor_(api);
  size_t size;
  if (minor >= XLA_FFI_SDK_MINOR_R7) {
    /* From r8 on, each revision has a distinct API version. */
    xffi_revision newest = XFFI_R7;
#define XFFI_REVISION_(number, stated, first, releases) \
  if (number > XFFI_R7 && minor >= stated) newest = XFFI_R##number;
    XLA_FFI_SDK_REVISIONS(XFFI_REVISION_)
#undef XFFI_REVISION_
    return newest;
  }
  if (minor < XLA_FFI_SDK_MINOR_R1) return XFFI_R0;
  size = xffi_host_size_(api);
  return size >= XLA_FFI_SDK_TABLE_R5   ? XFFI_R5 /* or r6, which has the same table */
         : size == XLA_FFI_SDK_TABLE_R4 ? XFFI_R4
         : size == XLA_FFI_SDK_TABLE_R3 ? XFFI_R3
         : size == XLA_FFI_SDK_TABLE_R2 ? XFFI_R2
                                        : XFFI_R1;
}

/* Creates an error of the host with exactly this message. Returns null if the host has no such function. `OK` becomes
 * INTERNAL, and codes that absl does not define become UNKNOWN. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_create_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                           const char* text) {
  XLA_FFI_Error* (*create)(XLA_FFI_Error_Create_Args*) = NULL;
  XLA_FFI_Error_Create_Args args;
  if (api == NULL) return NULL;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text;
  args.errc = code == XLA_FFI_Error_Code_OK ? XLA_FFI_Error_Code_INTERNAL
              : (int)code < 0 || code > XLA_FFI_SDK_LAST_ERROR_CODE
                  ? XLA_FFI_Error_Code_UNKNOWN
                  : code;
  XFFI_ERROR_FUNCTION_(api, XLA_FFI_Error_Create, create);
  if (XFFI_LIKELY_(create != NULL)) return create(&args);
  fprintf(stderr, "xla-ffi: the host gave no means to report an error: %s\n", text); /* no other way to report */
  return NULL;
}

/* Creates an error whose message is `length` arbitrary bytes; bytes that cannot be shown are escaped. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_bytes_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                          const char* message, size_t length) {
  const size_t room = length * 4 + 1;
  char local[1024];
  char* text = room <= sizeof(local) ? local : (char*)malloc(room);
  XLA_FFI_Error* error;
  if (text == NULL) text = local; /* memory is exhausted, so the message is truncated */
  xffi_escape_(text, text == local ? sizeof(local) : room, message, length);
  error = xffi_error_create_(api, code, text);
  if (text != local) free(text);
  return error;
}

/* Creates an error whose message is a C string. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_new(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                        const char* message) {
  if (message == NULL) message = "(no message)";
  return xffi_error_bytes_(api, code, message, strlen(message));
}

XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_format_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                           const char* format, ...) XFFI_PRINTF_(3, 4);

/* Creates an error whose message starts with the handler's name `who` and the stage, unless `message` already starts
 * with the name. `who` may be null. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_from_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                                         const char* who, const char* stage, const char* message) {
  const size_t length = who != NULL ? strlen(who) : 0;
  if (message == NULL) message = "(no message)";
  if (length == 0 || (strncmp(message, who, length) == 0 && strncmp(message + length, " (", 2) == 0)) {
    return xffi_error_new(api, code, message);
  }
  return xffi_error_format_(api, code, "%s (%s): %s", who, stage, message);
}

/* Creates an error like xffi_error_from_, with a vprintf format. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_vformat_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                            const char* who, const char* stage, const char* format,
                                            va_list list) XFFI_PRINTF_(5, 0);
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_vformat_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                            const char* who, const char* stage, const char* format, va_list list) {
  char local[1024];
  char* text = local;
  XLA_FFI_Error* error;
  va_list again;
  int length;
  va_copy(again, list);
  length = xffi_vsnprintf_(local, sizeof(local), format, list);
  if (length >= (int)sizeof(local)) {
    text = (char*)malloc((size_t)length + 1);
    if (text != NULL) {
      xffi_vsnprintf_(text, (size_t)length + 1, format, again);
    } else {
      text = local;
    }
  }
  va_end(again);
  error = xffi_error_from_(api, code, who, stage, length < 0 ? format : text);
  if (text != local) free(text);
  return error;
}

/* Creates an error with a printf format, without a handler's name. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_error_format_(const XLA_FFI_Api* api, XLA_FFI_Error_Code code,
                                           const char* format, ...) {
  XLA_FFI_Error* error;
  va_list list;
  va_start(list, format);
  error = xffi_error_vformat_(api, code, NULL, NULL, format, list);
  va_end(list);
  return error;
}

/* Creates the error for a host before r0. If the layout of the host's table is unknown, prints the error to stderr and
 * returns null. */
XFFI_COLD_ XLA_FFI_Error* xffi_refuse_before_r0_(const XLA_FFI_Api* api, const char* what, size_t length) {
  return xffi_error_format_(api, XLA_FFI_Error_Code_UNIMPLEMENTED, "%.*s" XLA_FFI_SDK_TEXT_BEFORE_R0,
                           (int)(length < 200 ? length : 200), what);
}

/* Creates the error for a feature that the host lacks. The message names the feature, this host, and the first jaxlib
 * with the feature. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_missing_feature_(const XLA_FFI_Api* api, const char* feature,
                                    xffi_revision since) {
  return xffi_error_format_(api, XLA_FFI_Error_Code_UNIMPLEMENTED,
                           "%s" XLA_FFI_SDK_TEXT_FIRST_JAXLIB "%s" XLA_FFI_SDK_TEXT_THIS_HOST
                           XLA_FFI_SDK_TEXT_VERSION "%d.%d (%s)",
                           feature, xffi_first_jaxlib_(since), api->api_version.major_version,
                           api->api_version.minor_version, xffi_releases_(xffi_host_revision(api)));
}

/* Creates the error for a function that is missing from the host's table, although the host's revision includes the
 * function. */
XFFI_COLD_ XLA_FFI_Error* xffi_no_function_(const XLA_FFI_Api* api, const char* function) {
  return xffi_error_format_(api, XLA_FFI_Error_Code_UNIMPLEMENTED,
                           "the host's function table has no %s", function);
}

/* Calls a host function that returns an error or null. Reports a missing function, and the version of newer hosts. */
#define XFFI_ASK_(api, function, args)                                        \
  (XFFI_UNLIKELY_((api)->function == NULL) ? xffi_no_function_((api), #function) \
                                          : xffi_asked_((api), #function, (api)->function(args)))

/* Destroys an error that a host function returned. Accepts null. */
XFFI_COLD_ void xffi_error_free(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  void (*destroy)(XLA_FFI_Error_Destroy_Args*) = NULL;
  XLA_FFI_Error_Destroy_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  if (error == NULL) return;
  XFFI_ERROR_FUNCTION_(api, XLA_FFI_Error_Destroy, destroy);
  if (destroy != NULL) destroy(&args);
}

/* Returns the message of an error, which is valid as long as the error, and sets `code`. Hosts before r9 do not report
 * the code, so it is then INTERNAL, XLA's default. */
XFFI_COLD_ const char* xffi_error_details(const XLA_FFI_Api* api, XLA_FFI_Error* error,
                                         XLA_FFI_Error_Code* code) {
  void (*get)(XLA_FFI_Error_GetDetails_Args*) = NULL;
  XLA_FFI_Error_GetDetails_Args args;
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  args.error = error;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  XFFI_ERROR_FUNCTION_(api, XLA_FFI_Error_GetDetails, get);
  if (get != NULL) get(&args);
  if (code != NULL) *code = args.errc;
  return args.message != NULL ? args.message : "";
}

/* Loads the function at an index of the host's table. The caller has checked that the table includes the index. */
XFFI_INLINE_ void xffi_load_slot_(const XLA_FFI_Api* api, size_t index, void* function) {
  memcpy(function, (const char*)api + offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) + 8 * index, 8);
}

/* Adds the host's version to an error of the host function `what` if the host is newer than this header. The cause may
 * then be arguments that the header does not know. */
XFFI_COLD_ XLA_FFI_Error* xffi_with_version_(const XLA_FFI_Api* api, const char* what, XLA_FFI_Error* error) {
  XLA_FFI_Error_Code code;
  const char* message;
  XLA_FFI_Error* told;
  if (!xffi_is_newer_(api)) return error;
  message = xffi_error_details(api, error, &code);
  told = xffi_error_format_(api, code,
                           "%s: %s" XLA_FFI_SDK_TEXT_THIS_HOST XLA_FFI_SDK_TEXT_VERSION
                           "%d.%d (%s)" XLA_FFI_SDK_TEXT_NEWER_HOST,
                           what, message, api->api_version.major_version, api->api_version.minor_version,
                           xffi_releases_(xffi_host_revision(api)));
  xffi_error_free(api, error);
  return told;
}

XFFI_INLINE_ XLA_FFI_Error* xffi_asked_(const XLA_FFI_Api* api, const char* function, XLA_FFI_Error* error) {
  return XFFI_UNLIKELY_(error != NULL) ? xffi_with_version_(api, function, error) : NULL;
}

/* Returns the index of the first of the three future functions in the host's table; 0 if one of the functions is
 * missing. The index differs between r2 and r3, although both have version 0.1. */
XFFI_INLINE_ size_t xffi_future_slot_(const XLA_FFI_Api* api) {
  const xffi_revision host = xffi_host_revision(api);
  const size_t head = offsetof(XLA_FFI_Api, XLA_FFI_Error_Create);
  const size_t newest = (offsetof(XLA_FFI_Api, XLA_FFI_Future_Create) - head) / 8;
  const size_t first = host >= XFFI_R3 ? newest : newest - 1;
  void (*functions[3])(void);
  size_t i;
  if (host < XFFI_R2 || head + 8 * (first + 3) > xffi_host_size_(api)) return 0;
  for (i = 0; i < 3; ++i) {
    xffi_load_slot_(api, first + i, &functions[i]);
    if (functions[i] == NULL) return 0;
  }
  return first;
}

/* The registration arguments up to r8, without the record handler. Every host accepts these 84 bytes; r8 accepts longer
 * structs, but ignores their traits. */
typedef struct xffi_register_r0_ {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ByteSpan name;
  XLA_FFI_ByteSpan platform;
  XLA_FFI_Handler* stages[4];
  XLA_FFI_Handler_Traits traits;
} xffi_register_r0_;

/* Registers the handlers of a bundle with a host under a name. */
XFFI_MUST_USE_ XFFI_COLD_ XLA_FFI_Error* xffi_register_(const XLA_FFI_Api* api, XLA_FFI_ByteSpan name,
                                                       XLA_FFI_ByteSpan platform, const XLA_FFI_Handler_Bundle* bundle,
                                                       XLA_FFI_Handler_Traits traits) {
  if (xffi_is_before_r0_(api)) return xffi_refuse_before_r0_(api, name.ptr, name.len);
  if (bundle->record != NULL) {
    XLA_FFI_Handler_Register_Args args;
    if (xffi_host_minor_(api) < XLA_FFI_SDK_MINOR_R9) {
      return xffi_missing_feature_(api, XFFI_FEATURE_(RECORD_STAGE));
    }
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    args.name = name;
    args.platform = platform;
    args.bundle = *bundle;
    args.traits = traits;
    return XFFI_ASK_(api, XLA_FFI_Handler_Register, &args);
  } else {
    xffi_register_r0_ args;
    memset(&args, 0, sizeof(args));
    args.struct_size = offsetof(xffi_register_r0_, traits) + sizeof(args.traits);
    args.name = name;
    args.platform = platform;
    args.stages[0] = bundle->instantiate;
    args.stages[1] = bundle->prepare;
    args.stages[2] = bundle->initialize;
    args.stages[3] = bundle->execute;
    args.traits = traits;
    return XFFI_ASK_(api, XLA_FFI_Handler_Register, (XLA_FFI_Handler_Register_Args*)(void*)&args);
  }
}

/* Returns the metadata extension of a call frame, or null. In r0, `extension_start` has a different meaning. */
XFFI_INLINE_ const XLA_FFI_Metadata_Extension* xffi_find_metadata_(const XLA_FFI_CallFrame* frame) {
  const XLA_FFI_InternalExtension* link = frame->extension_start;
  if (XFFI_UNLIKELY_(link != NULL) && (frame->api == NULL || xffi_stated_minor_(frame->api) >= 1)) {
    for (; link != NULL; link = link->next) {
      if (link->type == XLA_FFI_Extension_Metadata) {
        return (const XLA_FFI_Metadata_Extension*)(const void*)link;
      }
    }
  }
  return NULL;
}

/* Answers a metadata query. The answer is the host's version (0.1 if unknown), at least the version of the handler's
 * floor, and at most the newest version that this header knows. */
XFFI_COLD_ XLA_FFI_Error* xffi_answer_metadata_(const XLA_FFI_Api* api, const XLA_FFI_Metadata_Extension* extension,
                                               const char* handler, xffi_revision floor_of,
                                               XLA_FFI_Handler_Traits traits) {
  XLA_FFI_Metadata* metadata = extension->metadata;
  const int host = api != NULL ? xffi_host_minor_(api) : 1;
  const int floor = xffi_minor_of_(floor_of);
  int answer = host < 1 ? 1 : host;
  if (answer < floor) answer = floor;
  if (answer > xffi_minor_of_((xffi_revision)XFFI_NEWEST_KNOWN_)) {
    answer = xffi_minor_of_((xffi_revision)XFFI_NEWEST_KNOWN_);
  }
  if (extension->extension_base.struct_size < XLA_FFI_Metadata_Extension_STRUCT_SIZE ||
      metadata == NULL || metadata->struct_size < XLA_FFI_Metadata_STRUCT_SIZE) {
    return xffi_error_format_(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                             "%s: the host's metadata structure is too small", handler);
  }
  metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  metadata->api_version.extension_start = NULL;
  metadata->api_version.major_version = 0;
  metadata->api_version.minor_version = answer;
  metadata->traits = traits;
  return NULL;
}

/* Registers a type under a name. Hosts from r7 on read `type_info` regardless of struct_size. */
XFFI_COLD_ XLA_FFI_Error* xffi_type_ask_(const XLA_FFI_Api* api, const char* name, const XLA_FFI_TypeInfo* info,
                                        XLA_FFI_TypeId* id) {
  XLA_FFI_Type_Register_Args args;
  /* Before r8, new hosts changed the layouts of types and state, and misread the arguments of older libraries. */
  if (XFFI_NEWEST_KNOWN_ < XFFI_R8 && xffi_is_newer_(api)) {
    return xffi_with_version_(
        api, XLA_FFI_SDK_NAME_USER_TYPES,
        xffi_error_new(api, XLA_FFI_Error_Code_UNIMPLEMENTED, "not available"));
  }
  memset(&args, 0, sizeof(args));
  args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
  args.name.ptr = name;
  args.name.len = strlen(name);
  args.type_id = id;
  args.type_info = info;
  return XFFI_ASK_(api, XLA_FFI_Type_Register, &args);
}

/* Returns the type id in a host's error about a type name that is already registered, or 0. The error text differs
 * before r5. */
XFFI_COLD_ int64_t xffi_taken_number_(const char* refusal, const char* name) {
  static const char* const since_r5[] = {"Type name ", " already registered with type id "};
  static const char* const before[] = {"Type id ", " already registered for type name "};
  const size_t length = strlen(name);
  const char* found = strstr(refusal, since_r5[0]);
  char* end;
  long long id;
  if (found != NULL) {
    refusal = found + strlen(since_r5[0]);
    if (strncmp(refusal, name, length) != 0) return 0;
    refusal += length;
    if (strncmp(refusal, since_r5[1], strlen(since_r5[1])) != 0) return 0;
    id = strtoll(refusal + strlen(since_r5[1]), &end, 10);
    return id > 0 && id < LLONG_MAX ? id : 0;
  }
  found = strstr(refusal, before[0]);
  if (found == NULL) return 0;
  id = strtoll(found + strlen(before[0]), &end, 10);
  if (strncmp(end, before[1], strlen(before[1])) != 0) return 0;
  return strcmp(end + strlen(before[1]), name) == 0 && id > 0 && id < LLONG_MAX ? id : 0;
}

/* Registers a type under a name that others may have registered. If so, uses the existing id, unless `id` requests a
 * different one. */
XFFI_COLD_ XLA_FFI_Error* xffi_type_share_(const XLA_FFI_Api* api, const char* name, const XLA_FFI_TypeInfo* info,
                                          XLA_FFI_TypeId* id) {
  const int64_t wanted = id->type_id;
  XLA_FFI_Error* error = xffi_type_ask_(api, name, info, id);
  int64_t taken;
  if (error == NULL) return NULL;
  taken = xffi_taken_number_(xffi_error_details(api, error, NULL), name);
  if (taken == 0 || (wanted != 0 && wanted != taken)) return error;
  xffi_error_free(api, error);
  id->type_id = taken;
  /* From r5 on, a name may be registered again, but only with the same id. */
  return xffi_host_revision(api) >= XFFI_SINCE_(TYPES_AGAIN) ? xffi_type_ask_(api, name, info, id) : NULL;
}

/* The arguments of State_Set up to r6, then those of State_Set on r7 and of State_Get up to r7. */
typedef struct xffi_state_set_r0_ {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
  void (*deleter)(void* state);
} xffi_state_set_r0_;
typedef struct xffi_state_set_r7_ {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_InvokeContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state; /* an input of State_Set, an output of State_Get */
} xffi_state_set_r7_;

/* Stores state for later stages. The caller has checked that the host supports state of this stage. */
XFFI_INLINE_ XLA_FFI_Error* xffi_state_set_(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                           XLA_FFI_ExecutionStage stage, XLA_FFI_TypeId id, void* state,
                                           void (*deleter)(void*)) {
  const int minor = xffi_host_minor_(api);
  if (minor >= 3) {
    XLA_FFI_State_Set_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
    args.ctx = ctx;
    args.stage = stage;
    args.type_id = &id;
    args.state = state;
    return XFFI_ASK_(api, XLA_FFI_State_Set, &args);
  } else if (minor == 2) {
    xffi_state_set_r7_ args = {sizeof(args), NULL, ctx, &id, state};
    return XFFI_ASK_(api, XLA_FFI_State_Set, (XLA_FFI_State_Set_Args*)(void*)&args);
  } else {
    xffi_state_set_r0_ args = {sizeof(args), NULL, ctx, &id, state, deleter};
    return XFFI_ASK_(api, XLA_FFI_State_Set, (XLA_FFI_State_Set_Args*)(void*)&args);
  }
}

/* Gets the state that a stage stored; null after an error. The caller has checked that the host supports state of this
 * stage. */
XFFI_INLINE_ XLA_FFI_Error* xffi_state_get_(const XLA_FFI_Api* api, XLA_FFI_InvokeContext* ctx,
                                           XLA_FFI_ExecutionStage stage, XLA_FFI_TypeId id, void** state) {
  XLA_FFI_Error* error;
  if (xffi_host_minor_(api) >= 3) {
    XLA_FFI_State_Get_Args args;
    memset(&args, 0, sizeof(args));
    args.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
    args.ctx = ctx;
    args.stage = stage;
    args.type_id = &id;
    error = XFFI_ASK_(api, XLA_FFI_State_Get, &args);
    *state = error == NULL ? args.state : NULL;
  } else {
    xffi_state_set_r7_ args = {sizeof(args), NULL, ctx, &id, NULL};
    error = XFFI_ASK_(api, XLA_FFI_State_Get, (XLA_FFI_State_Get_Args*)(void*)&args);
    *state = error == NULL ? args.state : NULL;
  }
  return error;
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#endif  /* XLA_FFI_HOST_H_ */
