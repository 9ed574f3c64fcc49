//! Attributes and their values.

use crate::{XLA_FFI_DataType, XLA_FFI_InternalExtension};
use core::ffi::{c_char, c_void};

enumeration! {
    /// The type of an entry of [`XLA_FFI_Attrs`].
    XLA_FFI_AttrType, "XLA_FFI_AttrType_" {
        /// The attribute is an [`XLA_FFI_Array`].
        ARRAY = 1,
        /// The attribute is an [`XLA_FFI_Attrs`], a dictionary.
        DICTIONARY = 2,
        /// The attribute is an [`XLA_FFI_Scalar`].
        SCALAR = 3,
        /// The attribute is an [`XLA_FFI_ByteSpan`], a string.
        STRING = 4,
    }
}

/// A string, which is not necessarily NUL-terminated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ByteSpan {
    /// The first byte of the string; may be null if `len` is 0.
    pub ptr: *const c_char,
    /// The length of the string in bytes.
    pub len: usize,
}
layout!(XLA_FFI_ByteSpan, R0.., size 16 {
    ptr: *const c_char = 0,
    len: usize = 8,
});

/// A scalar attribute.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Scalar {
    /// The type of the scalar.
    pub dtype: XLA_FFI_DataType,
    /// The address of the scalar.
    pub value: *mut c_void,
}
layout!(XLA_FFI_Scalar, R0.., size 16 {
    dtype: XLA_FFI_DataType = 0,
    value: *mut c_void = 8,
});

/// An array attribute, with dense elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Array {
    /// The type of the array's elements.
    pub dtype: XLA_FFI_DataType,
    /// The number of the array's elements.
    pub size: usize,
    /// The first element of the array; may be null if `size` is 0.
    pub data: *mut c_void,
}
layout!(XLA_FFI_Array, R0.., size 24 {
    dtype: XLA_FFI_DataType = 0,
    size: usize = 8,
    data: *mut c_void = 16,
});

/// Attributes: a dictionary, sorted by the bytes of the names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Attrs {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The number of attributes.
    pub size: i64,
    /// The types of the attributes; `size` entries.
    pub types: *mut XLA_FFI_AttrType,
    /// The names of the attributes; `size` entries.
    pub names: *mut *mut XLA_FFI_ByteSpan,
    /// The values of the attributes; `size` entries.
    pub attrs: *mut *mut c_void,
}
layout!(XLA_FFI_Attrs, R0.., size 48, struct_size attrs 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    size: i64 = 16,
    types: *mut XLA_FFI_AttrType = 24,
    names: *mut *mut XLA_FFI_ByteSpan = 32,
    attrs: *mut *mut c_void = 40,
});
