/* The status of custom calls that came before XLA FFI: success, or a failure with a message.
 *
 *   void do_custom_call(void* out, const void** in, XlaCustomCallStatus* status) {
 *     if (...) {
 *       XlaCustomCallStatusSetFailure(status, "singular matrix", 15);
 *       return;
 *     }
 *     ...
 *   }
 *
 * A status says success until something else is written; the last word counts. After a failure no
 * output is used, the program stops, and cannot recover.
 *
 * No jaxlib exports these functions, so they are compiled into the library that uses them, hidden.
 * They act on statuses that this SDK made: those of its adapters (xla_ffi/legacy/adapt.h) and of its
 * embedded runtime. Any other status is handed to the host's functions if the host exports them;
 * else the message goes to stderr and the status is left alone. So a library that is to report
 * failures to today's XLA registers an adapter instead of the bare function. */
#ifndef XLA_SERVICE_CUSTOM_CALL_STATUS_H_
#define XLA_SERVICE_CUSTOM_CALL_STATUS_H_

#include <stddef.h>

#include "xla_ffi/platform.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Success or a failure. Made by the host; the pointer is good until the target returns. */
typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;

#if defined(__GNUC__) || defined(__clang__)
#define XFFI_STATUS_HIDDEN_ __attribute__((weak)) XLA_FFI_SDK_HIDDEN
#else
#define XFFI_STATUS_HIDDEN_ static inline /* of each object file its own */
#endif

/* Says success, whatever was said before. A null status is ignored. */
XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status);

/* Says failure. `message` is `message_len` bytes of any kind, copied. A null status is ignored. */
XFFI_STATUS_HIDDEN_ void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status,
                                                       const char* message, size_t message_len);

#ifdef __cplusplus
} /* extern "C" */

namespace xla {
using ::XlaCustomCallStatus; /* as the documents name it in C++ */
}
#endif

#include "xla_ffi/legacy/status.h"

#endif /* XLA_SERVICE_CUSTOM_CALL_STATUS_H_ */
