//! Error objects. Handlers receive errors and futures as numbers instead of addresses, so that the host detects
//! numbers that were freed or never created.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Hazard};
use xla_ffi_sys::{XLA_FFI_Error, XLA_FFI_Error_Code};

/// Objects that handlers refer to by number.
pub(crate) struct Handles<T> {
    next: AtomicUsize,
    objects: Mutex<BTreeMap<usize, T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(base: usize) -> Self {
        Self {
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
}

/// Numbers of error objects are above this value, which exceeds every address of user space. Dereferencing a number
/// therefore faults.
const BASE: usize = 0xE44_u64.wrapping_shl(52) as usize;

struct ErrorObject {
    /// The error; `None` for an error object with the code OK, which XLA creates on request.
    error: Option<Error>,
    /// The message as a C string; an embedded NUL is written as `\0`.
    text: CString,
}

/// The error number for user data that a call does not have. It is lower than all other error numbers. A constant
/// number needs no lock, although handlers may request optional user data on every call and thread.
pub(crate) const NO_USER_DATA: usize = 0xE43_u64.wrapping_shl(52) as usize;

const ABSENT: &CStr = c"InvokeContext_Get: User data not found in execution context";

static ERRORS: Handles<Box<ErrorObject>> = Handles::new(BASE);

/// Returns the number of existing error objects in this process.
pub(crate) fn living() -> usize {
    ERRORS.lock().len()
}

/// Creates an error object for a handler.
pub(crate) fn create(error: Error) -> *mut XLA_FFI_Error {
    let text = error.message().replace('\0', "\\0");
    insert(Some(error), &text)
}

pub(crate) fn insert(error: Option<Error>, text: &str) -> *mut XLA_FFI_Error {
    let text = CString::new(text).unwrap_or_default();
    ERRORS.insert(Box::new(ErrorObject { error, text })) as *mut XLA_FFI_Error
}

/// Removes the error that a handler returned, and returns it; `None` for an error with the code OK.
pub(crate) fn take_error(error: *mut XLA_FFI_Error) -> Option<Error> {
    let handle = error as usize;
    if handle == NO_USER_DATA {
        return Some(Error::new(ErrorCode::NotFound, ABSENT.to_string_lossy()));
    }
    match ERRORS.remove(handle) {
        Some(object) => object.error,
        None => {
            let message = format!(
                "an error was returned that this host did not make or has no more ({error:p})"
            );
            Some(Error::hazard(Hazard::ErrorMisuse, message))
        }
    }
}

/// Returns the message and the code of an error, or `None` if the number is unknown. The message is valid while the
/// error exists.
pub(crate) fn details(handle: usize) -> Option<(*const c_char, XLA_FFI_Error_Code)> {
    if handle == NO_USER_DATA {
        return Some((ABSENT.as_ptr(), ErrorCode::NotFound.to_raw()));
    }
    let objects = ERRORS.lock();
    let object = objects.get(&handle)?;
    let code = object
        .error
        .as_ref()
        .map_or(XLA_FFI_Error_Code::OK, |error| error.code().to_raw());
    Some((object.text.as_ptr(), code))
}

/// Destroys an error; returns false if it does not exist.
pub(crate) fn destroy(handle: usize) -> bool {
    handle == NO_USER_DATA || ERRORS.remove(handle).is_some()
}
