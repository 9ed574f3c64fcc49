/* The adapter of C, with a structure that is chosen for each call. */
#include "xla_ffi/legacy.h"

struct fuzz_legacy_call {
  size_t length; /* of the opaque */
  uint64_t sum;  /* of its bytes */
  int calls;
};
static _Thread_local struct fuzz_legacy_call seen;

static void called(void* out, const void** in, const char* opaque, size_t length,
                   XlaCustomCallStatus* status) {
  size_t i;
  (void)out, (void)in, (void)status;
  seen.calls += 1;
  seen.length = length;
  seen.sum = 0;
  for (i = 0; i < length; ++i) seen.sum += (unsigned char)opaque[i];
}

static _Thread_local xffi_legacy_adapter adapter = {XFFI_LEGACY_CPU_UNIFIED, (void (*)(void))called, "opaque",
                                      NULL, NULL, NULL};

void fuzz_legacy_structure(const char* structure) { adapter.structure = structure; }

/* What was seen since it was last asked. */
struct fuzz_legacy_call fuzz_legacy_take(void) {
  const struct fuzz_legacy_call taken = seen;
  memset(&seen, 0, sizeof(seen));
  return taken;
}

XFFI_ADAPT(fuzz_legacy_adapted, adapter);
