//! User types: types that a library defines and whose objects a host stores.

use crate::{XLA_FFI_ByteSpan, XLA_FFI_InternalExtension};
use core::ffi::c_void;

/// The number of a user type within one copy of XLA. The number 0 means an unknown type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_TypeId {
    /// The type's number.
    pub type_id: i64,
}
layout!(XLA_FFI_TypeId, R0.., size 8 {
    type_id: i64 = 0,
});

/// The type id that means no type: `XLA_FFI_UNKNOWN_TYPE_ID` of the C header.
pub const XLA_FFI_UNKNOWN_TYPE_ID: XLA_FFI_TypeId = XLA_FFI_TypeId { type_id: 0 };

/// The function with which a host destroys objects of a user type. From r7; for r6, see
/// [`XLA_FFI_TypeInfo_R6`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_TypeInfo {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The function that destroys one object; null for borrowed objects.
    pub deleter: Option<unsafe extern "C" fn(object: *mut c_void)>,
}
layout!(XLA_FFI_TypeInfo, R7.., size 24, struct_size deleter 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    deleter: Option<unsafe extern "C" fn(*mut c_void)> = 16,
});

/// The function with which a host destroys objects of a user type, on r6. No function of r6 uses
/// this struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_TypeInfo_R6 {
    /// The function that destroys one object; null for borrowed objects.
    pub deleter: Option<unsafe extern "C" fn(object: *mut c_void)>,
}
layout!(XLA_FFI_TypeInfo_R6 as "XLA_FFI_TypeInfo", R6..=R6, size 8 {
    deleter: Option<unsafe extern "C" fn(*mut c_void)> = 0,
});

/// Arguments of `Type_Register` (slot 5) from r7. Always pass a valid `type_info`, because hosts
/// read it whatever `struct_size` is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Type_Register_Args {
    /// Size of this struct in bytes, set by the caller. XLA's `STRUCT_SIZE` counts the fields up to
    /// `type_id`.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The type's name, unique per copy of XLA.
    pub name: XLA_FFI_ByteSpan,
    /// In and out: the type's number; 0 requests a new number.
    pub type_id: *mut XLA_FFI_TypeId,
    /// How the host destroys an object of the type.
    pub type_info: *const XLA_FFI_TypeInfo,
}
layout!(XLA_FFI_Type_Register_Args, R7.., size 48, struct_size type_id 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    name: XLA_FFI_ByteSpan = 16,
    type_id: *mut XLA_FFI_TypeId = 32,
    type_info: *const XLA_FFI_TypeInfo = 40,
});

/// Arguments of `TypeId_Register` (slot 5), up to r6.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_TypeId_Register_Args_R0 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The type's name, unique per copy of XLA.
    pub name: XLA_FFI_ByteSpan,
    /// Out: the type's number. From r5, also an input; 0 requests a new number.
    pub type_id: *mut XLA_FFI_TypeId,
}
layout!(XLA_FFI_TypeId_Register_Args_R0 as "XLA_FFI_TypeId_Register_Args", R0..=R6, size 40, struct_size type_id 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    name: XLA_FFI_ByteSpan = 16,
    type_id: *mut XLA_FFI_TypeId = 32,
});
