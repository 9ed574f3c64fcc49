//! The two chains by which the ABI grows: the internal one of call frames, from r1, and the generic one of invocation
//! contexts, from r9. One extension is this SDK's own: [`XFFI_Cancellation_Extension`].

use core::ffi::c_void;

enumeration! {
    /// What an [`XLA_FFI_InternalExtension`] is (`XLA_FFI_Extension_Type` before r9).
    XLA_FFI_InternalExtension_Type, "XLA_FFI_Extension_" {
        /// An [`XLA_FFI_Metadata_Extension`](crate::XLA_FFI_Metadata_Extension).
        Metadata = 1 since "0.4.33",
    }
}

/// A link of the chain that starts in the second field of every struct
/// (`XLA_FFI_Extension_Base` before r9; on r0 the field is an unused `void*`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InternalExtension {
    /// Bytes of the extension that its maker filled.
    pub struct_size: usize,
    /// Which extension this is.
    pub r#type: XLA_FFI_InternalExtension_Type,
    /// The next link, or null.
    pub next: *mut XLA_FFI_InternalExtension,
}
layout!(XLA_FFI_InternalExtension, R1.., size 24, struct_size next 24 {
    struct_size: usize = 0,
    r#type: XLA_FFI_InternalExtension_Type = 8,
    next: *mut XLA_FFI_InternalExtension = 16,
});

/// Names an extension of an invocation context, and its version.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_ExtensionId {
    /// Unique number of the extension: 128 record, 129 collectives.
    pub extension_type: i64,
    /// A change makes old users incompatible.
    pub major_version: i32,
    /// A change only adds.
    pub minor_version: i32,
}
layout!(XLA_FFI_ExtensionId, R9.., size 16, struct_size minor_version 16 {
    extension_type: i64 = 0,
    major_version: i32 = 8,
    minor_version: i32 = 12,
});

/// A link of the extension chain of an invocation context; lives as long as the context. From r9.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Extension {
    /// Bytes of the extension that its maker filled.
    pub struct_size: usize,
    /// Which extension this is.
    pub id: XLA_FFI_ExtensionId,
    /// The next link, or null.
    pub next: *const XLA_FFI_Extension,
}
layout!(XLA_FFI_Extension, R9.., size 32, struct_size next 32 {
    struct_size: usize = 0,
    id: XLA_FFI_ExtensionId = 8,
    next: *const XLA_FFI_Extension = 24,
});

/// Number of the cancellation extension: "XFFI" and 1, far from those that XLA numbers.
pub const XFFI_Extension_Cancellation: i64 = 0x5846_4649_0000_0001;

/// Whether a call is cancelled. The embedded runtime has it, from r9 on; XLA does not. The head lives as long as the
/// context, the object behind it as long as somebody has retained it; any thread may ask.
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
