//! Error objects. Handlers hold errors and futures by a number instead of an address. A number that was freed or
//! never created is detected, whatever a handler does with it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Hazard};
use xla_ffi_sys::{XLA_FFI_Error, XLA_FFI_Error_Code};

/// Objects by number.
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

/// Numbers start past every address that user space maps, so that using one as a pointer faults immediately.
const BASE: usize = 0xE44_u64.wrapping_shl(52) as usize;

struct ErrorObject {
    /// The error; `None` for an object with the code OK, which XLA creates if requested.
    error: Option<Error>,
    /// The text as a C string; an embedded NUL is written as `\0`.
    text: CString,
}

/// The number of the error for user data that a call does not have, below all other numbers. Handlers ask for
/// optional data on every call and on all threads, and creating an error object takes a lock.
pub(crate) const NO_USER_DATA: usize = 0xE43_u64.wrapping_shl(52) as usize;

const ABSENT: &CStr = c"InvokeContext_Get: User data not found in execution context";

static ERRORS: Handles<Box<ErrorObject>> = Handles::new(BASE);

/// Returns the number of error objects in this process.
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

/// Takes the error that a handler returns; `None` for an error with the code OK.
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

/// Returns the text and code of an existing error; the text is valid as long as the error.
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

/// Destroys an error; returns true if it existed.
pub(crate) fn destroy(handle: usize) -> bool {
    handle == NO_USER_DATA || ERRORS.remove(handle).is_some()
}
