//! Single edits to a header, each with the expected changes. The lists omit changes that follow from other changes.

use crate::edit::Edit;

/// A case of the test: the line that describes the edit, the edit, and the expected changes.
pub(crate) type Case = (&'static str, Edit, Vec<&'static str>);

/// Returns the edits that `abi check` must report.
pub(crate) fn all() -> impl Iterator<Item = Case> {
    CASES.trim().lines().map(|line| {
        let (edit, told) = line.split_once(" => ").unwrap();
        (line, Edit::of(edit), told.split(", ").collect())
    })
}

/// Returns the edits without an effect, which `abi check` must not report.
pub(crate) fn harmless() -> impl Iterator<Item = (&'static str, Edit)> {
    HARMLESS.trim().lines().map(|line| (line, Edit::of(line)))
}

const CASES: &str = r#"
Swap XLA_FFI_Handler_Register_Args ~ name ~ platform => Moved XLA_FFI_Handler_Register_Args.name, Moved XLA_FFI_Handler_Register_Args.platform
Swap XLA_FFI_Buffer ~ data ~ rank => Moved XLA_FFI_Buffer.data, Moved XLA_FFI_Buffer.rank
Swap XLA_FFI_DeviceMemory_Allocate_Args ~ size ~ data => Moved XLA_FFI_DeviceMemory_Allocate_Args.size, Moved XLA_FFI_DeviceMemory_Allocate_Args.data
Swap XLA_FFI_Api ~ XLA_FFI_State_Set ~ XLA_FFI_State_Get => Moved XLA_FFI_Api.XLA_FFI_State_Set, Moved XLA_FFI_Api.XLA_FFI_State_Get
Swap XLA_FFI_Handler_Bundle ~ prepare ~ initialize => Moved XLA_FFI_Handler_Bundle.prepare, Moved XLA_FFI_Handler_Bundle.initialize
Swap XLA_FFI_Scalar ~ dtype ~ value => Moved XLA_FFI_Scalar.dtype, Moved XLA_FFI_Scalar.value
Swap XLA_FFI_Api_Version ~ major_version ~ minor_version => Moved XLA_FFI_Api_Version.major_version, Moved XLA_FFI_Api_Version.minor_version
Replace XLA_FFI_DeviceOrdinal_Get_Args ~ device_ordinal ~ int64_t device_ordinal => Resized XLA_FFI_DeviceOrdinal_Get_Args.device_ordinal
Replace XLA_FFI_Metadata ~ traits ~ uint64_t traits => Resized XLA_FFI_Metadata.traits
Replace XLA_FFI_CallFrame ~ stage ~ int64_t stage => Resized XLA_FFI_CallFrame.stage
Replace XLA_FFI_Buffer ~ rank ~ int32_t rank => Resized XLA_FFI_Buffer.rank
Replace XLA_FFI_ByteSpan ~ len ~ uint32_t len => Resized XLA_FFI_ByteSpan.len
Before XLA_FFI_Buffer ~ data ~ uint32_t flags => Inserted XLA_FFI_Buffer.flags
Append XLA_FFI_RunId_Get_Args ~ int8_t more => AddedAtEnd XLA_FFI_RunId_Get_Args.more
Append XLA_FFI_DeviceOrdinal_Get_Args ~ int32_t more => AddedAtEnd XLA_FFI_DeviceOrdinal_Get_Args.more
Append XLA_FFI_CallFrame ~ void* more => AddedAtEnd XLA_FFI_CallFrame.more
Before XLA_FFI_State_Set_Args ~ state ~ int64_t more => Inserted XLA_FFI_State_Set_Args.more
Before XLA_FFI_Rets ~ struct_size ~ size_t magic => Inserted XLA_FFI_Rets.magic
Remove XLA_FFI_State_Set_Args ~ stage => Removed XLA_FFI_State_Set_Args.stage
Remove XLA_FFI_CallFrame ~ future => Removed XLA_FFI_CallFrame.future
Append XLA_FFI_Handler_Bundle ~ XLA_FFI_Handler* finish => AddedAtEnd XLA_FFI_Handler_Bundle.finish
Replace XLA_FFI_Buffer ~ data ~ void* bytes => Renamed XLA_FFI_Buffer.bytes
Before XLA_FFI_Api ~ XLA_FFI_Future_Create ~ XLA_FFI_Error* (*XLA_FFI_Extra)(void* args) => Inserted XLA_FFI_Api.XLA_FFI_Extra
Before XLA_FFI_Api ~ XLA_FFI_Error_Create ~ void (*XLA_FFI_Extra)(void) => Inserted XLA_FFI_Api.XLA_FFI_Extra
Append XLA_FFI_Api ~ XLA_FFI_Error* (*XLA_FFI_Extra)(void* args) => AddedAtEnd XLA_FFI_Api.XLA_FFI_Extra
Remove XLA_FFI_Api ~ XLA_FFI_Stream_Get => Removed XLA_FFI_Api.XLA_FFI_Stream_Get
Replace XLA_FFI_Api ~ XLA_FFI_RunId_Get ~ XLA_FFI_Error* (*XLA_FFI_RunId_Get)(XLA_FFI_Stream_Get_Args* args) => Retyped XLA_FFI_Api.XLA_FFI_RunId_Get
Replace XLA_FFI_Api ~ XLA_FFI_State_Set ~ void (*XLA_FFI_State_Set)(XLA_FFI_State_Set_Args* args) => Retyped XLA_FFI_Api.XLA_FFI_State_Set
Replace XLA_FFI_ByteSpan ~ ptr ~ char* ptr => Retyped XLA_FFI_ByteSpan.ptr
Replace XLA_FFI_CallFrame ~ api ~ XLA_FFI_Api* api => Retyped XLA_FFI_CallFrame.api
Replace XLA_FFI_CustomOptions_Get_Args ~ attrs ~ XLA_FFI_Attrs* attrs => Retyped XLA_FFI_CustomOptions_Get_Args.attrs
Replace XLA_FFI_Buffer ~ dims ~ const int64_t* dims => Retyped XLA_FFI_Buffer.dims
Replace XLA_FFI_Buffer ~ dims ~ int64_t* const dims => Retyped XLA_FFI_Buffer.dims
Replace XLA_FFI_Args ~ types ~ XLA_FFI_RetType* types => Retyped XLA_FFI_Args.types
Replace XLA_FFI_Buffer ~ dims ~ int32_t* dims => Retyped XLA_FFI_Buffer.dims
Replace XLA_FFI_Attrs ~ names ~ XLA_FFI_ByteSpan* names => Retyped XLA_FFI_Attrs.names
Replace XLA_FFI_CallFrame ~ ctx ~ void* ctx => Retyped XLA_FFI_CallFrame.ctx
Replace XLA_FFI_Stream_Get_Args ~ stream ~ uint64_t stream => Retyped XLA_FFI_Stream_Get_Args.stream
Replace XLA_FFI_TypeInfo ~ deleter ~ void (*deleter)(const void* object) => Retyped XLA_FFI_TypeInfo.deleter
Replace XLA_FFI_TypeInfo ~ deleter ~ int (*deleter)(void* object) => Retyped XLA_FFI_TypeInfo.deleter
Replace XLA_FFI_Buffer ~ rank ~ uint64_t rank => Retyped XLA_FFI_Buffer.rank
Replace XLA_FFI_DeviceMemory_Free_Args ~ size ~ int64_t size => Retyped XLA_FFI_DeviceMemory_Free_Args.size
Replace XLA_FFI_TypeId ~ type_id ~ uint64_t type_id => Retyped XLA_FFI_TypeId.type_id
Replace XLA_FFI_RunId_Get_Args ~ run_id ~ double run_id => Retyped XLA_FFI_RunId_Get_Args.run_id
Replace XLA_FFI_Buffer ~ dtype ~ uint32_t dtype => Retyped XLA_FFI_Buffer.dtype
Replace XLA_FFI_Error_Create_Args ~ errc ~ XLA_FFI_InternalExtension_Type errc => Retyped XLA_FFI_Error_Create_Args.errc
Replace XLA_FFI_Array ~ data ~ void* data[1] => Retyped XLA_FFI_Array.data
Replace XLA_FFI_Array ~ data ~ void* data[4] => Resized XLA_FFI_Array.data
Replace XLA_FFI_Api_Version ~ major_version ~ int major_version : 16 => Retyped XLA_FFI_Api_Version.major_version
Text XLA_FFI_DataType_F32 = 11, ~ XLA_FFI_DataType_F32 = 111, => EnumValueChanged XLA_FFI_DataType.XLA_FFI_DataType_F32
Text XLA_FFI_ExecutionStage_RECORD = 4 ~ XLA_FFI_ExecutionStage_RECORD = 5 => EnumValueChanged XLA_FFI_ExecutionStage.XLA_FFI_ExecutionStage_RECORD
Text XLA_FFI_AttrType_STRING = 4 ~ XLA_FFI_AttrType_STRING = 0 => EnumValueChanged XLA_FFI_AttrType.XLA_FFI_AttrType_STRING
Text XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1 ~ XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 2 => EnumValueChanged XLA_FFI_Handler_TraitsBits.XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE
Text XLA_FFI_Error_Code_UNKNOWN = 2, ~ XLA_FFI_Error_Code_UNKNOWN = -2, => EnumValueChanged XLA_FFI_Error_Code.XLA_FFI_Error_Code_UNKNOWN
Text XLA_FFI_DataType_F64 = 12, ~ XLA_FFI_DataType_F64 = 12, XLA_FFI_DataType_F128 = 99, => EnumValueAdded XLA_FFI_DataType.XLA_FFI_DataType_F128
Text XLA_FFI_ArgType_BUFFER = 1, ~ XLA_FFI_ArgType_BUFFER = 1, XLA_FFI_ArgType_TUPLE = 2, => EnumValueAdded XLA_FFI_ArgType.XLA_FFI_ArgType_TUPLE
Text XLA_FFI_DataType_U1 = 31, ~ - => EnumValueRemoved XLA_FFI_DataType.XLA_FFI_DataType_U1
Text XLA_FFI_DataType_BF16 = 16 ~ XLA_FFI_DataType_BFLOAT16 = 16 => EnumValueRenamed XLA_FFI_DataType.XLA_FFI_DataType_BFLOAT16
Text (XLA_FFI_CallFrame, attrs) ~ (XLA_FFI_CallFrame, future) => SizeMacroChanged XLA_FFI_CallFrame
Text (XLA_FFI_Buffer, dims) ~ (XLA_FFI_Buffer, rank) => SizeMacroChanged XLA_FFI_Buffer
Text (XLA_FFI_Api, XLA_FFI_CustomOptions_Get) ~ (XLA_FFI_Api, XLA_FFI_Stream_Get) => SizeMacroChanged XLA_FFI_Api
Text (XLA_FFI_Metadata, traits) ~ (XLA_FFI_Metadata, state_type_id) => SizeMacroChanged XLA_FFI_Metadata
Everywhere XLA_FFI_Buffer ~ XLA_FFI_Tensor => Renamed XLA_FFI_Tensor
Rename XLA_FFI_Future ~ XLA_FFI_Promise => Renamed XLA_FFI_Promise
Rename XLA_FFI_RetType ~ XLA_FFI_ResType => Renamed XLA_FFI_ResType
Text typedef void XLA_FFI_Task(void* data); ~ typedef int XLA_FFI_Task(void* data); => Retyped XLA_FFI_Task
Text XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame) ~ XLA_FFI_Handler(const XLA_FFI_CallFrame* call_frame) => Retyped XLA_FFI_Handler
Text typedef uint32_t XLA_FFI_Handler_Traits; ~ typedef uint64_t XLA_FFI_Handler_Traits; => Retyped XLA_FFI_Handler_Traits
Text XLA_FFI_Scalar { ~ __attribute__((packed)) XLA_FFI_Scalar { => Moved XLA_FFI_Scalar.value
Text XLA_FFI_TypeId { ~ __attribute__((aligned(16))) XLA_FFI_TypeId { => Resized XLA_FFI_TypeId
Text #define XLA_FFI_API_MINOR 5 ~ #define XLA_FFI_API_MINOR 6 => ConstantChanged XLA_FFI_API_MINOR
Text #define XLA_FFI_API_MAJOR 0 ~ - => Removed XLA_FFI_API_MAJOR
Text typedef void XLA_FFI_Task(void* data); ~ typedef void XLA_FFI_Task(void* data); XLA_FFI_Error* XLA_FFI_Clock_Get(int32_t clock, int64_t* now); => Added XLA_FFI_Clock_Get
Rename XLA_FFI_GetApi ~ XLA_FFI_GetTable => Added XLA_FFI_GetTable, Removed XLA_FFI_GetApi
Text const XLA_FFI_Api* XLA_FFI_GetApi ~ int32_t XLA_FFI_GetApi => Retyped XLA_FFI_GetApi
Text const XLA_FFI_Api* XLA_FFI_GetApi ~ XLA_FFI_Api* XLA_FFI_GetApi => Retyped XLA_FFI_GetApi
"#;

const HARMLESS: &str = r#"
Text size_t struct_size; ~ size_t struct_size; // XLA_FFI_DataType_F32 = 12\n
Text typedef void XLA_FFI_Task ~ /* struct XLA_FFI_Buffer { int a; }; */ typedef void XLA_FFI_Task
Everywhere { size_t ~ {\n\n\tsize_t
Everywhere XLA_FFI_API_C_API_H_ ~ MY_COPY_OF_C_API_H_
Text #include <stddef.h> ~ #include <stdbool.h>\n#include <stdarg.h>\n#include <string.h>\n#include <stddef.h>
Text #include <stddef.h> ~ #pragma once\n#include <stddef.h>
Text XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame) ~ XLA_FFI_Handler(XLA_FFI_CallFrame* frame)
Replace XLA_FFI_Buffer ~ rank ~ signed long rank
Replace XLA_FFI_TypeId ~ type_id ~ ptrdiff_t type_id
Replace XLA_FFI_CallFrame ~ args ~ struct XLA_FFI_Args args
Replace XLA_FFI_ThreadPool_Schedule_Args ~ task ~ void (*task)(void*)
Text XLA_FFI_DataType_F32 = 11, ~ XLA_FFI_DataType_F32 = 0xB,
Text typedef struct XLA_FFI_Error XLA_FFI_Error; ~ typedef struct XLA_FFI_Future XLA_FFI_Future; typedef struct XLA_FFI_Error XLA_FFI_Error;
Text XLA_FFI_AttrType_ARRAY = 1, XLA_FFI_AttrType_DICTIONARY = 2, ~ XLA_FFI_AttrType_DICTIONARY = 2, XLA_FFI_AttrType_ARRAY = 1,
Text typedef void XLA_FFI_Task ~ static_assert(sizeof(size_t) == 8, ""); typedef void XLA_FFI_Task
Text typedef void XLA_FFI_Task ~ struct Mine { int a; }; typedef void XLA_FFI_Task
Text typedef struct XLA_FFI_Error XLA_FFI_Error; ~ typedef struct XLA_FFI_Error XLA_FFI_Error; typedef struct XLA_FFI_Error XLA_FFI_Error;
Text #include <stddef.h> ~ #define XLA_FFI_MINE\n#include <stddef.h>
Everywhere \n ~ \r\n
Text typedef void XLA_FFI_Task ~ static inline int XLA_FFI_Help(int a) { return a; } static int XLA_FFI_Own(void); inline int XLA_FFI_Twice(int a) { return XLA_FFI_Help(a) + XLA_FFI_Help(a); } typedef void XLA_FFI_Task
Text typedef void XLA_FFI_Task ~ /* int XLA_FFI_Told(void); */\n#if 0\nint XLA_FFI_Left(void);\nint XLA_FFI_Out(void);\n#endif\ntypedef void XLA_FFI_Task
Text const XLA_FFI_Api* XLA_FFI_GetApi ~ \n#define XLA_FFI_EXPORT(type) __attribute__((visibility("default"))) type\nXLA_FFI_EXPORT(const XLA_FFI_Api*) XLA_FFI_GetApi
"#;
