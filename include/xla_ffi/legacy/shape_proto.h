/* Reads an xla::ShapeProto from its wire format. XLA's documents suggest passing this message as `opaque` to targets
 * whose shapes vary between calls:
 *
 *   xffi_proto_shape* shape;
 *   const char* problem = xffi_proto_read(opaque, opaque_len, &shape);
 *   if (problem != NULL) { XlaCustomCallStatusSetFailure(status, problem, strlen(problem)); return; }
 *   ... shape->dtype, shape->dims[i] for i < shape->rank ...
 *   free(shape);
 *
 * The bytes may be untrusted: the result is a shape or an error text for any input. Unknown fields are
 * skipped. */
#ifndef XLA_FFI_LEGACY_SHAPE_PROTO_H_
#define XLA_FFI_LEGACY_SHAPE_PROTO_H_

/* Silences the C++ warnings about the C-style casts in this header. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla_ffi/call.h"

/* The shape of an array or a tuple. An array has an element type, dimensions, and optionally their order in memory. The
 * elements of a tuple are stored after the tuple: the first is `shape + 1`, and the shape after `shape` is `shape +
 * shape->nodes`. */
typedef struct xffi_proto_shape {
  int is_tuple;
  XLA_FFI_DataType dtype;        /* INVALID for tuples */
  const int64_t* dims;
  const int64_t* minor_to_major; /* one entry per dimension, or null */
  size_t rank;
  size_t num_elements; /* for tuples: the number of elements */
  size_t nodes;        /* number of shapes, including this shape and nested shapes */
} xffi_proto_shape;

#define XFFI_PROTO_DEPTH_ 32 /* maximum depth of nested tuples */
#define XFFI_PROTO_RANK_ 64  /* maximum number of dimensions */

/* A reader of the fields of a message. */
typedef struct xffi_proto_reader_ {
  const unsigned char *at, *end;
  const char* problem;
} xffi_proto_reader_;

typedef struct xffi_proto_field_ {
  uint64_t number;
  uint64_t value;           /* the value of a numeric field */
  const unsigned char* bytes; /* the value of a field of bytes; otherwise null */
  size_t size;
} xffi_proto_field_;

XFFI_INLINE_ uint64_t xffi_proto_number_(xffi_proto_reader_* r) {
  uint64_t value = 0;
  unsigned shift;
  for (shift = 0; shift < 70; shift += 7) {
    unsigned char byte;
    if (r->at == r->end) {
      r->problem = "no xla::ShapeProto: it ends in the middle of a field";
      return 0;
    }
    byte = *r->at++;
    if (shift == 63 && byte > 1) break;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  r->problem = "no xla::ShapeProto: it has a number of more than 64 bits";
  return 0;
}

/* Reads the next field. Returns 0 at the end of the message or after an error. */
XFFI_INLINE_ int xffi_proto_next_(xffi_proto_reader_* r, xffi_proto_field_* field) {
  uint64_t tag, size = 0;
  if (r->at == r->end || r->problem != NULL) return 0;
  tag = xffi_proto_number_(r);
  field->number = tag >> 3;
  field->value = 0;
  field->bytes = NULL;
  switch (tag & 7) {
    case 0:
      field->value = xffi_proto_number_(r);
      return r->problem == NULL;
    case 1:
      size = 8;
      break;
    case 2:
      size = xffi_proto_number_(r);
      break;
    case 5:
      size = 4;
      break;
    default:
      if (r->problem == NULL) r->problem = "no xla::ShapeProto: it has a field of a kind that is not known";
  }
  if (r->problem == NULL && size > (uint64_t)(r->end - r->at)) {
    r->problem = "no xla::ShapeProto: it ends in the middle of a field";
  }
  if (r->problem != NULL) return 0;
  field->bytes = (tag & 7) == 2 ? r->at : NULL;
  field->size = (size_t)size;
  r->at += size;
  if ((tag & 7) != 2) field->number = 0; /* fields of fixed size are ignored */
  return 1;
}

/* Adds the numbers of a repeated field, in packed or unpacked encoding, to `to`. */
XFFI_INLINE_ void xffi_proto_numbers_(xffi_proto_reader_* r, const xffi_proto_field_* field,
                                     int64_t* to, size_t* count) {
  xffi_proto_reader_ packed;
  packed.at = field->bytes;
  packed.end = field->bytes != NULL ? field->bytes + field->size : NULL;
  packed.problem = NULL;
  do {
    const uint64_t value = field->bytes == NULL        ? field->value
                           : packed.at != packed.end ? xffi_proto_number_(&packed)
                                                     : 0;
    if (field->bytes != NULL && field->size == 0) return;
    if (*count == XFFI_PROTO_RANK_) packed.problem = "no xla::ShapeProto: it has more than 64 dimensions";
    if (packed.problem != NULL) {
      r->problem = packed.problem;
      return;
    }
    to[(*count)++] = (int64_t)value;
  } while (packed.at != packed.end);
}

/* The state of one pass over a message. The first pass counts, the second pass fills `node` and `number`. */
typedef struct xffi_proto_walk_ {
  size_t nodes, numbers;
  xffi_proto_shape* node; /* the shapes; null in the counting pass */
  int64_t* number;
  const char* problem;
} xffi_proto_walk_;

static inline void xffi_proto_node_(xffi_proto_walk_* w, const unsigned char* bytes, size_t size,
                                    unsigned depth) {
  int64_t dims[XFFI_PROTO_RANK_], order[XFFI_PROTO_RANK_];
  size_t rank = 0, ordered = 0, elements = 0, i;
  const size_t own = w->nodes++;
  uint64_t type = 0, seen = 0;
  xffi_proto_reader_ r;
  xffi_proto_field_ field;
  r.at = bytes;
  r.end = bytes + size;
  r.problem = NULL;
  while (xffi_proto_next_(&r, &field)) {
    if (field.number == 2 && field.bytes == NULL) type = field.value;
    if (field.number == 3) xffi_proto_numbers_(&r, &field, dims, &rank);
    if (field.number == 4 && field.bytes != NULL) ++elements;
    if (field.number == 5 && field.bytes != NULL) {
      xffi_proto_reader_ layout;
      xffi_proto_field_ inner;
      layout.at = field.bytes;
      layout.end = field.bytes + field.size;
      layout.problem = NULL;
      while (xffi_proto_next_(&layout, &inner)) {
        if (inner.number == 1) xffi_proto_numbers_(&layout, &inner, order, &ordered);
      }
      if (layout.problem != NULL) r.problem = layout.problem;
    }
  }
  w->problem = r.problem;
  for (i = 0; i < rank && w->problem == NULL; ++i) {
    if (dims[i] < 0) w->problem = "no xla::ShapeProto: it has a negative dimension";
  }
  for (i = 0; i < ordered && w->problem == NULL; ++i) {
    if (ordered != rank || order[i] < 0 || (uint64_t)order[i] >= rank || (seen >> order[i] & 1) != 0) {
      w->problem = "no xla::ShapeProto: its layout is one of other dimensions";
    } else {
      seen |= (uint64_t)1 << order[i];
    }
  }
  if (w->problem != NULL) return;
  if (type == 13 ? rank != 0 || ordered != 0 : elements != 0) {
    w->problem = "no xla::ShapeProto: a tuple has elements and no dimensions, an array the other way round";
  } else if (type != 13 && type != XLA_FFI_DataType_TOKEN &&
             (type > 255 || xla_ffi_sdk_bits((unsigned)type) == 0)) {
    w->problem = "no xla::ShapeProto: it has an element type that is not known";
  } else if (type == 13 && depth == XFFI_PROTO_DEPTH_) {
    w->problem = "no xla::ShapeProto: it has more than 32 tuples in tuples";
  }
  if (w->problem != NULL) return;
  if (w->node != NULL) {
    xffi_proto_shape* node = &w->node[own];
    node->is_tuple = type == 13;
    node->dtype = type == 13 ? XLA_FFI_DataType_INVALID : (XLA_FFI_DataType)type;
    node->dims = w->number + w->numbers;
    node->minor_to_major = ordered != 0 ? w->number + w->numbers + rank : NULL;
    node->rank = rank;
    node->num_elements = elements;
    if (rank != 0) memcpy(w->number + w->numbers, dims, rank * sizeof(int64_t));
    if (ordered != 0) memcpy(w->number + w->numbers + rank, order, ordered * sizeof(int64_t));
  }
  w->numbers += rank + ordered;
  r.at = bytes;
  while (elements != 0 && w->problem == NULL && xffi_proto_next_(&r, &field)) {
    if (field.number == 4 && field.bytes != NULL) xffi_proto_node_(w, field.bytes, field.size, depth + 1);
  }
  if (w->node != NULL) w->node[own].nodes = w->nodes - own;
}

/* Reads a shape, which the caller frees with `free`. Returns null on success, or a static text that describes the
 * error. */
XFFI_INLINE_ const char* xffi_proto_read(const void* bytes, size_t size, xffi_proto_shape** shape) {
  xffi_proto_walk_ counted, filled;
  *shape = NULL;
  if (size == 0) return "no xla::ShapeProto: the text is empty";
  memset(&counted, 0, sizeof(counted));
  xffi_proto_node_(&counted, (const unsigned char*)bytes, size, 0);
  if (counted.problem != NULL) return counted.problem;
  *shape = (xffi_proto_shape*)malloc(counted.nodes * sizeof(xffi_proto_shape) +
                                     counted.numbers * sizeof(int64_t));
  if (*shape == NULL) return "no memory for a shape";
  memset(&filled, 0, sizeof(filled));
  filled.node = *shape;
  filled.number = (int64_t*)(void*)(*shape + counted.nodes);
  xffi_proto_node_(&filled, (const unsigned char*)bytes, size, 0);
  return NULL;
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_FFI_LEGACY_SHAPE_PROTO_H_ */
