//! The original custom calls, which predate XLA FFI and whose targets are bare functions.

use core::ffi::{c_char, c_int, c_void};

opaque! {
    /// The status of a status-returning target: success or a message. No jaxlib exports the
    /// functions that write a status.
    XlaCustomCallStatus
}

/// The type of a CPU target with `API_VERSION_ORIGINAL`.
pub type XlaCustomCallCpu = unsafe extern "C" fn(out: *mut c_void, ins: *mut *const c_void);

/// The type of a CPU target with `API_VERSION_STATUS_RETURNING`.
pub type XlaCustomCallCpuStatus = unsafe extern "C" fn(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
);

/// The type of a GPU target with `API_VERSION_ORIGINAL`: stream, buffers (operands, then results),
/// opaque bytes.
pub type XlaCustomCallGpu = unsafe extern "C" fn(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
);

/// The type of a CPU target with `API_VERSION_STATUS_RETURNING_UNIFIED`: result, operands, opaque
/// bytes and their number, status. The parameters were determined by calls from jaxlib 0.4.31 to
/// 0.12.0.
pub type XlaCustomCallCpuUnified = unsafe extern "C" fn(
    out: *mut c_void,
    ins: *mut *const c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
);

/// The type of a GPU target with `API_VERSION_STATUS_RETURNING` or
/// `API_VERSION_STATUS_RETURNING_UNIFIED`.
pub type XlaCustomCallGpuStatus = unsafe extern "C" fn(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
);

/// The head of every status that this SDK's libraries and programs create.
///
/// XLA's own status is an object of unknown layout. Statuses of this SDK are aligned to
/// [`ALIGNMENT`](Self::ALIGNMENT) and are never unmapped. The C functions that write a status check
/// the pointer's alignment, then [`MAGIC`](Self::MAGIC) and the stored address. If all match, they
/// call `set`.
#[repr(C)]
#[derive(Debug)]
pub struct XlaFfiLegacyStatus {
    /// The mark of a status with this layout: always [`MAGIC`](Self::MAGIC).
    pub magic: [u8; 16],
    /// The address of this status.
    pub this: *const Self,
    /// The function that writes success (`failed` is 0) or a failure with a text of `len` bytes.
    /// The function copies the text.
    pub set: Option<
        unsafe extern "C" fn(this: *mut Self, failed: c_int, message: *const c_char, len: usize),
    >,
}

impl XlaFfiLegacyStatus {
    /// The first bytes of a status with this layout.
    pub const MAGIC: [u8; 16] = *b"XLAFFI-STATUS-1\0";
    /// The alignment of statuses with this layout in bytes. Whatever the page size, the 32 bytes from an
    /// aligned address on are within one page.
    pub const ALIGNMENT: usize = 65536;
}

const _: () = {
    assert!(size_of::<XlaFfiLegacyStatus>() == 32);
    assert!(core::mem::offset_of!(XlaFfiLegacyStatus, this) == 16);
    assert!(core::mem::offset_of!(XlaFfiLegacyStatus, set) == 24);
};

/// A target of the original custom calls in a library's list of targets. The target was registered
/// at run time or by a macro of `xla/service/custom_call_target_registry.h`. Hosts traverse the
/// list that `xla_ffi_legacy_targets()` returns.
#[repr(C)]
#[derive(Debug)]
pub struct XlaFfiLegacyTarget {
    /// The size of this struct in bytes. Later versions may append fields.
    pub struct_size: usize,
    /// The target's name, NUL-terminated.
    pub name: *const c_char,
    /// The target's platform, NUL-terminated: `"Host"`, `"CUDA"` and so on.
    pub platform: *const c_char,
    /// The target's function.
    pub function: *mut c_void,
    /// The signature of the function: one of the constants of this type.
    pub signature: u32,
    /// The next target in the list, or null at the end.
    pub next: *const Self,
}

impl XlaFfiLegacyTarget {
    /// The signature is unknown, because the target was registered without it.
    pub const UNKNOWN: u32 = 0;
    /// The signature of an [`XlaCustomCallCpu`].
    pub const CPU: u32 = 1;
    /// The signature of an [`XlaCustomCallCpuStatus`].
    pub const CPU_STATUS: u32 = 2;
    /// The signature of an [`XlaCustomCallGpu`].
    pub const GPU: u32 = 3;
    /// The signature of an [`XlaCustomCallGpuStatus`].
    pub const GPU_STATUS: u32 = 4;
    /// The signature of an [`XlaCustomCallCpuUnified`].
    pub const CPU_UNIFIED: u32 = 5;
}

const _: () = {
    assert!(size_of::<XlaFfiLegacyTarget>() == 48);
    assert!(core::mem::offset_of!(XlaFfiLegacyTarget, signature) == 32);
    assert!(core::mem::offset_of!(XlaFfiLegacyTarget, next) == 40);
};
