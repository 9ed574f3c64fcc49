//! Registers all handlers of a library with a host, called from inside the library.

use std::ffi::{CStr, c_char};

use crate::declare::handler_info::{About, Batch, HandlerInfo};
use crate::declare::manifest::{Listed, ListedTarget};
use crate::error::ErrorCode;
use crate::frame::host::Host;
use xla_ffi_sys::*;

/// The entry points of a handler's stages, indexed by stage number.
pub type Entries = [Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>; 5];

/// A handler with its entry points.
pub type Registrable = (&'static HandlerInfo, Entries);

/// Returns the canonical name of a platform. Hosts compare canonical names.
fn canonical(platform: &str) -> String {
    match platform.to_ascii_lowercase().as_str() {
        "host" => "cpu".to_owned(),
        "gpu" => "cuda".to_owned(),
        other => other.to_owned(),
    }
}

/// Registers every handler for `platform`. Handlers that the host already has are accepted. All
/// other failures are reported in one error, one per line.
///
/// # Safety
/// `api` is null or a host's function table; `platform` is null or a C string.
pub unsafe fn register(
    api: *const XLA_FFI_Api,
    platform: *const c_char,
    library: &str,
    handlers: &[Registrable],
) -> *mut XLA_FFI_Error {
    // SAFETY: the caller guarantees that `api` is null or a host's table.
    let host = unsafe { Host::new(api) };
    if host.is_before_r0() {
        return host.refuse_before_r0(library);
    }
    if platform.is_null() {
        return host.make_error(
            ErrorCode::InvalidArgument,
            &format!("{library}: no platform given, \"cpu\" for instance"),
        );
    }
    // SAFETY: the caller guarantees that `platform` is a C string.
    let given = unsafe { CStr::from_ptr(platform) }.to_string_lossy();
    let platform = canonical(&given);
    let (mut made_for_it, mut failed) = (0, 0);
    let (mut first, mut lines) = (ErrorCode::Unknown, String::new());
    for (info, entries) in handlers {
        if !info.platforms.iter().any(|own| canonical(own) == platform) {
            continue;
        }
        made_for_it += 1;
        info.register_types(host);
        let bundle = XLA_FFI_Handler_Bundle {
            instantiate: entries[0],
            prepare: entries[1],
            initialize: entries[2],
            execute: entries[3],
            record: entries[4],
        };
        if let Err(error) = host.register(info.name, &given, bundle, info.traits) {
            if failed == 0 {
                first = error.code();
            }
            failed += 1;
            lines.push_str(&format!("\n  {}: {}", info.name, error.message()));
        }
    }
    if made_for_it == 0 {
        return host.make_error(
            ErrorCode::NotFound,
            &format!("{library}: no handler is made for platform \"{given}\""),
        );
    }
    if failed == 0 {
        return std::ptr::null_mut();
    }
    let text = format!("{library}: {failed} of {made_for_it} handlers not registered{lines}");
    host.make_error(first, &text)
}

/// Placeholders for entries of `library!` that already cause a compile error. Used by `library!`.
pub trait Missing {
    /// A placeholder for the description of a handler.
    const LISTED: Listed = (&NOBODY, NOTHING, &[]);
    /// An entry that is never registered, because it has no entry points.
    const REGISTRABLE: Registrable = (&NOBODY, [None; 5]);
    /// A placeholder for the description of a legacy target.
    const TARGET: &'static ListedTarget = &NO_TARGET;
}

impl<T> Missing for T {}

unsafe extern "C" fn nothing() {}

const NO_TARGET: ListedTarget = ListedTarget {
    name: "",
    platforms: &[],
    function: nothing,
    convention: "",
    signature: 0,
    api_version: 0,
    shapes: None,
    tuples: None,
};

const NOBODY: HandlerInfo = HandlerInfo {
    name: "",
    platforms: &[],
    stages: &[],
    open_attrs: false,
    shape: "",
    traits: 0,
    state: None,
    floor: Revision::R0,
};

const NOTHING: About = About {
    doc: "",
    gradient: None,
    batch: Batch::Undeclared,
    nondeterministic: false,
};
