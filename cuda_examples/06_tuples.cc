// A GPU target of the original custom calls, and the adapter that makes it a handler of XLA FFI. On
// today's XLA the list has one pointer a leaf, so the tuples of the program do not show.
#include "06_tuples.cu"
#include "launch.h"
#include "xla_ffi/legacy.h"

// ((x, y)) -> (x + y, x - y), f32 each; `opaque` is the number of elements.
static void Target(void* stream, void** buffers, const char* opaque, size_t length,
                   XlaCustomCallStatus* status) {
  unsigned long long n = 0;
  if (length != sizeof(n)) {
    static const char kWrong[] = "opaque is not the number of elements";
    XlaCustomCallStatusSetFailure(status, kWrong, sizeof(kWrong) - 1);
    return;
  }
  memcpy(&n, opaque, sizeof(n));
  xla::ffi::Error error =
      Launch(sum_and_difference, BlocksFor(n, 256), 256, static_cast<cudaStream_t>(stream),
             static_cast<const float*>(buffers[0]), static_cast<const float*>(buffers[1]),
             static_cast<float*>(buffers[2]), static_cast<float*>(buffers[3]), n);
  if (error.failure()) {
    XlaCustomCallStatusSetFailure(status, error.message().c_str(), error.message().size());
  }
}

XFFI_ADAPT_GPU_STATUS(cpp_sum_and_difference, Target, "elements");
