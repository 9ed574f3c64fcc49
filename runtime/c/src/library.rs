//! The functions of `runtime.h` for libraries with handlers.

use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, take_back, text, write_out};
use host::Library;
use std::ffi::{c_char, c_void};

/// `xffi_rt_library` in C: a library with handlers.
#[derive(Debug)]
pub(crate) struct xffi_rt_library {
    pub(crate) library: Library,
}
const _: () = crate::any_thread::<xffi_rt_library>();

/// Implements `xffi_rt_library_load`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_load(
    runtime: *mut xffi_rt,
    path: *const c_char,
    out: *mut *mut xffi_rt_library,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        // SAFETY: guaranteed by the caller.
        let path = unsafe { text(path, "path") }?;
        let library = runtime.0.open(path)?;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt_library { library }) }
    })
}

/// Implements `xffi_rt_library_destroy`.
///
/// # Safety
/// The library must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_destroy(library: *mut xffi_rt_library) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(library) };
}

/// Implements `xffi_rt_library_symbol`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_symbol(
    library: *const xffi_rt_library,
    name: *const c_char,
    out: *mut *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let library = unsafe { object(library, "library") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        let symbol = library.library.symbol(name)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || symbol) }
    })
}
