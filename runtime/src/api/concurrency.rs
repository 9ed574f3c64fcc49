//! What asynchronous handlers use: the thread pool, and futures as they make and complete them.

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

/// A handler's pointer on its way to the thread that runs the task.
struct Data(*mut c_void);

// SAFETY: the contract of `ThreadPool_Schedule`: the data may be used by another thread.
unsafe impl Send for Data {}

impl Data {
    /// The pointer; as a method, so that a closure captures the whole.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// Gives a task to who runs the call's tasks.
fn hand_over(context: &Context, task: impl FnOnce() + Send + 'static) -> Result<()> {
    let tasks = context.pool()?;
    tasks.spawn(task);
    Ok(())
}

/// Runs a task of this image on the call's pool, in the order of the calls.
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

/// Runs `task` on the call's pool, in the order of the calls.
fn schedule(context: &Context, task: XLA_FFI_Task, data: *mut c_void) -> Result<()> {
    let shared = context.shared().clone();
    let data = Data(data);
    hand_over(context, move || {
        let _entered = Entered::new(&shared, None);
        // SAFETY: the contract of `ThreadPool_Schedule`: the task may be called once with it.
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
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
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
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        let pool = context.pool()?;
        let size = pool.size();
        if asked.num_threads.is_null() {
            return Err(Error::invalid_argument("num_threads is a null pointer"));
        }
        // SAFETY: the handler's pointer names where the number goes.
        unsafe { asked.num_threads.write(size as i64) };
        Ok(())
    })
}

/// `Future_Create`.
pub(super) unsafe extern "C" fn future_create<const R: u8>(
    args: *mut XLA_FFI_Future_Create_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_Create", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        let handle = futures::create();
        if let Some(context) = current_context() {
            context.made_future(handle);
        }
        // SAFETY: every handler gives storage for the field, whatever the size says.
        unsafe { (*args).future = handle as *mut XLA_FFI_Future };
        Ok(())
    })
}

/// `Future_SetAvailable`.
pub(super) unsafe extern "C" fn future_set_available<const R: u8>(
    args: *mut XLA_FFI_Future_SetAvailable_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetAvailable", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let args = unsafe { args.read() };
        futures::find(args.future)?.complete(Ok(()))
    })
}

/// `Future_SetError`: the error is neither null nor OK.
pub(super) unsafe extern "C" fn future_set_error<const R: u8>(
    args: *mut XLA_FFI_Future_SetError_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetError", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
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
