//! Registration when a library is loaded, for hosts that do nothing but load a file.
//!
//! The host's function table is looked for among what the process has loaded, without linking to it.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};

use crate::declare::manifest::Library;
use crate::frame::host::Host;
use xla_ffi_sys::*;

/// What hosts call the function that gives their table: XLA's own, in C++, and the C one of its header.
const GETTERS: [&CStr; 2] = [c"_ZN3xla3ffi12GetXlaFfiApiEv", c"XLA_FFI_GetApi"];

type Register = unsafe extern "C" fn(*const XLA_FFI_Api, *const c_char) -> *mut XLA_FFI_Error;
type Getter = unsafe extern "C" fn() -> *const XLA_FFI_Api;

/// Registers a library with every host in the process, for the platforms of its handlers: silent where there is no
/// host, told on stderr where one refuses. No panic leaves it.
pub fn register_on_load(register: Register, library: &'static Library) {
    let _ = std::panic::catch_unwind(|| {
        let handlers = library.handlers.iter();
        let platforms: BTreeSet<&str> = handlers
            .flat_map(|(info, ..)| info.platforms)
            .copied()
            .collect();
        let tables = tables();
        if !tables.is_empty() {
            // A host keeps the handlers, and has no way to be told that they are gone.
            crate::future::executor::pin();
        }
        for table in tables {
            for platform in &platforms {
                // XLA's own name for its CPU, which every host knows.
                let name = if *platform == "cpu" { "Host" } else { platform };
                let Ok(name) = CString::new(name) else {
                    continue;
                };
                // SAFETY: a host's table and a C string.
                let error = unsafe { register(table, name.as_ptr()) };
                // SAFETY: the table lives as long as the host.
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

/// The function tables of the process, each once.
fn tables() -> BTreeSet<*const XLA_FFI_Api> {
    let mut found = BTreeSet::new();
    let mut ask = |library: *mut c_void| {
        for name in GETTERS {
            // SAFETY: a handle of the loader, or its word for all that is global, and a C string.
            let getter = unsafe { libc::dlsym(library, name.as_ptr()) };
            if !getter.is_null() {
                // SAFETY: what XLA and its header declare under these names.
                let getter: Getter = unsafe { std::mem::transmute::<*mut c_void, Getter>(getter) };
                // SAFETY: the function takes nothing and gives a table that lives as long as the host.
                let table = unsafe { getter() };
                if !table.is_null() {
                    found.insert(table);
                }
            }
        }
    };
    ask(libc::RTLD_DEFAULT);
    // Python and others load their libraries so that only those who depend on them see their names.
    for path in loaded() {
        // SAFETY: a C string; nothing is loaded that is not there already.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            ask(handle);
            // SAFETY: the handle from above; the library stays, since it was loaded before.
            unsafe { libc::dlclose(handle) };
        }
    }
    found
}

/// The files that the process has loaded. The loader may not be called while it counts them up.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn loaded() -> Vec<CString> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        paths: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader describes a library.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: a C string of the loader's.
            let name = unsafe { CStr::from_ptr(name) };
            if !name.is_empty() {
                // SAFETY: what `loaded` gave.
                unsafe { (*paths.cast::<Vec<CString>>()).push(name.to_owned()) };
            }
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the function takes what it is given here.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn loaded() -> Vec<CString> {
    Vec::new()
}
