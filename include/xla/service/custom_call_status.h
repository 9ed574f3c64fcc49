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

#include "xla_ffi/legacy/status.h"

#ifdef __cplusplus
namespace xla {
using ::XlaCustomCallStatus; /* as the documents name it in C++ */
}
#endif

#endif /* XLA_SERVICE_CUSTOM_CALL_STATUS_H_ */
