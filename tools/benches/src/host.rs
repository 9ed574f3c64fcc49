//! The host of the benchmark: an API table of the newest revision, with the functions that the benchmark's handlers
//! call.
//!
//! Errors copy their message, as in a real host.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use xla_ffi_sys::*;

use crate::frame::Host;

/// The type of a handler's C function.
pub(crate) type Call = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// The type of a function that returns a number derived from the values that a library's last call decoded.
pub(crate) type Sink = unsafe extern "C" fn() -> usize;

/// An error that a handler created.
struct HostError {
    message: CString,
    code: XLA_FFI_Error_Code,
}

/// A future that a handler created.
///
/// Any thread may complete the future while the host polls it or registers a callback. Therefore completing the future
/// is one atomic exchange, which is the minimum for a real host.
#[derive(Default)]
struct HostFuture {
    available: AtomicBool,
}

unsafe extern "C" fn create_error(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    let text = unsafe { (*args).message };
    // SAFETY: handlers pass valid arguments to the functions of their host.
    let code = unsafe { (*args).errc };
    // SAFETY: the ABI requires a C string.
    let text = unsafe { CStr::from_ptr(text) };
    let error = Box::new(HostError {
        message: text.to_owned(),
        code,
    });
    Box::into_raw(error).cast()
}

unsafe extern "C" fn destroy_error(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    let error = unsafe { (*args).error };
    // SAFETY: the ABI requires that an error is destroyed only once.
    unsafe { destroy(error) };
}

/// Destroys an error, as a host does after a handler returned the error.
///
/// # Safety
/// The error belongs to this host and is not used afterwards.
#[inline]
pub(crate) unsafe fn destroy(error: *mut XLA_FFI_Error) {
    // SAFETY: `create_error` allocated the error.
    drop(unsafe { Box::from_raw(error.cast::<HostError>()) });
}

/// Returns the code and message of an error.
///
/// # Safety
/// The error belongs to this host.
pub(crate) unsafe fn told(error: *mut XLA_FFI_Error) -> (XLA_FFI_Error_Code, String) {
    // SAFETY: `create_error` allocated the error.
    let error = unsafe { &*error.cast::<HostError>() };
    (error.code, error.message.to_string_lossy().into_owned())
}

unsafe extern "C" fn create_future(args: *mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error {
    let future = Box::into_raw(Box::<HostFuture>::default());
    // SAFETY: handlers pass valid arguments to the functions of their host.
    unsafe { (*args).future = future.cast() };
    std::ptr::null_mut()
}

unsafe extern "C" fn set_available(
    args: *mut XLA_FFI_Future_SetAvailable_Args,
) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    let future = unsafe { (*args).future };
    // SAFETY: `create_future` allocated the future, and it is completed only once.
    let future = unsafe { &*future.cast::<HostFuture>() };
    future.available.swap(true, Ordering::AcqRel);
    std::ptr::null_mut()
}

unsafe extern "C" fn set_error(args: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    let error = unsafe { (*args).error };
    // SAFETY: the call transfers ownership of the error to the host.
    unsafe { destroy(error) };
    std::ptr::null_mut()
}

/// Removes the future from a call frame and drops the future. Returns whether the future was completed; `None` if the
/// frame has no future.
///
/// # Safety
/// The frame's `future` is null, or a handler of this host has set it.
#[inline]
pub(crate) unsafe fn take_future(frame: *mut XLA_FFI_CallFrame) -> Option<bool> {
    // SAFETY: the call that used the frame has returned.
    let future = unsafe { std::mem::replace(&mut (*frame).future, std::ptr::null_mut()) };
    if future.is_null() {
        return None;
    }
    // SAFETY: `create_future` allocated the future, and the frame no longer refers to it.
    let future = unsafe { Box::from_raw(future.cast::<HostFuture>()) };
    Some(future.available.into_inner())
}

/// Returns a null stream, as hosts on the CPU do.
unsafe extern "C" fn stream(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    unsafe { (*args).stream = std::ptr::null_mut() };
    std::ptr::null_mut()
}

/// Returns a host. The seed determines the order of the operands of its frames in memory.
pub(crate) fn with_seed(seed: u64) -> Host {
    Host { api: table(), seed }
}

/// Returns the API table, which is never freed.
fn table() -> &'static XLA_FFI_Api {
    // SAFETY: the API table consists of numbers, pointers and optional functions, for which zero is valid.
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

/// Declares `fn exported(symbol: &str)`, which returns the handler of `handlers.rs` with the name `symbol`.
///
/// The program must be linked with the handlers; `$prefix` is the crate's name and two underscores.
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
