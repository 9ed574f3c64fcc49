//! What an invocation context gives: user data, stream, memory, thread pool, run id, ordinal, options, extensions.

use crate::{XLA_FFI_Attrs, XLA_FFI_Extension, XLA_FFI_InternalExtension, XLA_FFI_TypeId};
use core::ffi::c_void;

opaque! {
    /// The context of one invocation (`XLA_FFI_ExecutionContext` before r9); ends with the call.
    XLA_FFI_InvokeContext
}

/// The name of [`XLA_FFI_InvokeContext`] up to r8.
pub type XLA_FFI_ExecutionContext = XLA_FFI_InvokeContext;

/// Arguments of `InvokeContext_FindExtension`, from r9.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InvokeContext_FindExtension_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The number of the extension that is sought.
    pub extension_type: i64,
    /// Out: the extension.
    pub extension: *const XLA_FFI_Extension,
}
layout!(XLA_FFI_InvokeContext_FindExtension_Args, R9.., size 40, struct_size extension 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    extension_type: i64 = 24,
    extension: *const XLA_FFI_Extension = 32,
});

/// Arguments of `InvokeContext_Get` (slot 6; `ExecutionContext_Get` before r9): user data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InvokeContext_Get_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type that is asked for.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the object.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: a dictionary, empty where the caller of the program gave none.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: the platform's stream, a `CUstream` for instance.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Bytes wanted.
    pub size: usize,
    /// Alignment wanted, a power of two.
    pub alignment: usize,
    /// Out: device memory that lives until the stream has run what the call launched.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Bytes that were allocated.
    pub size: usize,
    /// The memory.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: number of the execution, the same on all its devices.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Out: global number of the device (2048 in the second process).
    pub device_ordinal: i32,
}
layout!(XLA_FFI_DeviceOrdinal_Get_Args, R5.., size 32, struct_size device_ordinal 28 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    device_ordinal: i32 = 24,
});

/// A task; may run on any thread, in any order.
pub type XLA_FFI_Task = unsafe extern "C" fn(data: *mut c_void);

/// Arguments of `ThreadPool_Schedule` (slot 11), from r1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ThreadPool_Schedule_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The task.
    pub task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// What the task is given.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// Where the number is written.
    pub num_threads: *mut i64,
}
layout!(XLA_FFI_ThreadPool_NumThreads_Args, R3.., size 32, struct_size num_threads 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    num_threads: *mut i64 = 24,
});
