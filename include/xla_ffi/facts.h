/* Facts of the ABI and words for them, the same in every language. Part of
 * <xla_ffi/handler.h> and <xla/ffi/api/api.h>.
 * Generated from ffi-sys and ffi by `cargo xtask headers`; do not edit.
 *
 * A list is a macro that applies X to each of its entries.
 */
#ifndef XLA_FFI_FACTS_H_
#define XLA_FFI_FACTS_H_

/* The revisions, oldest first: number, minor version (the major one is 0), first jaxlib, name
 * and releases. */
#define XLA_FFI_SDK_REVISIONS(X) \
  X(0, 0, "0.4.31", "r0, as in jaxlib 0.4.31") \
  X(1, 1, "0.4.33", "r1, as in jaxlib 0.4.33") \
  X(2, 1, "0.4.34", "r2, as in jaxlib 0.4.34 to 0.4.36") \
  X(3, 1, "0.4.38", "r3, as in jaxlib 0.4.38 to 0.5.0") \
  X(4, 1, "0.5.1", "r4, as in jaxlib 0.5.1 to 0.5.3") \
  X(5, 1, "0.6.0", "r5, as in jaxlib 0.6.0 to 0.7.2") \
  X(6, 1, "0.8.0", "r6, as in jaxlib 0.8.0") \
  X(7, 2, "0.8.1", "r7, as in jaxlib 0.8.1 to 0.9.0.1") \
  X(8, 3, "0.9.1", "r8, as in jaxlib 0.9.1 to 0.11.0") \
  X(9, 4, "0.11.1", "r9, as in jaxlib 0.11.1 to 0.11.2") \
  X(10, 5, "0.12.0", "r10, as in jaxlib 0.12.0 and newer")

/* The stages in order: enumerator, name. */
#define XLA_FFI_SDK_STAGES(X) \
  X(INSTANTIATE, "instantiate") \
  X(PREPARE, "prepare") \
  X(INITIALIZE, "initialize") \
  X(EXECUTE, "execute") \
  X(RECORD, "record")

/* The kinds of attributes: enumerator, name. */
#define XLA_FFI_SDK_ATTR_TYPES(X) \
  X(ARRAY, "array") \
  X(DICTIONARY, "dictionary") \
  X(SCALAR, "scalar") \
  X(STRING, "string")

/* The element types, but for INVALID: enumerator, name in lower case, bits (0 for tokens; less
 * than 8 share a byte, the first in the low bits). */
#define XLA_FFI_SDK_ELEMENT_TYPES(X) \
  X(PRED, "pred", 8) \
  X(S1, "s1", 1) \
  X(S2, "s2", 2) \
  X(S4, "s4", 4) \
  X(S8, "s8", 8) \
  X(S16, "s16", 16) \
  X(S32, "s32", 32) \
  X(S64, "s64", 64) \
  X(U1, "u1", 1) \
  X(U2, "u2", 2) \
  X(U4, "u4", 4) \
  X(U8, "u8", 8) \
  X(U16, "u16", 16) \
  X(U32, "u32", 32) \
  X(U64, "u64", 64) \
  X(F16, "f16", 16) \
  X(F32, "f32", 32) \
  X(F64, "f64", 64) \
  X(BF16, "bf16", 16) \
  X(C64, "c64", 64) \
  X(C128, "c128", 128) \
  X(TOKEN, "token", 0) \
  X(F8E5M2, "f8e5m2", 8) \
  X(F8E3M4, "f8e3m4", 8) \
  X(F8E4M3, "f8e4m3", 8) \
  X(F8E4M3FN, "f8e4m3fn", 8) \
  X(F8E4M3B11FNUZ, "f8e4m3b11fnuz", 8) \
  X(F8E5M2FNUZ, "f8e5m2fnuz", 8) \
  X(F8E4M3FNUZ, "f8e4m3fnuz", 8) \
  X(F4E2M1FN, "f4e2m1fn", 4) \
  X(F8E8M0FNU, "f8e8m0fnu", 8)

/* The last of absl's codes. */
#define XLA_FFI_SDK_LAST_ERROR_CODE XLA_FFI_Error_Code_UNAUTHENTICATED

/* The version of the SDK. */
#define XLA_FFI_SDK_VERSION "0.1.0"

/* Minor version and bytes of the function table of each revision. */
#define XLA_FFI_SDK_MINOR_R0 0
#define XLA_FFI_SDK_TABLE_R0 136
#define XLA_FFI_SDK_MINOR_R1 1
#define XLA_FFI_SDK_TABLE_R1 144
#define XLA_FFI_SDK_MINOR_R2 1
#define XLA_FFI_SDK_TABLE_R2 168
#define XLA_FFI_SDK_MINOR_R3 1
#define XLA_FFI_SDK_TABLE_R3 176
#define XLA_FFI_SDK_MINOR_R4 1
#define XLA_FFI_SDK_TABLE_R4 184
#define XLA_FFI_SDK_MINOR_R5 1
#define XLA_FFI_SDK_TABLE_R5 192
#define XLA_FFI_SDK_MINOR_R6 1
#define XLA_FFI_SDK_TABLE_R6 192
#define XLA_FFI_SDK_MINOR_R7 2
#define XLA_FFI_SDK_TABLE_R7 192
#define XLA_FFI_SDK_MINOR_R8 3
#define XLA_FFI_SDK_TABLE_R8 192
#define XLA_FFI_SDK_MINOR_R9 4
#define XLA_FFI_SDK_TABLE_R9 200
#define XLA_FFI_SDK_MINOR_R10 5
#define XLA_FFI_SDK_TABLE_R10 208

/* Features: the oldest revision that has each, and its name in messages. */
#define XLA_FFI_SDK_SINCE_REGISTRATION 0
#define XLA_FFI_SDK_NAME_REGISTRATION "registration"
#define XLA_FFI_SDK_SINCE_USER_TYPES 0
#define XLA_FFI_SDK_NAME_USER_TYPES "user types"
#define XLA_FFI_SDK_SINCE_USER_DATA 0
#define XLA_FFI_SDK_NAME_USER_DATA "user data"
#define XLA_FFI_SDK_SINCE_STREAM 0
#define XLA_FFI_SDK_NAME_STREAM "the platform's stream"
#define XLA_FFI_SDK_SINCE_SCRATCH_MEMORY 0
#define XLA_FFI_SDK_NAME_SCRATCH_MEMORY "scratch memory"
#define XLA_FFI_SDK_SINCE_METADATA 1
#define XLA_FFI_SDK_NAME_METADATA "metadata call"
#define XLA_FFI_SDK_SINCE_STATE 1
#define XLA_FFI_SDK_NAME_STATE "state"
#define XLA_FFI_SDK_SINCE_THREAD_POOL 1
#define XLA_FFI_SDK_NAME_THREAD_POOL "thread pool"
#define XLA_FFI_SDK_SINCE_FUTURES 2
#define XLA_FFI_SDK_NAME_FUTURES "futures"
#define XLA_FFI_SDK_SINCE_THREAD_POOL_SIZE 3
#define XLA_FFI_SDK_NAME_THREAD_POOL_SIZE "size of the thread pool"
#define XLA_FFI_SDK_SINCE_RUN_ID 4
#define XLA_FFI_SDK_NAME_RUN_ID "run id"
#define XLA_FFI_SDK_SINCE_DEVICE_ORDINAL 5
#define XLA_FFI_SDK_NAME_DEVICE_ORDINAL "device ordinal"
#define XLA_FFI_SDK_SINCE_PACKED_ELEMENT_TYPES 5
#define XLA_FFI_SDK_NAME_PACKED_ELEMENT_TYPES "element types of less than a byte"
#define XLA_FFI_SDK_SINCE_TYPES_AGAIN 5
#define XLA_FFI_SDK_NAME_TYPES_AGAIN "registering a type again"
#define XLA_FFI_SDK_SINCE_TYPE_DELETERS 7
#define XLA_FFI_SDK_NAME_TYPE_DELETERS "deleters of types"
#define XLA_FFI_SDK_SINCE_STAGE_STATE 8
#define XLA_FFI_SDK_NAME_STAGE_STATE "state of the prepare and initialize stages"
#define XLA_FFI_SDK_SINCE_ERROR_CODES 9
#define XLA_FFI_SDK_NAME_ERROR_CODES "error codes"
#define XLA_FFI_SDK_SINCE_EXTENSIONS 9
#define XLA_FFI_SDK_NAME_EXTENSIONS "extensions"
#define XLA_FFI_SDK_SINCE_RECORD_STAGE 9
#define XLA_FFI_SDK_NAME_RECORD_STAGE "record stage"
#define XLA_FFI_SDK_SINCE_CUSTOM_OPTIONS 10
#define XLA_FFI_SDK_NAME_CUSTOM_OPTIONS "custom options"
#define XLA_FFI_SDK_SINCE_COLLECTIVE_WINDOWS 10
#define XLA_FFI_SDK_NAME_COLLECTIVE_WINDOWS "windows of collective memory"
#define XLA_FFI_SDK_SINCE_KERNEL_POINTERS 10
#define XLA_FFI_SDK_NAME_KERNEL_POINTERS "kernels by function pointer"

/* FEATURE FIRST_JAXLIB jaxlib THIS_HOST VERSION host: what is said of a feature that the host
 * lacks; and of one that its version of an extension lacks, FEATURE THIS_EXTENSION minor " of
 * the " extension NEWER_EXTENSION jaxlib. After an error of a host that is newer than the
 * library: THIS_HOST VERSION host NEWER_HOST. */
#define XLA_FFI_SDK_TEXT_FIRST_JAXLIB ": the first jaxlib that has it is "
#define XLA_FFI_SDK_TEXT_THIS_HOST "; this host speaks "
#define XLA_FFI_SDK_TEXT_NEWER_HOST \
  ", which is newer than this library: build it with a newer xla-ffi"
#define XLA_FFI_SDK_TEXT_VERSION "XLA FFI "
#define XLA_FFI_SDK_TEXT_THIS_EXTENSION ": this host has version 0."
#define XLA_FFI_SDK_TEXT_NEWER_EXTENSION " extension; the first jaxlib that has 0.2 is "

/* A host from before r0: what its table says of its size, where its first function lies, and
 * what is said of it behind a name. */
#define XLA_FFI_SDK_SIZE_BEFORE_R0 64
#define XLA_FFI_SDK_HEAD_BEFORE_R0 24
#define XLA_FFI_SDK_SIZE_R0 88
#define XLA_FFI_SDK_TEXT_BEFORE_R0 \
  ": this host has the typed FFI from before its first revision, as in jaxlib 0.4.29, 0.4.30 and TensorFlow 2.17, which calls handlers in another way; the oldest that is supported is jaxlib 0.4.31"

/* Behind an element type of less than a byte without its number. */
#define XLA_FFI_SDK_TEXT_WITHOUT_NUMBER \
  " arrives without its type in this XLA and packed the other way round; the first jaxlib that has it is "

/* An operand that cannot be used, whose address and multiple follow, or shares memory; then
 * calls that reach the wrong handler. */
#define XLA_FFI_SDK_TEXT_NOT_A_BUFFER "not a buffer, or shorter than the ABI's"
#define XLA_FFI_SDK_TEXT_COUNT \
  " has a negative dimension, or more elements than can be counted"
#define XLA_FFI_SDK_TEXT_BYTES " takes more bytes than can be addressed"
#define XLA_FFI_SDK_TEXT_NULL_DATA " has a null data pointer"
#define XLA_FFI_SDK_TEXT_IS_AT " is at "
#define XLA_FFI_SDK_TEXT_NOT_A_MULTIPLE ", which is not a multiple of "
#define XLA_FFI_SDK_TEXT_OVERLAPS " overlaps "
#define XLA_FFI_SDK_TEXT_ALIASED \
  "; if the caller aliases them (input_output_aliases), declare an in-out operand"
#define XLA_FFI_SDK_TEXT_APART \
  "argument and result are in different memory; declare the aliasing: input_output_aliases="
#define XLA_FFI_SDK_TEXT_ONE_ARRAY "; both must be the same array"
#define XLA_FFI_SDK_TEXT_DEVICE \
  "the call has a device stream, but the handler reads and writes host memory; register it for platform \"cpu\" only"
#define XLA_FFI_SDK_TEXT_SHORT_FRAME "the call frame or one of its lists is shorter than the ABI's"
#define XLA_FFI_SDK_TEXT_CALLED_AT "called in stage "
#define XLA_FFI_SDK_TEXT_OWN_STAGE "; register each function of the handler for its own stage"

#endif  /* XLA_FFI_FACTS_H_ */
