//! Edits of what a field is, where it stays in its place.

use super::Case;
use crate::edit::Edit::Replace;
use xla_ffi_abi::diff::Class::{Resized, Retyped};

pub(super) const CASES: &[Case] = &[
    // const.
    (
        "const dropped from text",
        Replace("XLA_FFI_ByteSpan", "ptr", "char* ptr"),
        &[(Retyped, "XLA_FFI_ByteSpan.ptr")],
    ),
    (
        "const dropped from the table",
        Replace("XLA_FFI_CallFrame", "api", "XLA_FFI_Api* api"),
        &[(Retyped, "XLA_FFI_CallFrame.api")],
    ),
    (
        "const dropped from an out pointer",
        Replace(
            "XLA_FFI_CustomOptions_Get_Args",
            "attrs",
            "XLA_FFI_Attrs* attrs",
        ),
        &[(Retyped, "XLA_FFI_CustomOptions_Get_Args.attrs")],
    ),
    (
        "const added",
        Replace("XLA_FFI_Buffer", "dims", "const int64_t* dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    (
        "const pointer",
        Replace("XLA_FFI_Buffer", "dims", "int64_t* const dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    // Pointers.
    (
        "pointer's target",
        Replace("XLA_FFI_Args", "types", "XLA_FFI_RetType* types"),
        &[(Retyped, "XLA_FFI_Args.types")],
    ),
    (
        "pointer's width of target",
        Replace("XLA_FFI_Buffer", "dims", "int32_t* dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    (
        "one star less",
        Replace("XLA_FFI_Attrs", "names", "XLA_FFI_ByteSpan* names"),
        &[(Retyped, "XLA_FFI_Attrs.names")],
    ),
    (
        "void instead of a type",
        Replace("XLA_FFI_CallFrame", "ctx", "void* ctx"),
        &[(Retyped, "XLA_FFI_CallFrame.ctx")],
    ),
    (
        "a number instead of a pointer",
        Replace("XLA_FFI_Stream_Get_Args", "stream", "uint64_t stream"),
        &[(Retyped, "XLA_FFI_Stream_Get_Args.stream")],
    ),
    (
        "deleter's argument",
        Replace(
            "XLA_FFI_TypeInfo",
            "deleter",
            "void (*deleter)(const void* object)",
        ),
        &[(Retyped, "XLA_FFI_TypeInfo.deleter")],
    ),
    (
        "deleter's result",
        Replace(
            "XLA_FFI_TypeInfo",
            "deleter",
            "int (*deleter)(void* object)",
        ),
        &[(Retyped, "XLA_FFI_TypeInfo.deleter")],
    ),
    // Signedness and kind of number.
    (
        "sign of a rank",
        Replace("XLA_FFI_Buffer", "rank", "uint64_t rank"),
        &[(Retyped, "XLA_FFI_Buffer.rank")],
    ),
    (
        "sign of a size",
        Replace("XLA_FFI_DeviceMemory_Free_Args", "size", "int64_t size"),
        &[(Retyped, "XLA_FFI_DeviceMemory_Free_Args.size")],
    ),
    (
        "sign of a type id",
        Replace("XLA_FFI_TypeId", "type_id", "uint64_t type_id"),
        &[(Retyped, "XLA_FFI_TypeId.type_id")],
    ),
    (
        "a float",
        Replace("XLA_FFI_RunId_Get_Args", "run_id", "double run_id"),
        &[(Retyped, "XLA_FFI_RunId_Get_Args.run_id")],
    ),
    (
        "a number instead of an enumeration",
        Replace("XLA_FFI_Buffer", "dtype", "uint32_t dtype"),
        &[(Retyped, "XLA_FFI_Buffer.dtype")],
    ),
    (
        "another enumeration",
        Replace(
            "XLA_FFI_Error_Create_Args",
            "errc",
            "XLA_FFI_InternalExtension_Type errc",
        ),
        &[(Retyped, "XLA_FFI_Error_Create_Args.errc")],
    ),
    // Array length.
    (
        "an array",
        Replace("XLA_FFI_Array", "data", "void* data[1]"),
        &[(Retyped, "XLA_FFI_Array.data")],
    ),
    (
        "a longer array",
        Replace("XLA_FFI_Array", "data", "void* data[4]"),
        &[(Resized, "XLA_FFI_Array.data")],
    ),
    (
        "bits",
        Replace(
            "XLA_FFI_Api_Version",
            "major_version",
            "int major_version : 16",
        ),
        &[(Retyped, "XLA_FFI_Api_Version.major_version")],
    ),
];
