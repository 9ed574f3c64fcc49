//! Records the calls of XLA custom-call handlers, and reads the records.
//!
//! *Recording* happens in the host's process, through this crate's shared library. A function of the recorder
//! replaces each function of a handler ([`xla_ffi_record_interpose`]). It writes the call to a file, calls the
//! handler, and writes the outcome. The handler's library is not changed, whatever it was built with, and
//! handlers that are not interposed have no overhead. Python's `xla_ffi.record` controls recordings.
//!
//! The library exports plain C functions, which Python calls through `ctypes`. Texts are NUL-terminated UTF-8,
//! and no function may be called from inside a handler.
//!
//! *Reading* ([`Recorded::read`]) needs no host and no handler. Each call has one file, whose format
//! [`mod@file`] describes. If a call ended its process, its file shows that.

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

/// The version of these functions, which is compared when the library is loaded.
pub const RECORDER_VERSION: u32 = 1;

/// The result of a recording.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XlaFfiRecordCounts {
    /// Calls that are recorded completely, apart from operands beyond the limit.
    pub recorded: u64,
    /// Calls with omitted operands, because the recording had reached its limit.
    pub truncated: u64,
    /// Calls whose file could not be written.
    pub failed: u64,
    /// Calls that had not ended when the recording ended; their outcome is not recorded.
    pub open: u64,
}

/// Returns [`RECORDER_VERSION`].
#[unsafe(no_mangle)]
pub extern "C" fn xla_ffi_record_version() -> u32 {
    RECORDER_VERSION
}

/// Returns the function to register instead of `function`, a stage of a handler. It always calls `function`,
/// and records the calls during a recording. Returns null if no interposing function is left. The result can
/// be called as long as the process lives.
///
/// `library` is the path of the handler's file, `stages` its symbols: `execute=f,instantiate=g`.
///
/// # Safety
/// The texts are valid C strings; `function` is a handler, and stays valid as long as the process lives.
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

/// Starts a recording into an existing folder, of at most `limit` bytes of operands, from a host with this
/// revision and name. Returns 0 for success, 1 if a recording is active, or 2 for an unknown revision.
///
/// # Safety
/// The texts are valid C strings.
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

/// Ends the recording when the current calls have ended, or after `milliseconds`.
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

/// Copies a C string; null is an empty string.
///
/// # Safety
/// `text` is null or a NUL-terminated text.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
