//! Calls foreign functions so that neither a panic nor a C++ exception gets past them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};

/// Whether C++ exceptions are contained in the process. Where no C++ compiler was there to build
/// the guard, an exception ends the process.
pub const CONTAINS_CXX_EXCEPTIONS: bool = cfg!(xla_ffi_cxx);

/// What left a function instead of its return.
#[derive(Debug)]
pub struct Unwound {
    text: String,
    /// A `std::exception`: where a handler throws one, XLA makes an error of it.
    pub is_standard: bool,
}

impl fmt::Display for Unwound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Destroys what a panic threw, whose destructor may panic in its turn.
pub fn discard(payload: Box<dyn std::any::Any + Send>) {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    if let Err(again) = dropped {
        // One that throws bombs for ever is not worth a process: it leaks.
        std::mem::forget(again);
    }
}

/// What a panic says, of whose payload nothing is left.
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

/// The same without what holds C++ exceptions.
///
/// # Safety
/// The function may be called with the argument.
#[cfg(not(xla_ffi_cxx))]
unsafe fn xla_ffi_runtime_guarded(
    function: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    _text: *mut c_char,
    _room: usize,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { function(argument) };
    0
}

#[cfg(xla_ffi_cxx)]
unsafe extern "C-unwind" {
    /// Calls the function; gives 0, or writes the text of the C++ exception that left it.
    fn xla_ffi_runtime_guarded(
        function: unsafe extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
        text: *mut c_char,
        room: usize,
    ) -> c_int;
}

/// Calls a closure that may unwind in any way.
#[inline]
pub(crate) fn contained(mut body: impl FnMut()) -> Result<(), Unwound> {
    unsafe extern "C-unwind" fn call<F: FnMut()>(body: *mut c_void) {
        // SAFETY: the closure below.
        unsafe { (*body.cast::<F>())() }
    }
    fn address<F: FnMut()>(_: &F) -> unsafe extern "C-unwind" fn(*mut c_void) {
        call::<F>
    }
    let (function, argument) = (address(&body), (&raw mut body).cast());
    // Room for the text of an exception; not initialised unless there is one.
    let mut text = MaybeUninit::<[c_char; 512]>::uninit();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (start, room) = (text.as_mut_ptr().cast(), size_of_val(&text));
        // SAFETY: the function takes this closure; the rest is ours.
        unsafe { xla_ffi_runtime_guarded(function, argument, start, room) }
    }));
    match outcome {
        Ok(0) => Ok(()),
        Ok(kind) => {
            // SAFETY: the guard wrote a NUL-terminated text.
            let text = unsafe { CStr::from_ptr(text.as_ptr().cast()) };
            Err(Unwound {
                text: format!("a C++ exception ({})", text.to_string_lossy()),
                is_standard: kind == 1,
            })
        }
        Err(payload) => Err(panic_text(payload)),
    }
}

/// Calls a handler.
///
/// # Safety
/// The frame is what the handler expects, for as long as the call lasts.
#[inline]
pub(crate) unsafe fn call_handler(
    handler: XLA_FFI_Handler,
    frame: *mut XLA_FFI_CallFrame,
) -> Result<*mut XLA_FFI_Error, Unwound> {
    type Unwinds = unsafe extern "C-unwind" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;
    // SAFETY: the two types differ in what may leave the function, not in how it is called.
    let handler = unsafe { std::mem::transmute::<XLA_FFI_Handler, Unwinds>(handler) };
    let mut result = std::ptr::null_mut();
    // SAFETY: as promised by the caller.
    contained(|| result = unsafe { handler(frame) })?;
    Ok(result)
}

/// Calls a function that takes and gives a pointer.
///
/// # Safety
/// The function may be called with the argument.
pub unsafe fn call_pointer(
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<*mut c_void, Unwound> {
    // SAFETY: both types take one pointer and return one.
    let function = unsafe {
        std::mem::transmute::<unsafe extern "C" fn(*mut c_void) -> *mut c_void, XLA_FFI_Handler>(
            function,
        )
    };
    // SAFETY: as promised by the caller.
    unsafe { call_handler(function, argument.cast()) }.map(<*mut XLA_FFI_Error>::cast)
}

/// Calls a task or a deleter.
///
/// # Errors
/// What left the function instead of its return.
///
/// # Safety
/// The function may be called with the argument.
pub unsafe fn call_void(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> Result<(), Unwound> {
    type Ends = unsafe extern "C" fn(*mut c_void);
    type Unwinds = unsafe extern "C-unwind" fn(*mut c_void);
    // SAFETY: the two types differ in what may leave the function, not in how it is called.
    let function = unsafe { std::mem::transmute::<Ends, Unwinds>(function) };
    // SAFETY: as promised by the caller.
    contained(|| unsafe { function(argument) })
}
