//! The embedded runtime for C and C++. The functions are documented in the headers `runtime.h`, `program.h`, `pjrt.h`
//! and `invocation.h` in `include/xla_ffi`.
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

/// Compiles only if any thread may use the type, also several threads at once, as the headers guarantee.
const fn any_thread<T: Send + Sync>() {}

/// Calls a deleter of the program. A panic or exception of the deleter is caught and logged.
///
/// # Safety
/// The function must be safe to call with the argument.
unsafe fn contained(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    what: std::fmt::Arguments<'_>,
) {
    // SAFETY: guaranteed by the caller.
    if let Err(unwound) = unsafe { host::__c::call_void(function, argument) } {
        host::__c::warn(format_args!("{unwound} left {what}"));
    }
}

/// Returns the object to which a pointer refers, or an error for null.
///
/// # Safety
/// `pointer` must be null or refer to an object of type `T` that is not destroyed.
unsafe fn object<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Returns the object to which a pointer refers like [`object`], for exclusive use.
///
/// # Safety
/// The requirements of [`object`] apply. No other code may use the object.
unsafe fn object_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Returns a string of the caller, or an error for null or invalid UTF-8.
///
/// # Safety
/// `pointer` must be null or refer to a NUL-terminated string.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| Error::invalid_argument(format!("{what} is not UTF-8: {text:?}")))
}

/// Returns a string of the caller, or `None` for null.
///
/// # Safety
/// The requirements of [`text`] apply.
unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { text(pointer, what) }.map(Some)
}

/// Writes a value to a pointer of the caller, or returns an error for null.
///
/// # Safety
/// `out` must be null or valid for writes.
unsafe fn write_out<T>(out: *mut T, value: impl FnOnce() -> T) -> Result<()> {
    if out.is_null() {
        return Err(null("the out-parameter"));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(value()) };
    Ok(())
}

/// Allocates an object and writes its address to `out`. The caller becomes the owner.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
unsafe fn hand_over<T>(out: *mut *mut T, value: T) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { write_out(out, || Box::into_raw(Box::new(value))) }
}

/// Returns the elements of a caller's array, or an error for null with a `count` other than 0.
///
/// # Safety
/// `pointer` must be null or refer to `count` elements.
unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    match (count, pointer.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null(what)),
        // SAFETY: guaranteed by the caller.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// A caller's pointer that is passed to a different thread.
struct Data(*mut c_void);

// SAFETY: the contracts of the functions that accept tasks allow any thread to use the data.
unsafe impl Send for Data {}

/// Returns a closure that calls a task of the caller.
///
/// # Safety
/// Any thread must be allowed to call the task once with the data.
unsafe fn task(
    task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
) -> Result<impl FnOnce() + Send + 'static> {
    let task = task.ok_or_else(|| null("task"))?;
    let data = Data(data);
    Ok(move || {
        let Data(data) = { data };
        // SAFETY: guaranteed by the caller.
        unsafe { task(data) };
    })
}

/// Destroys an object of the caller. A null pointer is ignored.
///
/// # Safety
/// `pointer` must be null, or an object from [`hand_over`] that is not destroyed.
unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: guaranteed by the caller.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

fn null(what: &str) -> Error {
    Error::invalid_argument(format!("{what} is a null pointer"))
}
