//! Error objects, which handlers hold as numbers.

use super::handles::Handles;
use crate::context::current::current_context;
use crate::{Code, Error, Hazard};
use std::ffi::{CStr, CString, c_char};
use xla_ffi_sys::{XLA_FFI_Error, XLA_FFI_Error_Code};

/// Numbers start past every address that user space maps, so that following one faults at once.
const BASE: usize = 0xE44_u64.wrapping_shl(52) as usize;

struct ErrorObject {
    /// What is wrong; `None` for an object with the code OK, which XLA makes as asked.
    error: Option<Error>,
    /// The text as C reads it; an embedded NUL is written as `\0`.
    text: CString,
}

/// Where the numbers of the errors of [`no_user_data`] begin: below the others, 16 apart, one for
/// each number of a type.
const ABSENT: usize = 0xE43_u64.wrapping_shl(52) as usize;

/// The error for user data that a call does not have. It costs nothing: handlers ask for what may be
/// absent on every call.
pub(crate) fn no_user_data(type_id: i64) -> *mut XLA_FFI_Error {
    match usize::try_from(type_id) {
        Ok(id) if id < MOST_ABSENT => (ABSENT + 16 * id) as *mut XLA_FFI_Error,
        _ => create(Error::new(Code::NotFound, ABSENT_TEXT.to_string_lossy())),
    }
}

/// What such an error says on a thread that runs no call.
const ABSENT_TEXT: &CStr = c"InvokeContext_Get: User data not found in execution context";

/// Types that have such an error: a server that makes runtimes for ever has many types.
const MOST_ABSENT: usize = 1 << 20;

/// The number of the type whose absence this error tells.
pub(crate) fn absent_type(handle: usize) -> Option<i64> {
    let id = handle.wrapping_sub(ABSENT) / 16;
    (id < MOST_ABSENT && handle % 16 == 0).then_some(id as i64)
}

static ERRORS: Handles<Box<ErrorObject>> = Handles::new(BASE);

/// How many error objects live in this process.
pub(crate) fn living() -> usize {
    ERRORS.lock().len()
}

/// An error object for a handler.
pub(crate) fn create(error: Error) -> *mut XLA_FFI_Error {
    let text = error.message().replace('\0', "\\0");
    insert(Some(error), &text)
}

pub(crate) fn insert(error: Option<Error>, text: &str) -> *mut XLA_FFI_Error {
    let text = CString::new(text).unwrap_or_default();
    ERRORS.insert(Box::new(ErrorObject { error, text })) as *mut XLA_FFI_Error
}

/// Takes the error that a handler gives back; `None` is one that says OK.
pub(crate) fn take_error(error: *mut XLA_FFI_Error) -> Option<Error> {
    let handle = error as usize;
    if absent_type(handle).is_some() {
        return Some(Error::new(Code::NotFound, ABSENT_TEXT.to_string_lossy()));
    }
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

/// Text and code of an error that lives; the text lives as long as the error.
pub(crate) fn details(handle: usize) -> Option<(*const c_char, XLA_FFI_Error_Code)> {
    if let Some(id) = absent_type(handle) {
        let text = current_context().map_or(ABSENT_TEXT.as_ptr(), |context| context.absent(id));
        return Some((text, Code::NotFound.raw()));
    }
    let objects = ERRORS.lock();
    let object = objects.get(&handle)?;
    let code = object
        .error
        .as_ref()
        .map_or(XLA_FFI_Error_Code::OK, |error| error.code().raw());
    Some((object.text.as_ptr(), code))
}

/// Destroys an error; says whether it lived.
pub(crate) fn destroy(handle: usize) -> bool {
    absent_type(handle).is_some() || ERRORS.remove(handle).is_some()
}

/// Whether an error once had this number.
pub(crate) fn was_ours(handle: usize) -> bool {
    ERRORS.was_ours(handle)
}
