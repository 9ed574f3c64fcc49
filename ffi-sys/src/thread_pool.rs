//! The host's CPU thread pool.

use crate::{XLA_FFI_InternalExtension, XLA_FFI_InvokeContext};
use core::ffi::c_void;

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
