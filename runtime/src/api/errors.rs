//! The functions of the function table with which handlers create, read and destroy errors.

use super::{check, check_size};
use crate::context::note;
use crate::host::errors::{create, destroy, details, insert};
use std::ffi::CStr;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard};
use xla_ffi_sys::{
    XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args, XLA_FFI_Error_Destroy_Args,
    XLA_FFI_Error_GetDetails_Args,
};

/// `Error_Create`: creates an error from a NUL-terminated text.
pub(super) unsafe extern "C" fn error_create<const R: u8>(
    args: *mut XLA_FFI_Error_Create_Args,
) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass a complete args struct, as the ABI requires.
    if let Err(error) = unsafe { check(args) } {
        return create(error.within("Error_Create"));
    }
    // SAFETY: `check` verified the pointer `args` and its size.
    let args = unsafe { args.read() };
    let message = if args.message.is_null() {
        "(no message)".to_owned()
    } else {
        // SAFETY: handlers pass a NUL-terminated text, as `Error_Create` requires.
        unsafe { CStr::from_ptr(args.message) }
            .to_string_lossy()
            .into_owned()
    };
    if args.errc == XLA_FFI_Error_Code::OK {
        return insert(None, &message);
    }
    // Like XLA, use UNKNOWN for error codes that absl does not define.
    create(Error::new(
        ErrorCode::from_raw(args.errc).unwrap_or(ErrorCode::Unknown),
        message,
    ))
}

/// `Error_GetDetails`, called `Error_GetMessage` before r9. The function cannot return an error, so hosts log a wrong
/// argument size and continue.
pub(super) unsafe extern "C" fn error_get_details<const R: u8>(
    args: *mut XLA_FFI_Error_GetDetails_Args,
) {
    // All hosts accept the shorter struct of revisions before r9, which includes `message`.
    // SAFETY: handlers pass a complete args struct, as the ABI requires.
    let Ok(size) = (unsafe { check_size(args, 0) }) else {
        return;
    };
    // SAFETY: `check_size` accepted `args`, and the structs of all revisions have the field `error`.
    let handle = unsafe { (*args).error } as usize;
    let (text, code) = details(handle).unwrap_or_else(|| {
        misuse("Error_GetDetails", handle);
        (
            c"(an error that this host does not have)".as_ptr(),
            ErrorCode::Unknown.to_raw(),
        )
    });
    // SAFETY: the structs of all revisions have the field `message`.
    unsafe { (*args).message = text };
    if super::revision::<R>().minor_version() >= 4 && size >= 36 {
        // SAFETY: the size of the struct includes `errc`.
        unsafe { (*args).errc = code };
    }
}

/// `Error_Destroy`: destroys an error.
pub(super) unsafe extern "C" fn error_destroy<const R: u8>(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: handlers pass a complete args struct, as the ABI requires.
    if unsafe { check_size(args, 0) }.is_err() {
        return;
    }
    // SAFETY: `check_size` verified that `args` is not null, and the structs of all revisions have the field `error`.
    let handle = unsafe { (*args).error } as usize;
    if handle != 0 && !destroy(handle) {
        misuse("Error_Destroy", handle);
    }
}

fn misuse(function: &str, handle: usize) {
    note(Finding::new(
        Hazard::ErrorMisuse,
        format!(
            "{function} was given an error that this host did not make or has no more ({handle:#x})"
        ),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::errors::take_error;

    #[test]
    fn objects_are_numbers_and_go_once() {
        let object = create(Error::new(ErrorCode::NotFound, "a\0b"));
        let mut args = XLA_FFI_Error_GetDetails_Args {
            struct_size: XLA_FFI_Error_GetDetails_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            error: object,
            message: std::ptr::null(),
            errc: XLA_FFI_Error_Code(99),
        };
        // SAFETY: `args` is a complete struct.
        unsafe { error_get_details::<8>(&raw mut args) };
        assert_eq!(args.errc.0, 99, "r8 does not know the field");
        // SAFETY: `args` is a complete struct.
        unsafe { error_get_details::<9>(&raw mut args) };
        assert_eq!(args.errc, ErrorCode::NotFound.to_raw());
        // SAFETY: the message is valid until the error is destroyed.
        assert_eq!(unsafe { CStr::from_ptr(args.message) }, c"a\\0b");
        assert_eq!(take_error(object).unwrap().code(), ErrorCode::NotFound);
        assert!(take_error(object).unwrap().has(Hazard::ErrorMisuse));
    }
}
