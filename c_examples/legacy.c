/* The example in XLA's documents, A[i] = B[i % 128] + C[i], in every calling convention of the original
 * custom calls. A one-line macro per function adapts it to a handler of XLA FFI. */
#include "xla_ffi/legacy/adapt.h"

enum { kB = 128, kC = 2048 };

static void add(float* a, const float* b, const float* c) {
  int i;
  for (i = 0; i < kC; ++i) a[i] = b[i % kB] + c[i];
}

/* A target for CPU programs with API_VERSION_ORIGINAL. */
XFFI_EXPORT void tiled_add_cpu(void* out, const void** in);
XFFI_EXPORT void tiled_add_cpu(void* out, const void** in) {
  add((float*)out, (const float*)in[0], (const float*)in[1]);
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_cpu", tiled_add_cpu, "Host", XFFI_LEGACY_CPU);
XFFI_ADAPT_CPU(tiled_add_cpu_ffi, tiled_add_cpu);

/* Computes the two results A and A + 1. `out` is an array with one pointer per result, as in current XLA. */
XFFI_EXPORT void tiled_add_two(void* out, const void** in);
XFFI_EXPORT void tiled_add_two(void* out, const void** in) {
  float* const* results = (float* const*)out;
  int i;
  add(results[0], (const float*)in[0], (const float*)in[1]);
  for (i = 0; i < kC; ++i) results[1][i] = results[0][i] + 1;
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_two", tiled_add_two, "Host", XFFI_LEGACY_CPU);
/* The same function for nested tuples, ((B, C)) -> (A, (A + 1)). Current XLA passes one pointer per leaf, so
 * the nesting has no effect on the arguments. */
XFFI_REGISTER_LEGACY_TARGET("tiled_add_nested", tiled_add_two, "Host", XFFI_LEGACY_CPU);

/* A CPU target with API_VERSION_STATUS_RETURNING: fails if B[0] is negative. */
XFFI_EXPORT void tiled_add_status(void* out, const void** in, XlaCustomCallStatus* status);
XFFI_EXPORT void tiled_add_status(void* out, const void** in, XlaCustomCallStatus* status) {
  static const char message[] = "B[0] is negative";
  if (((const float*)in[0])[0] < 0) {
    XlaCustomCallStatusSetFailure(status, message, sizeof(message) - 1);
    return;
  }
  tiled_add_cpu(out, in);
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_status", tiled_add_status, "Host", XFFI_LEGACY_CPU_STATUS);
XFFI_ADAPT_CPU_STATUS(tiled_add_status_ffi, tiled_add_status);

/* A CPU target with API_VERSION_STATUS_RETURNING_UNIFIED: `opaque` is a decimal number that is added to every
 * element. If it has characters other than digits, the target fails with `opaque` as the message. */
XFFI_EXPORT void tiled_add_unified(void* out, const void** in, const char* opaque, size_t size,
                                   XlaCustomCallStatus* status);
XFFI_EXPORT void tiled_add_unified(void* out, const void** in, const char* opaque, size_t size,
                                   XlaCustomCallStatus* status) {
  float* a = (float*)out;
  float more = 0;
  size_t i;
  for (i = 0; i < size; ++i) {
    if (opaque[i] < '0' || opaque[i] > '9') {
      XlaCustomCallStatusSetFailure(status, opaque, size);
      return;
    }
    more = 10 * more + (float)(opaque[i] - '0');
  }
  tiled_add_cpu(out, in);
  for (i = 0; i < kC; ++i) a[i] += more;
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_unified", tiled_add_unified, "Host", XFFI_LEGACY_CPU_UNIFIED);
XFFI_ADAPT_CPU_UNIFIED(tiled_add_unified_ffi, tiled_add_unified, "opaque");

/* ((B, C)) -> A: `in[0]` is the root of the tuple, an array with the addresses of B and C, as in jaxlib
 * 0.4.31. */
static void tiled_add_pair(void* out, const void** in) {
  tiled_add_cpu(out, (const void**)in[0]);
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_pair", tiled_add_pair, "Host", XFFI_LEGACY_CPU);

/* Checks the sizes of the operands, which are not passed to the adapted function. */
static XLA_FFI_Error* check_sizes(xffi_call* call, const xffi_legacy_operands* operands,
                                  xffi_legacy_opaque* opaque) {
  static const int64_t want[] = {kB, kC, kC};
  size_t i;
  (void)opaque;
  if (operands->num_args != 2 || operands->num_rets != 1) {
    xffi_problem(call, "expected B, C and one result");
    return NULL;
  }
  for (i = 0; i < 3; ++i) {
    const xffi_buffer* x = i < 2 ? &operands->args[i] : operands->rets;
    if (x->dtype != XLA_FFI_DataType_F32 || x->count != want[i]) {
      xffi_problem(call, "%c: expected %lld elements of F32, got %lld of %s", "BCA"[i],
                   (long long)want[i], (long long)x->count, xffi_dtype_name(x->dtype));
    }
  }
  return NULL;
}
static const xffi_legacy_adapter checked = {
    XFFI_LEGACY_CPU, (void (*)(void))tiled_add_cpu, NULL, NULL, check_sizes, NULL};
XFFI_ADAPT(tiled_add_checked_ffi, checked);

/* Reads and writes tuples through their roots, as in XLA's documents: ((B, C)) -> (A, (A + 1)). */
static void tuples(void* out, const void** in) {
  const void** pair = (const void**)in[0];
  void** results = (void**)out;
  float* more = ((float**)results[1])[0];
  int i;
  add((float*)results[0], (const float*)pair[0], (const float*)pair[1]);
  for (i = 0; i < kC; ++i) more[i] = ((float*)results[0])[i] + 1;
}
XFFI_REGISTER_LEGACY_TARGET("tiled_add_tuples", tuples, "Host", XFFI_LEGACY_CPU);
static const xffi_legacy_adapter with_tuples = {
    XFFI_LEGACY_CPU, (void (*)(void))tuples, NULL, "(_, _) -> (_, (_))", NULL, NULL};
XFFI_ADAPT(tiled_add_tuples_ffi, with_tuples);
