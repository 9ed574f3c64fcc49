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

// The host's private functions. A handler may only dereference the pointer if the handler's
// library created it.
typedef struct XLA_FFI_InternalApi XLA_FFI_InternalApi;
// The invocation context of one call (XLA_FFI_ExecutionContext before r9), which is valid
// until the call ends.
typedef struct XLA_FFI_InvokeContext XLA_FFI_InvokeContext;
// An error object, owned by the side that received it last. Null means success.
typedef struct XLA_FFI_Error XLA_FFI_Error;
// The host's future, which completes an asynchronous call.
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

// The kind of an XLA_FFI_InternalExtension (XLA_FFI_Extension_Type before r9).
enum XLA_FFI_InternalExtension_Type {
  // The extension is an XLA_FFI_Metadata_Extension.
  XLA_FFI_Extension_Metadata = 1,
};
typedef enum XLA_FFI_InternalExtension_Type XLA_FFI_InternalExtension_Type;

// The canonical absl status codes, as numbers of the ABI.
enum XLA_FFI_Error_Code {
  // No error; hosts reject this code if they expect an error.
  XLA_FFI_Error_Code_OK = 0,
  // The operation was cancelled, typically by its caller.
  XLA_FFI_Error_Code_CANCELLED = 1,
  // The cause is unknown.
  XLA_FFI_Error_Code_UNKNOWN = 2,
  // An argument is invalid in every state of the system.
  XLA_FFI_Error_Code_INVALID_ARGUMENT = 3,
  // The deadline passed before the operation ended.
  XLA_FFI_Error_Code_DEADLINE_EXCEEDED = 4,
  // A requested object does not exist.
  XLA_FFI_Error_Code_NOT_FOUND = 5,
  // The object to create already exists.
  XLA_FFI_Error_Code_ALREADY_EXISTS = 6,
  // The caller lacks permission.
  XLA_FFI_Error_Code_PERMISSION_DENIED = 7,
  // Memory, a quota or another resource is exhausted.
  XLA_FFI_Error_Code_RESOURCE_EXHAUSTED = 8,
  // The system is not in the required state.
  XLA_FFI_Error_Code_FAILED_PRECONDITION = 9,
  // The operation was aborted, typically because of concurrency.
  XLA_FFI_Error_Code_ABORTED = 10,
  // A value is outside the valid range.
  XLA_FFI_Error_Code_OUT_OF_RANGE = 11,
  // The operation is not implemented or not supported.
  XLA_FFI_Error_Code_UNIMPLEMENTED = 12,
  // An invariant is violated.
  XLA_FFI_Error_Code_INTERNAL = 13,
  // The service is temporarily unavailable.
  XLA_FFI_Error_Code_UNAVAILABLE = 14,
  // Data is lost or corrupt and cannot be recovered.
  XLA_FFI_Error_Code_DATA_LOSS = 15,
  // Credentials are missing or invalid.
  XLA_FFI_Error_Code_UNAUTHENTICATED = 16,
};
typedef enum XLA_FFI_Error_Code XLA_FFI_Error_Code;

// The element type of a buffer, scalar or array. Hosts may also send other numbers. Hosts of
// r3 and r4 send 0 for types smaller than a byte.
enum XLA_FFI_DataType {
  // No type, or a type for which the host has no number.
  XLA_FFI_DataType_INVALID = 0,
  // A boolean: one byte, which is 0 or 1.
  XLA_FFI_DataType_PRED = 1,
  // A 1-bit signed integer, eight per byte, the first in the low bits.
  XLA_FFI_DataType_S1 = 30,
  // 2-bit signed integer, four per byte, the first in the low bits.
  XLA_FFI_DataType_S2 = 26,
  // 4-bit signed integer, two per byte, the first in the low bits.
  XLA_FFI_DataType_S4 = 21,
  // 8-bit signed integer.
  XLA_FFI_DataType_S8 = 2,
  // 16-bit signed integer.
  XLA_FFI_DataType_S16 = 3,
  // 32-bit signed integer.
  XLA_FFI_DataType_S32 = 4,
  // 64-bit signed integer.
  XLA_FFI_DataType_S64 = 5,
  // A 1-bit unsigned integer, eight per byte, the first in the low bits.
  XLA_FFI_DataType_U1 = 31,
  // 2-bit unsigned integer, four per byte, the first in the low bits.
  XLA_FFI_DataType_U2 = 27,
  // 4-bit unsigned integer, two per byte, the first in the low bits.
  XLA_FFI_DataType_U4 = 22,
  // 8-bit unsigned integer.
  XLA_FFI_DataType_U8 = 6,
  // 16-bit unsigned integer.
  XLA_FFI_DataType_U16 = 7,
  // 32-bit unsigned integer.
  XLA_FFI_DataType_U32 = 8,
  // 64-bit unsigned integer.
  XLA_FFI_DataType_U64 = 9,
  // A half-precision float (IEEE 754, 16 bits).
  XLA_FFI_DataType_F16 = 10,
  // A single-precision float (IEEE 754, 32 bits).
  XLA_FFI_DataType_F32 = 11,
  // A double-precision float (IEEE 754, 64 bits).
  XLA_FFI_DataType_F64 = 12,
  // A 16-bit float: the upper half of a single-precision float.
  XLA_FFI_DataType_BF16 = 16,
  // A complex number of two single-precision floats: the real part, then the imaginary part.
  XLA_FFI_DataType_C64 = 15,
  // A complex number of two double-precision floats: the real part, then the imaginary part.
  XLA_FFI_DataType_C128 = 18,
  // An ordering token, which has rank 0 and no elements.
  XLA_FFI_DataType_TOKEN = 17,
  // 8-bit float with 5 exponent bits and 2 mantissa bits.
  XLA_FFI_DataType_F8E5M2 = 19,
  // 8-bit float with 3 exponent bits and 4 mantissa bits.
  XLA_FFI_DataType_F8E3M4 = 29,
  // 8-bit float with 4 exponent bits, 3 mantissa bits and infinities.
  XLA_FFI_DataType_F8E4M3 = 28,
  // 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities.
  XLA_FFI_DataType_F8E4M3FN = 20,
  // 8-bit float with 4 exponent bits (bias 11) and 3 mantissa bits, without infinities and
  // negative zero.
  XLA_FFI_DataType_F8E4M3B11FNUZ = 23,
  // 8-bit float with 5 exponent bits and 2 mantissa bits, without infinities and negative
  // zero.
  XLA_FFI_DataType_F8E5M2FNUZ = 24,
  // 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities and negative
  // zero.
  XLA_FFI_DataType_F8E4M3FNUZ = 25,
  // 4-bit float with 2 exponent bits and 1 mantissa bit, two per byte, the first in the low
  // bits.
  XLA_FFI_DataType_F4E2M1FN = 32,
  // An 8-bit power of two, which consists of an exponent only.
  XLA_FFI_DataType_F8E8M0FNU = 33,
};
typedef enum XLA_FFI_DataType XLA_FFI_DataType;

// The type of an entry of XLA_FFI_Args.
enum XLA_FFI_ArgType {
  // The argument is an XLA_FFI_Buffer.
  XLA_FFI_ArgType_BUFFER = 1,
};
typedef enum XLA_FFI_ArgType XLA_FFI_ArgType;

// The type of an entry of XLA_FFI_Rets.
enum XLA_FFI_RetType {
  // The result is an XLA_FFI_Buffer.
  XLA_FFI_RetType_BUFFER = 1,
};
typedef enum XLA_FFI_RetType XLA_FFI_RetType;

// The type of an entry of XLA_FFI_Attrs.
enum XLA_FFI_AttrType {
  // The attribute is an XLA_FFI_Array.
  XLA_FFI_AttrType_ARRAY = 1,
  // The attribute is an XLA_FFI_Attrs, a dictionary.
  XLA_FFI_AttrType_DICTIONARY = 2,
  // The attribute is an XLA_FFI_Scalar.
  XLA_FFI_AttrType_SCALAR = 3,
  // The attribute is an XLA_FFI_ByteSpan, a string.
  XLA_FFI_AttrType_STRING = 4,
};
typedef enum XLA_FFI_AttrType XLA_FFI_AttrType;

// The stages of an execution. Newer hosts may add stages.
enum XLA_FFI_ExecutionStage {
  // Runs once per call site when the program is compiled. The call frame has only
  // attributes.
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  // Runs before an execution, to request resources.
  XLA_FFI_ExecutionStage_PREPARE = 1,
  // Runs before an execution, when the requested resources are available.
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  // Runs the custom call.
  XLA_FFI_ExecutionStage_EXECUTE = 3,
  // Records the custom call into a command buffer.
  XLA_FFI_ExecutionStage_RECORD = 4,
};
typedef enum XLA_FFI_ExecutionStage XLA_FFI_ExecutionStage;

// A trait of a handler: one bit of XLA_FFI_Handler_Traits.
enum XLA_FFI_Handler_TraitsBits {
  // Every call launches the same device operations, so the call may be captured into a command
  // buffer and replayed.
  XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1,
};
typedef enum XLA_FFI_Handler_TraitsBits XLA_FFI_Handler_TraitsBits;

// The name of XLA_FFI_InvokeContext up to r8.
typedef XLA_FFI_InvokeContext XLA_FFI_ExecutionContext;
// A set of XLA_FFI_Handler_TraitsBits.
typedef uint32_t XLA_FFI_Handler_Traits;

// A handler's C function. Returns null for success, or an error, which the host then owns.
typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame);
// A task for the host's thread pool. Tasks run on any thread and in any order.
typedef void XLA_FFI_Task(void* data);

// Creates an error object of the host.
typedef XLA_FFI_Error* XLA_FFI_Error_Create(XLA_FFI_Error_Create_Args* args);
// Reads the message and code of an error. Called Error_GetMessage up to r8.
typedef void XLA_FFI_Error_GetDetails(XLA_FFI_Error_GetDetails_Args* args);
// Destroys an error object of the host.
typedef void XLA_FFI_Error_Destroy(XLA_FFI_Error_Destroy_Args* args);
// Registers a handler with the host.
typedef XLA_FFI_Error* XLA_FFI_Handler_Register(XLA_FFI_Handler_Register_Args* args);
// Returns the platform's stream, for example a CUstream.
typedef XLA_FFI_Error* XLA_FFI_Stream_Get(XLA_FFI_Stream_Get_Args* args);
// Registers a user type. Called TypeId_Register up to r6.
typedef XLA_FFI_Error* XLA_FFI_Type_Register(XLA_FFI_Type_Register_Args* args);
// Returns user data. Called ExecutionContext_Get up to r8.
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_Get(XLA_FFI_InvokeContext_Get_Args* args);
// Stores state for later stages of the handler.
typedef XLA_FFI_Error* XLA_FFI_State_Set(XLA_FFI_State_Set_Args* args);
// Returns the state that a stage of the handler stored.
typedef XLA_FFI_Error* XLA_FFI_State_Get(XLA_FFI_State_Get_Args* args);
// Allocates device memory for one call.
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args);
// Frees device memory of one call.
typedef XLA_FFI_Error* XLA_FFI_DeviceMemory_Free(XLA_FFI_DeviceMemory_Free_Args* args);
// Runs a task on the host's thread pool. From r1.
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_Schedule(XLA_FFI_ThreadPool_Schedule_Args* args);
// Returns the number of threads in the host's thread pool. From r3.
typedef XLA_FFI_Error* XLA_FFI_ThreadPool_NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args);
// Creates a future of the host. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_Create(XLA_FFI_Future_Create_Args* args);
// Completes a future of the host. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_SetAvailable(XLA_FFI_Future_SetAvailable_Args* args);
// Completes a future of the host with an error. From r2.
typedef XLA_FFI_Error* XLA_FFI_Future_SetError(XLA_FFI_Future_SetError_Args* args);
// Returns the run id of the execution. From r4.
typedef XLA_FFI_Error* XLA_FFI_RunId_Get(XLA_FFI_RunId_Get_Args* args);
// Returns the global ordinal of the device. From r5.
typedef XLA_FFI_Error* XLA_FFI_DeviceOrdinal_Get(XLA_FFI_DeviceOrdinal_Get_Args* args);
// Finds an extension of the invocation context. From r9.
typedef XLA_FFI_Error* XLA_FFI_InvokeContext_FindExtension(XLA_FFI_InvokeContext_FindExtension_Args* args);
// Returns the custom options of this execution. From r10.
typedef XLA_FFI_Error* XLA_FFI_CustomOptions_Get(XLA_FFI_CustomOptions_Get_Args* args);

// An entry of the extension chain that starts in the second field of every struct. Called
// XLA_FFI_Extension_Base before r9. On r0, the second field is an unused void*.
struct XLA_FFI_InternalExtension {
  // Size of the extension in bytes, set by its creator.
  size_t struct_size;
  // The kind of extension.
  XLA_FFI_InternalExtension_Type type;
  // The next extension in the chain, or null.
  XLA_FFI_InternalExtension* next;
};

// The number and the version of an extension of an invocation context.
struct XLA_FFI_ExtensionId {
  // The unique number of the extension: 128 for the record extension, 129 for the collectives
  // extension.
  int64_t extension_type;
  // The major version, which changes if the extension becomes incompatible with earlier
  // versions.
  int32_t major_version;
  // The minor version, which changes if the extension gets an addition.
  int32_t minor_version;
};

// An entry of the extension chain of an invocation context, valid as long as the context. From r9.
struct XLA_FFI_Extension {
  // Size of the extension in bytes, set by its creator.
  size_t struct_size;
  // The number and version of the extension.
  XLA_FFI_ExtensionId id;
  // The next extension in the chain, or null.
  const XLA_FFI_Extension* next;
};

// A version of the ABI, as in XLA_FFI_Api and
// XLA_FFI_Metadata.
struct XLA_FFI_Api_Version {
  // Size of this struct in bytes, set by its creator.
  size_t struct_size;
  // The first entry of the extension chain; null in all revisions.
  XLA_FFI_InternalExtension* extension_start;
  // The major version of the ABI.
  int32_t major_version;
  // The minor version of the ABI.
  int32_t minor_version;
};

// Arguments of Error_Create (slot 0).
struct XLA_FFI_Error_Create_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The message, NUL-terminated. The host copies the message.
  const char* message;
  // The status code of the error.
  XLA_FFI_Error_Code errc;
};

// Arguments of Error_GetDetails (slot 1), from r9. Older hosts set only message, so initialize
// errc before the call.
struct XLA_FFI_Error_GetDetails_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The error to read.
  XLA_FFI_Error* error;
  // Out: the message, NUL-terminated and valid as long as the error.
  const char* message;
  // Out: the status code of the error.
  XLA_FFI_Error_Code errc;
};

// Arguments of Error_Destroy (slot 2).
struct XLA_FFI_Error_Destroy_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The error to destroy.
  XLA_FFI_Error* error;
};

// An array in host or device memory, which is dense and row-major whatever its layout options. The
// struct and dims are valid until the handler returns; data is valid until the call completes.
struct XLA_FFI_Buffer {
  // Size of this struct in bytes, set by the host.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The type of the array's elements.
  XLA_FFI_DataType dtype;
  // The first element of the array; may be null if a dimension is 0.
  void* data;
  // The number of the array's dimensions.
  int64_t rank;
  // The number of elements along each dimension of the array; rank entries.
  int64_t* dims;
};

// A string, which is not necessarily NUL-terminated.
struct XLA_FFI_ByteSpan {
  // The first byte of the string; may be null if len is 0.
  const char* ptr;
  // The length of the string in bytes.
  size_t len;
};

// A scalar attribute.
struct XLA_FFI_Scalar {
  // The type of the scalar.
  XLA_FFI_DataType dtype;
  // The address of the scalar.
  void* value;
};

// An array attribute, with dense elements.
struct XLA_FFI_Array {
  // The type of the array's elements.
  XLA_FFI_DataType dtype;
  // The number of the array's elements.
  size_t size;
  // The first element of the array; may be null if size is 0.
  void* data;
};

// The number of a user type within one copy of XLA. The number 0 means an unknown type.
struct XLA_FFI_TypeId {
  // The type's number.
  int64_t type_id;
};

// The function with which a host destroys objects of a user type. From r7; for r6, see
// XLA_FFI_TypeInfo_R6.
struct XLA_FFI_TypeInfo {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The function that destroys one object; null for borrowed objects.
  void (*deleter)(void* object);
};

// Arguments of Future_Create. Hosts check that struct_size is at least 16, but also write
// future after these 16 bytes. Always pass the whole struct.
struct XLA_FFI_Future_Create_Args {
  // Size of this struct in bytes, set by the caller. XLA's STRUCT_SIZE counts only the first
  // two fields.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // Out: the future, which the handler returns in the call frame.
  XLA_FFI_Future* future;
};

// Arguments of Future_SetAvailable.
struct XLA_FFI_Future_SetAvailable_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The future to complete.
  XLA_FFI_Future* future;
};

// Arguments of Future_SetError.
struct XLA_FFI_Future_SetError_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The future to complete.
  XLA_FFI_Future* future;
  // The error to report, which is neither null nor OK. The host takes ownership of the error.
  XLA_FFI_Error* error;
};

// The arguments of a call.
struct XLA_FFI_Args {
  // Size of this struct in bytes, set by the host.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The number of arguments.
  int64_t size;
  // The types of the arguments; size entries.
  XLA_FFI_ArgType* types;
  // The arguments; size entries.
  void** args;
};

// The results of a call.
struct XLA_FFI_Rets {
  // Size of this struct in bytes, set by the host.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The number of results.
  int64_t size;
  // The types of the results; size entries.
  XLA_FFI_RetType* types;
  // The results; size entries.
  void** rets;
};

// Attributes: a dictionary, sorted by the bytes of the names.
struct XLA_FFI_Attrs {
  // Size of this struct in bytes, set by the host.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The number of attributes.
  int64_t size;
  // The types of the attributes; size entries.
  XLA_FFI_AttrType* types;
  // The names of the attributes; size entries.
  XLA_FFI_ByteSpan** names;
  // The values of the attributes; size entries.
  void** attrs;
};

// The call frame of one call. From r2, its last field is future, which XLA's STRUCT_SIZE does
// not count. On r0 and r1, the frame ends before future (XLA_FFI_CallFrame_R0).
struct XLA_FFI_CallFrame {
  // Size of this struct in bytes without future, set by the host.
  size_t struct_size;
  // The first entry of the extension chain, or null. A metadata query has an
  // XLA_FFI_Metadata_Extension.
  XLA_FFI_InternalExtension* extension_start;
  // The host's function table; null in metadata queries of hosts with version 0.1.
  const XLA_FFI_Api* api;
  // The invocation context of the call; null in metadata queries.
  XLA_FFI_InvokeContext* ctx;
  // The stage of the call.
  XLA_FFI_ExecutionStage stage;
  // The arguments of the call.
  XLA_FFI_Args args;
  // The results of the call.
  XLA_FFI_Rets rets;
  // The attributes of the call.
  XLA_FFI_Attrs attrs;
  // Out: a future that becomes available when an asynchronous call is complete. From r2.
  XLA_FFI_Future* future;
};

// The handlers of one custom call, one per stage.
struct XLA_FFI_Handler_Bundle {
  // The handler of the instantiate stage; may be null.
  XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame* call_frame);
  // The handler of the prepare stage; may be null.
  XLA_FFI_Error* (*prepare)(XLA_FFI_CallFrame* call_frame);
  // The handler of the initialize stage; may be null.
  XLA_FFI_Error* (*initialize)(XLA_FFI_CallFrame* call_frame);
  // The handler of the execute stage; required.
  XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame* call_frame);
  // The handler of the record stage; may be null. From r9.
  XLA_FFI_Error* (*record)(XLA_FFI_CallFrame* call_frame);
};

// Arguments of Handler_Register (slot 3) from r9. Without a record stage, pass
// XLA_FFI_Handler_Register_Args_R0, which every host accepts.
struct XLA_FFI_Handler_Register_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The target name of the custom call.
  XLA_FFI_ByteSpan name;
  // The platform, for example "cpu" or "cuda"; case-insensitive.
  XLA_FFI_ByteSpan platform;
  // The handlers of the custom call, one per stage.
  XLA_FFI_Handler_Bundle bundle;
  // The handler's traits. The host combines them (OR) with those of the handler's metadata.
  XLA_FFI_Handler_Traits traits;
};

// Arguments of Type_Register (slot 5) from r7. Always pass a valid type_info, because hosts
// read it whatever struct_size is.
struct XLA_FFI_Type_Register_Args {
  // Size of this struct in bytes, set by the caller. XLA's STRUCT_SIZE counts the fields up to
  // type_id.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The type's name, unique per copy of XLA.
  XLA_FFI_ByteSpan name;
  // In and out: the type's number; 0 requests a new number.
  XLA_FFI_TypeId* type_id;
  // How the host destroys an object of the type.
  const XLA_FFI_TypeInfo* type_info;
};

// Arguments of InvokeContext_FindExtension, from r9.
struct XLA_FFI_InvokeContext_FindExtension_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The number of the requested extension.
  int64_t extension_type;
  // Out: the requested extension.
  const XLA_FFI_Extension* extension;
};

// Arguments of InvokeContext_Get (slot 6; called ExecutionContext_Get before r9), which
// returns user data.
struct XLA_FFI_InvokeContext_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The type of the requested object.
  XLA_FFI_TypeId* type_id;
  // Out: the requested object.
  void* data;
};

// Arguments of CustomOptions_Get, from r10.
struct XLA_FFI_CustomOptions_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // Out: a dictionary of options, which is empty if the caller passed no options.
  const XLA_FFI_Attrs* attrs;
};

// Arguments of State_Set (slot 7) from r8.
struct XLA_FFI_State_Set_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The stage that the state belongs to.
  XLA_FFI_ExecutionStage stage;
  // The type of the state, registered with its deleter.
  XLA_FFI_TypeId* type_id;
  // The state; the host takes ownership of it.
  void* state;
};

// Arguments of State_Get (slot 8) from r8.
struct XLA_FFI_State_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The stage whose state is requested.
  XLA_FFI_ExecutionStage stage;
  // The type of the state.
  XLA_FFI_TypeId* type_id;
  // Out: the state, which the host still owns.
  void* state;
};

// Arguments of Stream_Get (slot 4).
struct XLA_FFI_Stream_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // Out: the platform's stream, for example a CUstream.
  void* stream;
};

// Arguments of DeviceMemory_Allocate (slot 9).
struct XLA_FFI_DeviceMemory_Allocate_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The requested size of the memory in bytes.
  size_t size;
  // The requested alignment of the memory, a power of two.
  size_t alignment;
  // Out: device memory, valid until the stream has finished the work that the call launched.
  void* data;
};

// Arguments of DeviceMemory_Free (slot 10).
struct XLA_FFI_DeviceMemory_Free_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The size of the memory in bytes.
  size_t size;
  // The memory to free.
  void* data;
};

// Arguments of ThreadPool_Schedule (slot 11), from r1.
struct XLA_FFI_ThreadPool_Schedule_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // The task to run.
  void (*task)(void* data);
  // The argument of task.
  void* data;
};

// Arguments of ThreadPool_NumThreads, from r3.
struct XLA_FFI_ThreadPool_NumThreads_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // Out: the address to which the number of threads is written.
  int64_t* num_threads;
};

// Arguments of RunId_Get, from r4.
struct XLA_FFI_RunId_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // Out: the run id, which is the same on all devices of the execution.
  int64_t run_id;
};

// Arguments of DeviceOrdinal_Get, from r5.
struct XLA_FFI_DeviceOrdinal_Get_Args {
  // Size of this struct in bytes, set by the caller.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The invocation context of the call.
  XLA_FFI_InvokeContext* ctx;
  // Out: the global ordinal of the device (from 2048 on in the second process).
  int32_t device_ordinal;
};

// A handler's metadata. state_type_id exists from r6, and hosts read the field from r7. Writing
// the field on r1 to r5 overwrites the host's stack. struct_size is 36 in all revisions.
struct XLA_FFI_Metadata {
  // Size of this struct in bytes without state_type_id, set by the host.
  size_t struct_size;
  // Out: the version of the ABI that the handler was compiled for.
  XLA_FFI_Api_Version api_version;
  // Out: the handler's traits.
  XLA_FFI_Handler_Traits traits;
  // Out: the number of the state's type, or 0 if there is no state.
  XLA_FFI_TypeId state_type_id;
};

// The extension that marks a metadata query.
struct XLA_FFI_Metadata_Extension {
  // The entry in the extension chain.
  XLA_FFI_InternalExtension extension_base;
  // Out: the struct that the handler fills in.
  XLA_FFI_Metadata* metadata;
};

// The function table of a host, in the order of r3 to r10. In r2, the future functions start at
// the position of ThreadPool_NumThreads (see Slot::index). Before r5, struct_size is 88
// whatever the table's size.
struct XLA_FFI_Api {
  // Size of this struct in bytes, set by the host; always 88 before r5.
  size_t struct_size;
  // The first entry of the extension chain, or null.
  XLA_FFI_InternalExtension* extension_start;
  // The host's version of the ABI.
  XLA_FFI_Api_Version api_version;
  // The host's private functions, which handlers do not use.
  const XLA_FFI_InternalApi* internal_api;
  // Creates an error object of the host.
  XLA_FFI_Error* (*XLA_FFI_Error_Create)(XLA_FFI_Error_Create_Args* args);
  // Reads the message and code of an error. Called Error_GetMessage up to r8.
  void (*XLA_FFI_Error_GetDetails)(XLA_FFI_Error_GetDetails_Args* args);
  // Destroys an error object of the host.
  void (*XLA_FFI_Error_Destroy)(XLA_FFI_Error_Destroy_Args* args);
  // Registers a handler with the host.
  XLA_FFI_Error* (*XLA_FFI_Handler_Register)(XLA_FFI_Handler_Register_Args* args);
  // Returns the platform's stream, for example a CUstream.
  XLA_FFI_Error* (*XLA_FFI_Stream_Get)(XLA_FFI_Stream_Get_Args* args);
  // Registers a user type. Called TypeId_Register up to r6.
  XLA_FFI_Error* (*XLA_FFI_Type_Register)(XLA_FFI_Type_Register_Args* args);
  // Returns user data. Called ExecutionContext_Get up to r8.
  XLA_FFI_Error* (*XLA_FFI_InvokeContext_Get)(XLA_FFI_InvokeContext_Get_Args* args);
  // Stores state for later stages of the handler.
  XLA_FFI_Error* (*XLA_FFI_State_Set)(XLA_FFI_State_Set_Args* args);
  // Returns the state that a stage of the handler stored.
  XLA_FFI_Error* (*XLA_FFI_State_Get)(XLA_FFI_State_Get_Args* args);
  // Allocates device memory for one call.
  XLA_FFI_Error* (*XLA_FFI_DeviceMemory_Allocate)(XLA_FFI_DeviceMemory_Allocate_Args* args);
  // Frees device memory of one call.
  XLA_FFI_Error* (*XLA_FFI_DeviceMemory_Free)(XLA_FFI_DeviceMemory_Free_Args* args);
  // Runs a task on the host's thread pool. From r1.
  XLA_FFI_Error* (*XLA_FFI_ThreadPool_Schedule)(XLA_FFI_ThreadPool_Schedule_Args* args);
  // Returns the number of threads in the host's thread pool. From r3.
  XLA_FFI_Error* (*XLA_FFI_ThreadPool_NumThreads)(XLA_FFI_ThreadPool_NumThreads_Args* args);
  // Creates a future of the host. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_Create)(XLA_FFI_Future_Create_Args* args);
  // Completes a future of the host. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_SetAvailable)(XLA_FFI_Future_SetAvailable_Args* args);
  // Completes a future of the host with an error. From r2.
  XLA_FFI_Error* (*XLA_FFI_Future_SetError)(XLA_FFI_Future_SetError_Args* args);
  // Returns the run id of the execution. From r4.
  XLA_FFI_Error* (*XLA_FFI_RunId_Get)(XLA_FFI_RunId_Get_Args* args);
  // Returns the global ordinal of the device. From r5.
  XLA_FFI_Error* (*XLA_FFI_DeviceOrdinal_Get)(XLA_FFI_DeviceOrdinal_Get_Args* args);
  // Finds an extension of the invocation context. From r9.
  XLA_FFI_Error* (*XLA_FFI_InvokeContext_FindExtension)(XLA_FFI_InvokeContext_FindExtension_Args* args);
  // Returns the custom options of this execution. From r10.
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
