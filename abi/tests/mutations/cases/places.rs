//! Edits that make fields and slots stand elsewhere, come or go.

use super::Case;
use crate::edit::Edit::{Append, Before, Remove, Replace, Swap};
use xla_ffi_abi::diff::Class::{AddedAtEnd, Inserted, Moved, Removed, Renamed, Resized, Retyped};

pub(super) const CASES: &[Case] = &[
    // Two fields swapped.
    (
        "swap same types",
        Swap("XLA_FFI_Handler_Register_Args", "name", "platform"),
        &[
            (Moved, "XLA_FFI_Handler_Register_Args.name"),
            (Moved, "XLA_FFI_Handler_Register_Args.platform"),
        ],
    ),
    (
        "swap different types",
        Swap("XLA_FFI_Buffer", "data", "rank"),
        &[
            (Moved, "XLA_FFI_Buffer.data"),
            (Moved, "XLA_FFI_Buffer.rank"),
        ],
    ),
    (
        "swap far apart",
        Swap("XLA_FFI_DeviceMemory_Allocate_Args", "size", "data"),
        &[
            (Moved, "XLA_FFI_DeviceMemory_Allocate_Args.size"),
            (Moved, "XLA_FFI_DeviceMemory_Allocate_Args.data"),
        ],
    ),
    (
        "swap slots",
        Swap("XLA_FFI_Api", "XLA_FFI_State_Set", "XLA_FFI_State_Get"),
        &[
            (Moved, "XLA_FFI_Api.XLA_FFI_State_Set"),
            (Moved, "XLA_FFI_Api.XLA_FFI_State_Get"),
        ],
    ),
    (
        "swap stages of a bundle",
        Swap("XLA_FFI_Handler_Bundle", "prepare", "initialize"),
        &[
            (Moved, "XLA_FFI_Handler_Bundle.prepare"),
            (Moved, "XLA_FFI_Handler_Bundle.initialize"),
        ],
    ),
    (
        "swap value and its type",
        Swap("XLA_FFI_Scalar", "dtype", "value"),
        &[
            (Moved, "XLA_FFI_Scalar.dtype"),
            (Moved, "XLA_FFI_Scalar.value"),
        ],
    ),
    (
        "swap versions",
        Swap("XLA_FFI_Api_Version", "major_version", "minor_version"),
        &[
            (Moved, "XLA_FFI_Api_Version.major_version"),
            (Moved, "XLA_FFI_Api_Version.minor_version"),
        ],
    ),
    // A field grows into padding, or out of it.
    (
        "grow into padding",
        Replace(
            "XLA_FFI_DeviceOrdinal_Get_Args",
            "device_ordinal",
            "int64_t device_ordinal",
        ),
        &[(Resized, "XLA_FFI_DeviceOrdinal_Get_Args.device_ordinal")],
    ),
    (
        "grow traits into padding",
        Replace("XLA_FFI_Metadata", "traits", "uint64_t traits"),
        &[(Resized, "XLA_FFI_Metadata.traits")],
    ),
    (
        "grow stage into padding",
        Replace("XLA_FFI_CallFrame", "stage", "int64_t stage"),
        &[(Resized, "XLA_FFI_CallFrame.stage")],
    ),
    (
        "shrink",
        Replace("XLA_FFI_Buffer", "rank", "int32_t rank"),
        &[(Resized, "XLA_FFI_Buffer.rank")],
    ),
    (
        "shrink a length",
        Replace("XLA_FFI_ByteSpan", "len", "uint32_t len"),
        &[(Resized, "XLA_FFI_ByteSpan.len")],
    ),
    (
        "fill a hole",
        Before("XLA_FFI_Buffer", "data", "uint32_t flags"),
        &[(Inserted, "XLA_FFI_Buffer.flags")],
    ),
    (
        "fill the hole at the end",
        Append("XLA_FFI_RunId_Get_Args", "int8_t more"),
        &[(AddedAtEnd, "XLA_FFI_RunId_Get_Args.more")],
    ),
    (
        "fill a hole behind the last field",
        Append("XLA_FFI_DeviceOrdinal_Get_Args", "int32_t more"),
        &[(AddedAtEnd, "XLA_FFI_DeviceOrdinal_Get_Args.more")],
    ),
    // Fields.
    (
        "field at the end",
        Append("XLA_FFI_CallFrame", "void* more"),
        &[(AddedAtEnd, "XLA_FFI_CallFrame.more")],
    ),
    (
        "field in the middle",
        Before("XLA_FFI_State_Set_Args", "state", "int64_t more"),
        &[(Inserted, "XLA_FFI_State_Set_Args.more")],
    ),
    (
        "field in front",
        Before("XLA_FFI_Rets", "struct_size", "size_t magic"),
        &[(Inserted, "XLA_FFI_Rets.magic")],
    ),
    (
        "field removed",
        Remove("XLA_FFI_State_Set_Args", "stage"),
        &[(Removed, "XLA_FFI_State_Set_Args.stage")],
    ),
    (
        "last field removed",
        Remove("XLA_FFI_CallFrame", "future"),
        &[(Removed, "XLA_FFI_CallFrame.future")],
    ),
    (
        "part of others grows",
        Append("XLA_FFI_Handler_Bundle", "XLA_FFI_Handler* finish"),
        &[(AddedAtEnd, "XLA_FFI_Handler_Bundle.finish")],
    ),
    (
        "field renamed",
        Replace("XLA_FFI_Buffer", "data", "void* bytes"),
        &[(Renamed, "XLA_FFI_Buffer.bytes")],
    ),
    // Slots.
    (
        "slot in the middle",
        Before(
            "XLA_FFI_Api",
            "XLA_FFI_Future_Create",
            "XLA_FFI_Error* (*XLA_FFI_Extra)(void* args)",
        ),
        &[(Inserted, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot first",
        Before(
            "XLA_FFI_Api",
            "XLA_FFI_Error_Create",
            "void (*XLA_FFI_Extra)(void)",
        ),
        &[(Inserted, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot at the end",
        Append("XLA_FFI_Api", "XLA_FFI_Error* (*XLA_FFI_Extra)(void* args)"),
        &[(AddedAtEnd, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot removed",
        Remove("XLA_FFI_Api", "XLA_FFI_Stream_Get"),
        &[(Removed, "XLA_FFI_Api.XLA_FFI_Stream_Get")],
    ),
    (
        "slot takes something else",
        Replace(
            "XLA_FFI_Api",
            "XLA_FFI_RunId_Get",
            "XLA_FFI_Error* (*XLA_FFI_RunId_Get)(XLA_FFI_Stream_Get_Args* args)",
        ),
        &[(Retyped, "XLA_FFI_Api.XLA_FFI_RunId_Get")],
    ),
    (
        "slot answers nothing",
        Replace(
            "XLA_FFI_Api",
            "XLA_FFI_State_Set",
            "void (*XLA_FFI_State_Set)(XLA_FFI_State_Set_Args* args)",
        ),
        &[(Retyped, "XLA_FFI_Api.XLA_FFI_State_Set")],
    ),
];
