//! The functions of `pjrt.h` for clients of PJRT plugins, and for the registration of handlers with XLA.

use crate::library::xffi_rt_library;
use crate::runtime::bundle_of;
use crate::status::{c_text, status_or_null, xffi_rt_status};
use crate::{hand_over, object, take_back, text, write_out};
use std::ffi::{CString, c_char, c_int};
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_sys::XLA_FFI_Handler_Bundle;

/// `xffi_rt_client` in C: a client of a PJRT plugin.
#[derive(Debug)]
pub(crate) struct xffi_rt_client {
    pub(crate) client: Client,
    version: (i32, i32),
    platform: CString,
}
const _: () = crate::any_thread::<xffi_rt_client>();

/// Implements `xffi_rt_client_open`.
///
/// # Safety
/// The pointers must meet the requirements in `pjrt.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_open(
    path: *const c_char,
    out: *mut *mut xffi_rt_client,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let path = unsafe { text(path, "path") }?;
        let plugin = Plugin::load(path)?;
        let client = plugin.client()?;
        let client = xffi_rt_client {
            version: plugin.version(),
            platform: c_text(client.platform()),
            client,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, client) }
    })
}

/// Implements `xffi_rt_client_destroy`.
///
/// # Safety
/// The client must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_destroy(client: *mut xffi_rt_client) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(client) };
}

/// Implements `xffi_rt_client_platform`.
///
/// # Safety
/// The client must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_platform(
    client: *const xffi_rt_client,
) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    let client = unsafe { client.as_ref() };
    client.map_or(c"", |client| &client.platform).as_ptr()
}

/// Implements `xffi_rt_client_version`.
///
/// # Safety
/// The client must be null or owned by the caller, and the pointers to numbers must be null
/// or valid for writes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_version(
    client: *const xffi_rt_client,
    major: *mut c_int,
    minor: *mut c_int,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let client = unsafe { object(client, "client") }?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(major, || client.version.0) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(minor, || client.version.1) }
    })
}

/// Implements `xffi_rt_client_register`.
///
/// # Safety
/// The pointers must meet the requirements in `pjrt.h`; the bundle's functions must be handlers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_register(
    client: *const xffi_rt_client,
    name: *const c_char,
    bundle: *const XLA_FFI_Handler_Bundle,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let client = unsafe { object(client, "client") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: guaranteed by the caller.
        let bundle = unsafe { bundle_of(bundle) }?;
        client.client.register(name, &bundle)
    })
}

/// Implements `xffi_rt_client_register_library`.
///
/// # Safety
/// Client and library must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_register_library(
    client: *const xffi_rt_client,
    library: *const xffi_rt_library,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let client = unsafe { object(client, "client") }?;
        // SAFETY: guaranteed by the caller.
        let library = unsafe { object(library, "library") }?;
        client.client.register_library(&library.library)
    })
}

/// Implements `xffi_rt_client_type_id`.
///
/// # Safety
/// The pointers must meet the requirements in `pjrt.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_type_id(
    client: *const xffi_rt_client,
    name: *const c_char,
    out: *mut i64,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let client = unsafe { object(client, "client") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        let id = client.client.type_id(name)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || id) }
    })
}
