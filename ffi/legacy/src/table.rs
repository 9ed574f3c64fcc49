//! The host of handlers that are called through an original convention. Its function table has the error functions
//! and, on devices, the stream. Handlers report missing functions as on any other host.

use std::ffi::{CStr, c_void};

use xla_ffi_sys::*;

/// The invocation context of one call, which has the call's stream.
pub(super) struct Context {
    pub(super) stream: *mut c_void,
}

/// An error object that this module's host creates for handlers.
pub(super) struct Failure {
    code: XLA_FFI_Error_Code,
    /// The message, which ends with a NUL.
    message: Vec<u8>,
}

impl Failure {
    /// Takes ownership of an error that a handler returned.
    ///
    /// # Safety
    /// `error` is null or was created by [`create`], and is not used afterwards.
    pub(super) unsafe fn from_raw(error: *mut XLA_FFI_Error) -> Option<Box<Self>> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the caller upholds this function's safety contract.
        Some(unsafe { Box::from_raw(error.cast()) })
    }

    pub(super) fn message(&self) -> String {
        String::from_utf8_lossy(&self.message[..self.message.len() - 1]).into_owned()
    }
}

unsafe extern "C" fn create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass a complete arguments struct.
    let message = unsafe { (*args).message };
    // SAFETY: handlers pass a complete arguments struct.
    let code = unsafe { (*args).errc };
    let message = if message.is_null() {
        vec![0]
    } else {
        // SAFETY: the message that the handler passes is a C string.
        unsafe { CStr::from_ptr(message) }
            .to_bytes_with_nul()
            .to_vec()
    };
    Box::into_raw(Box::new(Failure { code, message })).cast()
}

unsafe extern "C" fn details(args: *mut XLA_FFI_Error_GetDetails_Args) {
    // SAFETY: handlers pass a complete arguments struct and an error of this host.
    let error = unsafe { (*args).error }.cast::<Failure>();
    // SAFETY: handlers pass a complete arguments struct and an error of this host.
    let failure = unsafe { &*error };
    // SAFETY: handlers pass a complete arguments struct and an error of this host.
    unsafe { (*args).message = failure.message.as_ptr().cast() };
    // SAFETY: handlers pass a complete arguments struct and an error of this host.
    unsafe { (*args).errc = failure.code };
}

unsafe extern "C" fn destroy(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: handlers pass a complete arguments struct.
    let error = unsafe { (*args).error };
    // SAFETY: this host created the error, which is not used afterwards.
    drop(unsafe { Failure::from_raw(error) });
}

unsafe extern "C" fn stream(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass a complete arguments struct with the frame's context.
    let context = unsafe { (*args).ctx }.cast::<Context>();
    // SAFETY: the context is valid until the call returns.
    let stream = unsafe { (*context).stream };
    // SAFETY: the context is valid until the call returns.
    unsafe { (*args).stream = stream };
    std::ptr::null_mut()
}

struct Table(XLA_FFI_Api);

// SAFETY: the table is never written.
unsafe impl Sync for Table {}

const fn table(device: bool) -> Table {
    Table(XLA_FFI_Api {
        struct_size: XLA_FFI_Api::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        api_version: XLA_FFI_Api_Version {
            struct_size: XLA_FFI_Api_Version::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            major_version: XLA_FFI_API_MAJOR,
            minor_version: XLA_FFI_API_MINOR,
        },
        internal_api: std::ptr::null(),
        XLA_FFI_Error_Create: Some(create),
        XLA_FFI_Error_GetDetails: Some(details),
        XLA_FFI_Error_Destroy: Some(destroy),
        XLA_FFI_Handler_Register: None,
        XLA_FFI_Stream_Get: if device { Some(stream) } else { None },
        XLA_FFI_Type_Register: None,
        XLA_FFI_InvokeContext_Get: None,
        XLA_FFI_State_Set: None,
        XLA_FFI_State_Get: None,
        XLA_FFI_DeviceMemory_Allocate: None,
        XLA_FFI_DeviceMemory_Free: None,
        XLA_FFI_ThreadPool_Schedule: None,
        XLA_FFI_ThreadPool_NumThreads: None,
        XLA_FFI_Future_Create: None,
        XLA_FFI_Future_SetAvailable: None,
        XLA_FFI_Future_SetError: None,
        XLA_FFI_RunId_Get: None,
        XLA_FFI_DeviceOrdinal_Get: None,
        XLA_FFI_InvokeContext_FindExtension: None,
        XLA_FFI_CustomOptions_Get: None,
    })
}

static ON_HOST: Table = table(false);
static ON_DEVICE: Table = table(true);

/// Returns the function table for calls in host memory, or for calls with a device stream.
pub(super) fn api(device: bool) -> *const XLA_FFI_Api {
    if device {
        &raw const ON_DEVICE.0
    } else {
        &raw const ON_HOST.0
    }
}
