//! Records the calls of XLA custom-call handlers, and reads the records.
//!
//! *Recording* happens in the process of the host, through this crate's shared library: a function of its
//! own stands before each function of a handler ([`xla_ffi_record_interpose`]), writes what the host
//! says into a file, calls the handler, and writes what came of it. Nothing of the handler's library
//! changes, whatever it was built with, and a handler that is not interposed costs nothing. Python's
//! `xla_ffi.record` drives it.
//!
//! The functions that the library exports are plain C, called through `ctypes` by Python. Texts are NUL-terminated UTF-8, and
//! no function is called from within a handler.
//!
//! *Reading* ([`Recorded::read`]) needs neither. One call is one file, whose format stands in
//! [`mod@file`]; a call that ended its process leaves a file that says so.

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

/// The version of these functions: whoever loads the library compares it.
pub const RECORDER_VERSION: u32 = 1;

/// What a recording has come to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct XlaFfiRecordCounts {
    /// Calls that are recorded whole, or but for operands beyond the limit.
    pub recorded: u64,
    /// Calls of which operands were left out, since the recording had reached its limit.
    pub truncated: u64,
    /// Calls whose file could not be written.
    pub failed: u64,
    /// Calls that were not over when the recording ended: what becomes of them is not recorded.
    pub open: u64,
}

/// [`RECORDER_VERSION`].
#[unsafe(no_mangle)]
pub extern "C" fn xla_ffi_record_version() -> u32 {
    RECORDER_VERSION
}

/// The function to register in place of `function`, a stage of a handler: it records the calls while
/// a recording is under way, and calls `function` in any case. Null when there is none left. It may be
/// called as long as the process lives.
///
/// `library` is the path of its file, `stages` what symbols it has there: `execute=f,instantiate=g`.
///
/// # Safety
/// The texts are there; `function` is a handler, for as long as the process lives.
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

/// Begins a recording into a folder that is there: at most `limit` bytes of operands, from a host of this
/// revision and name. 0, or 1 when one is under way, or 2 for a revision that this library does not
/// know.
///
/// # Safety
/// The texts are there.
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

/// Ends the recording, once the calls under way are over or `milliseconds` have passed.
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

/// # Safety
/// Null or a NUL-terminated text.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
