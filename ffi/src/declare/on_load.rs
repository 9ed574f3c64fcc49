//! Registration at load time, for hosts that only load a library and do not call its registration
//! function.
//!
//! The search covers all loaded libraries, without linking to the host.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};

use crate::declare::manifest::Library;
use crate::frame::host::Host;
use xla_ffi_sys::*;

/// The symbols of the function that returns a host's table: XLA's mangled C++ name, and the C name in XLA's header.
const GETTERS: [&CStr; 2] = [c"_ZN3xla3ffi12GetXlaFfiApiEv", c"XLA_FFI_GetApi"];

type Register = unsafe extern "C" fn(*const XLA_FFI_Api, *const c_char) -> *mut XLA_FFI_Error;
type Getter = unsafe extern "C" fn() -> *const XLA_FFI_Api;

/// Registers a library with every host in the process, for the platforms of its handlers.
///
/// If there is no host, the function does nothing. Errors of hosts are printed to stderr. Never
/// panics.
pub fn register_on_load(register: Register, library: &'static Library) {
    let _ = std::panic::catch_unwind(|| {
        let handlers = library.handlers.iter();
        let platforms: BTreeSet<&str> = handlers
            .flat_map(|(info, ..)| info.platforms)
            .copied()
            .collect();
        let tables = tables();
        if !tables.is_empty() {
            // A host keeps the handlers' addresses and cannot unregister them, so the library must stay loaded.
            crate::future::executor::pin();
        }
        for table in tables {
            for platform in &platforms {
                // `Host` is XLA's own name for its CPU platform, and every host accepts it.
                let name = if *platform == "cpu" { "Host" } else { platform };
                let Ok(name) = CString::new(name) else {
                    continue;
                };
                // SAFETY: `table` is a host's function table, and the name is a C string.
                let error = unsafe { register(table, name.as_ptr()) };
                // SAFETY: the function table lives as long as the host.
                if let Err(error) = unsafe { Host::new(table) }.check(error) {
                    crate::error::panics::warn(format_args!(
                        "{}, registered on load: {}",
                        library.name,
                        error.message()
                    ));
                }
            }
        }
    });
}

/// Returns the distinct function tables in the process.
fn tables() -> BTreeSet<*const XLA_FFI_Api> {
    let mut found = BTreeSet::new();
    let mut ask = |library: *mut c_void| {
        for name in GETTERS {
            // SAFETY: `library` is a handle of the loader, and the name is a C string.
            let getter = unsafe { libc::dlsym(library, name.as_ptr()) };
            if !getter.is_null() {
                // SAFETY: XLA's sources declare this signature for both symbols.
                let getter: Getter = unsafe { std::mem::transmute::<*mut c_void, Getter>(getter) };
                // SAFETY: the function has no parameters and returns a table that lives as long as the host.
                let table = unsafe { getter() };
                if !table.is_null() {
                    found.insert(table);
                }
            }
        }
    };
    ask(libc::RTLD_DEFAULT);
    // Python and other programs load libraries with local visibility, so each library is searched separately.
    for path in loaded() {
        // SAFETY: the path is a C string, and `RTLD_NOLOAD` loads nothing new.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            ask(handle);
            // SAFETY: the handle comes from `dlopen`. The library stays loaded, because it was loaded before.
            unsafe { libc::dlclose(handle) };
        }
    }
    found
}

/// Returns the paths of all loaded libraries. All paths are collected first, because the loader must not be
/// called during the iteration.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn loaded() -> Vec<CString> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        paths: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid description of a library.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: the name is a C string of the loader.
            let name = unsafe { CStr::from_ptr(name) };
            if !name.is_empty() {
                // SAFETY: `paths` is the pointer that `loaded` passes.
                unsafe { (*paths.cast::<Vec<CString>>()).push(name.to_owned()) };
            }
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `note` has the required signature and receives a pointer to `paths`.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn loaded() -> Vec<CString> {
    Vec::new()
}
