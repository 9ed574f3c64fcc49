//! Edits of enumerations, numbers and whole things.

use super::Case;
use crate::edit::Edit::{Everywhere, Rename, Text};
use xla_ffi_abi::diff::Class::{
    Added, ConstantChanged, EnumValueAdded, EnumValueChanged, EnumValueRemoved, EnumValueRenamed,
    Moved, Removed, Renamed, Resized, Retyped, SizeMacroChanged,
};

pub(super) const CASES: &[Case] = &[
    // Enumerations.
    (
        "enum value changed",
        Text("XLA_FFI_DataType_F32 = 11,", "XLA_FFI_DataType_F32 = 111,"),
        &[(EnumValueChanged, "XLA_FFI_DataType.XLA_FFI_DataType_F32")],
    ),
    (
        "stage renumbered",
        Text(
            "XLA_FFI_ExecutionStage_RECORD = 4",
            "XLA_FFI_ExecutionStage_RECORD = 5",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_ExecutionStage.XLA_FFI_ExecutionStage_RECORD",
        )],
    ),
    (
        "attribute kind renumbered",
        Text("XLA_FFI_AttrType_STRING = 4", "XLA_FFI_AttrType_STRING = 0"),
        &[(EnumValueChanged, "XLA_FFI_AttrType.XLA_FFI_AttrType_STRING")],
    ),
    (
        "trait bit moved",
        Text(
            "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1",
            "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 2",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_Handler_TraitsBits.XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE",
        )],
    ),
    (
        "enum value negative",
        Text(
            "XLA_FFI_Error_Code_UNKNOWN = 2,",
            "XLA_FFI_Error_Code_UNKNOWN = -2,",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_Error_Code.XLA_FFI_Error_Code_UNKNOWN",
        )],
    ),
    (
        "enum value added",
        Text(
            "XLA_FFI_DataType_F64 = 12,",
            "XLA_FFI_DataType_F64 = 12, XLA_FFI_DataType_F128 = 99,",
        ),
        &[(EnumValueAdded, "XLA_FFI_DataType.XLA_FFI_DataType_F128")],
    ),
    (
        "argument kind added",
        Text(
            "XLA_FFI_ArgType_BUFFER = 1,",
            "XLA_FFI_ArgType_BUFFER = 1, XLA_FFI_ArgType_TUPLE = 2,",
        ),
        &[(EnumValueAdded, "XLA_FFI_ArgType.XLA_FFI_ArgType_TUPLE")],
    ),
    (
        "enum value removed",
        Text("XLA_FFI_DataType_U1 = 31,", ""),
        &[(EnumValueRemoved, "XLA_FFI_DataType.XLA_FFI_DataType_U1")],
    ),
    (
        "enum value renamed",
        Text(
            "XLA_FFI_DataType_BF16 = 16",
            "XLA_FFI_DataType_BFLOAT16 = 16",
        ),
        &[(
            EnumValueRenamed,
            "XLA_FFI_DataType.XLA_FFI_DataType_BFLOAT16",
        )],
    ),
    // STRUCT_SIZE.
    (
        "STRUCT_SIZE counts more",
        Text("(XLA_FFI_CallFrame, attrs)", "(XLA_FFI_CallFrame, future)"),
        &[(SizeMacroChanged, "XLA_FFI_CallFrame")],
    ),
    (
        "STRUCT_SIZE counts less",
        Text("(XLA_FFI_Buffer, dims)", "(XLA_FFI_Buffer, rank)"),
        &[(SizeMacroChanged, "XLA_FFI_Buffer")],
    ),
    (
        "STRUCT_SIZE of the table",
        Text(
            "(XLA_FFI_Api, XLA_FFI_CustomOptions_Get)",
            "(XLA_FFI_Api, XLA_FFI_Stream_Get)",
        ),
        &[(SizeMacroChanged, "XLA_FFI_Api")],
    ),
    (
        "STRUCT_SIZE of metadata",
        Text(
            "(XLA_FFI_Metadata, traits)",
            "(XLA_FFI_Metadata, state_type_id)",
        ),
        &[(SizeMacroChanged, "XLA_FFI_Metadata")],
    ),
    // Whole things.
    (
        "struct renamed",
        Everywhere("XLA_FFI_Buffer", "XLA_FFI_Tensor"),
        &[(Renamed, "XLA_FFI_Tensor")],
    ),
    (
        "opaque type renamed",
        Rename("XLA_FFI_Future", "XLA_FFI_Promise"),
        &[(Renamed, "XLA_FFI_Promise")],
    ),
    (
        "enumeration renamed",
        Rename("XLA_FFI_RetType", "XLA_FFI_ResType"),
        &[(Renamed, "XLA_FFI_ResType")],
    ),
    (
        "function type",
        Text(
            "typedef void XLA_FFI_Task(void* data);",
            "typedef int XLA_FFI_Task(void* data);",
        ),
        &[(Retyped, "XLA_FFI_Task")],
    ),
    (
        "handler's argument",
        Text(
            "XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame)",
            "XLA_FFI_Handler(const XLA_FFI_CallFrame* call_frame)",
        ),
        &[(Retyped, "XLA_FFI_Handler")],
    ),
    (
        "traits grow",
        Text(
            "typedef uint32_t XLA_FFI_Handler_Traits;",
            "typedef uint64_t XLA_FFI_Handler_Traits;",
        ),
        &[(Retyped, "XLA_FFI_Handler_Traits")],
    ),
    (
        "struct packed",
        Text(
            "XLA_FFI_Scalar {",
            "__attribute__((packed)) XLA_FFI_Scalar {",
        ),
        &[(Moved, "XLA_FFI_Scalar.value")],
    ),
    (
        "struct aligned",
        Text(
            "XLA_FFI_TypeId {",
            "__attribute__((aligned(16))) XLA_FFI_TypeId {",
        ),
        &[(Resized, "XLA_FFI_TypeId")],
    ),
    (
        "minor version",
        Text("#define XLA_FFI_API_MINOR 5", "#define XLA_FFI_API_MINOR 6"),
        &[(ConstantChanged, "XLA_FFI_API_MINOR")],
    ),
    (
        "version removed",
        Text("#define XLA_FFI_API_MAJOR 0", ""),
        &[(Removed, "XLA_FFI_API_MAJOR")],
    ),
    // Functions that are declared.
    (
        "function added",
        Text(
            "typedef void XLA_FFI_Task(void* data);",
            "typedef void XLA_FFI_Task(void* data); XLA_FFI_Error* XLA_FFI_Clock_Get(int32_t clock, int64_t* now);",
        ),
        &[(Added, "XLA_FFI_Clock_Get")],
    ),
    (
        "function of another name",
        Rename("XLA_FFI_GetApi", "XLA_FFI_GetTable"),
        &[(Added, "XLA_FFI_GetTable"), (Removed, "XLA_FFI_GetApi")],
    ),
    (
        "function answers something else",
        Text(
            "const XLA_FFI_Api* XLA_FFI_GetApi",
            "int32_t XLA_FFI_GetApi",
        ),
        &[(Retyped, "XLA_FFI_GetApi")],
    ),
    (
        "function's const dropped",
        Text(
            "const XLA_FFI_Api* XLA_FFI_GetApi",
            "XLA_FFI_Api* XLA_FFI_GetApi",
        ),
        &[(Retyped, "XLA_FFI_GetApi")],
    ),
];
