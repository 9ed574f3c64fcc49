/* The status of the original custom calls, which predate XLA FFI: success, or a failure with a message.
 *
 *   void do_custom_call(void* out, const void** in, XlaCustomCallStatus* status) {
 *     if (...) {
 *       XlaCustomCallStatusSetFailure(status, "singular matrix", 15);
 *       return;
 *     }
 *     ...
 *   }
 *
 * A status is a success until a failure is written; the last write counts. After a failure, no output is used,
 * and the program stops and cannot recover.
 *
 * No jaxlib exports these functions, so they are compiled into the library that uses them, as hidden functions.
 * They work on statuses that this SDK creates: those of its adapters (xla_ffi/legacy/adapt.h) and of its
 * embedded runtime. Any other status is passed to the host's functions if the host exports them. Otherwise the
 * message is printed to stderr and the status is not changed. To report failures to current XLA, register an
 * adapter instead of the bare function. */
#ifndef XLA_SERVICE_CUSTOM_CALL_STATUS_H_
#define XLA_SERVICE_CUSTOM_CALL_STATUS_H_

#include "xla_ffi/legacy/status.h"

#ifdef __cplusplus
namespace xla {
using ::XlaCustomCallStatus; /* the name in C++, as documented */
}
#endif

#endif /* XLA_SERVICE_CUSTOM_CALL_STATUS_H_ */
