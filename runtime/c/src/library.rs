//! Libraries.

use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, optional_text, take_back, text};
use host::{Library, Result, Runtime, Stage};
use std::ffi::c_char;

/// `xffi_rt_library`.
#[derive(Debug)]
pub(crate) struct xffi_rt_library {
    runtime: Runtime,
    pub(crate) library: Library,
}
const _: () = crate::any_thread::<xffi_rt_library>();

/// `xffi_rt_library_load`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_load(
    runtime: *mut xffi_rt,
    path: *const c_char,
    out: *mut *mut xffi_rt_library,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?.0.clone();
        // SAFETY: as promised by the caller.
        let path = unsafe { text(path, "path") }?;
        let library = runtime.open(path)?;
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, xffi_rt_library { runtime, library }) }
    })
}

/// `xffi_rt_library_destroy`.
///
/// # Safety
/// The library is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_destroy(library: *mut xffi_rt_library) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(library) };
}

/// `xffi_rt_library_register`.
///
/// # Safety
/// The pointers are as `runtime.h` says; the symbols are handlers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_library_register(
    library: *mut xffi_rt_library,
    name: *const c_char,
    platform: *const c_char,
    execute: *const c_char,
    instantiate: *const c_char,
    prepare: *const c_char,
    initialize: *const c_char,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let library = unsafe { object(library, "library") }?;
        // SAFETY: as promised by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as promised by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        // SAFETY: as promised by the caller.
        let stages = unsafe { stages(execute, instantiate, prepare, initialize) }?;
        let handler = library.library.handler(name, &stages)?;
        library
            .runtime
            .register(name, platform, *handler.bundle(), 0)
    })
}

/// The stages that symbols of the caller's name.
///
/// # Safety
/// The pointers are null or strings.
pub(crate) unsafe fn stages<'a>(
    execute: *const c_char,
    instantiate: *const c_char,
    prepare: *const c_char,
    initialize: *const c_char,
) -> Result<Vec<(Stage, &'a str)>> {
    // SAFETY: as promised by the caller.
    let mut stages = vec![(Stage::Execute, unsafe { text(execute, "execute") }?)];
    for (stage, symbol) in [
        (Stage::Instantiate, instantiate),
        (Stage::Prepare, prepare),
        (Stage::Initialize, initialize),
    ] {
        // SAFETY: as promised by the caller.
        if let Some(symbol) = unsafe { optional_text(symbol, stage.name()) }? {
            stages.push((stage, symbol));
        }
    }
    Ok(stages)
}
