//! The embedded runtime for C and C++: `runtime.h`, `program.h`, `pjrt.h` and `invocation.h` in
//! `include/xla_ffi` say what each function does.
#![expect(non_camel_case_types, reason = "C names are kept")]

mod builder;
mod call;
mod canceller;
mod client;
mod compiled;
mod context;
mod custom_call;
mod invocation;
mod library;
mod monitoring;
mod plugin_executable;
mod program;
mod runtime;
mod status;
mod stream;

use host::{Error, Result};
use std::ffi::{CStr, c_char, c_void};

/// Asserts that any thread may use a type, several at once, as the headers promise.
const fn any_thread<T: Send + Sync>() {}

/// Calls a deleter of the program's, which an exception may leave: that is told, and goes no further.
///
/// # Safety
/// The function may be called with the argument.
unsafe fn contained(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    what: std::fmt::Arguments<'_>,
) {
    // SAFETY: as promised by the caller.
    if let Err(unwound) = unsafe { host::__c::call_void(function, argument) } {
        host::__c::warn(format_args!("{unwound} left {what}"));
    }
}

/// What a pointer of the caller names.
///
/// # Safety
/// The pointer is null or names a living object of its type.
unsafe fn object<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// As [`object`], for objects that the caller uses alone.
///
/// # Safety
/// As [`object`], and nobody else uses the object.
unsafe fn object_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// A string of the caller.
///
/// # Safety
/// The pointer is null or names a NUL-terminated string.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| Error::invalid_argument(format!("{what} is not UTF-8: {text:?}")))
}

/// A string of the caller that may be absent.
///
/// # Safety
/// As [`text`].
unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised by the caller.
    unsafe { text(pointer, what) }.map(Some)
}

/// Hands a value to the caller.
///
/// # Safety
/// The pointer is null or names room for one.
unsafe fn write_out<T>(out: *mut T, value: impl FnOnce() -> T) -> Result<()> {
    if out.is_null() {
        return Err(null("the out-parameter"));
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(value()) };
    Ok(())
}

/// Hands an object to the caller.
///
/// # Safety
/// The pointer is null or names room for a pointer.
unsafe fn hand_over<T>(out: *mut *mut T, value: T) -> Result<()> {
    // SAFETY: as promised by the caller.
    unsafe { write_out(out, || Box::into_raw(Box::new(value))) }
}

/// The elements of an array of the caller.
///
/// # Safety
/// The pointer names `count` elements; it may be null when there are none.
unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    match (count, pointer.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null(what)),
        // SAFETY: as promised by the caller.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// A pointer of the caller on its way to another thread.
struct Data(*mut c_void);

// SAFETY: the contract of the functions that take tasks: another thread may use the data.
unsafe impl Send for Data {}

/// A task of the caller's.
///
/// # Safety
/// The task may be called once with the data, by another thread.
unsafe fn task(
    task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
) -> Result<impl FnOnce() + Send + 'static> {
    let task = task.ok_or_else(|| null("task"))?;
    let data = Data(data);
    Ok(move || {
        let Data(data) = { data };
        // SAFETY: as promised by the caller.
        unsafe { task(data) };
    })
}

/// Takes an object back; null is fine.
///
/// # Safety
/// The pointer is null or was handed over and not taken back before.
unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: as promised by the caller.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

fn null(what: &str) -> Error {
    Error::invalid_argument(format!("{what} is a null pointer"))
}
