//! Calls foreign functions so that neither a panic nor a C++ exception gets past them.

use std::ffi::c_void;
use std::fmt;
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

impl Unwound {
    fn new(text: String) -> Self {
        Self {
            text,
            is_standard: false,
        }
    }
}

impl fmt::Display for Unwound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Destroys what a panic threw, whose destructor may panic in its turn.
pub fn discard(payload: Box<dyn std::any::Any + Send>) {
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
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
    let unwound = Unwound::new(format!("a panic ({text})"));
    discard(payload);
    unwound
}

#[cfg(xla_ffi_cxx)]
mod contained {
    use super::{Unwound, c_void, panic_text};
    use std::ffi::{CStr, c_char, c_int};
    use std::mem::MaybeUninit;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    unsafe extern "C-unwind" {
        fn xla_ffi_runtime_guarded_call(
            function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
            argument: *mut c_void,
            result: *mut *mut c_void,
            text: *mut c_char,
            room: usize,
        ) -> c_int;
        fn xla_ffi_runtime_guarded_task(
            function: unsafe extern "C" fn(*mut c_void),
            argument: *mut c_void,
            text: *mut c_char,
            room: usize,
        ) -> c_int;
    }

    /// Room for the text of an exception; not initialised unless there is one.
    type Text = MaybeUninit<[c_char; 512]>;

    #[inline]
    fn finish(outcome: std::thread::Result<c_int>, text: &Text) -> Result<(), Unwound> {
        match outcome {
            Ok(0) => Ok(()),
            Ok(kind) => {
                // SAFETY: the guard wrote a NUL-terminated text.
                let text = unsafe { CStr::from_ptr(text.as_ptr().cast()) };
                let text = text.to_string_lossy();
                let mut unwound = Unwound::new(format!("a C++ exception ({text})"));
                unwound.is_standard = kind == 1;
                Err(unwound)
            }
            Err(payload) => Err(panic_text(payload)),
        }
    }

    #[inline]
    pub(super) unsafe fn call(
        function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Result<*mut c_void, Unwound> {
        let mut result = std::ptr::null_mut();
        let mut text = Text::uninit();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller vouches for function and argument; the rest is ours.
            unsafe {
                xla_ffi_runtime_guarded_call(
                    function,
                    argument,
                    &raw mut result,
                    text.as_mut_ptr().cast(),
                    size_of::<Text>(),
                )
            }
        }));
        finish(outcome, &text).map(|()| result)
    }

    pub(super) unsafe fn task(
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> Result<(), Unwound> {
        let mut text = Text::uninit();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller vouches for function and argument; the rest is ours.
            unsafe {
                xla_ffi_runtime_guarded_task(
                    function,
                    argument,
                    text.as_mut_ptr().cast(),
                    size_of::<Text>(),
                )
            }
        }));
        finish(outcome, &text)
    }
}

#[cfg(not(xla_ffi_cxx))]
mod contained {
    use super::{Unwound, c_void, panic_text};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    pub(super) unsafe fn call(
        function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Result<*mut c_void, Unwound> {
        // SAFETY: the two types differ in what may leave the function, not in how it is called.
        let function = unsafe {
            std::mem::transmute::<
                unsafe extern "C" fn(*mut c_void) -> *mut c_void,
                unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            >(function)
        };
        // SAFETY: the caller vouches for function and argument.
        catch_unwind(AssertUnwindSafe(|| unsafe { function(argument) })).map_err(panic_text)
    }

    pub(super) unsafe fn task(
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> Result<(), Unwound> {
        // SAFETY: the two types differ in what may leave the function, not in how it is called.
        let function = unsafe {
            std::mem::transmute::<
                unsafe extern "C" fn(*mut c_void),
                unsafe extern "C-unwind" fn(*mut c_void),
            >(function)
        };
        // SAFETY: the caller vouches for function and argument.
        catch_unwind(AssertUnwindSafe(|| unsafe { function(argument) })).map_err(panic_text)
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
    // SAFETY: both types take one pointer and return one.
    let function = unsafe {
        std::mem::transmute::<XLA_FFI_Handler, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(
            handler,
        )
    };
    // SAFETY: as promised by the caller.
    unsafe { contained::call(function, frame.cast()) }.map(<*mut c_void>::cast)
}

/// Calls a function that takes and gives a pointer.
///
/// # Safety
/// The function may be called with the argument.
pub unsafe fn call_pointer(
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<*mut c_void, Unwound> {
    // SAFETY: as promised by the caller.
    unsafe { contained::call(function, argument) }
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
    // SAFETY: as promised by the caller.
    unsafe { contained::task(function, argument) }
}
