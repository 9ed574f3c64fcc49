/* Targets for hosts in other processes. For generated programs, `mix` computes exactly the same
 * bytes as `mix` in generate.rs. The other functions are targets of original custom calls. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

/* The number of bits per element, and the number of bytes per float, of an element type. */
static int bits_of(int dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_S2: case XLA_FFI_DataType_U2: return 2;
    case XLA_FFI_DataType_S4: case XLA_FFI_DataType_U4: case XLA_FFI_DataType_F4E2M1FN: return 4;
    case XLA_FFI_DataType_S16: case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16: case XLA_FFI_DataType_BF16: return 16;
    case XLA_FFI_DataType_S32: case XLA_FFI_DataType_U32: case XLA_FFI_DataType_F32: return 32;
    case XLA_FFI_DataType_S64: case XLA_FFI_DataType_U64: case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64: return 64;
    case XLA_FFI_DataType_C128: return 128;
    case XLA_FFI_DataType_TOKEN: return 0;
    default: return 8;
  }
}

static int float_bytes(int dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_F16: case XLA_FFI_DataType_BF16: return 2;
    case XLA_FFI_DataType_F32: case XLA_FFI_DataType_C64: return 4;
    case XLA_FFI_DataType_F64: case XLA_FFI_DataType_C128: return 8;
    case XLA_FFI_DataType_F8E5M2: case XLA_FFI_DataType_F8E3M4: case XLA_FFI_DataType_F8E4M3:
    case XLA_FFI_DataType_F8E4M3FN: case XLA_FFI_DataType_F8E4M3B11FNUZ:
    case XLA_FFI_DataType_F8E5M2FNUZ: case XLA_FFI_DataType_F8E4M3FNUZ:
    case XLA_FFI_DataType_F8E8M0FNU: return 1;
    default: return 0;
  }
}

static int64_t elements_of(const XLA_FFI_Buffer* buffer) {
  int64_t elements = 1, i;
  for (i = 0; i < buffer->rank; ++i) elements *= buffer->dims[i];
  return elements;
}

static size_t size_of(const XLA_FFI_Buffer* buffer) {
  return (size_t)(elements_of(buffer) * bits_of(buffer->dtype) + 7) / 8;
}

static void eat(uint64_t* sum, uint8_t byte) { *sum = (*sum ^ byte) * UINT64_C(0x100000001B3); }

static void fill(const XLA_FFI_Buffer* buffer, uint64_t state) {
  uint8_t* bytes = buffer->data;
  const size_t size = size_of(buffer);
  const int width = float_bytes(buffer->dtype);
  const int used = (int)(elements_of(buffer) * bits_of(buffer->dtype) % 8);
  size_t i;
  for (i = 0; i < size; ++i) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    bytes[i] = (uint8_t)(state >> 56);
    if (buffer->dtype == XLA_FFI_DataType_PRED) bytes[i] &= 1;
    if (width > 0 && (i + 1) % width == 0) bytes[i] &= 0x3F;
  }
  if (used > 0 && size > 0) bytes[size - 1] &= (uint8_t)((1 << used) - 1);
}

/* The seeds of the calls of `mix` since the last call of `mix_called`. */
static int64_t called[1024];
static int called_count;

/* Copies the seeds of the calls since the last call of this function, at most `room`. Returns
 * the number of copied seeds. */
__attribute__((visibility("default"))) int mix_called(int64_t* out, int room) {
  const int count = __atomic_exchange_n(&called_count, 0, __ATOMIC_ACQ_REL);
  memcpy(out, called, (size_t)(count < room ? count : room) * sizeof(called[0]));
  return count;
}

__attribute__((visibility("default"))) XLA_FFI_Error* mix(XLA_FFI_CallFrame* frame) {
  uint64_t sum = UINT64_C(0xCBF29CE484222325);
  int64_t i, dim;
  size_t at;
  if (frame->extension_start != NULL) {
    /* Hosts pass no extension other than the metadata extension. */
    XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version = 1;
    return NULL;
  }
  for (i = 0; i < frame->attrs.size; ++i) {
    if (frame->attrs.names[i]->len == 4 && memcmp(frame->attrs.names[i]->ptr, "seed", 4) == 0) {
      const XLA_FFI_Scalar* seed = frame->attrs.attrs[i];
      sum ^= *(const uint64_t*)seed->value;
      at = (size_t)__atomic_fetch_add(&called_count, 1, __ATOMIC_ACQ_REL);
      if (at < sizeof(called) / sizeof(called[0])) called[at] = *(const int64_t*)seed->value;
    }
  }
  for (i = 0; i < frame->args.size; ++i) {
    const XLA_FFI_Buffer* buffer = frame->args.args[i];
    eat(&sum, (uint8_t)buffer->dtype);
    for (dim = 0; dim < buffer->rank; ++dim) eat(&sum, (uint8_t)buffer->dims[dim]);
    for (at = 0; at < size_of(buffer); ++at) {
      /* In XLA's constants, the bits after the last packed element are arbitrary. */
      const int used = (int)(elements_of(buffer) * bits_of(buffer->dtype) % 8);
      const uint8_t last = used > 0 && at + 1 == size_of(buffer) ? (uint8_t)((1 << used) - 1) : 0xFF;
      eat(&sum, ((const uint8_t*)buffer->data)[at] & last);
    }
  }
  for (i = 0; i < frame->rets.size; ++i) fill(frame->rets.rets[i], sum + (uint64_t)i);
  return NULL;
}

/* A target of API_VERSION_STATUS_RETURNING_UNIFIED, with XLA's signature for the CPU. It writes
 * the opaque bytes to the result. */
__attribute__((visibility("default"))) void opaque_bytes(void* out, const void** in,
                                                         const char* opaque, size_t opaque_len,
                                                         void* status) {
  (void)in, (void)status;
  memcpy(out, opaque, opaque_len);
}

/* A target of API_VERSION_ORIGINAL: computes ((a + b), a - b) of (a, (b)), with tuples as
 * leaves. */
__attribute__((visibility("default"))) void by_leaves(void* out, const void** in) {
  const float a = *(const float*)in[0], b = *(const float*)in[1];
  **(float**)out = a + b;
  *((float**)out)[1] = a - b;
}
