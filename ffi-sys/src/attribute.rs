//! Attributes and their values.

use crate::{XLA_FFI_DataType, XLA_FFI_InternalExtension};
use core::ffi::{c_char, c_void};

enumeration! {
    /// What an entry of [`XLA_FFI_Attrs`] points to.
    XLA_FFI_AttrType, "XLA_FFI_AttrType_" {
        /// An [`XLA_FFI_Array`].
        ARRAY = 1,
        /// An [`XLA_FFI_Attrs`].
        DICTIONARY = 2,
        /// An [`XLA_FFI_Scalar`].
        SCALAR = 3,
        /// An [`XLA_FFI_ByteSpan`].
        STRING = 4,
    }
}

/// A string that need not end in NUL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ByteSpan {
    /// First byte; may be null when `len` is 0.
    pub ptr: *const c_char,
    /// Bytes.
    pub len: usize,
}
layout!(XLA_FFI_ByteSpan, R0.., size 16 {
    ptr: *const c_char = 0,
    len: usize = 8,
});

/// One value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Scalar {
    /// Its type.
    pub dtype: XLA_FFI_DataType,
    /// Where it lies.
    pub value: *mut c_void,
}
layout!(XLA_FFI_Scalar, R0.., size 16 {
    dtype: XLA_FFI_DataType = 0,
    value: *mut c_void = 8,
});

/// A dense array of values.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Array {
    /// Type of the elements.
    pub dtype: XLA_FFI_DataType,
    /// Number of elements.
    pub size: usize,
    /// First element; may be null when `size` is 0.
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
    /// Bytes of this struct that the host filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// Number of attributes.
    pub size: i64,
    /// What each attribute is; `size` of them.
    pub types: *mut XLA_FFI_AttrType,
    /// The names; `size` of them.
    pub names: *mut *mut XLA_FFI_ByteSpan,
    /// The values; `size` of them.
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
