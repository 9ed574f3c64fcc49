/* Functions with which the test programs of this folder check conditions. A failed check ends
 * the program. */
#ifndef XLA_FFI_RUNTIME_TESTS_CHECKS_H_
#define XLA_FFI_RUNTIME_TESTS_CHECKS_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla_ffi/runtime.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static inline void right_at(xffi_rt_status* status, int line) {
  if (status == NULL) return;
  fprintf(stderr, "line %d: %s\n", line, xffi_rt_status_message(status));
  exit(1);
}
#define right(status) right_at(status, __LINE__)

static inline void wrong_at(xffi_rt_status* status, XLA_FFI_Error_Code code, const char* words,
                            int line) {
  if (status != NULL && xffi_rt_status_code(status) == code &&
      strstr(xffi_rt_status_message(status), words) != NULL) {
    xffi_rt_status_destroy(status);
    return;
  }
  fprintf(stderr, "line %d: not code %d, '%s': %s\n", line, (int)code, words,
          xffi_rt_status_message(status));
  exit(1);
}
#define wrong(status, code, words) wrong_at(status, XLA_FFI_Error_Code_##code, words, __LINE__)

#endif  /* XLA_FFI_RUNTIME_TESTS_CHECKS_H_ */
