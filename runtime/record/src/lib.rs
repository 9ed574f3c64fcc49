//! Records the calls of XLA custom-call handlers, and reads the records.
//!
//! *Recording* happens in the host's process, through this crate's shared library. A function of the recorder
//! replaces each function of a handler ([`xla_ffi_record_interpose`]). This function writes the call to a file, calls
//! the handler, and writes the outcome. Handlers in any language can be recorded, and their libraries are not
//! changed. Handlers that are not interposed have no overhead. The Python module `xla_ffi.record` controls
//! recordings.
//!
//! The library exports C functions, which Python calls through `ctypes`. Strings are NUL-terminated UTF-8. Handlers
//! must not call these functions.
//!
//! *Reading* ([`Recorded::read`]) needs no host and no handler. Each call has a file, whose format [`mod@file`]
//! describes. If a process crashes during a call, the end of the call is missing in its file.

mod call;
pub mod file;
mod frame;
mod hooks;
mod host;
mod read;
mod running;
mod session;
mod trampoline;

pub use call::{Attributes, Value};
pub use call::{Call, Context, Data, End, Operand, Outcome, State, bytes_of};
pub use read::{ReadError, Recorded, head};

use running::{Handler, Slot};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use xla_ffi_sys::Revision;

/// The version of the exported functions. It is compared when the library is loaded.
pub const RECORDER_VERSION: u32 = 1;

/// The numbers of calls in a recording, by outcome of the recording.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XlaFfiRecordCounts {
    /// The number of calls that are recorded completely, except operands beyond the limit.
    pub recorded: u64,
    /// The number of calls with omitted operands, because the recording reached its limit.
    pub truncated: u64,
    /// The number of calls whose files could not be written.
    pub failed: u64,
    /// The number of calls that had not ended when the recording ended. Their outcomes are not recorded.
    pub open: u64,
}

/// Returns [`RECORDER_VERSION`], so that programs can check the library.
#[unsafe(no_mangle)]
pub extern "C" fn xla_ffi_record_version() -> u32 {
    RECORDER_VERSION
}

/// Returns the function to register instead of `function`, a stage of a handler. The returned function calls
/// `function`, and records the call during a recording. It is valid until the process ends. Returns null if all
/// interposing functions are in use.
///
/// `library` is the path of the handler's library. `stages` contains the symbols of the handler's stages, for example
/// `execute=f,instantiate=g`.
///
/// # Safety
/// The strings must be null or NUL-terminated. `function` must be a handler, and stay valid until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xla_ffi_record_interpose(
    library: *const c_char,
    handler: *const c_char,
    stages: *const c_char,
    function: *mut c_void,
) -> *mut c_void {
    if function.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller upholds this function's safety contract.
    let stages = unsafe { text(stages) };
    let stages: BTreeMap<_, _> = stages
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(stage, symbol)| (stage.to_owned(), symbol.to_owned()))
        .collect();
    let slot = Slot {
        // SAFETY: the caller upholds this function's safety contract.
        function: unsafe { std::mem::transmute::<*mut c_void, Handler>(function) },
        // SAFETY: the caller upholds this function's safety contract.
        library: unsafe { text(library) },
        // SAFETY: the caller upholds this function's safety contract.
        handler: unsafe { text(handler) },
        stages,
    };
    trampoline::before(slot).map_or(ptr::null_mut(), |handler| handler as *mut c_void)
}

/// Starts a recording of a host with the given revision and name. The files are written to the existing folder
/// `folder`; at most `limit` bytes of operands are kept. Returns 0 for success, 1 if a recording is active, or 2 for
/// an unknown revision.
///
/// # Safety
/// The strings must be null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xla_ffi_record_start(
    folder: *const c_char,
    limit: u64,
    revision: u32,
    host: *const c_char,
) -> u32 {
    let Some(revision) = Revision::ALL.get(revision as usize) else {
        return 2;
    };
    // SAFETY: the caller upholds this function's safety contract.
    let folder = PathBuf::from(unsafe { text(folder) });
    // SAFETY: the caller upholds this function's safety contract.
    let host = unsafe { text(host) };
    u32::from(!session::begin(folder, limit, host, *revision))
}

/// Ends the recording when all current calls have ended, or after `milliseconds`. Returns the numbers of calls.
#[unsafe(no_mangle)]
pub extern "C" fn xla_ffi_record_stop(milliseconds: u64) -> XlaFfiRecordCounts {
    let Some(session) = session::end() else {
        return XlaFfiRecordCounts::default();
    };
    let end = Instant::now() + Duration::from_millis(milliseconds.min(1 << 30));
    while session.open.load(Ordering::Acquire) > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    hooks::unwatch();
    XlaFfiRecordCounts {
        recorded: session.recorded.load(Ordering::Relaxed),
        truncated: session.truncated.load(Ordering::Relaxed),
        failed: session.failed.load(Ordering::Relaxed),
        open: session.open.load(Ordering::Relaxed),
    }
}

/// Returns a copy of a C string; an empty string for null.
///
/// # Safety
/// `text` must be null or NUL-terminated.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
