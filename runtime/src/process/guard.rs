//! Calls foreign functions, and catches panics and C++ exceptions that leave them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};

/// Whether C++ exceptions are caught. If no C++ compiler was available for the build, an exception ends the process.
pub const CONTAINS_CXX_EXCEPTIONS: bool = cfg!(xla_ffi_cxx);

/// A panic or C++ exception that left a foreign function.
#[derive(Debug)]
pub struct Unwound {
    text: String,
    /// Whether the exception is a `std::exception`. If a handler throws a `std::exception`, XLA converts it to an
    /// error.
    pub is_standard: bool,
}

impl fmt::Display for Unwound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Drops the payload of a panic, and catches a panic of its destructor.
pub fn discard(payload: Box<dyn std::any::Any + Send>) {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    if let Err(again) = dropped {
        // The second payload is leaked, because its destructor could panic again and again.
        std::mem::forget(again);
    }
}

/// Returns the message of a panic and discards the payload.
pub(crate) fn panic_text(payload: Box<dyn std::any::Any + Send>) -> Unwound {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of another type");
    let unwound = Unwound {
        text: format!("a panic ({text})"),
        is_standard: false,
    };
    discard(payload);
    unwound
}

/// Calls the function without catching C++ exceptions, for builds without a C++ compiler.
///
/// # Safety
/// The function must be safe to call with the argument.
#[cfg(not(xla_ffi_cxx))]
unsafe fn xla_ffi_runtime_guarded(
    function: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    _text: *mut c_char,
    _room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { function(argument) };
    0
}

#[cfg(xla_ffi_cxx)]
unsafe extern "C-unwind" {
    /// Calls the function. Returns 0 if no C++ exception left the function; otherwise writes the exception's message
    /// to `text`.
    fn xla_ffi_runtime_guarded(
        function: unsafe extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
        text: *mut c_char,
        room: usize,
    ) -> c_int;
}

/// Calls a closure, and catches panics and C++ exceptions that leave it.
#[inline]
pub(crate) fn contained(mut body: impl FnMut()) -> Result<(), Unwound> {
    unsafe extern "C-unwind" fn call<F: FnMut()>(body: *mut c_void) {
        // SAFETY: `body` points to the closure of type `F` that `contained` passes to the guard.
        unsafe { (*body.cast::<F>())() }
    }
    fn address<F: FnMut()>(_: &F) -> unsafe extern "C-unwind" fn(*mut c_void) {
        call::<F>
    }
    let (function, argument) = (address(&body), (&raw mut body).cast());
    // The buffer for an exception's message is only initialised if an exception occurs.
    let mut text = MaybeUninit::<[c_char; 512]>::uninit();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (start, room) = (text.as_mut_ptr().cast(), size_of_val(&text));
        // SAFETY: `function` accepts the closure as its argument, and the buffer has `room` bytes.
        unsafe { xla_ffi_runtime_guarded(function, argument, start, room) }
    }));
    match outcome {
        Ok(0) => Ok(()),
        Ok(kind) => {
            // SAFETY: the guard wrote a NUL-terminated message.
            let text = unsafe { CStr::from_ptr(text.as_ptr().cast()) };
            Err(Unwound {
                text: format!("a C++ exception ({})", text.to_string_lossy()),
                is_standard: kind == 1,
            })
        }
        Err(payload) => Err(panic_text(payload)),
    }
}

/// Calls a handler, and catches panics and C++ exceptions that leave it.
///
/// # Safety
/// The frame must be valid for the handler until the call returns.
#[inline]
pub(crate) unsafe fn call_handler(
    handler: XLA_FFI_Handler,
    frame: *mut XLA_FFI_CallFrame,
) -> Result<*mut XLA_FFI_Error, Unwound> {
    type Unwinds = unsafe extern "C-unwind" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;
    // SAFETY: the types have the same calling convention; only `Unwinds` allows unwinding.
    let handler = unsafe { std::mem::transmute::<XLA_FFI_Handler, Unwinds>(handler) };
    let mut result = std::ptr::null_mut();
    // SAFETY: guaranteed by the caller.
    contained(|| result = unsafe { handler(frame) })?;
    Ok(result)
}

/// Calls a function with one pointer parameter that returns a pointer. Catches panics and C++ exceptions.
///
/// # Safety
/// The function must be safe to call with the argument.
pub unsafe fn call_pointer(
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<*mut c_void, Unwound> {
    // SAFETY: both types have one pointer parameter and return a pointer.
    let function = unsafe {
        std::mem::transmute::<unsafe extern "C" fn(*mut c_void) -> *mut c_void, XLA_FFI_Handler>(
            function,
        )
    };
    // SAFETY: guaranteed by the caller.
    unsafe { call_handler(function, argument.cast()) }.map(<*mut XLA_FFI_Error>::cast)
}

/// Calls a task or a deleter, and catches panics and C++ exceptions that leave it.
///
/// # Errors
/// The panic or C++ exception that left the function.
///
/// # Safety
/// The function must be safe to call with the argument.
pub unsafe fn call_void(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> Result<(), Unwound> {
    type Ends = unsafe extern "C" fn(*mut c_void);
    type Unwinds = unsafe extern "C-unwind" fn(*mut c_void);
    // SAFETY: the types differ only in whether unwinding is allowed, not in the calling convention.
    let function = unsafe { std::mem::transmute::<Ends, Unwinds>(function) };
    // SAFETY: guaranteed by the caller.
    contained(|| unsafe { function(argument) })
}
