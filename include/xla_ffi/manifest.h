/* A library's description of itself, readable without running any of it (docs/manifest.md). Part
 * of <xla_ffi/handler.h>. */
#ifndef XLA_FFI_MANIFEST_H_
#define XLA_FFI_MANIFEST_H_

#include "xla_ffi/host.h"

#if defined(__ELF__)
#define XFFI_MANIFEST_SECTION_ __attribute__((section(".xla_ffi_manifest"), used, aligned(16)))
#elif defined(__GNUC__)
#define XFFI_MANIFEST_SECTION_ __attribute__((used, aligned(16)))
#else
#define XFFI_MANIFEST_SECTION_
#endif

/* Puts the manifest of LIBRARY, a JSON string literal, into the library. The length is taken from
 * the literal; its NUL and the alignment are the zero bytes that may follow a payload. */
#define XFFI_MANIFEST(library, json)                                                     \
  typedef struct library##__xla_ffi_manifest_t {                                         \
    char magic[8];                                                                       \
    unsigned char head[8];                                                               \
    char payload[sizeof(json)];                                                          \
  } library##__xla_ffi_manifest_t;                                                       \
  XFFI_MANIFEST_EXTERN_ XFFI_MANIFEST_SECTION_ const library##__xla_ffi_manifest_t       \
      library##__xla_ffi_manifest = {{'X', 'L', 'A', 'F', 'F', 'I', 'M', 'F'},           \
                                     {1, 0, 0, 0, (sizeof(json) - 1) & 255,              \
                                      (sizeof(json) - 1) >> 8 & 255,                     \
                                      (sizeof(json) - 1) >> 16 & 255,                    \
                                      (sizeof(json) - 1) >> 24 & 255},                   \
                                     json}

#if defined(__cplusplus)
#define XFFI_MANIFEST_EXTERN_ extern "C" __attribute__((visibility("default")))
#elif defined(__GNUC__)
#define XFFI_MANIFEST_EXTERN_ __attribute__((visibility("default")))
#else
#define XFFI_MANIFEST_EXTERN_
#endif

#endif  /* XLA_FFI_MANIFEST_H_ */
