//! Functions of the host that need the call's context: execution, memory, futures and threads.

use std::ffi::c_void;

use crate::error::{Error, Result};
use crate::frame::host::Host;
use crate::frame::raw_attribute::RawAttrs;
use xla_ffi_sys::*;

impl Host {
    /// Returns the run id of the execution.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn run_id(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i64> {
        let mut args = XLA_FFI_RunId_Get_Args {
            struct_size: XLA_FFI_RunId_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            run_id: 0,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::RunIdGet, Feature::RunId, &mut args) }?;
        Ok(args.run_id)
    }

    /// Returns the extension with number `extension_type`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn extension(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        extension_type: i64,
    ) -> Result<*const XLA_FFI_Extension> {
        let mut args = XLA_FFI_InvokeContext_FindExtension_Args {
            struct_size: XLA_FFI_InvokeContext_FindExtension_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            extension_type,
            extension: std::ptr::null(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe {
            self.call(
                Slot::InvokeContextFindExtension,
                Feature::Extensions,
                &mut args,
            )
        }?;
        Ok(args.extension)
    }

    /// Returns the custom options of this execution.
    ///
    /// # Safety
    /// `ctx` is the context of the current call, which lives as long as `'f`.
    pub(crate) unsafe fn custom_options<'f>(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
    ) -> Result<RawAttrs<'f>> {
        let mut args = XLA_FFI_CustomOptions_Get_Args {
            struct_size: XLA_FFI_CustomOptions_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            attrs: std::ptr::null(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::CustomOptionsGet, Feature::CustomOptions, &mut args) }?;
        // SAFETY: the host's dictionary lives as long as the context.
        unsafe { RawAttrs::from_host(args.attrs) }
            .ok_or_else(|| Error::internal("the host gave no dictionary of custom options"))
    }
}

impl Host {
    /// Returns the platform's stream.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    #[inline]
    pub(crate) unsafe fn stream(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<*mut c_void> {
        let mut args = XLA_FFI_Stream_Get_Args {
            struct_size: XLA_FFI_Stream_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::StreamGet, Feature::Stream, &mut args) }?;
        Ok(args.stream)
    }

    /// Allocates device memory of `size` bytes.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn allocate(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        size: usize,
        alignment: usize,
    ) -> Result<*mut c_void> {
        let mut args = XLA_FFI_DeviceMemory_Allocate_Args {
            struct_size: XLA_FFI_DeviceMemory_Allocate_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            size,
            alignment,
            data: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe {
            self.call(
                Slot::DeviceMemoryAllocate,
                Feature::ScratchMemory,
                &mut args,
            )
        }?;
        Ok(args.data)
    }

    /// Frees device memory of `size` bytes.
    ///
    /// # Safety
    /// `ctx` is the context of the current call, and `data` was returned by [`Host::allocate`] for
    /// `size`.
    pub(crate) unsafe fn free(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        size: usize,
        data: *mut c_void,
    ) -> Result<()> {
        let mut args = XLA_FFI_DeviceMemory_Free_Args {
            struct_size: XLA_FFI_DeviceMemory_Free_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            size,
            data,
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::DeviceMemoryFree, Feature::ScratchMemory, &mut args) }
    }

    /// Returns the global ordinal of the device.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn device_ordinal(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i32> {
        let mut args = XLA_FFI_DeviceOrdinal_Get_Args {
            struct_size: XLA_FFI_DeviceOrdinal_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            device_ordinal: 0,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::DeviceOrdinalGet, Feature::DeviceOrdinal, &mut args) }?;
        Ok(args.device_ordinal)
    }
}

impl Host {
    /// Creates a future of the host, for a call that is pending.
    pub(crate) fn make_future(self) -> Result<*mut XLA_FFI_Future> {
        // The size is 16, because hosts check for 16 bytes. Hosts still write `future`, up to byte
        // 24.
        let mut args = XLA_FFI_Future_Create_Args {
            struct_size: XLA_FFI_Future_Create_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            future: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::FutureCreate, Feature::Futures, &mut args) }?;
        Ok(args.future)
    }

    /// Completes a future of the host with the outcome of a call.
    ///
    /// # Safety
    /// `future` was returned by [`Host::make_future`] and has not been completed.
    pub(crate) unsafe fn complete(self, future: *mut XLA_FFI_Future, outcome: &Result<()>) {
        let error = match outcome {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => self.make_error(error.code(), error.message()),
        };
        let told = if error.is_null() {
            let mut args = XLA_FFI_Future_SetAvailable_Args {
                struct_size: XLA_FFI_Future_SetAvailable_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
            };
            // SAFETY: the struct is the same in every revision that has the slot.
            unsafe { self.call(Slot::FutureSetAvailable, Feature::Futures, &mut args) }
        } else {
            let mut args = XLA_FFI_Future_SetError_Args {
                struct_size: XLA_FFI_Future_SetError_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
                error,
            };
            // SAFETY: the struct is the same in every revision that has the slot. The host takes
            // ownership of the error.
            unsafe { self.call(Slot::FutureSetError, Feature::Futures, &mut args) }
        };
        if let Err(error) = told {
            crate::error::panics::warn(format_args!(
                "the host refused the completion of a future: {}",
                error.message()
            ));
        }
    }

    /// Returns true if calls can complete asynchronously.
    pub(crate) fn has_futures(self) -> bool {
        self.has(Slot::FutureCreate)
            && self.has(Slot::FutureSetAvailable)
            && self.has(Slot::FutureSetError)
    }
}

impl Host {
    /// Runs `task(data)` on the host's pool at some later time.
    ///
    /// # Safety
    /// `ctx` is the context of the current call. `task` may be called with `data` once, from any
    /// thread and at any later time.
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

    /// Returns the number of threads in the host's pool.
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
