//! Error objects. What a handler holds is a number, not an address: an error that is gone or
//! was never made here is told from one that lives, whatever a handler does with it.

use super::{check, check_size, note};
use crate::{Code, Error, Finding, Hazard};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{
    XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args, XLA_FFI_Error_Destroy_Args,
    XLA_FFI_Error_GetDetails_Args,
};

/// Numbers start past every address that user space maps, so that following one faults at once.
const BASE: usize = 0xE44_u64.wrapping_shl(52) as usize;

struct ErrorObject {
    /// What is wrong; `None` for an object with the code OK, which XLA makes as asked.
    error: Option<Error>,
    /// The text as C reads it; an embedded NUL is written as `\0`.
    text: CString,
}

/// Objects by number.
pub(crate) struct Handles<T> {
    base: usize,
    next: AtomicUsize,
    objects: Mutex<BTreeMap<usize, T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(base: usize) -> Self {
        Self {
            base,
            next: AtomicUsize::new(base + 16),
            objects: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, T>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, object: T) -> usize {
        let handle = self.next.fetch_add(16, Ordering::Relaxed);
        self.lock().insert(handle, object);
        handle
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<T> {
        self.lock().remove(&handle)
    }

    /// Whether `handle` was given out at some time.
    pub(crate) fn was_ours(&self, handle: usize) -> bool {
        (self.base + 1..self.next.load(Ordering::Relaxed)).contains(&handle)
            && handle.is_multiple_of(16)
    }
}

static ERRORS: Handles<Box<ErrorObject>> = Handles::new(BASE);

/// Holds the table of errors still, across a fork for instance.
pub(crate) fn hold() -> impl Drop {
    ERRORS.lock()
}

/// How many error objects live in this process.
pub(crate) fn living() -> usize {
    ERRORS.lock().len()
}

/// An error object for a handler.
pub(crate) fn create(error: Error) -> *mut XLA_FFI_Error {
    let text = error.message().replace('\0', "\\0");
    insert(Some(error), &text)
}

fn insert(error: Option<Error>, text: &str) -> *mut XLA_FFI_Error {
    let text = CString::new(text).unwrap_or_default();
    ERRORS.insert(Box::new(ErrorObject { error, text })) as *mut XLA_FFI_Error
}

/// Takes the error that a handler gives back; `None` is one that says OK.
pub(crate) fn take(error: *mut XLA_FFI_Error) -> Option<Error> {
    let handle = error as usize;
    match ERRORS.remove(handle) {
        Some(object) => object.error,
        None => {
            let what = if ERRORS.was_ours(handle) {
                "is gone"
            } else {
                "this host did not make"
            };
            let message = format!("an error was returned that {what} ({error:p})");
            Some(Error::hazard(Hazard::ErrorMisuse, message))
        }
    }
}

/// `Error_Create`: a NUL-terminated text.
pub(super) unsafe extern "C" fn error_create<const R: u8>(
    args: *mut XLA_FFI_Error_Create_Args,
) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass their args struct.
    if let Err(error) = unsafe { check(args) } {
        return create(error.within("Error_Create"));
    }
    // SAFETY: `check` proved that the struct is there.
    let args = unsafe { args.read() };
    let message = if args.message.is_null() {
        "(no message)".to_owned()
    } else {
        // SAFETY: the contract of `Error_Create` is a NUL-terminated text.
        unsafe { CStr::from_ptr(args.message) }
            .to_string_lossy()
            .into_owned()
    };
    if args.errc == XLA_FFI_Error_Code::OK {
        return insert(None, &message);
    }
    // XLA takes numbers that absl does not have for UNKNOWN.
    create(Error::new(
        Code::from_raw(args.errc).unwrap_or(Code::Unknown),
        message,
    ))
}

/// `Error_GetDetails`, `Error_GetMessage` before r9: hosts log a wrong size and go on.
pub(super) unsafe extern "C" fn error_get_details<const R: u8>(
    args: *mut XLA_FFI_Error_GetDetails_Args,
) {
    // The older, shorter struct is accepted by all hosts; what it has covers `message`.
    // SAFETY: handlers pass their args struct.
    let Ok(size) = (unsafe { check_size(args, 0) }) else {
        return;
    };
    // SAFETY: `error` lies in the older struct, too.
    let handle = unsafe { (*args).error } as usize;
    let objects = ERRORS.lock();
    let (text, code) = match objects.get(&handle) {
        Some(object) => {
            let code = object
                .error
                .as_ref()
                .map_or(XLA_FFI_Error_Code::OK, |e| e.code().raw());
            (object.text.as_ptr(), code)
        }
        None => {
            drop(objects);
            misuse("Error_GetDetails", handle);
            (
                c"(an error that this host does not have)".as_ptr(),
                Code::Unknown.raw(),
            )
        }
    };
    // SAFETY: `message` lies in the older struct, too.
    unsafe { (*args).message = text };
    if super::revision::<R>().minor_version() >= 4 && size >= 36 {
        // SAFETY: the size covers `errc`.
        unsafe { (*args).errc = code };
    }
}

/// `Error_Destroy`.
pub(super) unsafe extern "C" fn error_destroy<const R: u8>(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: handlers pass their args struct.
    if unsafe { check_size(args, 0) }.is_err() {
        return;
    }
    // SAFETY: the struct is there, and all revisions have this field.
    let handle = unsafe { (*args).error } as usize;
    if handle != 0 && ERRORS.remove(handle).is_none() {
        misuse("Error_Destroy", handle);
    }
}

fn misuse(function: &str, handle: usize) {
    let what = if ERRORS.was_ours(handle) {
        "an error that is gone"
    } else {
        "no error of this host"
    };
    note(Finding::new(
        Hazard::ErrorMisuse,
        format!("{function} was given {what} ({handle:#x})"),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_numbers_and_go_once() {
        let object = create(Error::new(Code::NotFound, "a\0b"));
        assert!(ERRORS.was_ours(object as usize));
        let mut args = XLA_FFI_Error_GetDetails_Args {
            struct_size: 36,
            extension_start: std::ptr::null_mut(),
            error: object,
            message: std::ptr::null(),
            errc: XLA_FFI_Error_Code(99),
        };
        // SAFETY: args is whole.
        unsafe { error_get_details::<8>(&raw mut args) };
        assert_eq!(args.errc.0, 99, "r8 does not know the field");
        // SAFETY: args is whole.
        unsafe { error_get_details::<9>(&raw mut args) };
        assert_eq!(args.errc, Code::NotFound.raw());
        // SAFETY: the text lives as long as the error.
        assert_eq!(unsafe { CStr::from_ptr(args.message) }, c"a\\0b");
        assert_eq!(take(object).unwrap().code(), Code::NotFound);
        assert!(take(object).unwrap().has(Hazard::ErrorMisuse));
        assert!(
            take(0x10 as *mut XLA_FFI_Error)
                .unwrap()
                .message()
                .contains("did not make")
        );
    }
}
