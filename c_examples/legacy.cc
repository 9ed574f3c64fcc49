// The example in XLA's documents, A[i] = B[i % 128] + C[i], in every calling convention of the original
// custom calls. A one-line macro per function adapts it to a handler of XLA FFI.
#include <stdexcept>
#include <string>

#include "xla/service/custom_call_status.h"
#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/legacy/adapt.h"

// A target for CPU programs with API_VERSION_ORIGINAL.
XFFI_EXPORT void tiled_add_cpu(void* out, const void** in) {
  float* a = reinterpret_cast<float*>(out);
  const float* b = reinterpret_cast<const float*>(in[0]);
  const float* c = reinterpret_cast<const float*>(in[1]);
  for (size_t i = 0; i < 2048; ++i) a[i] = b[i % 128] + c[i];
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add_cpu, "Host");
XFFI_ADAPT_CPU(tiled_add_cpu_ffi, tiled_add_cpu);

// Computes the two results A and A + 1. `out` is an array with one pointer per result, as in current XLA.
XFFI_EXPORT void tiled_add_two(void* out, const void** in) {
  float* const* results = static_cast<float* const*>(out);
  tiled_add_cpu(results[0], in);
  for (size_t i = 0; i < 2048; ++i) results[1][i] = results[0][i] + 1;
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add_two, "Host");
// The same function for nested tuples, ((B, C)) -> (A, (A + 1)). Current XLA passes one pointer per leaf, so
// the nesting has no effect on the arguments.
XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("tiled_add_nested", tiled_add_two, "Host");

// A CPU target with API_VERSION_STATUS_RETURNING: fails if B[0] is negative, and throws if B[0] is infinite.
XFFI_EXPORT void tiled_add_status(void* out, const void** in,
                                                            XlaCustomCallStatus* status) {
  const float first = reinterpret_cast<const float*>(in[0])[0];
  if (first < 0) {
    const std::string message = "B[0] is negative";
    XlaCustomCallStatusSetFailure(status, message.data(), message.size());
    return;
  }
  if (first > 1e30f) throw std::runtime_error("B[0] is too large");
  tiled_add_cpu(out, in);
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add_status, "Host");
XFFI_ADAPT_CPU_STATUS(tiled_add_status_ffi, tiled_add_status);

// A CPU target with API_VERSION_STATUS_RETURNING_UNIFIED: `opaque` is a decimal number that is added to every
// element. If it has characters other than digits, the target fails with `opaque` as the message.
XFFI_EXPORT void tiled_add_unified(void* out, const void** in,
                                                             const char* opaque, size_t opaque_len,
                                                             XlaCustomCallStatus* status) {
  float more = 0;
  for (size_t i = 0; i < opaque_len; ++i) {
    if (opaque[i] < '0' || opaque[i] > '9') {
      XlaCustomCallStatusSetFailure(status, opaque, opaque_len);
      return;
    }
    more = 10 * more + static_cast<float>(opaque[i] - '0');
  }
  tiled_add_cpu(out, in);
  for (size_t i = 0; i < 2048; ++i) static_cast<float*>(out)[i] += more;
}
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(tiled_add_unified);
XFFI_ADAPT_CPU_UNIFIED(tiled_add_unified_ffi, tiled_add_unified, "opaque");

// ((B, C)) -> A: `in[0]` is the root of the tuple, an array with the addresses of B and C, as in jaxlib
// 0.4.31.
static void tiled_add_pair(void* out, const void** in) {
  tiled_add_cpu(out, static_cast<const void**>(const_cast<void*>(in[0])));
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add_pair, "Host");

// Checks the sizes of the operands, which are not passed to the adapted function.
static XLA_FFI_Error* CheckSizes(xffi_call* call, const xffi_legacy_operands* operands,
                                 xffi_legacy_opaque*) {
  const int64_t want[] = {128, 2048, 2048};
  if (operands->num_args != 2 || operands->num_rets != 1) {
    xffi_problem(call, "expected B, C and one result");
    return nullptr;
  }
  for (size_t i = 0; i < 3; ++i) {
    const xffi_buffer& x = i < 2 ? operands->args[i] : operands->rets[0];
    if (x.dtype != XLA_FFI_DataType_F32 || x.count != want[i]) {
      xffi_problem(call, "%c: expected %lld elements of F32, got %lld of %s", "BCA"[i],
                   static_cast<long long>(want[i]), static_cast<long long>(x.count),
                   xffi_dtype_name(x.dtype));
    }
  }
  return nullptr;
}
static const xffi_legacy_adapter checked = {
    XFFI_LEGACY_CPU, reinterpret_cast<void (*)()>(tiled_add_cpu), nullptr, nullptr, CheckSizes, nullptr};
XFFI_ADAPT(tiled_add_checked_ffi, checked);

// Reads and writes tuples through their roots, as in XLA's documents: ((B, C)) -> (A, (A + 1)).
static void Tuples(void* out, const void** in) {
  void** results = static_cast<void**>(out);
  tiled_add_cpu(results[0], static_cast<const void**>(const_cast<void*>(in[0])));
  const float* a = static_cast<const float*>(results[0]);
  float* more = static_cast<float*>(static_cast<void**>(results[1])[0]);
  for (size_t i = 0; i < 2048; ++i) more[i] = a[i] + 1;
}
XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("tiled_add_tuples", Tuples, "Host");
static const xffi_legacy_adapter with_tuples = {
    XFFI_LEGACY_CPU, reinterpret_cast<void (*)()>(Tuples), nullptr, "(_, _) -> (_, (_))", nullptr, nullptr};
XFFI_ADAPT(tiled_add_tuples_ffi, with_tuples);
