//! Errors: made for the host, and read of it.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::frame::host::Host;
use crate::error::{Error, ErrorCode, Result};
use crate::frame::raw_buffer::uninit;
use xla_ffi_sys::*;

impl Host {
    /// Makes an error object; null where there is no table to make one with.
    #[cold]
    pub(crate) fn make_error(self, code: ErrorCode, message: &str) -> *mut XLA_FFI_Error {
        let Some(create) = self.function::<XLA_FFI_Error_Create_Args>(Slot::ErrorCreate) else {
            crate::error::panics::tell(format_args!(
                "the host gave no means to report an error: {message}"
            ));
            return std::ptr::null_mut();
        };
        // A short text needs no allocation.
        let mut short = [const { MaybeUninit::<u8>::uninit() }; 512];
        let mut long = String::new();
        let text = if message.len() < short.len() && !message.contains('\0') {
            uninit::copy(&mut short[..message.len()], message.as_bytes());
            short[message.len()].write(0);
            short.as_ptr().cast::<c_char>()
        } else {
            long.push_str(&message.replace('\0', "\\0"));
            long.push('\0');
            long.as_ptr().cast::<c_char>()
        };
        let mut args = XLA_FFI_Error_Create_Args {
            struct_size: XLA_FFI_Error_Create_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            message: text,
            errc: code.to_raw(),
        };
        // SAFETY: slot 0 takes this struct in every revision; the text ends in NUL and is copied.
        unsafe { create(&raw mut args) }
    }

    /// Null is success; anything else is read and destroyed.
    #[inline]
    pub(crate) fn check(self, error: *mut XLA_FFI_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        Err(self.read_error(error))
    }

    #[cold]
    fn read_error(self, error: *mut XLA_FFI_Error) -> Error {
        // Hosts before r9 fill the message alone, and take the larger struct for the smaller one.
        let mut details = XLA_FFI_Error_GetDetails_Args {
            struct_size: XLA_FFI_Error_GetDetails_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            error,
            message: std::ptr::null(),
            errc: ErrorCode::Internal.to_raw(),
        };
        let mut message = String::from("the host reported an error without a text");
        type Details = unsafe extern "C" fn(*mut XLA_FFI_Error_GetDetails_Args);
        if let Some(place) = self.slot(Slot::ErrorGetDetails) {
            // SAFETY: the place holds a nullable pointer to this type of function.
            if let Some(get) = unsafe { *place.cast::<Option<Details>>() } {
                // SAFETY: the struct fits every revision (above).
                unsafe { get(&raw mut details) };
            }
        }
        if !details.message.is_null() {
            // SAFETY: a C string that lives as long as the error, which is destroyed below.
            let text = unsafe { std::ffi::CStr::from_ptr(details.message) };
            message = text.to_string_lossy().into_owned();
        }
        let mut destroy_args = XLA_FFI_Error_Destroy_Args {
            struct_size: XLA_FFI_Error_Destroy_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            error,
        };
        type Destroy = unsafe extern "C" fn(*mut XLA_FFI_Error_Destroy_Args);
        if let Some(place) = self.slot(Slot::ErrorDestroy) {
            // SAFETY: the place holds a nullable pointer to this type of function.
            if let Some(destroy) = unsafe { *place.cast::<Option<Destroy>>() } {
                // SAFETY: the error is ours and not used afterwards.
                unsafe { destroy(&raw mut destroy_args) };
            }
        }
        Error::new(
            ErrorCode::from_raw(details.errc).unwrap_or(ErrorCode::Internal),
            message,
        )
    }
}
