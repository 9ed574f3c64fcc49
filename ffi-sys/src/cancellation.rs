//! The one extension of this SDK's own: whether the caller still wants the result. The embedded runtime has it,
//! from r9 on; XLA does not.

use crate::XLA_FFI_Extension;
use core::ffi::c_void;

/// Number of the extension: "XFFI" and 1, far from those that XLA numbers.
pub const XFFI_Extension_Cancellation: i64 = 0x5846_4649_0000_0001;

/// Whether a call is cancelled. The head lives as long as the context, the object behind it as long as
/// somebody has retained it; any thread may ask.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XFFI_Cancellation_Extension {
    /// The head.
    pub extension: XLA_FFI_Extension,
    /// What the functions take.
    pub object: *const c_void,
    /// 1 once the call is cancelled, 0 before.
    pub is_cancelled: Option<unsafe extern "C" fn(object: *const c_void) -> i32>,
    /// Keeps the object beyond the end of the context.
    pub retain: Option<unsafe extern "C" fn(object: *const c_void)>,
    /// Gives back what was retained.
    pub release: Option<unsafe extern "C" fn(object: *const c_void)>,
}

impl XFFI_Cancellation_Extension {
    /// Bytes of the struct.
    pub const STRUCT_SIZE: usize = size_of::<Self>();
}
