//! The call frame, its buffers, and the future that a handler may return (from r2).

use crate::{
    XLA_FFI_Api, XLA_FFI_Attrs, XLA_FFI_DataType, XLA_FFI_Error, XLA_FFI_InternalExtension,
    XLA_FFI_InvokeContext,
};
use core::ffi::c_void;

enumeration! {
    /// The stages of an execution. Newer hosts may add stages.
    XLA_FFI_ExecutionStage, "XLA_FFI_ExecutionStage_" {
        /// Runs once per call site when the program is compiled. The call frame has only
        /// attributes.
        INSTANTIATE = 0,
        /// Runs before an execution, to request resources.
        PREPARE = 1,
        /// Runs before an execution, when the requested resources are available.
        INITIALIZE = 2,
        /// Runs the custom call.
        EXECUTE = 3,
        /// Records the custom call into a command buffer.
        RECORD = 4 since "0.11.1",
    }
}

/// The arguments of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Args {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The number of arguments.
    pub size: i64,
    /// The types of the arguments; `size` entries.
    pub types: *mut XLA_FFI_ArgType,
    /// The arguments; `size` entries.
    pub args: *mut *mut c_void,
}
layout!(XLA_FFI_Args, R0.., size 40, struct_size args 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    size: i64 = 16,
    types: *mut XLA_FFI_ArgType = 24,
    args: *mut *mut c_void = 32,
});

/// The results of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Rets {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The number of results.
    pub size: i64,
    /// The types of the results; `size` entries.
    pub types: *mut XLA_FFI_RetType,
    /// The results; `size` entries.
    pub rets: *mut *mut c_void,
}
layout!(XLA_FFI_Rets, R0.., size 40, struct_size rets 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    size: i64 = 16,
    types: *mut XLA_FFI_RetType = 24,
    rets: *mut *mut c_void = 32,
});

/// The call frame of one call. From r2, its last field is `future`, which XLA's `STRUCT_SIZE` does
/// not count. On r0 and r1, the frame ends before `future` ([`XLA_FFI_CallFrame_R0`]).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_CallFrame {
    /// Size of this struct in bytes without `future`, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null. A metadata query has an
    /// [`XLA_FFI_Metadata_Extension`](crate::XLA_FFI_Metadata_Extension).
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The host's function table; null in metadata queries of hosts with version 0.1.
    pub api: *const XLA_FFI_Api,
    /// The invocation context of the call; null in metadata queries.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage of the call.
    pub stage: XLA_FFI_ExecutionStage,
    /// The arguments of the call.
    pub args: XLA_FFI_Args,
    /// The results of the call.
    pub rets: XLA_FFI_Rets,
    /// The attributes of the call.
    pub attrs: XLA_FFI_Attrs,
    /// Out: a future that becomes available when an asynchronous call is complete. From r2.
    pub future: *mut XLA_FFI_Future,
}
layout!(XLA_FFI_CallFrame, R2.., size 176, struct_size attrs 168 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    api: *const XLA_FFI_Api = 16,
    ctx: *mut XLA_FFI_InvokeContext = 24,
    stage: XLA_FFI_ExecutionStage = 32,
    args: XLA_FFI_Args = 40,
    rets: XLA_FFI_Rets = 80,
    attrs: XLA_FFI_Attrs = 120,
    future: *mut XLA_FFI_Future = 168,
});

/// The call frame of one call on r0 and r1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_CallFrame_R0 {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The host's function table.
    pub api: *const XLA_FFI_Api,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage of the call.
    pub stage: XLA_FFI_ExecutionStage,
    /// The arguments of the call.
    pub args: XLA_FFI_Args,
    /// The results of the call.
    pub rets: XLA_FFI_Rets,
    /// The attributes of the call.
    pub attrs: XLA_FFI_Attrs,
}
layout!(XLA_FFI_CallFrame_R0 as "XLA_FFI_CallFrame", R0..=R1, size 168, struct_size attrs 168 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    api: *const XLA_FFI_Api = 16,
    ctx: *mut XLA_FFI_InvokeContext = 24,
    stage: XLA_FFI_ExecutionStage = 32,
    args: XLA_FFI_Args = 40,
    rets: XLA_FFI_Rets = 80,
    attrs: XLA_FFI_Attrs = 120,
});

/// An array in host or device memory, which is dense and row-major whatever its layout options. The
/// struct and `dims` are valid until the handler returns; `data` is valid until the call completes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Buffer {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The type of the array's elements.
    pub dtype: XLA_FFI_DataType,
    /// The first element of the array; may be null if a dimension is 0.
    pub data: *mut c_void,
    /// The number of the array's dimensions.
    pub rank: i64,
    /// The number of elements along each dimension of the array; `rank` entries.
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
    /// The type of an entry of [`XLA_FFI_Args`](crate::XLA_FFI_Args).
    XLA_FFI_ArgType, "XLA_FFI_ArgType_" {
        /// The argument is an [`XLA_FFI_Buffer`].
        BUFFER = 1,
    }
}

enumeration! {
    /// The type of an entry of [`XLA_FFI_Rets`](crate::XLA_FFI_Rets).
    XLA_FFI_RetType, "XLA_FFI_RetType_" {
        /// The result is an [`XLA_FFI_Buffer`].
        BUFFER = 1,
    }
}

opaque! {
    /// The host's future, which completes an asynchronous call.
    XLA_FFI_Future
}

/// Arguments of `Future_Create`. Hosts check that `struct_size` is at least 16, but also write
/// `future` after these 16 bytes. Always pass the whole struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Future_Create_Args {
    /// Size of this struct in bytes, set by the caller. XLA's `STRUCT_SIZE` counts only the first
    /// two fields.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// Out: the future, which the handler returns in the call frame.
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
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
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
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The future to complete.
    pub future: *mut XLA_FFI_Future,
    /// The error to report, which is neither null nor OK. The host takes ownership of the error.
    pub error: *mut XLA_FFI_Error,
}
layout!(XLA_FFI_Future_SetError_Args, R2.., size 32, struct_size error 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    future: *mut XLA_FFI_Future = 16,
    error: *mut XLA_FFI_Error = 24,
});
