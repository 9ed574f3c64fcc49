//! The host of the benchmark: a function table of the newest revision with the few functions that
//! the cases call. Errors copy their text into memory of their own, as a real host's do.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use xla_ffi_sys::*;

use crate::frame::Host;

/// A handler.
pub(crate) type Call = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// What the last call of any handler of a library decoded, boiled down to a number.
pub(crate) type Sink = unsafe extern "C" fn() -> usize;

/// An error that a handler made.
struct HostError {
    message: CString,
    code: XLA_FFI_Error_Code,
}

/// A future that a handler made. Any thread may complete it while the host asks, or leaves somebody to be told: so
/// that it is one exchange, as a real host's are at the least.
#[derive(Default)]
struct HostFuture {
    available: AtomicBool,
}

unsafe extern "C" fn create_error(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the handler's arguments.
    let text = unsafe { (*args).message };
    // SAFETY: as above.
    let code = unsafe { (*args).errc };
    // SAFETY: a C string (ABI).
    let text = unsafe { CStr::from_ptr(text) };
    let error = Box::new(HostError {
        message: text.to_owned(),
        code,
    });
    Box::into_raw(error).cast()
}

unsafe extern "C" fn destroy_error(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: the caller's arguments.
    let error = unsafe { (*args).error };
    // SAFETY: an error is destroyed once.
    unsafe { destroy(error) };
}

/// Destroys an error as the host does that got it from a handler.
///
/// # Safety
/// The error came from this host and is not used afterwards.
#[inline]
pub(crate) unsafe fn destroy(error: *mut XLA_FFI_Error) {
    // SAFETY: made by `create_error`.
    drop(unsafe { Box::from_raw(error.cast::<HostError>()) });
}

/// The code and the text of an error.
///
/// # Safety
/// The error came from this host.
pub(crate) unsafe fn told(error: *mut XLA_FFI_Error) -> (XLA_FFI_Error_Code, String) {
    // SAFETY: made by `create_error`.
    let error = unsafe { &*error.cast::<HostError>() };
    (error.code, error.message.to_string_lossy().into_owned())
}

unsafe extern "C" fn create_future(args: *mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error {
    let future = Box::into_raw(Box::<HostFuture>::default());
    // SAFETY: the handler's arguments.
    unsafe { (*args).future = future.cast() };
    std::ptr::null_mut()
}

unsafe extern "C" fn set_available(
    args: *mut XLA_FFI_Future_SetAvailable_Args,
) -> *mut XLA_FFI_Error {
    // SAFETY: the handler's arguments.
    let future = unsafe { (*args).future };
    // SAFETY: made by `create_future`, completed once.
    let future = unsafe { &*future.cast::<HostFuture>() };
    future.available.swap(true, Ordering::AcqRel);
    std::ptr::null_mut()
}

unsafe extern "C" fn set_error(args: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the handler's arguments.
    let error = unsafe { (*args).error };
    // SAFETY: the error is the host's from here.
    unsafe { destroy(error) };
    std::ptr::null_mut()
}

/// Takes the future out of a call frame and drops it; whether it was completed.
///
/// # Safety
/// `frame` is null in `future`, or a handler of this host wrote it.
#[inline]
pub(crate) unsafe fn take_future(frame: *mut XLA_FFI_CallFrame) -> Option<bool> {
    // SAFETY: the frame of a call that has returned.
    let future = unsafe { std::mem::replace(&mut (*frame).future, std::ptr::null_mut()) };
    if future.is_null() {
        return None;
    }
    // SAFETY: made by `create_future`, and taken out of the frame.
    let future = unsafe { Box::from_raw(future.cast::<HostFuture>()) };
    Some(future.available.into_inner())
}

/// A context without a stream, as on CPU.
unsafe extern "C" fn stream(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the handler's arguments.
    unsafe { (*args).stream = std::ptr::null_mut() };
    std::ptr::null_mut()
}

/// The host whose frames have their operands in the order that the seed says.
pub(crate) fn with_seed(seed: u64) -> Host {
    Host { api: table(), seed }
}

/// The function table; it lives for ever.
fn table() -> &'static XLA_FFI_Api {
    // SAFETY: numbers, pointers and optional functions, for which zero is a value: a host that has none.
    let mut api: XLA_FFI_Api = unsafe { std::mem::zeroed() };
    api.struct_size = XLA_FFI_Api::STRUCT_SIZE;
    api.api_version.struct_size = XLA_FFI_Api_Version::STRUCT_SIZE;
    api.api_version.major_version = XLA_FFI_API_MAJOR;
    api.api_version.minor_version = XLA_FFI_API_MINOR;
    api.XLA_FFI_Error_Create = Some(create_error);
    api.XLA_FFI_Error_Destroy = Some(destroy_error);
    api.XLA_FFI_Stream_Get = Some(stream);
    api.XLA_FFI_Future_Create = Some(create_future);
    api.XLA_FFI_Future_SetAvailable = Some(set_available);
    api.XLA_FFI_Future_SetError = Some(set_error);
    Box::leak(Box::new(api))
}

/// Declares `fn exported(symbol: &str)`, the handler of `handlers.rs` that is called so, in a program that is linked with them;
/// `$prefix` is the name of the crate and two underscores.
#[allow(unused_macros, reason = "only the tests are linked with the handlers")]
macro_rules! exported {
    ($prefix:literal, $($symbol:literal $name:ident)*) => {
        unsafe extern "C" {
            $(
                #[link_name = concat!($prefix, $symbol)]
                fn $name(
                    frame: *mut xla_ffi_sys::XLA_FFI_CallFrame,
                ) -> *mut xla_ffi_sys::XLA_FFI_Error;
            )*
        }

        fn exported(
            symbol: &str,
        ) -> unsafe extern "C" fn(
            *mut xla_ffi_sys::XLA_FFI_CallFrame,
        ) -> *mut xla_ffi_sys::XLA_FFI_Error {
            match symbol {
                $($symbol => $name,)*
                other => panic!("no handler {other}"),
            }
        }
    };
    ($prefix:literal) => {
        exported! { $prefix,
            "args_1" args_1 "args_4" args_4 "args_8" args_8 "args_16" args_16 "rets_8" rets_8
            "args_8_rets_8" args_8_rets_8
            "attrs_1" attrs_1 "attrs_4" attrs_4 "attrs_8" attrs_8
            "struct_dictionary" struct_dictionary "struct_attributes" struct_attributes
            "mixed" mixed "device" device "contract" contract "async_inline" async_inline "singular" singular
            "args_rets" args_rets "attributes" attributes
        }
    };
}
