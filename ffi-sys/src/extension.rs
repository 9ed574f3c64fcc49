//! The two extension chains of the ABI: the internal chain of call frames, from r1, and the generic
//! chain of invocation contexts, from r9. One extension belongs to this SDK:
//! [`XFFI_Cancellation_Extension`].

use core::ffi::c_void;

enumeration! {
    /// The kind of an [`XLA_FFI_InternalExtension`] (`XLA_FFI_Extension_Type` before r9).
    XLA_FFI_InternalExtension_Type, "XLA_FFI_Extension_" {
        /// The extension is an [`XLA_FFI_Metadata_Extension`](crate::XLA_FFI_Metadata_Extension).
        Metadata = 1 since "0.4.33",
    }
}

/// An entry of the extension chain that starts in the second field of every struct. Called
/// `XLA_FFI_Extension_Base` before r9. On r0, the second field is an unused `void*`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_InternalExtension {
    /// Size of the extension in bytes, set by its creator.
    pub struct_size: usize,
    /// The kind of extension.
    pub r#type: XLA_FFI_InternalExtension_Type,
    /// The next extension in the chain, or null.
    pub next: *mut XLA_FFI_InternalExtension,
}
layout!(XLA_FFI_InternalExtension, R1.., size 24, struct_size next 24 {
    struct_size: usize = 0,
    r#type: XLA_FFI_InternalExtension_Type = 8,
    next: *mut XLA_FFI_InternalExtension = 16,
});

/// The number and the version of an extension of an invocation context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_ExtensionId {
    /// The unique number of the extension: 128 for the record extension, 129 for the collectives
    /// extension.
    pub extension_type: i64,
    /// The major version, which changes if the extension becomes incompatible with earlier
    /// versions.
    pub major_version: i32,
    /// The minor version, which changes if the extension gets an addition.
    pub minor_version: i32,
}
layout!(XLA_FFI_ExtensionId, R9.., size 16, struct_size minor_version 16 {
    extension_type: i64 = 0,
    major_version: i32 = 8,
    minor_version: i32 = 12,
});

/// An entry of the extension chain of an invocation context, valid as long as the context. From r9.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Extension {
    /// Size of the extension in bytes, set by its creator.
    pub struct_size: usize,
    /// The number and version of the extension.
    pub id: XLA_FFI_ExtensionId,
    /// The next extension in the chain, or null.
    pub next: *const XLA_FFI_Extension,
}
layout!(XLA_FFI_Extension, R9.., size 32, struct_size next 32 {
    struct_size: usize = 0,
    id: XLA_FFI_ExtensionId = 8,
    next: *const XLA_FFI_Extension = 24,
});

/// The number of the cancellation extension: "XFFI" followed by 1, far from the numbers that XLA
/// assigns.
pub const XFFI_Extension_Cancellation: i64 = 0x5846_4649_0000_0001;

/// The cancellation extension, which queries whether a call is cancelled, and runs tasks on threads of the program.
/// The embedded runtime provides the extension, from r9; XLA does not. `extension` is valid as long as the context,
/// and `object` until it is released. All functions may be called on any thread.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XFFI_Cancellation_Extension {
    /// The entry in the extension chain.
    pub extension: XLA_FFI_Extension,
    /// The object to pass to the functions of this struct.
    pub object: *const c_void,
    /// Returns the [`XLA_FFI_Error_Code`](crate::XLA_FFI_Error_Code) of the reason if the call is cancelled. Returns
    /// 0 if the call is not cancelled.
    pub is_cancelled: Option<unsafe extern "C" fn(object: *const c_void) -> i32>,
    /// Keeps `object` valid after the end of the context, until `release` is called.
    pub retain: Option<unsafe extern "C" fn(object: *const c_void)>,
    /// Releases an object that `retain` kept valid.
    pub release: Option<unsafe extern "C" fn(object: *const c_void)>,
    /// Calls `task` once on a thread of the program, with 1 for `run`. If the program does not run the task, `run` is
    /// 0. The pointer is null if the program has no threads for handlers.
    pub execute: Option<
        unsafe extern "C" fn(
            object: *const c_void,
            task: unsafe extern "C" fn(data: *mut c_void, run: i32),
            data: *mut c_void,
        ),
    >,
}

impl XFFI_Cancellation_Extension {
    /// The size of the struct in bytes.
    pub const STRUCT_SIZE: usize = size_of::<Self>();
}
