//! The functions of the function table for asynchronous handlers: the thread pool, and futures.

use super::{check, error_or_null};
use crate::context::{Context, Entered, current_context};
use crate::host::{errors, futures};
use crate::process::guard;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};
use xla_ffi_sys::{
    XLA_FFI_Error, XLA_FFI_Future, XLA_FFI_Future_Create_Args, XLA_FFI_Future_SetAvailable_Args,
    XLA_FFI_Future_SetError_Args, XLA_FFI_Task, XLA_FFI_ThreadPool_NumThreads_Args,
    XLA_FFI_ThreadPool_Schedule_Args,
};

/// A task's data pointer, which is moved to the thread that runs the task.
struct Data(*mut c_void);

// SAFETY: `ThreadPool_Schedule` requires that the data can be used on a different thread.
unsafe impl Send for Data {}

impl Data {
    /// Returns the pointer. A closure that calls this method captures the whole struct; a closure that uses the field
    /// captures only the pointer, which is not `Send`.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// Passes a task to the executor of the call.
fn hand_over(context: &Context, task: impl FnOnce() + Send + 'static) -> Result<()> {
    let tasks = context.pool()?;
    tasks.spawn(task);
    Ok(())
}

/// Runs a task of this library on the executor of the call. Tasks start in the order in which they are passed.
pub(crate) fn spawn(context: &Context, task: impl FnOnce() + Send + 'static) -> Result<()> {
    let shared = context.shared().clone();
    hand_over(context, move || {
        let _entered = Entered::new(&shared, None);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(task)) {
            guard::discard(payload);
            let message = "a panic left a thread-pool task";
            shared.note(Finding::new(Hazard::Unwound, message));
        }
    })
}

/// Runs a handler's task on the executor of the call. Tasks start in the order in which they are passed.
fn schedule(context: &Context, task: XLA_FFI_Task, data: *mut c_void) -> Result<()> {
    let shared = context.shared().clone();
    let data = Data(data);
    hand_over(context, move || {
        let _entered = Entered::new(&shared, None);
        // SAFETY: `ThreadPool_Schedule` allows one call of the task with its data.
        if let Err(unwound) = unsafe { guard::call_void(task, data.pointer()) } {
            let message = format!("{unwound} left a thread-pool task");
            shared.note(Finding::new(Hazard::Unwound, message));
        }
    })
}

pub(super) unsafe extern "C" fn thread_pool_schedule<const R: u8>(
    args: *mut XLA_FFI_ThreadPool_Schedule_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("ThreadPool_Schedule", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        let task = asked
            .task
            .ok_or_else(|| Error::invalid_argument("the task is a null pointer"))?;
        schedule(context, task, asked.data)
    })
}

pub(super) unsafe extern "C" fn thread_pool_num_threads<const R: u8>(
    args: *mut XLA_FFI_ThreadPool_NumThreads_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("ThreadPool_NumThreads", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        let pool = context.pool()?;
        let size = pool.size();
        if asked.num_threads.is_null() {
            return Err(Error::invalid_argument("num_threads is a null pointer"));
        }
        // SAFETY: handlers pass a pointer that is valid for writing the number, as the ABI requires.
        unsafe { asked.num_threads.write(size as i64) };
        Ok(())
    })
}

/// `Future_Create`: creates a future for the call in progress.
pub(super) unsafe extern "C" fn future_create<const R: u8>(
    args: *mut XLA_FFI_Future_Create_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_Create", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        let handle = futures::create();
        if let Some(context) = current_context() {
            context.made_future(handle);
        }
        // SAFETY: every handler allocates the whole struct, even if its `struct_size` does not include this field.
        unsafe { (*args).future = handle as *mut XLA_FFI_Future };
        Ok(())
    })
}

/// `Future_SetAvailable`: completes a future successfully.
pub(super) unsafe extern "C" fn future_set_available<const R: u8>(
    args: *mut XLA_FFI_Future_SetAvailable_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetAvailable", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let args = unsafe { args.read() };
        futures::find(args.future)?.complete(Ok(()))
    })
}

/// `Future_SetError`: completes a future with an error. The error must not be null or have the code OK.
pub(super) unsafe extern "C" fn future_set_error<const R: u8>(
    args: *mut XLA_FFI_Future_SetError_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetError", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let args = unsafe { args.read() };
        if args.error.is_null() {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                "the error is null: to complete without an error call Future_SetAvailable",
            ));
        }
        let error = errors::take_error(args.error).ok_or_else(|| {
            Error::invalid_argument(
                "the error's code is OK; to complete without an error, call Future_SetAvailable",
            )
        })?;
        futures::find(args.future)?.complete(Err(error))
    })
}
