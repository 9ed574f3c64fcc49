//! The device of a call: its stream, its memory, its number.

use std::ffi::c_void;

use crate::frame::host::Host;
use crate::error::Result;
use xla_ffi_sys::*;

impl Host {
    /// The platform's stream.
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

    /// Allocates device memory.
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

    /// Frees device memory.
    ///
    /// # Safety
    /// `ctx` is the context of the current call, `data` came from [`Host::allocate`] with `size`.
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

    /// The global number of the device.
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
