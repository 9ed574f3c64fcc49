/* The layout of statuses that this SDK creates. Part of <xla/service/custom_call_status.h>.
 *
 * Statuses from other sources have an unknown layout and must not be read. A status of this SDK is aligned to
 * XFFI_STATUS_ALIGNMENT_ and is never unmapped. The functions below therefore read a status only if its address is
 * aligned and the kernel confirms that the page is mapped. They then check the first 32 bytes: a magic text, the
 * address of the status, and the address of the function that writes the status. */
#ifndef XLA_FFI_LEGACY_STATUS_H_
#define XLA_FFI_LEGACY_STATUS_H_

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <sys/mman.h>
#define XFFI_STATUS_POSIX_ 1
#endif

#include "xla_ffi/platform.h"

#if defined(__GNUC__) || defined(__clang__)
#define XFFI_STATUS_COLD_ static __attribute__((cold, noinline, unused))
#else
#define XFFI_STATUS_COLD_ static inline
#endif

#define XFFI_STATUS_ALIGNMENT_ 65536
#define XFFI_STATUS_MAGIC_ "XLAFFI-STATUS-1" /* 16 bytes, including the NUL */

#ifdef __cplusplus
extern "C" {
#endif

/* The status of a call: success or a failure with a message. Created by the host; valid until the target returns. */
typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;

#if defined(__GNUC__) || defined(__clang__)
#define XFFI_STATUS_HIDDEN_ __attribute__((weak)) XLA_FFI_SDK_HIDDEN
#else
#define XFFI_STATUS_HIDDEN_ static inline /* a copy per object file */
#endif

/* Sets the status to success, replacing any failure. A null status is ignored. */
XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status);

/* Sets the status to a failure. `message` is `message_len` arbitrary bytes, which are copied. A null status is
 * ignored. */
XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status,
                                                       const char* message, size_t message_len);

/* The first fields of every status that this SDK creates, identical in Rust, C and C++ and in every library. */
typedef struct xffi_status_head_ {
  char magic[16];
  const struct xffi_status_head_* self;
  void (*set)(struct xffi_status_head_* self, int failed, const char* message, size_t length);
} xffi_status_head_;

/* Returns the head of a status that this SDK created; null for any other status. */
XFFI_STATUS_COLD_ xffi_status_head_* xffi_status_ours_(XlaCustomCallStatus* status) {
  xffi_status_head_* head = (xffi_status_head_*)(void*)status;
  if (status == NULL || (uintptr_t)status % XFFI_STATUS_ALIGNMENT_ != 0) return NULL;
#if defined(XFFI_STATUS_POSIX_)
  if (msync((void*)status, sizeof(*head), MS_ASYNC) != 0) return NULL; /* the page is not mapped */
#endif
  if (memcmp(head->magic, XFFI_STATUS_MAGIC_, sizeof(head->magic)) != 0) return NULL;
  return head->self == head && head->set != NULL ? head : NULL;
}

/* Returns the function that the host exports under a name; null if there is none or if it is `ours`. */
XFFI_STATUS_COLD_ void* xffi_status_host_function_(const char* name, void (*ours)(void)) {
#if defined(XFFI_STATUS_POSIX_)
  static const int sizes_agree[sizeof(void*) == sizeof(void (*)(void)) ? 1 : -1] = {0};
  void* program = dlopen(NULL, RTLD_LAZY);
  void* found = program != NULL ? dlsym(program, name) : NULL;
  void* own;
  (void)sizes_agree;
  memcpy(&own, &ours, sizeof(own));
  if (program != NULL) dlclose(program);
  return found == own ? NULL : found;
#else
  (void)name;
  (void)ours;
  return NULL;
#endif
}

XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status) {
  xffi_status_head_* head = xffi_status_ours_(status);
  void (*host)(XlaCustomCallStatus*) = NULL;
  void* found;
  if (status == NULL) return;
  if (head != NULL) {
    head->set(head, 0, "", 0);
    return;
  }
  found = xffi_status_host_function_("XlaCustomCallStatusSetSuccess",
                                    (void (*)(void))XlaCustomCallStatusSetSuccess);
  memcpy((void*)&host, &found, sizeof(host));
  if (host != NULL) host(status); /* a new status is a success, so nothing is needed otherwise */
}

XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status,
                                                       const char* message, size_t message_len) {
  xffi_status_head_* head = xffi_status_ours_(status);
  void (*host)(XlaCustomCallStatus*, const char*, size_t) = NULL;
  void* found;
  if (message == NULL) message_len = 0;
  if (status == NULL) return;
  if (head != NULL) {
    head->set(head, 1, message, message_len);
    return;
  }
  found = xffi_status_host_function_("XlaCustomCallStatusSetFailure",
                                    (void (*)(void))XlaCustomCallStatusSetFailure);
  memcpy((void*)&host, &found, sizeof(host));
  if (host != NULL) {
    host(status, message, message_len);
    return;
  }
  fputs("xla-ffi: a custom call failed, and its host has no way to report an error: ", stderr);
  if (message_len != 0) fwrite(message, 1, message_len, stderr);
  fputs("; register it through an adapter of xla_ffi/legacy/adapt.h\n", stderr);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_FFI_LEGACY_STATUS_H_ */
