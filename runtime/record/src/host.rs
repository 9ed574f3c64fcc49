//! Queries the host of a recorded call for the context's values and for the message of an error.
//!
//! The revision of the recording determines the functions in the table. From r5, the table's size is also checked.

use crate::{Attributes, Context, frame};
use std::ffi::{CStr, c_void};
use std::mem::zeroed;
use std::ptr;
use xla_ffi_sys::{
    Revision, Slot, XLA_FFI_Api, XLA_FFI_CustomOptions_Get_Args, XLA_FFI_DeviceOrdinal_Get_Args,
    XLA_FFI_Error, XLA_FFI_Error_Destroy_Args, XLA_FFI_Error_GetDetails_Args,
    XLA_FFI_Error_GetMessage_Args_R0, XLA_FFI_InvokeContext, XLA_FFI_RunId_Get_Args,
    XLA_FFI_ThreadPool_NumThreads_Args,
};

/// A function of the function table. It returns an error, or null.
pub(crate) type Function = unsafe extern "C" fn(args: *mut c_void) -> *mut XLA_FFI_Error;

/// A host's function table and revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    api: *const XLA_FFI_Api,
    revision: Revision,
}

// SAFETY: a host's table exists as long as the process, and is only read.
unsafe impl Send for Host {}
// SAFETY: a host's table exists as long as the process, and is only read.
unsafe impl Sync for Host {}

impl Host {
    /// Returns the host with this function table and revision.
    ///
    /// # Safety
    /// `api` must be the function table of a host of this revision.
    pub(crate) unsafe fn new(api: *const XLA_FFI_Api, revision: Revision) -> Self {
        Self { api, revision }
    }

    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.api
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the address of a function's slot in the table; `None` if the table lacks the function.
    pub(crate) fn slot(&self, slot: Slot) -> Option<*mut usize> {
        let index = slot.index(self.revision)?;
        if self.api.is_null() {
            return None;
        }
        // SAFETY: the tables of all revisions have this field.
        let size = unsafe { (*self.api).struct_size };
        let end = Slot::HEAD + 8 * (index + 1);
        let fits = self.revision < Revision::R5 || size >= end;
        fits.then(|| {
            self.api
                .cast::<usize>()
                .cast_mut()
                .wrapping_add(end / 8 - 1)
        })
    }

    fn function(&self, slot: Slot) -> Option<Function> {
        let at = self.slot(slot)?.cast::<Option<Function>>();
        // SAFETY: the slot is inside the table, and contains a function or null.
        unsafe { at.read() }
    }

    /// Calls a function that may fail. An error is discarded, and `None` is returned.
    fn ask<T>(&self, slot: Slot, args: &mut T) -> Option<()> {
        let function = self.function(slot)?;
        // SAFETY: `args` is the arguments struct of the function on this revision.
        let error = unsafe { function(ptr::from_mut(args).cast()) };
        if error.is_null() {
            return Some(());
        }
        // SAFETY: zero bytes are valid for `Error_Destroy_Args`. The required fields are set before its use.
        let mut destroy: XLA_FFI_Error_Destroy_Args = unsafe { zeroed() };
        destroy.struct_size = size_of::<XLA_FFI_Error_Destroy_Args>();
        destroy.error = error;
        let function = self.function(Slot::ErrorDestroy)?;
        // SAFETY: the host passed ownership of the error, which is not used again.
        unsafe { function(ptr::from_mut(&mut destroy).cast()) };
        None
    }

    /// Returns the values in the context of a call.
    pub(crate) fn context(&self, ctx: *mut XLA_FFI_InvokeContext) -> Context {
        // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
        let mut run_id: XLA_FFI_RunId_Get_Args = unsafe { zeroed() };
        run_id.struct_size = size_of::<XLA_FFI_RunId_Get_Args>();
        run_id.ctx = ctx;
        // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
        let mut ordinal: XLA_FFI_DeviceOrdinal_Get_Args = unsafe { zeroed() };
        ordinal.struct_size = size_of::<XLA_FFI_DeviceOrdinal_Get_Args>();
        ordinal.ctx = ctx;
        let mut threads = 0;
        let mut pool = XLA_FFI_ThreadPool_NumThreads_Args {
            struct_size: size_of::<XLA_FFI_ThreadPool_NumThreads_Args>(),
            extension_start: ptr::null_mut(),
            ctx,
            num_threads: &raw mut threads,
        };
        Context {
            run_id: self
                .ask(Slot::RunIdGet, &mut run_id)
                .map(|()| run_id.run_id),
            device_ordinal: self
                .ask(Slot::DeviceOrdinalGet, &mut ordinal)
                .map(|()| ordinal.device_ordinal),
            threads: self
                .ask(Slot::ThreadPoolNumThreads, &mut pool)
                .map(|()| threads),
            custom_options: self.custom_options(ctx),
        }
    }

    fn custom_options(&self, ctx: *mut XLA_FFI_InvokeContext) -> Option<Attributes> {
        let mut args = XLA_FFI_CustomOptions_Get_Args {
            struct_size: size_of::<XLA_FFI_CustomOptions_Get_Args>(),
            extension_start: ptr::null_mut(),
            ctx,
            attrs: ptr::null(),
        };
        self.ask(Slot::CustomOptionsGet, &mut args)?;
        // SAFETY: the pointer is null or a dictionary of the host.
        Some(unsafe { frame::options(args.attrs) }).filter(|options| !options.is_empty())
    }

    /// Returns the code and the message of an error, which this function does not free.
    ///
    /// # Safety
    /// `error` must be an error of this host that is not freed.
    pub(crate) unsafe fn error(&self, error: *mut XLA_FFI_Error) -> (Option<u32>, String) {
        let Some(function) = self.function(Slot::ErrorGetDetails) else {
            return (None, String::new());
        };
        let (message, code) = if self.revision < Revision::R9 {
            let mut args = XLA_FFI_Error_GetMessage_Args_R0 {
                struct_size: size_of::<XLA_FFI_Error_GetMessage_Args_R0>(),
                extension_start: ptr::null_mut(),
                error,
                message: ptr::null(),
            };
            // SAFETY: the arguments match the function on this revision.
            unsafe { function(ptr::from_mut(&mut args).cast()) };
            (args.message, None)
        } else {
            // SAFETY: the struct consists of integers and pointers, for which zero bytes are valid.
            let mut args: XLA_FFI_Error_GetDetails_Args = unsafe { zeroed() };
            args.struct_size = std::mem::offset_of!(XLA_FFI_Error_GetDetails_Args, errc) + 4;
            args.error = error;
            // SAFETY: the arguments match the function on this revision.
            unsafe { function(ptr::from_mut(&mut args).cast()) };
            (args.message, Some(args.errc.0))
        };
        if message.is_null() {
            return (code, String::new());
        }
        // SAFETY: the message is NUL-terminated, and valid as long as the error.
        let text = unsafe { CStr::from_ptr(message) };
        (code, text.to_string_lossy().into_owned())
    }
}
