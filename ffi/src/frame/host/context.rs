//! What else the context tells: the run, extensions, custom options.

use crate::frame::host::Host;
use crate::frame::raw_attribute::RawAttrs;
use crate::error::{Error, Result};
use xla_ffi_sys::*;

impl Host {
    /// The number of the execution.
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

    /// The extension with number `extension_type`.
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

    /// The options of this execution.
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
