//! What the host is asked for a recorded call: its context, and the text of an error.
//!
//! Functions are taken from the table by the revision that the recording was told, and from r5 on, where
//! the table says how long it is, if it is long enough.

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

/// A function of the table: its answer is an error or nothing at all.
pub(crate) type Function = unsafe extern "C" fn(args: *mut c_void) -> *mut XLA_FFI_Error;

/// A host's table and its revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    api: *const XLA_FFI_Api,
    revision: Revision,
}

// SAFETY: a host's table lives as long as the process, and is read alone.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// # Safety
    /// `api` is the table of a host of the revision.
    pub(crate) unsafe fn new(api: *const XLA_FFI_Api, revision: Revision) -> Self {
        Self { api, revision }
    }

    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.api
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Where the table has a function.
    pub(crate) fn slot(&self, slot: Slot) -> Option<*mut usize> {
        let index = slot.index(self.revision)?;
        if self.api.is_null() {
            return None;
        }
        // SAFETY: every table has this field.
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
        // SAFETY: the table is that long, and a slot is a function or null.
        unsafe { at.read() }
    }

    /// Asks a function that may refuse; its error is nobody's.
    fn ask<T>(&self, slot: Slot, args: &mut T) -> Option<()> {
        let function = self.function(slot)?;
        // SAFETY: the arguments match the function on this revision.
        let error = unsafe { function(ptr::from_mut(args).cast()) };
        if error.is_null() {
            return Some(());
        }
        // SAFETY: as every `Error_Destroy_Args`, null but for what follows.
        let mut destroy: XLA_FFI_Error_Destroy_Args = unsafe { zeroed() };
        destroy.struct_size = size_of::<XLA_FFI_Error_Destroy_Args>();
        destroy.error = error;
        let function = self.function(Slot::ErrorDestroy)?;
        // SAFETY: the error is ours, and not used again.
        unsafe { function(ptr::from_mut(&mut destroy).cast()) };
        None
    }

    /// What the context of an execution says.
    pub(crate) fn context(&self, ctx: *mut XLA_FFI_InvokeContext) -> Context {
        // SAFETY: integers and pointers, all of which may be zero.
        let mut run_id: XLA_FFI_RunId_Get_Args = unsafe { zeroed() };
        run_id.struct_size = size_of::<XLA_FFI_RunId_Get_Args>();
        run_id.ctx = ctx;
        // SAFETY: as above.
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
        // SAFETY: null, or the host's own dictionary.
        Some(unsafe { frame::options(args.attrs) }).filter(|options| !options.is_empty())
    }

    /// The code and the text of a handler's error, which stays the host's.
    ///
    /// # Safety
    /// It is an error of this host, alive.
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
            // SAFETY: integers and pointers, all of which may be zero.
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
        // SAFETY: a NUL-terminated text that lives as long as the error.
        let text = unsafe { CStr::from_ptr(message) };
        (code, text.to_string_lossy().into_owned())
    }
}
