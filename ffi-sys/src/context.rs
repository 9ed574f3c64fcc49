//! The functions of an invocation context: user data, stream, memory, threads, ids, options and
//! extensions.

use crate::{XLA_FFI_Attrs, XLA_FFI_Extension, XLA_FFI_InternalExtension, XLA_FFI_TypeId};
use core::ffi::c_void;

opaque! {
    /// The invocation context of one call (`XLA_FFI_ExecutionContext` before r9), which is valid
    /// until the call ends.
    XLA_FFI_InvokeContext
}

/// The name of [`XLA_FFI_InvokeContext`] up to r8.
pub type XLA_FFI_ExecutionContext = XLA_FFI_InvokeContext;

/// Arguments of `InvokeContext_FindExtension`, from r9.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InvokeContext_FindExtension_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The number of the requested extension.
    pub extension_type: i64,
    /// Out: the requested extension.
    pub extension: *const XLA_FFI_Extension,
}
layout!(XLA_FFI_InvokeContext_FindExtension_Args, R9.., size 40, struct_size extension 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    extension_type: i64 = 24,
    extension: *const XLA_FFI_Extension = 32,
});

/// Arguments of `InvokeContext_Get` (slot 6; called `ExecutionContext_Get` before r9), which
/// returns user data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InvokeContext_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the requested object.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the requested object.
    pub data: *mut c_void,
}
layout!(XLA_FFI_InvokeContext_Get_Args, R0.., size 40, struct_size data 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    type_id: *mut XLA_FFI_TypeId = 24,
    data: *mut c_void = 32,
});

/// Arguments of `CustomOptions_Get`, from r10.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_CustomOptions_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: a dictionary of options, which is empty if the caller passed no options.
    pub attrs: *const XLA_FFI_Attrs,
}
layout!(XLA_FFI_CustomOptions_Get_Args, R10.., size 32, struct_size attrs 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    attrs: *const XLA_FFI_Attrs = 24,
});

/// Arguments of `Stream_Get` (slot 4).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Stream_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: the platform's stream, for example a `CUstream`.
    pub stream: *mut c_void,
}
layout!(XLA_FFI_Stream_Get_Args, R0.., size 32, struct_size stream 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    stream: *mut c_void = 24,
});

/// Arguments of `DeviceMemory_Allocate` (slot 9).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceMemory_Allocate_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The requested size of the memory in bytes.
    pub size: usize,
    /// The requested alignment of the memory, a power of two.
    pub alignment: usize,
    /// Out: device memory, valid until the stream has finished the work that the call launched.
    pub data: *mut c_void,
}
layout!(XLA_FFI_DeviceMemory_Allocate_Args, R0.., size 48, struct_size data 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    size: usize = 24,
    alignment: usize = 32,
    data: *mut c_void = 40,
});

/// Arguments of `DeviceMemory_Free` (slot 10).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceMemory_Free_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The size of the memory in bytes.
    pub size: usize,
    /// The memory to free.
    pub data: *mut c_void,
}
layout!(XLA_FFI_DeviceMemory_Free_Args, R0.., size 40, struct_size data 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    size: usize = 24,
    data: *mut c_void = 32,
});

/// Arguments of `RunId_Get`, from r4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_RunId_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: the run id, which is the same on all devices of the execution.
    pub run_id: i64,
}
layout!(XLA_FFI_RunId_Get_Args, R4.., size 32, struct_size run_id 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    run_id: i64 = 24,
});

/// Arguments of `DeviceOrdinal_Get`, from r5.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceOrdinal_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: the global ordinal of the device (from 2048 on in the second process).
    pub device_ordinal: i32,
}
layout!(XLA_FFI_DeviceOrdinal_Get_Args, R5.., size 32, struct_size device_ordinal 28 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    device_ordinal: i32 = 24,
});

/// A task for the host's thread pool. Tasks run on any thread and in any order.
pub type XLA_FFI_Task = unsafe extern "C" fn(data: *mut c_void);

/// Arguments of `ThreadPool_Schedule` (slot 11), from r1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ThreadPool_Schedule_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The task to run.
    pub task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// The argument of `task`.
    pub data: *mut c_void,
}
layout!(XLA_FFI_ThreadPool_Schedule_Args, R1.., size 40, struct_size data 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    task: Option<unsafe extern "C" fn(*mut c_void)> = 24,
    data: *mut c_void = 32,
});

/// Arguments of `ThreadPool_NumThreads`, from r3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ThreadPool_NumThreads_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: the address to which the number of threads is written.
    pub num_threads: *mut i64,
}
layout!(XLA_FFI_ThreadPool_NumThreads_Args, R3.., size 32, struct_size num_threads 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    num_threads: *mut i64 = 24,
});
