/* Parses shapes in opaque bytes with the C header. */
#include <stdlib.h>

#include "xla_ffi/legacy/adapt.h"
#include "xla_ffi/legacy/shape_proto.h"

/* Writes `count`, followed by `count` numbers. Omits numbers for which `to` has no room. Returns the next position. */
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
