/* Registers a library's handlers when the library is loaded, for hosts that load a file without registering its
 * handlers. Part of <xla_ffi/handler.h> and <xla/ffi/api/ffi.h>. The code is only compiled if a source uses
 * XFFI_REGISTER_ON_LOAD or XLA_FFI_REGISTER_ON_LOAD.
 *
 * The code looks up the host's function table in the libraries that the process has loaded, without linking to the
 * host. With a glibc older than 2.34, link the library with -ldl.
 */
#ifndef XLA_FFI_ON_LOAD_H_
#define XLA_FFI_ON_LOAD_H_

#if !defined(_WIN32)
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/facts.h"

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* These functions are inline, so that unused functions are omitted at every optimization level. */
#define XLA_FFI_SDK_ON_LOAD_ static inline __attribute__((cold, unused))

/* A library that registers its handlers on load: its name, and a function that registers all handlers with a host. */
typedef struct xla_ffi_sdk_enrolling {
  const char* library;
  void (*enroll)(const XLA_FFI_Api* api, const char* library, const void* context);
  const void* context;
  const XLA_FFI_Api* hosts[16]; /* the hosts that were found */
  int host_count;
} xla_ffi_sdk_enrolling;

/* The result of dladdr, with the layout of Dl_info. This header declares both, because <dlfcn.h> declares them only if
 * _GNU_SOURCE is defined. */
typedef struct xla_ffi_sdk_symbol {
  const char* file;
  void* base;
  const char* name;
  void* address;
} xla_ffi_sdk_symbol;

/* Keeps this library loaded until the process ends, because a host keeps pointers to the handlers and cannot be
 * notified when they are unloaded. */
XLA_FFI_SDK_ON_LOAD_ void xla_ffi_sdk_stay(void) {
#if defined(RTLD_NODELETE) && defined(RTLD_NOLOAD)
  static const char place = 0;
  int (*find)(const void*, xla_ffi_sdk_symbol*);
  xla_ffi_sdk_symbol own = {NULL, NULL, NULL, NULL};
  void* all = dlopen(NULL, RTLD_LAZY);
  void* symbol = all != NULL ? dlsym(all, "dladdr") : NULL;
  memcpy(&find, &symbol, sizeof(find));
  /* RTLD_NOLOAD returns the library that is already loaded. If this code is part of the program, dlopen may find
   * nothing, but a program is never unloaded. */
  if (symbol != NULL && find(&place, &own) != 0 && own.file != NULL) {
    (void)dlopen(own.file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  if (all != NULL) dlclose(all);
#endif
}

/* Looks for the function table of a host in a library or in the global scope, and registers the handlers with the
 * host. */
XLA_FFI_SDK_ON_LOAD_ void xla_ffi_sdk_ask_image(xla_ffi_sdk_enrolling* own, void* image) {
  /* The names of the functions that return a host's function table: XLA's C++ function, and the C function of XLA's
   * header. */
  static const char* const names[] = {"_ZN3xla3ffi12GetXlaFfiApiEv", "XLA_FFI_GetApi"};
  int i, k;
  for (i = 0; i < 2; ++i) {
    const XLA_FFI_Api* (*get)(void);
    void* symbol = dlsym(image, names[i]);
    const XLA_FFI_Api* api;
    if (symbol == NULL) continue;
    memcpy(&get, &symbol, sizeof(get));
    api = get();
    for (k = 0; k < own->host_count && own->hosts[k] != api; ++k) {
    }
    if (api == NULL || k < own->host_count || k == 16) continue;
    own->hosts[own->host_count++] = api;
    if (api->struct_size < XLA_FFI_SDK_SIZE_R0) {
      fprintf(stderr, "xla-ffi: %s, registered on load" XLA_FFI_SDK_TEXT_BEFORE_R0 "\n", own->library);
    } else {
      xla_ffi_sdk_stay(); /* required before a host can call a handler */
      own->enroll(api, own->library, own->context);
    }
  }
}

#if defined(__linux__) || defined(__FreeBSD__)
/* Declares dl_iterate_phdr and the first fields of its argument, because <link.h> declares them only if _GNU_SOURCE is
 * defined. */
struct dl_phdr_info;
#ifdef __cplusplus
extern "C"
#endif
int dl_iterate_phdr(int (*)(struct dl_phdr_info*, size_t, void*), void*);
typedef struct xla_ffi_sdk_image {
  uintptr_t address;
  const char* name;
} xla_ffi_sdk_image;

/* The NUL-terminated paths of the loaded files. They are collected first, because the iteration must not call the
 * dynamic loader. */
typedef struct xla_ffi_sdk_paths {
  char* text;
  size_t size;
} xla_ffi_sdk_paths;

XLA_FFI_SDK_ON_LOAD_ int xla_ffi_sdk_note_path(struct dl_phdr_info* info, size_t size, void* list) {
  const char* name = ((const xla_ffi_sdk_image*)(const void*)info)->name;
  xla_ffi_sdk_paths* paths = (xla_ffi_sdk_paths*)list;
  size_t length;
  char* text;
  (void)size;
  if (name == NULL || *name == '\0') return 0;
  length = strlen(name) + 1;
  text = (char*)realloc(paths->text, paths->size + length);
  if (text == NULL) return 1;
  memcpy(text + paths->size, name, length);
  paths->text = text;
  paths->size += length;
  return 0;
}
#endif

/* Registers a library's handlers with every host in the process. Does nothing if there is no host. */
XLA_FFI_SDK_ON_LOAD_ void xla_ffi_sdk_on_load(
    const char* library, void (*enroll)(const XLA_FFI_Api*, const char*, const void*), const void* context) {
  xla_ffi_sdk_enrolling own;
  void* image = dlopen(NULL, RTLD_LAZY);
  memset(&own, 0, sizeof(own));
  own.library = library;
  own.enroll = enroll;
  own.context = context;
  if (image != NULL) {
    xla_ffi_sdk_ask_image(&own, image);
    dlclose(image);
  }
#if defined(__linux__) || defined(__FreeBSD__)
  {
    /* Python and other programs load libraries with local scope. The global scope does not have the names of such
     * libraries. */
    xla_ffi_sdk_paths paths = {NULL, 0};
    size_t at;
    dl_iterate_phdr(xla_ffi_sdk_note_path, &paths);
    for (at = 0; at < paths.size; at += strlen(paths.text + at) + 1) {
      image = dlopen(paths.text + at, RTLD_LAZY | RTLD_NOLOAD);
      if (image == NULL) continue;
      xla_ffi_sdk_ask_image(&own, image);
      dlclose(image);
    }
    free(paths.text);
  }
#endif
}

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif
#endif /* !_WIN32 */

#endif /* XLA_FFI_ON_LOAD_H_ */
