//! The custom calls that came before XLA FFI: a target is a bare function.

use core::ffi::{c_char, c_void};

opaque! {
    /// Success or a message, filled by a status-returning target. No jaxlib exports the functions
    /// that write it.
    XlaCustomCallStatus
}

/// A CPU target, `API_VERSION_ORIGINAL`.
pub type XlaCustomCallCpu = unsafe extern "C" fn(out: *mut c_void, ins: *mut *const c_void);

/// A CPU target, `API_VERSION_STATUS_RETURNING`.
pub type XlaCustomCallCpuStatus = unsafe extern "C" fn(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
);

/// A GPU target, `API_VERSION_ORIGINAL`: stream, buffers (operands, then results), opaque bytes.
pub type XlaCustomCallGpu = unsafe extern "C" fn(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
);

/// A target of either platform with a status: GPU, and `API_VERSION_STATUS_RETURNING_UNIFIED`.
pub type XlaCustomCallUnified = unsafe extern "C" fn(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
);
