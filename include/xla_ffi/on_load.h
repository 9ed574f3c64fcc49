/* Registration when a library is loaded, for hosts that do nothing but load a file. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/ffi.h>, and left out of what is compiled unless
 * XFFI_REGISTER_ON_LOAD or XLA_FFI_REGISTER_ON_LOAD asks for it.
 *
 * The host's function table is looked for among what the process has loaded, without linking to it. With a glibc
 * older than 2.34 such a library is linked with -ldl.
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

/* C, which C++ reads too: its casts are of one kind. */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Inline, so that it is not there at all where nothing asks for it, whatever is optimized. */
#define XLA_FFI_SDK_ON_LOAD_ static inline __attribute__((cold, unused))

/* A library that registers itself: its name, and what registers all of it with a host. */
typedef struct xla_ffi_sdk_enrolling {
  const char* library;
  void (*enroll)(const XLA_FFI_Api* api, const char* library, const void* context);
  const void* context;
  const XLA_FFI_Api* hosts[16]; /* that were met */
  int host_count;
} xla_ffi_sdk_enrolling;

/* What dladdr tells of an address. Looked for by its name: <dlfcn.h> shows it to GNU sources alone. */
typedef struct xla_ffi_sdk_symbol {
  const char* file;
  void* base;
  const char* name;
  void* address;
} xla_ffi_sdk_symbol;

/* Keeps the library that this is a part of in memory for the rest of the process: a host has its handlers, and no way to be
 * told that they are gone. */
XLA_FFI_SDK_ON_LOAD_ void xla_ffi_sdk_stay(void) {
#if defined(RTLD_NODELETE) && defined(RTLD_NOLOAD)
  static const char place = 0;
  int (*find)(const void*, xla_ffi_sdk_symbol*);
  xla_ffi_sdk_symbol own = {NULL, NULL, NULL, NULL};
  void* all = dlopen(NULL, RTLD_LAZY);
  void* symbol = all != NULL ? dlsym(all, "dladdr") : NULL;
  memcpy(&find, &symbol, sizeof(find));
  /* What is in memory already is not loaded again; of a program there may be nothing of that name, and nothing to keep. */
  if (symbol != NULL && find(&place, &own) != 0 && own.file != NULL) {
    (void)dlopen(own.file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  if (all != NULL) dlclose(all);
#endif
}

/* Asks a library, or all that is global, for its table. */
XLA_FFI_SDK_ON_LOAD_ void xla_ffi_sdk_ask_image(xla_ffi_sdk_enrolling* own, void* image) {
  /* What hosts call the function that gives their table: XLA's own, in C++, and the C one of its header. */
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
      xla_ffi_sdk_stay(); /* before anybody can call */
      own->enroll(api, own->library, own->context);
    }
  }
}

#if defined(__linux__) || defined(__FreeBSD__)
/* As <link.h> declares it, which shows it to GNU sources alone; and the beginning of what it tells. */
struct dl_phdr_info;
#ifdef __cplusplus
extern "C"
#endif
int dl_iterate_phdr(int (*)(struct dl_phdr_info*, size_t, void*), void*);
typedef struct xla_ffi_sdk_image {
  uintptr_t address;
  const char* name;
} xla_ffi_sdk_image;

/* The files that are loaded, each with its NUL. The loader may not be called while it counts them up. */
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

/* Registers a library with every host of the process: silent where there is none. */
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
    /* Python and others load their libraries so that only those who depend on them see their names. */
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
