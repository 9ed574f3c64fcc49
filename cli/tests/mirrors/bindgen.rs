//! A mirror in the form that bindgen writes, cut down.

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct XLA_FFI_InternalExtension {
    pub struct_size: usize,
    pub type_: XLA_FFI_InternalExtension_Type,
    pub next: *mut XLA_FFI_InternalExtension,
}
pub const XLA_FFI_InternalExtension_Type_XLA_FFI_Extension_Metadata: XLA_FFI_InternalExtension_Type = 1;
pub type XLA_FFI_InternalExtension_Type = ::core::ffi::c_uint;
pub const XLA_FFI_ExecutionStage_XLA_FFI_ExecutionStage_EXECUTE: XLA_FFI_ExecutionStage = 3;
pub type XLA_FFI_ExecutionStage = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct XLA_FFI_Buffer {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub dtype: XLA_FFI_DataType,
    pub data: *mut ::core::ffi::c_void,
    pub rank: i64,
    pub dims: *mut i64,
}
pub type XLA_FFI_DataType = ::core::ffi::c_uint;
