//! The custom calls that came before XLA FFI: a target is a bare function.

use core::ffi::{c_char, c_int, c_void};

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

/// A CPU target, `API_VERSION_STATUS_RETURNING_UNIFIED`: the operands of the CPU forms with what the
/// GPU forms have behind their buffers (as measured on jaxlib 0.4.31 to 0.12.0).
pub type XlaCustomCallCpuUnified = unsafe extern "C" fn(
    out: *mut c_void,
    ins: *mut *const c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
);

/// A GPU target, `API_VERSION_STATUS_RETURNING` and `API_VERSION_STATUS_RETURNING_UNIFIED`.
pub type XlaCustomCallGpuStatus = unsafe extern "C" fn(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
);

/// The beginning of every status that this SDK makes, in any of its libraries and programs.
///
/// A status of XLA's own is an object of unknown layout. Ours begin at a multiple of
/// [`ALIGNMENT`](Self::ALIGNMENT) and are never unmapped, so that a pointer is told apart by its
/// address, then by what is written there: [`MAGIC`](Self::MAGIC) and the address itself. The C
/// functions that write a status then call `set`, which its maker provided.
#[repr(C)]
#[derive(Debug)]
pub struct XlaFfiLegacyStatus {
    /// [`MAGIC`](Self::MAGIC).
    pub magic: [u8; 16],
    /// Where this object lies.
    pub this: *const Self,
    /// Writes success (`failed` 0) or a failure with `len` bytes of text, which is copied.
    pub set: Option<
        unsafe extern "C" fn(this: *mut Self, failed: c_int, message: *const c_char, len: usize),
    >,
}

impl XlaFfiLegacyStatus {
    /// What a status of this layout begins with.
    pub const MAGIC: [u8; 16] = *b"XLAFFI-STATUS-1\0";
    /// Addresses of such objects are multiples of this: no page of any size in use ends between the
    /// address and the 32 bytes behind it.
    pub const ALIGNMENT: usize = 65536;
}

const _: () = {
    assert!(size_of::<XlaFfiLegacyStatus>() == 32);
    assert!(core::mem::offset_of!(XlaFfiLegacyStatus, this) == 16);
    assert!(core::mem::offset_of!(XlaFfiLegacyStatus, set) == 24);
};

/// A target that a library registered with its own list, by a macro of
/// `xla/service/custom_call_target_registry.h` or when it ran. Hosts walk the list, from what
/// `xla_ffi_legacy_targets()` returns.
#[repr(C)]
#[derive(Debug)]
pub struct XlaFfiLegacyTarget {
    /// Size of this struct in bytes; it may grow at its end.
    pub struct_size: usize,
    /// The name, NUL-terminated.
    pub name: *const c_char,
    /// The platform, NUL-terminated: `"Host"`, `"CUDA"` and so on.
    pub platform: *const c_char,
    /// The function.
    pub function: *mut c_void,
    /// [`Self::UNKNOWN`] or one of the signatures.
    pub signature: u32,
    /// The next target, null at the end.
    pub next: *const Self,
}

impl XlaFfiLegacyTarget {
    /// Registered by its bare address.
    pub const UNKNOWN: u32 = 0;
    /// [`XlaCustomCallCpu`].
    pub const CPU: u32 = 1;
    /// [`XlaCustomCallCpuStatus`].
    pub const CPU_STATUS: u32 = 2;
    /// [`XlaCustomCallGpu`].
    pub const GPU: u32 = 3;
    /// [`XlaCustomCallGpuStatus`].
    pub const GPU_STATUS: u32 = 4;
    /// [`XlaCustomCallCpuUnified`].
    pub const CPU_UNIFIED: u32 = 5;
}

const _: () = {
    assert!(size_of::<XlaFfiLegacyTarget>() == 48);
    assert!(core::mem::offset_of!(XlaFfiLegacyTarget, signature) == 32);
    assert!(core::mem::offset_of!(XlaFfiLegacyTarget, next) == 40);
};
