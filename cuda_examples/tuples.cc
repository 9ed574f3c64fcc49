// A GPU target of the original custom calls with tuples, and an adapter that makes the target a handler of XLA FFI.
//
// The target is a typical function of the original custom calls: its arguments are a stream, a list with an entry per
// node of the shapes, and opaque bytes. The target writes the root of its result tuple itself.
#include "kernels.cu"
#include "launch.h"
#include "xla_ffi/legacy/adapt.h"
#include "xla_ffi/legacy/device.h"

#define STRUCTURE "(_, _) -> (_, _)"

// Gets the stream's device, which is the current device while XLA calls a target.
static int DeviceOf(void*, int* device) { return cudaGetDevice(device); }
static int Create(void*, void** event) {
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
}
static int Record(void* event, void* stream) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}
static int IsComplete(void* event, int* complete) {
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
  *complete = error == cudaSuccess;
  return error == cudaErrorNotReady ? 0 : error;
}
static int Copy(void* stream, void* to, const void* from, size_t size) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream));
}

// The CUDA functions for the pool of host memory from which the root tuples are copied.
static const xffi_events kEvents = {DeviceOf, Create, Record, IsComplete, Copy};
static xffi_staging roots = XFFI_STAGING(&kEvents, 16);

// Copies device memory to the host on a separate stream, after all work on `stream`. The work on `stream` does not wait
// for the copy.
static int Read(void* stream, void* to, const void* from, size_t size) {
  cudaStream_t own;
  int error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  void* here = nullptr;
  if ((error = Create(stream, &here)) == cudaSuccess) {
    if ((error = Record(here, stream)) == cudaSuccess &&
        (error = cudaStreamWaitEvent(own, static_cast<cudaEvent_t>(here), 0)) == cudaSuccess &&
        (error = cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, own)) == cudaSuccess) {
      error = cudaStreamSynchronize(own);
    }
    cudaEventDestroy(static_cast<cudaEvent_t>(here));
  }
  cudaStreamDestroy(own);
  return error;
}

static xla::ffi::Error Run(void* stream, const xffi_buffers& list, unsigned long long n) {
  if (n > 0) {
    void *x, *y;
    int error = xffi_leaf_fetch(&list.args[0], stream, Read, &x);
    if (error == 0) error = xffi_leaf_fetch(&list.args[1], stream, Read, &y);
    if (error != 0) {
      return xla::ffi::Error::Internal("the operand's tuple cannot be read: CUDA error " +
                                       std::to_string(error));
    }
    xla::ffi::Error launched =
        Launch(sum_and_difference, BlocksFor(n, 256), 256, static_cast<cudaStream_t>(stream),
               static_cast<const float*>(x), static_cast<const float*>(y),
               static_cast<float*>(list.rets[0]), static_cast<float*>(list.rets[1]), n);
    if (launched.failure()) return launched;
  }
  const int error = xffi_staging_write(&roots, stream, list.tables, list.num_tables);
  if (error == 0) return xla::ffi::Error::Success();
  return xla::ffi::Error::Internal("the result's tuple cannot be written: CUDA error " +
                                   std::to_string(error));
}

// Computes ((x, y)) -> (x + y, x - y), all f32; `opaque` is the number of elements.
static void SumAndDifference(void* stream, void** buffers, const char* opaque, size_t length,
                             XlaCustomCallStatus* status) {
  unsigned long long n = 0;
  xffi_buffers list;
  xla::ffi::Error error;
  if (length != sizeof(n)) {
    error = xla::ffi::Error::InvalidArgument("opaque is not the number of elements");
  } else if (xffi_buffers_read(&list, buffers, STRUCTURE, XFFI_FORM_NODES) != 0) {
    error = xla::ffi::Error(xla::ffi::ErrorCode::kResourceExhausted, "no memory for a list of buffers");
  } else {
    memcpy(&n, opaque, sizeof(n));
    error = Run(stream, list, n);
    xffi_buffers_free(&list);
  }
  if (error.failure()) {
    XlaCustomCallStatusSetFailure(status, error.message().c_str(), error.message().size());
  }
}

// Checks the sizes of the operands, which are not passed to the target, and writes the target's opaque bytes.
static XLA_FFI_Error* Describe(xffi_call* call, const xffi_legacy_operands* operands,
                               xffi_legacy_opaque* opaque) {
  static const char* const kNames[] = {"x", "y", "sum", "difference"};
  if (operands->num_args != 2 || operands->num_rets != 2) {
    return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT, "expected x and y, sum and difference");
  }
  const unsigned long long n = static_cast<unsigned long long>(operands->args[0].count);
  for (int i = 0; i < 4; ++i) {
    const xffi_buffer& one = i < 2 ? operands->args[i] : operands->rets[i - 2];
    if (one.dtype != XLA_FFI_DataType_F32) xffi_problem(call, "argument `%s`: expected F32", kNames[i]);
    xffi_same_shape(call, "x", &operands->args[0], kNames[i], &one);
  }
  memcpy(opaque->local, &n, sizeof(n));
  opaque->size = sizeof(n);
  return nullptr;
}

// The adapter of the target, for any XLA with CUDA.
static const xffi_legacy_adapter adapter = {XFFI_LEGACY_GPU_STATUS, reinterpret_cast<void (*)()>(SumAndDifference),
                                            nullptr, STRUCTURE, Describe, Copy};
XFFI_ADAPT(cpp_sum_and_difference, adapter);
XLA_REGISTER_CUSTOM_CALL_TARGET(SumAndDifference, "CUDA");
