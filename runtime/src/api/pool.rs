//! The host's thread pool.

use super::{Entered, answer, check, context};
use crate::guard;
use crate::runtime::Shared;
use crate::{Code, Error, Finding, Hazard, Result};
use std::ffi::c_void;
use std::sync::Arc;
use xla_ffi_sys::{
    XLA_FFI_Error, XLA_FFI_Task, XLA_FFI_ThreadPool_NumThreads_Args,
    XLA_FFI_ThreadPool_Schedule_Args,
};

/// Threads that run handlers' tasks; never the thread that calls the handler.
pub(crate) struct ThreadPool {
    threads: rayon_core::ThreadPool,
}

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

impl ThreadPool {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let threads = rayon_core::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|index| format!("xla-ffi-pool-{index}"))
            .build()
            .map_err(|error| {
                Error::new(Code::ResourceExhausted, "the thread pool cannot start")
                    .with_source(error)
            })?;
        Ok(Self { threads })
    }

    pub(crate) fn size(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Runs a task of this image on a thread of the pool, in the order of the calls.
    pub(crate) fn spawn(&self, shared: Arc<Shared>, task: impl FnOnce() + Send + 'static) {
        self.threads.spawn_fifo(move || {
            let _entered = Entered::new(&shared, None);
            let task = std::panic::AssertUnwindSafe(task);
            if let Err(payload) = std::panic::catch_unwind(task) {
                guard::discard(payload);
                let message = "a panic left a thread-pool task";
                shared.note(Finding::new(Hazard::Unwound, message));
            }
        });
    }

    /// Runs `task` on a thread of the pool, in the order of the calls.
    fn schedule(&self, shared: Arc<Shared>, task: XLA_FFI_Task, data: *mut c_void) {
        let data = Data(data);
        self.threads.spawn_fifo(move || {
            let _entered = Entered::new(&shared, None);
            // SAFETY: the contract of `ThreadPool_Schedule`: the task may be called once with it.
            if let Err(unwound) = unsafe { guard::call_void(task, data.pointer()) } {
                let message = format!("{unwound} left a thread-pool task");
                shared.note(Finding::new(Hazard::Unwound, message));
            }
        });
    }
}

pub(super) unsafe extern "C" fn thread_pool_schedule<const R: u8>(
    args: *mut XLA_FFI_ThreadPool_Schedule_Args,
) -> *mut XLA_FFI_Error {
    answer("ThreadPool_Schedule", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { context(asked.ctx) }?;
        let task = asked
            .task
            .ok_or_else(|| Error::invalid("the task is a null pointer"))?;
        context
            .pool()?
            .schedule(context.shared().clone(), task, asked.data);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn thread_pool_num_threads<const R: u8>(
    args: *mut XLA_FFI_ThreadPool_NumThreads_Args,
) -> *mut XLA_FFI_Error {
    answer("ThreadPool_NumThreads", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let size = unsafe { context(asked.ctx) }?.pool()?.size();
        if asked.num_threads.is_null() {
            return Err(Error::invalid("num_threads is a null pointer"));
        }
        // SAFETY: the handler's pointer names where the number goes.
        unsafe { asked.num_threads.write(size as i64) };
        Ok(())
    })
}
