//! Buffers: the only kind of argument and result.

use crate::{XLA_FFI_DataType, XLA_FFI_InternalExtension};
use core::ffi::c_void;

/// An array in host or device memory, dense and row-major whatever its layout options. The struct
/// and `dims` die with the call; what `data` names lives until an asynchronous call completes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Buffer {
    /// Bytes of this struct that the host filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// Element type.
    pub dtype: XLA_FFI_DataType,
    /// First element; may be null when a dimension is 0.
    pub data: *mut c_void,
    /// Number of dimensions.
    pub rank: i64,
    /// Elements along each dimension; `rank` of them.
    pub dims: *mut i64,
}
layout!(XLA_FFI_Buffer, R0.., size 48, struct_size dims 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    dtype: XLA_FFI_DataType = 16,
    data: *mut c_void = 24,
    rank: i64 = 32,
    dims: *mut i64 = 40,
});

enumeration! {
    /// What an entry of [`XLA_FFI_Args`](crate::XLA_FFI_Args) points to.
    XLA_FFI_ArgType, "XLA_FFI_ArgType_" {
        /// An [`XLA_FFI_Buffer`].
        BUFFER = 1,
    }
}

enumeration! {
    /// What an entry of [`XLA_FFI_Rets`](crate::XLA_FFI_Rets) points to.
    XLA_FFI_RetType, "XLA_FFI_RetType_" {
        /// An [`XLA_FFI_Buffer`].
        BUFFER = 1,
    }
}
