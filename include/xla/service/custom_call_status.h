/* The status of an original custom call, which predates XLA FFI: success, or a failure with a message.
 *
 *   void do_custom_call(void* out, const void** in, XlaCustomCallStatus* status) {
 *     if (...) {
 *       XlaCustomCallStatusSetFailure(status, "singular matrix", 15);
 *       return;
 *     }
 *     ...
 *   }
 *
 * A status is a success until the function sets a failure; the last set value is used. After a failure, XLA ignores
 * the outputs and stops the program.
 *
 * No jaxlib exports the functions of this header, so each library contains them as hidden functions. They support
 * statuses that this SDK creates, in its adapters (xla_ffi/legacy/adapt.h) and in the embedded runtime. Any other
 * status is passed to the host's functions if the host exports them. Otherwise, the message is printed to stderr and
 * the status is not changed. To report failures to current XLA, register an adapter instead of the function. */
#ifndef XLA_SERVICE_CUSTOM_CALL_STATUS_H_
#define XLA_SERVICE_CUSTOM_CALL_STATUS_H_

#include "xla_ffi/legacy/status.h"

#ifdef __cplusplus
namespace xla {
using ::XlaCustomCallStatus; /* the name in XLA's C++ documents */
}
#endif

#endif /* XLA_SERVICE_CUSTOM_CALL_STATUS_H_ */
