//! Futures, from r2: slot 12 on r2, slot 13 from r3.

use crate::{XLA_FFI_Error, XLA_FFI_InternalExtension};

opaque! {
    /// The host's half of an asynchronous call's completion.
    XLA_FFI_Future
}

/// Arguments of `Future_Create`. The host checks for 16 bytes but writes `future` behind them:
/// always give it this whole struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Future_Create_Args {
    /// Bytes of this struct that the caller filled; upstream counts the first two fields.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// Out: the future, to be returned in the call frame.
    pub future: *mut XLA_FFI_Future,
}
layout!(XLA_FFI_Future_Create_Args, R2.., size 24, struct_size extension_start 16 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    future: *mut XLA_FFI_Future = 16,
});

/// Arguments of `Future_SetAvailable`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Future_SetAvailable_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The future to complete.
    pub future: *mut XLA_FFI_Future,
}
layout!(XLA_FFI_Future_SetAvailable_Args, R2.., size 24, struct_size future 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    future: *mut XLA_FFI_Future = 16,
});

/// Arguments of `Future_SetError`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Future_SetError_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The future to complete.
    pub future: *mut XLA_FFI_Future,
    /// The error, neither null nor OK; the host owns it from here.
    pub error: *mut XLA_FFI_Error,
}
layout!(XLA_FFI_Future_SetError_Args, R2.., size 32, struct_size error 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    future: *mut XLA_FFI_Future = 16,
    error: *mut XLA_FFI_Error = 24,
});
