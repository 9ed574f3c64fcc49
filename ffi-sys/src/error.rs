//! Errors: opaque objects that only the host makes and destroys.

use crate::XLA_FFI_InternalExtension;
use core::ffi::c_char;

opaque! {
    /// An error owned by whoever received it last; null means success.
    XLA_FFI_Error
}

enumeration! {
    /// The canonical absl status codes.
    XLA_FFI_Error_Code, "XLA_FFI_Error_Code_" {
        /// No error; refused by hosts where an error is expected.
        OK = 0,
        /// The operation was cancelled, typically by the caller.
        CANCELLED = 1,
        /// The cause is not known.
        UNKNOWN = 2,
        /// The caller gave an argument that is wrong whatever the state of the system.
        INVALID_ARGUMENT = 3,
        /// Time ran out.
        DEADLINE_EXCEEDED = 4,
        /// Something that was asked for does not exist.
        NOT_FOUND = 5,
        /// Something that was to be made exists.
        ALREADY_EXISTS = 6,
        /// The caller may not do this.
        PERMISSION_DENIED = 7,
        /// Memory, quota or another resource is used up.
        RESOURCE_EXHAUSTED = 8,
        /// The system is not in the state that the operation needs.
        FAILED_PRECONDITION = 9,
        /// The operation was given up, typically because of concurrency.
        ABORTED = 10,
        /// Past a valid range.
        OUT_OF_RANGE = 11,
        /// Not implemented or not supported here.
        UNIMPLEMENTED = 12,
        /// An invariant is broken.
        INTERNAL = 13,
        /// The service is down for the moment.
        UNAVAILABLE = 14,
        /// Data is lost or corrupt beyond repair.
        DATA_LOSS = 15,
        /// Credentials are missing or wrong.
        UNAUTHENTICATED = 16,
    }
}

/// Arguments of `Error_Create` (slot 0).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_Create_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// NUL-terminated text; the host copies it.
    pub message: *const c_char,
    /// The code.
    pub errc: XLA_FFI_Error_Code,
}
layout!(XLA_FFI_Error_Create_Args, R0.., size 32, struct_size errc 28 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    message: *const c_char = 16,
    errc: XLA_FFI_Error_Code = 24,
});

/// Arguments of `Error_GetDetails` (slot 1) from r9. Older hosts fill `message` alone, so `errc`
/// has to be preset.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_GetDetails_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error that is asked about.
    pub error: *mut XLA_FFI_Error,
    /// Out: NUL-terminated text that lives as long as the error.
    pub message: *const c_char,
    /// Out: the code.
    pub errc: XLA_FFI_Error_Code,
}
layout!(XLA_FFI_Error_GetDetails_Args, R9.., size 40, struct_size errc 36 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    error: *mut XLA_FFI_Error = 16,
    message: *const c_char = 24,
    errc: XLA_FFI_Error_Code = 32,
});

/// Arguments of slot 1 up to r8, where it is called `Error_GetMessage`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_GetMessage_Args_R0 {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error that is asked about.
    pub error: *mut XLA_FFI_Error,
    /// Out: NUL-terminated text that lives as long as the error.
    pub message: *const c_char,
}
layout!(XLA_FFI_Error_GetMessage_Args_R0 as "XLA_FFI_Error_GetMessage_Args", R0..=R8, size 32, struct_size message 32 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    error: *mut XLA_FFI_Error = 16,
    message: *const c_char = 24,
});

/// Arguments of `Error_Destroy` (slot 2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_Destroy_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error to destroy.
    pub error: *mut XLA_FFI_Error,
}
layout!(XLA_FFI_Error_Destroy_Args, R0.., size 24, struct_size error 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    error: *mut XLA_FFI_Error = 16,
});
