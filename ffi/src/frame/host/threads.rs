//! The host's thread pool.

use std::ffi::c_void;

use crate::frame::host::Host;
use crate::error::Result;
use xla_ffi_sys::*;

impl Host {
    /// Runs `task(data)` on the host's pool, some time.
    ///
    /// # Safety
    /// `ctx` is the context of the current call; `task` may be called with `data` once, from any
    /// thread, until it has been.
    pub(crate) unsafe fn schedule(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        task: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Result<()> {
        let mut args = XLA_FFI_ThreadPool_Schedule_Args {
            struct_size: XLA_FFI_ThreadPool_Schedule_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            task: Some(task),
            data,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::ThreadPoolSchedule, Feature::ThreadPool, &mut args) }
    }

    /// Number of threads of the host's pool.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn num_threads(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i64> {
        let mut threads = 0;
        let mut args = XLA_FFI_ThreadPool_NumThreads_Args {
            struct_size: XLA_FFI_ThreadPool_NumThreads_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            num_threads: &raw mut threads,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe {
            self.call(
                Slot::ThreadPoolNumThreads,
                Feature::ThreadPoolSize,
                &mut args,
            )
        }?;
        Ok(threads)
    }
}
