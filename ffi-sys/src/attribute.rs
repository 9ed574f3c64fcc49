//! Attribute values.

use crate::XLA_FFI_DataType;
use core::ffi::{c_char, c_void};

enumeration! {
    /// What an entry of [`XLA_FFI_Attrs`](crate::XLA_FFI_Attrs) points to.
    XLA_FFI_AttrType, "XLA_FFI_AttrType_" {
        /// An [`XLA_FFI_Array`].
        ARRAY = 1,
        /// An [`XLA_FFI_Attrs`](crate::XLA_FFI_Attrs).
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
layout!(XLA_FFI_ByteSpan, R0..=R10, size 16 {
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
layout!(XLA_FFI_Scalar, R0..=R10, size 16 {
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
layout!(XLA_FFI_Array, R0..=R10, size 24 {
    dtype: XLA_FFI_DataType = 0,
    size: usize = 8,
    data: *mut c_void = 16,
});
