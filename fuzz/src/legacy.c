/* The adapter of C, with a structure that is chosen for each call. */
#include "xla_ffi/legacy.h"
#include "xla_ffi/shape_proto.h"

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

/* Adds numbers behind their count. */
static size_t fuzz_list(int64_t* to, size_t room, size_t at, const int64_t* values, size_t count) {
  size_t i;
  if (at < room) to[at] = (int64_t)count;
  for (i = 0; i < count; ++i) {
    if (at + 1 + i < room) to[at + 1 + i] = values[i];
  }
  return at + 1 + count;
}

size_t fuzz_shape_proto(const void* bytes, size_t size, int64_t* to, size_t room);
size_t fuzz_shape_proto(const void* bytes, size_t size, int64_t* to, size_t room) {
  xffi_proto_shape* shape;
  size_t at = 0, i, nodes;
  if (xffi_proto_read(bytes, size, &shape) != NULL) return SIZE_MAX;
  nodes = shape->nodes;
  for (i = 0; i < nodes; ++i) {
    const xffi_proto_shape* one = &shape[i];
    const int64_t dtype = one->dtype;
    at = fuzz_list(to, room, at, &dtype, one->is_tuple ? 0 : 1);
    if (one->is_tuple) {
      at = fuzz_list(to, room, at, NULL, 0);
      if (at - 1 < room) to[at - 1] = (int64_t)one->num_elements;
    } else {
      at = fuzz_list(to, room, at, one->dims, one->rank);
      at = fuzz_list(to, room, at, one->minor_to_major, one->minor_to_major != NULL ? one->rank : 0);
    }
  }
  free(shape);
  return at;
}
