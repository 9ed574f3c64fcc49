// The C API between an XLA runtime and a custom call, revision r10 (version 0.5).
// Generated from ffi-sys by `cargo xtask headers`; do not edit.
//
// Layouts of older revisions differ: `xla-ffi abi diff r0 r10` shows how. The rules, in short:
// * struct_size is the first field of nearly every struct. Whoever makes the struct fills it with
//   NAME_STRUCT_SIZE; whoever reads it reads a field only if struct_size covers it.
// * A function of the table may be missing on older runtimes: see "From rN" at each.
// * Errors: null means success. An error belongs to whoever received it last.

#if defined(XLA_FFI_API_C_API_H_) && !defined(XLA_FFI_SDK_C_API_H_)
#error "XLA's own c_api.h came before this SDK's c_api.h: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_C_API_H_
#define XLA_FFI_API_C_API_H_
#define XLA_FFI_SDK_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(UINTPTR_MAX) && UINTPTR_MAX != 0xFFFFFFFFFFFFFFFFu
#error "XLA's FFI is laid out for 64-bit systems, and jaxlib has no 32-bit build"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "XLA's FFI is laid out for little-endian systems, and jaxlib has no big-endian build"
#endif

// The version that a handler written to this header's whole extent would need. It is not the
// version to answer a runtime with: older ones refuse a newer version than their own.
#define XLA_FFI_API_MAJOR 0
#define XLA_FFI_API_MINOR 5

// Bytes from the start of a struct to the end of one of its fields.
#ifdef __cplusplus
#define XLA_FFI_STRUCT_SIZE(struct_type, last_field) \
  (offsetof(struct_type, last_field) + sizeof(static_cast<struct_type*>(nullptr)->last_field))
#else
#define XLA_FFI_STRUCT_SIZE(struct_type, last_field) \
  (offsetof(struct_type, last_field) + sizeof(((struct_type*)0)->last_field))
#endif

// For a struct of your own that travels with this API: declares its name and its STRUCT_SIZE.
#define XLA_FFI_DEFINE_STRUCT_TRAITS(sname, last_field) \
  typedef struct sname sname; \
  enum { sname##_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(sname, last_field) }

// No type.
#ifdef __cplusplus
#define XLA_FFI_UNKNOWN_TYPE_ID XLA_FFI_TypeId{0}
#else
#define XLA_FFI_UNKNOWN_TYPE_ID ((XLA_FFI_TypeId){0})
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The host's private functions. A frame whose pointer is not this image's own is never
// dereferenced.
typedef struct XLA_FFI_InternalApi XLA_FFI_InternalApi;
// The context of one invocation (XLA_FFI_ExecutionContext before r9); ends with the call.
typedef struct XLA_FFI_InvokeContext XLA_FFI_InvokeContext;
// An error owned by whoever received it last; null means success.
typedef struct XLA_FFI_Error XLA_FFI_Error;
// The host's half of an asynchronous call's completion.
typedef struct XLA_FFI_Future XLA_FFI_Future;

typedef struct XLA_FFI_InternalExtension XLA_FFI_InternalExtension;
typedef struct XLA_FFI_ExtensionId XLA_FFI_ExtensionId;
typedef struct XLA_FFI_Extension XLA_FFI_Extension;
typedef struct XLA_FFI_Api_Version XLA_FFI_Api_Version;
typedef struct XLA_FFI_Error_Create_Args XLA_FFI_Error_Create_Args;
typedef struct XLA_FFI_Error_GetDetails_Args XLA_FFI_Error_GetDetails_Args;
typedef struct XLA_FFI_Error_Destroy_Args XLA_FFI_Error_Destroy_Args;
typedef struct XLA_FFI_Buffer XLA_FFI_Buffer;
typedef struct XLA_FFI_ByteSpan XLA_FFI_ByteSpan;
typedef struct XLA_FFI_Scalar XLA_FFI_Scalar;
typedef struct XLA_FFI_Array XLA_FFI_Array;
typedef struct XLA_FFI_TypeId XLA_FFI_TypeId;
typedef struct XLA_FFI_TypeInfo XLA_FFI_TypeInfo;
typedef struct XLA_FFI_Future_Create_Args XLA_FFI_Future_Create_Args;
typedef struct XLA_FFI_Future_SetAvailable_Args XLA_FFI_Future_SetAvailable_Args;
typedef struct XLA_FFI_Future_SetError_Args XLA_FFI_Future_SetError_Args;
typedef struct XLA_FFI_Args XLA_FFI_Args;
typedef struct XLA_FFI_Rets XLA_FFI_Rets;
typedef struct XLA_FFI_Attrs XLA_FFI_Attrs;
typedef struct XLA_FFI_CallFrame XLA_FFI_CallFrame;
typedef struct XLA_FFI_Handler_Bundle XLA_FFI_Handler_Bundle;
typedef struct XLA_FFI_Handler_Register_Args XLA_FFI_Handler_Register_Args;
typedef struct XLA_FFI_Type_Register_Args XLA_FFI_Type_Register_Args;
typedef struct XLA_FFI_InvokeContext_FindExtension_Args XLA_FFI_InvokeContext_FindExtension_Args;
typedef struct XLA_FFI_InvokeContext_Get_Args XLA_FFI_InvokeContext_Get_Args;
typedef struct XLA_FFI_CustomOptions_Get_Args XLA_FFI_CustomOptions_Get_Args;
typedef struct XLA_FFI_State_Set_Args XLA_FFI_State_Set_Args;
typedef struct XLA_FFI_State_Get_Args XLA_FFI_State_Get_Args;
typedef struct XLA_FFI_Stream_Get_Args XLA_FFI_Stream_Get_Args;
typedef struct XLA_FFI_DeviceMemory_Allocate_Args XLA_FFI_DeviceMemory_Allocate_Args;
typedef struct XLA_FFI_DeviceMemory_Free_Args XLA_FFI_DeviceMemory_Free_Args;
typedef struct XLA_FFI_ThreadPool_Schedule_Args XLA_FFI_ThreadPool_Schedule_Args;
typedef struct XLA_FFI_ThreadPool_NumThreads_Args XLA_FFI_ThreadPool_NumThreads_Args;
typedef struct XLA_FFI_RunId_Get_Args XLA_FFI_RunId_Get_Args;
typedef struct XLA_FFI_DeviceOrdinal_Get_Args XLA_FFI_DeviceOrdinal_Get_Args;
typedef struct XLA_FFI_Metadata XLA_FFI_Metadata;
typedef struct XLA_FFI_Metadata_Extension XLA_FFI_Metadata_Extension;
typedef struct XLA_FFI_Api XLA_FFI_Api;

// What an XLA_FFI_InternalExtension is (XLA_FFI_Extension_Type before r9).
enum XLA_FFI_InternalExtension_Type {
  // An XLA_FFI_Metadata_Extension.
  XLA_FFI_Extension_Metadata = 1,
};
typedef enum XLA_FFI_InternalExtension_Type XLA_FFI_InternalExtension_Type;

// The canonical absl status codes.
enum XLA_FFI_Error_Code {
  // No error; refused by hosts where an error is expected.
  XLA_FFI_Error_Code_OK = 0,
  // The operation was cancelled, typically by the caller.
  XLA_FFI_Error_Code_CANCELLED = 1,
  // The cause is not known.
  XLA_FFI_Error_Code_UNKNOWN = 2,
  // The caller gave an argument that is wrong whatever the state of the system.
  XLA_FFI_Error_Code_INVALID_ARGUMENT = 3,
  // Time ran out.
  XLA_FFI_Error_Code_DEADLINE_EXCEEDED = 4,
  // Something that was asked for does not exist.
  XLA_FFI_Error_Code_NOT_FOUND = 5,
  // Something that was to be made exists.
  XLA_FFI_Error_Code_ALREADY_EXISTS = 6,
  // The caller may not do this.
  XLA_FFI_Error_Code_PERMISSION_DENIED = 7,
  // Memory, quota or another resource is used up.
  XLA_FFI_Error_Code_RESOURCE_EXHAUSTED = 8,
  // The system is not in the state that the operation needs.
  XLA_FFI_Error_Code_FAILED_PRECONDITION = 9,
  // The operation was given up, typically because of concurrency.
  XLA_FFI_Error_Code_ABORTED = 10,
  // Past a valid range.
  XLA_FFI_Error_Code_OUT_OF_RANGE = 11,
  // Not implemented or not supported here.
  XLA_FFI_Error_Code_UNIMPLEMENTED = 12,
  // An invariant is broken.
  XLA_FFI_Error_Code_INTERNAL = 13,
  // The service is down for the moment.
  XLA_FFI_Error_Code_UNAVAILABLE = 14,
  // Data is lost or corrupt beyond repair.
  XLA_FFI_Error_Code_DATA_LOSS = 15,
  // Credentials are missing or wrong.
  XLA_FFI_Error_Code_UNAUTHENTICATED = 16,
};
typedef enum XLA_FFI_Error_Code XLA_FFI_Error_Code;

// The element type of a buffer, scalar or array. Hosts may send numbers that are not listed;
// r3 and r4 send 0 for the sub-byte types.
enum XLA_FFI_DataType {
  // No type, or one that the host cannot name.
  XLA_FFI_DataType_INVALID = 0,
  // Boolean, one byte, 0 or 1.
  XLA_FFI_DataType_PRED = 1,
  // 1-bit signed integer.
  XLA_FFI_DataType_S1 = 30,
  // 2-bit signed integer, four to a byte, first in the low bits.
  XLA_FFI_DataType_S2 = 26,
  // 4-bit signed integer, two to a byte, first in the low bits.
  XLA_FFI_DataType_S4 = 21,
  // 8-bit signed integer.
  XLA_FFI_DataType_S8 = 2,
  // 16-bit signed integer.
  XLA_FFI_DataType_S16 = 3,
  // 32-bit signed integer.
  XLA_FFI_DataType_S32 = 4,
  // 64-bit signed integer.
  XLA_FFI_DataType_S64 = 5,
  // 1-bit unsigned integer.
  XLA_FFI_DataType_U1 = 31,
  // 2-bit unsigned integer, four to a byte, first in the low bits.
  XLA_FFI_DataType_U2 = 27,
  // 4-bit unsigned integer, two to a byte, first in the low bits.
  XLA_FFI_DataType_U4 = 22,
  // 8-bit unsigned integer.
  XLA_FFI_DataType_U8 = 6,
  // 16-bit unsigned integer.
  XLA_FFI_DataType_U16 = 7,
  // 32-bit unsigned integer.
  XLA_FFI_DataType_U32 = 8,
  // 64-bit unsigned integer.
  XLA_FFI_DataType_U64 = 9,
  // IEEE half precision.
  XLA_FFI_DataType_F16 = 10,
  // IEEE single precision.
  XLA_FFI_DataType_F32 = 11,
  // IEEE double precision.
  XLA_FFI_DataType_F64 = 12,
  // The upper half of a single.
  XLA_FFI_DataType_BF16 = 16,
  // Two singles: real, imaginary.
  XLA_FFI_DataType_C64 = 15,
  // Two doubles: real, imaginary.
  XLA_FFI_DataType_C128 = 18,
  // An ordering token; rank 0, no elements.
  XLA_FFI_DataType_TOKEN = 17,
  // 8-bit float, 5 exponent and 2 mantissa bits.
  XLA_FFI_DataType_F8E5M2 = 19,
  // 8-bit float, 3 exponent and 4 mantissa bits.
  XLA_FFI_DataType_F8E3M4 = 29,
  // 8-bit float, 4 exponent and 3 mantissa bits, with infinities.
  XLA_FFI_DataType_F8E4M3 = 28,
  // 8-bit float, 4 exponent and 3 mantissa bits, finite.
  XLA_FFI_DataType_F8E4M3FN = 20,
  // 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, no negative zero.
  XLA_FFI_DataType_F8E4M3B11FNUZ = 23,
  // 8-bit float, 5 exponent and 2 mantissa bits, finite, no negative zero.
  XLA_FFI_DataType_F8E5M2FNUZ = 24,
  // 8-bit float, 4 exponent and 3 mantissa bits, finite, no negative zero.
  XLA_FFI_DataType_F8E4M3FNUZ = 25,
  // 4-bit float, 2 exponent bits and 1 mantissa bit, two to a byte, first in the low bits.
  XLA_FFI_DataType_F4E2M1FN = 32,
  // 8-bit power of two: exponent only.
  XLA_FFI_DataType_F8E8M0FNU = 33,
};
typedef enum XLA_FFI_DataType XLA_FFI_DataType;

// What an entry of XLA_FFI_Args points to.
enum XLA_FFI_ArgType {
  // An XLA_FFI_Buffer.
  XLA_FFI_ArgType_BUFFER = 1,
};
typedef enum XLA_FFI_ArgType XLA_FFI_ArgType;

// What an entry of XLA_FFI_Rets points to.
enum XLA_FFI_RetType {
  // An XLA_FFI_Buffer.
  XLA_FFI_RetType_BUFFER = 1,
};
typedef enum XLA_FFI_RetType XLA_FFI_RetType;

// What an entry of XLA_FFI_Attrs points to.
enum XLA_FFI_AttrType {
  // An XLA_FFI_Array.
  XLA_FFI_AttrType_ARRAY = 1,
  // An XLA_FFI_Attrs.
  XLA_FFI_AttrType_DICTIONARY = 2,
  // An XLA_FFI_Scalar.
  XLA_FFI_AttrType_SCALAR = 3,
  // An XLA_FFI_ByteSpan.
  XLA_FFI_AttrType_STRING = 4,
};
typedef enum XLA_FFI_AttrType XLA_FFI_AttrType;

// The stages of an execution. New hosts may name stages that older code has not seen.
enum XLA_FFI_ExecutionStage {
  // Once for each call site when the executable is made; attributes only.
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  // Before an execution, to request resources.
  XLA_FFI_ExecutionStage_PREPARE = 1,
  // Before an execution, when the resources are there.
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  // The call itself.
  XLA_FFI_ExecutionStage_EXECUTE = 3,
  // Recording into a command buffer.
  XLA_FFI_ExecutionStage_RECORD = 4,
};
typedef enum XLA_FFI_ExecutionStage XLA_FFI_ExecutionStage;

// Bits of XLA_FFI_Handler_Traits.
enum XLA_FFI_Handler_TraitsBits {
  // Every call launches the same device operations, so it may be captured into a command buffer
  // and replayed.
  XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1,
};
typedef enum XLA_FFI_Handler_TraitsBits XLA_FFI_Handler_TraitsBits;

// The name of XLA_FFI_InvokeContext up to r8.
typedef XLA_FFI_InvokeContext XLA_FFI_ExecutionContext;
// A set of XLA_FFI_Handler_TraitsBits.
typedef uint32_t XLA_FFI_Handler_Traits;

// A handler: null is success, anything else an error that the host owns.
typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame);
// A task; may run on any thread, in any order.
typedef void XLA_FFI_Task(void* data);

// Makes an error.
typedef XLA_FFI_Error* XLA_FFI_Error_Create(XLA_FFI_Error_Create_Args* args);
// Reads an error (Error_GetMessage up to r8).
typedef void XLA_FFI_Error_GetDetails(XLA_FFI_Error_GetDetails_Args* args);
// Destroys an error.
typedef void XLA_FFI_Error_Destroy(XLA_FFI_Error_Destroy_Args* args);
// Registers a handler.
typedef XLA_FFI_Error* XLA_FFI_Handler_Register(XLA_FFI_Handler_Register_Args* args);
// Gives the platform's stream.
typedef XLA_FFI_Error* XLA_FFI_Stream_Get(XLA_FFI_Stream_Get_Args* args);
// Registers a user type (TypeId_Register up to r6).
typedef XLA_FFI_Error* XLA_FFI_Type_Register(XLA_FFI_Type_Register_Args* args);
// Gives user data (ExecutionContext_Get up to r8).
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_Get(XLA_FFI_InvokeContext_Get_Args* args);
// Leaves state for later stages.
typedef XLA_FFI_Error* XLA_FFI_State_Set(XLA_FFI_State_Set_Args* args);
// Gives the state of a stage.
typedef XLA_FFI_Error* XLA_FFI_State_Get(XLA_FFI_State_Get_Args* args);
// Allocates scratch memory.
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args);
// Frees scratch memory.
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Free(XLA_FFI_DeviceMemory_Free_Args* args);
// Runs a task on the host's pool. From r1.
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_Schedule(XLA_FFI_ThreadPool_Schedule_Args* args);
// Counts the pool's threads. From r3.
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args);
// Makes a future. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_Create(XLA_FFI_Future_Create_Args* args);
// Completes a future. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_SetAvailable(XLA_FFI_Future_SetAvailable_Args* args);
// Completes a future with an error. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_SetError(XLA_FFI_Future_SetError_Args* args);
// Gives the run id. From r4.
typedef XLA_FFI_Error* XLA_FFI_RunId_Get(XLA_FFI_RunId_Get_Args* args);
// Gives the device's global number. From r5.
typedef XLA_FFI_Error* XLA_FFI_DeviceOrdinal_Get(XLA_FFI_DeviceOrdinal_Get_Args* args);
// Finds an extension of the context. From r9.
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_FindExtension(XLA_FFI_InvokeContext_FindExtension_Args* args);
// Gives the options of this execution. From r10.
typedef XLA_FFI_Error* XLA_FFI_CustomOptions_Get(XLA_FFI_CustomOptions_Get_Args* args);

// A link of the chain that starts in the second field of every struct
// (XLA_FFI_Extension_Base before r9; on r0 the field is an unused void*).
struct XLA_FFI_InternalExtension {
  // Bytes of the extension that its maker filled.
  size_t struct_size;
  // Which extension this is.
  XLA_FFI_InternalExtension_Type type;
  // The next link, or null.
  XLA_FFI_InternalExtension* next;
};

// Names an extension of an invocation context, and its version.
struct XLA_FFI_ExtensionId {
  // Unique number of the extension: 128 record, 129 collectives.
  int64_t extension_type;
  // A change makes old users incompatible.
  int32_t major_version;
  // A change only adds.
  int32_t minor_version;
};

// A link of the extension chain of an invocation context; lives as long as the context. From r9.
struct XLA_FFI_Extension {
  // Bytes of the extension that its maker filled.
  size_t struct_size;
  // Which extension this is.
  XLA_FFI_ExtensionId id;
  // The next link, or null.
  const XLA_FFI_Extension* next;
};

// A version, embedded in XLA_FFI_Api and
// XLA_FFI_Metadata.
struct XLA_FFI_Api_Version {
  // Bytes of this struct that its maker filled.
  size_t struct_size;
  // Extension chain; null so far.
  XLA_FFI_InternalExtension* extension_start;
  // Major version.
  int32_t major_version;
  // Minor version.
  int32_t minor_version;
};

// Arguments of Error_Create (slot 0).
struct XLA_FFI_Error_Create_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // NUL-terminated text; the host copies it.
  const char* message;
  // The code.
  XLA_FFI_Error_Code errc;
};

// Arguments of Error_GetDetails (slot 1) from r9. Older hosts fill message alone, so errc
// has to be preset.
struct XLA_FFI_Error_GetDetails_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The error that is asked about.
  XLA_FFI_Error* error;
  // Out: NUL-terminated text that lives as long as the error.
  const char* message;
  // Out: the code.
  XLA_FFI_Error_Code errc;
};

// Arguments of Error_Destroy (slot 2).
struct XLA_FFI_Error_Destroy_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The error to destroy.
  XLA_FFI_Error* error;
};

// An array in host or device memory, dense and row-major whatever its layout options. The struct
// and dims die with the call; what data names lives until an asynchronous call completes.
struct XLA_FFI_Buffer {
  // Bytes of this struct that the host filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Element type.
  XLA_FFI_DataType dtype;
  // First element; may be null when a dimension is 0.
  void* data;
  // Number of dimensions.
  int64_t rank;
  // Elements along each dimension; rank of them.
  int64_t* dims;
};

// A string that need not end in NUL.
struct XLA_FFI_ByteSpan {
  // First byte; may be null when len is 0.
  const char* ptr;
  // Bytes.
  size_t len;
};

// One value.
struct XLA_FFI_Scalar {
  // Its type.
  XLA_FFI_DataType dtype;
  // Where it lies.
  void* value;
};

// A dense array of values.
struct XLA_FFI_Array {
  // Type of the elements.
  XLA_FFI_DataType dtype;
  // Number of elements.
  size_t size;
  // First element; may be null when size is 0.
  void* data;
};

// Number of a user type within one XLA copy; 0 stands for "not known yet".
struct XLA_FFI_TypeId {
  // The number.
  int64_t type_id;
};

// How a host destroys an object of a user type. From r7; r6 has XLA_FFI_TypeInfo_R6.
struct XLA_FFI_TypeInfo {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Destroys one object; null for borrowed ones.
  void (*deleter)(void* object);
};

// Arguments of Future_Create. The host checks for 16 bytes but writes future behind them:
// always give it this whole struct.
struct XLA_FFI_Future_Create_Args {
  // Bytes of this struct that the caller filled; upstream counts the first two fields.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Out: the future, to be returned in the call frame.
  XLA_FFI_Future* future;
};

// Arguments of Future_SetAvailable.
struct XLA_FFI_Future_SetAvailable_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The future to complete.
  XLA_FFI_Future* future;
};

// Arguments of Future_SetError.
struct XLA_FFI_Future_SetError_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The future to complete.
  XLA_FFI_Future* future;
  // The error, neither null nor OK; the host owns it from here.
  XLA_FFI_Error* error;
};

// Arguments.
struct XLA_FFI_Args {
  // Bytes of this struct that the host filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Number of arguments.
  int64_t size;
  // What each argument is; size of them.
  XLA_FFI_ArgType* types;
  // The arguments; size of them.
  void** args;
};

// Results.
struct XLA_FFI_Rets {
  // Bytes of this struct that the host filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Number of results.
  int64_t size;
  // What each result is; size of them.
  XLA_FFI_RetType* types;
  // The results; size of them.
  void** rets;
};

// Attributes: a dictionary, sorted by the bytes of the names.
struct XLA_FFI_Attrs {
  // Bytes of this struct that the host filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Number of attributes.
  int64_t size;
  // What each attribute is; size of them.
  XLA_FFI_AttrType* types;
  // The names; size of them.
  XLA_FFI_ByteSpan** names;
  // The values; size of them.
  void** attrs;
};

// One call. From r2 the struct ends in future, which its STRUCT_SIZE does not count; on r0
// and r1 those bytes are not the handler's (XLA_FFI_CallFrame_R0).
struct XLA_FFI_CallFrame {
  // Bytes of this struct that the host filled, future never counted.
  size_t struct_size;
  // Extension chain; a metadata call carries an
  // XLA_FFI_Metadata_Extension.
  XLA_FFI_InternalExtension* extension_start;
  // The host's functions; null in the metadata call of version 0.1 hosts.
  const XLA_FFI_Api* api;
  // The context of this invocation; null in metadata calls.
  XLA_FFI_InvokeContext* ctx;
  // The stage.
  XLA_FFI_ExecutionStage stage;
  // Arguments.
  XLA_FFI_Args args;
  // Results.
  XLA_FFI_Rets rets;
  // Attributes.
  XLA_FFI_Attrs attrs;
  // Out: a future that tells when an asynchronous call is complete. From r2.
  XLA_FFI_Future* future;
};

// The handlers of one custom call, one a stage.
struct XLA_FFI_Handler_Bundle {
  // Optional.
  XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame* call_frame);
  // Optional.
  XLA_FFI_Error* (*prepare)(XLA_FFI_CallFrame* call_frame);
  // Optional.
  XLA_FFI_Error* (*initialize)(XLA_FFI_CallFrame* call_frame);
  // Required.
  XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame* call_frame);
  // Optional; from r9.
  XLA_FFI_Error* (*record)(XLA_FFI_CallFrame* call_frame);
};

// Arguments of Handler_Register (slot 3) from r9. Hand over XLA_FFI_Handler_Register_Args_R0
// unless a record stage is given: every host understands that.
struct XLA_FFI_Handler_Register_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The custom call's target name.
  XLA_FFI_ByteSpan name;
  // The platform, "cpu" or "cuda" for instance, in any case.
  XLA_FFI_ByteSpan platform;
  // The handlers.
  XLA_FFI_Handler_Bundle bundle;
  // The traits, OR-ed with those of the metadata.
  XLA_FFI_Handler_Traits traits;
};

// Arguments of Type_Register (slot 5) from r7. Always give a real type_info: hosts read it
// whatever struct_size says.
struct XLA_FFI_Type_Register_Args {
  // Bytes of this struct that the caller filled; upstream counts up to type_id.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // Name, unique per XLA copy.
  XLA_FFI_ByteSpan name;
  // In and out: 0 asks for a number.
  XLA_FFI_TypeId* type_id;
  // How to destroy an object.
  const XLA_FFI_TypeInfo* type_info;
};

// Arguments of InvokeContext_FindExtension, from r9.
struct XLA_FFI_InvokeContext_FindExtension_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // The number of the extension that is sought.
  int64_t extension_type;
  // Out: the extension.
  const XLA_FFI_Extension* extension;
};

// Arguments of InvokeContext_Get (slot 6; ExecutionContext_Get before r9): user data.
struct XLA_FFI_InvokeContext_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // The type that is asked for.
  XLA_FFI_TypeId* type_id;
  // Out: the object.
  void* data;
};

// Arguments of CustomOptions_Get, from r10.
struct XLA_FFI_CustomOptions_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Out: a dictionary, empty where the caller of the program gave none.
  const XLA_FFI_Attrs* attrs;
};

// Arguments of State_Set (slot 7) from r8.
struct XLA_FFI_State_Set_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // The stage that the state belongs to.
  XLA_FFI_ExecutionStage stage;
  // The type of the state, registered with its deleter.
  XLA_FFI_TypeId* type_id;
  // The state; the host owns it from here.
  void* state;
};

// Arguments of State_Get (slot 8) from r8.
struct XLA_FFI_State_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // The stage whose state is asked for.
  XLA_FFI_ExecutionStage stage;
  // The type of the state.
  XLA_FFI_TypeId* type_id;
  // Out: the state; the host keeps it.
  void* state;
};

// Arguments of Stream_Get (slot 4).
struct XLA_FFI_Stream_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Out: the platform's stream, a CUstream for instance.
  void* stream;
};

// Arguments of DeviceMemory_Allocate (slot 9).
struct XLA_FFI_DeviceMemory_Allocate_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Bytes wanted.
  size_t size;
  // Alignment wanted, a power of two.
  size_t alignment;
  // Out: device memory that lives until the stream has run what the call launched.
  void* data;
};

// Arguments of DeviceMemory_Free (slot 10).
struct XLA_FFI_DeviceMemory_Free_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Bytes that were allocated.
  size_t size;
  // The memory.
  void* data;
};

// Arguments of ThreadPool_Schedule (slot 11), from r1.
struct XLA_FFI_ThreadPool_Schedule_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // The task.
  void (*task)(void* data);
  // What the task is given.
  void* data;
};

// Arguments of ThreadPool_NumThreads, from r3.
struct XLA_FFI_ThreadPool_NumThreads_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Where the number is written.
  int64_t* num_threads;
};

// Arguments of RunId_Get, from r4.
struct XLA_FFI_RunId_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Out: number of the execution, the same on all its devices.
  int64_t run_id;
};

// Arguments of DeviceOrdinal_Get, from r5.
struct XLA_FFI_DeviceOrdinal_Get_Args {
  // Bytes of this struct that the caller filled.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The context.
  XLA_FFI_InvokeContext* ctx;
  // Out: global number of the device (2048 in the second process).
  int32_t device_ordinal;
};

// What a handler says about itself. state_type_id exists from r6, and hosts from r7 read it;
// writing it on r1-r5 overwrites the host's stack. struct_size is 36 everywhere.
struct XLA_FFI_Metadata {
  // Bytes of this struct that the host prepared, state_type_id never counted.
  size_t struct_size;
  // Out: the version that the handler answers.
  XLA_FFI_Api_Version api_version;
  // Out: the handler's traits.
  XLA_FFI_Handler_Traits traits;
  // Out: the type of the state, or 0.
  XLA_FFI_TypeId state_type_id;
};

// The extension that makes a call a metadata call.
struct XLA_FFI_Metadata_Extension {
  // The link of the chain.
  XLA_FFI_InternalExtension extension_base;
  // Where the handler answers.
  XLA_FFI_Metadata* metadata;
};

// The host's functions in the order of r10 (which r3 and later share). r2 has the future slots
// where ThreadPool_NumThreads stands here: see Slot::index. Before r5 struct_size says 88
// whatever the table's length.
struct XLA_FFI_Api {
  // Bytes of this struct that the host filled; 88 before r5.
  size_t struct_size;
  // Extension chain.
  XLA_FFI_InternalExtension* extension_start;
  // The host's version.
  XLA_FFI_Api_Version api_version;
  // The host's private functions.
  const XLA_FFI_InternalApi* internal_api;
  // Makes an error.
  XLA_FFI_Error* (*XLA_FFI_Error_Create)(XLA_FFI_Error_Create_Args* args);
  // Reads an error (Error_GetMessage up to r8).
  void (*XLA_FFI_Error_GetDetails)(XLA_FFI_Error_GetDetails_Args* args);
  // Destroys an error.
  void (*XLA_FFI_Error_Destroy)(XLA_FFI_Error_Destroy_Args* args);
  // Registers a handler.
  XLA_FFI_Error* (*XLA_FFI_Handler_Register)(XLA_FFI_Handler_Register_Args* args);
  // Gives the platform's stream.
  XLA_FFI_Error* (*XLA_FFI_Stream_Get)(XLA_FFI_Stream_Get_Args* args);
  // Registers a user type (TypeId_Register up to r6).
  XLA_FFI_Error* (*XLA_FFI_Type_Register)(XLA_FFI_Type_Register_Args* args);
  // Gives user data (ExecutionContext_Get up to r8).
  XLA_FFI_Error* (*XLA_FFI_InvokeContext_Get)(XLA_FFI_InvokeContext_Get_Args* args);
  // Leaves state for later stages.
  XLA_FFI_Error* (*XLA_FFI_State_Set)(XLA_FFI_State_Set_Args* args);
  // Gives the state of a stage.
  XLA_FFI_Error* (*XLA_FFI_State_Get)(XLA_FFI_State_Get_Args* args);
  // Allocates scratch memory.
  XLA_FFI_Error* (*XLA_FFI_DeviceMemory_Allocate)(XLA_FFI_DeviceMemory_Allocate_Args* args);
  // Frees scratch memory.
  XLA_FFI_Error* (*XLA_FFI_DeviceMemory_Free)(XLA_FFI_DeviceMemory_Free_Args* args);
  // Runs a task on the host's pool. From r1.
  XLA_FFI_Error* (*XLA_FFI_ThreadPool_Schedule)(XLA_FFI_ThreadPool_Schedule_Args* args);
  // Counts the pool's threads. From r3.
  XLA_FFI_Error* (*XLA_FFI_ThreadPool_NumThreads)(XLA_FFI_ThreadPool_NumThreads_Args* args);
  // Makes a future. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_Create)(XLA_FFI_Future_Create_Args* args);
  // Completes a future. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_SetAvailable)(XLA_FFI_Future_SetAvailable_Args* args);
  // Completes a future with an error. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_SetError)(XLA_FFI_Future_SetError_Args* args);
  // Gives the run id. From r4.
  XLA_FFI_Error* (*XLA_FFI_RunId_Get)(XLA_FFI_RunId_Get_Args* args);
  // Gives the device's global number. From r5.
  XLA_FFI_Error* (*XLA_FFI_DeviceOrdinal_Get)(XLA_FFI_DeviceOrdinal_Get_Args* args);
  // Finds an extension of the context. From r9.
  XLA_FFI_Error* (*XLA_FFI_InvokeContext_FindExtension)(XLA_FFI_InvokeContext_FindExtension_Args* args);
  // Gives the options of this execution. From r10.
  XLA_FFI_Error* (*XLA_FFI_CustomOptions_Get)(XLA_FFI_CustomOptions_Get_Args* args);
};

// Packed structs, by a header that leaves `#pragma pack` open or by -fpack-struct (/Zp), have other layouts.
#if defined(__cplusplus)
static_assert(sizeof(XLA_FFI_Buffer) == 48, "XLA_FFI_Buffer is packed: by an open #pragma pack or by -fpack-struct");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(XLA_FFI_Buffer) == 48, "XLA_FFI_Buffer is packed: by an open #pragma pack or by -fpack-struct");
#else
typedef char XLA_FFI_Buffer_is_packed[sizeof(XLA_FFI_Buffer) == 48 ? 1 : -1];
#endif

// Bytes up to the end of the last field that upstream counts, which is not always the last
// one.
enum {
  XLA_FFI_InternalExtension_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_InternalExtension, next),
  XLA_FFI_ExtensionId_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_ExtensionId, minor_version),
  XLA_FFI_Extension_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Extension, next),
  XLA_FFI_Api_Version_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Api_Version, minor_version),
  XLA_FFI_Error_Create_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Error_Create_Args, errc),
  XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Error_GetDetails_Args, errc),
  XLA_FFI_Error_Destroy_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Error_Destroy_Args, error),
  XLA_FFI_Buffer_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Buffer, dims),
  XLA_FFI_TypeInfo_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_TypeInfo, deleter),
  XLA_FFI_Future_Create_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Future_Create_Args, extension_start),
  XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Future_SetAvailable_Args, future),
  XLA_FFI_Future_SetError_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Future_SetError_Args, error),
  XLA_FFI_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Args, args),
  XLA_FFI_Rets_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Rets, rets),
  XLA_FFI_Attrs_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Attrs, attrs),
  XLA_FFI_CallFrame_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_CallFrame, attrs),
  XLA_FFI_Handler_Register_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Handler_Register_Args, traits),
  XLA_FFI_Type_Register_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Type_Register_Args, type_id),
  XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_InvokeContext_FindExtension_Args, extension),
  XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_InvokeContext_Get_Args, data),
  XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_CustomOptions_Get_Args, attrs),
  XLA_FFI_State_Set_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_State_Set_Args, state),
  XLA_FFI_State_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_State_Get_Args, state),
  XLA_FFI_Stream_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Stream_Get_Args, stream),
  XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceMemory_Allocate_Args, data),
  XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceMemory_Free_Args, data),
  XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_ThreadPool_Schedule_Args, data),
  XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_ThreadPool_NumThreads_Args, num_threads),
  XLA_FFI_RunId_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_RunId_Get_Args, run_id),
  XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal),
  XLA_FFI_Metadata_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Metadata, traits),
  XLA_FFI_Metadata_Extension_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Metadata_Extension, metadata),
  XLA_FFI_Api_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Api, XLA_FFI_CustomOptions_Get),
};

// The table of the program that this is linked into. No jaxlib exports it: a shared library
// takes the table from the call frame.
const XLA_FFI_Api* XLA_FFI_GetApi(void);

#ifdef __cplusplus
}
#endif

#endif // XLA_FFI_API_C_API_H_
