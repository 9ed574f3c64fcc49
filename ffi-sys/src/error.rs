//! Errors: opaque objects that only the host creates and destroys.

use crate::XLA_FFI_InternalExtension;
use core::ffi::c_char;

opaque! {
    /// An error object, owned by the side that received it last. Null means success.
    XLA_FFI_Error
}

enumeration! {
    /// The canonical absl status codes, as numbers of the ABI.
    XLA_FFI_Error_Code, "XLA_FFI_Error_Code_" {
        /// No error; hosts reject this code if they expect an error.
        OK = 0,
        /// The operation was cancelled, typically by its caller.
        CANCELLED = 1,
        /// The cause is unknown.
        UNKNOWN = 2,
        /// An argument is invalid in every state of the system.
        INVALID_ARGUMENT = 3,
        /// The deadline passed before the operation ended.
        DEADLINE_EXCEEDED = 4,
        /// A requested object does not exist.
        NOT_FOUND = 5,
        /// The object to create already exists.
        ALREADY_EXISTS = 6,
        /// The caller lacks permission.
        PERMISSION_DENIED = 7,
        /// Memory, a quota or another resource is exhausted.
        RESOURCE_EXHAUSTED = 8,
        /// The system is not in the required state.
        FAILED_PRECONDITION = 9,
        /// The operation was aborted, typically because of concurrency.
        ABORTED = 10,
        /// A value is outside the valid range.
        OUT_OF_RANGE = 11,
        /// The operation is not implemented or not supported.
        UNIMPLEMENTED = 12,
        /// An invariant is violated.
        INTERNAL = 13,
        /// The service is temporarily unavailable.
        UNAVAILABLE = 14,
        /// Data is lost or corrupt and cannot be recovered.
        DATA_LOSS = 15,
        /// Credentials are missing or invalid.
        UNAUTHENTICATED = 16,
    }
}

/// Arguments of `Error_Create` (slot 0).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_Create_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The message, NUL-terminated. The host copies the message.
    pub message: *const c_char,
    /// The status code of the error.
    pub errc: XLA_FFI_Error_Code,
}
layout!(XLA_FFI_Error_Create_Args, R0.., size 32, struct_size errc 28 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    message: *const c_char = 16,
    errc: XLA_FFI_Error_Code = 24,
});

/// Arguments of `Error_GetDetails` (slot 1), from r9. Older hosts set only `message`, so initialize
/// `errc` before the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_GetDetails_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error to read.
    pub error: *mut XLA_FFI_Error,
    /// Out: the message, NUL-terminated and valid as long as the error.
    pub message: *const c_char,
    /// Out: the status code of the error.
    pub errc: XLA_FFI_Error_Code,
}
layout!(XLA_FFI_Error_GetDetails_Args, R9.., size 40, struct_size errc 36 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    error: *mut XLA_FFI_Error = 16,
    message: *const c_char = 24,
    errc: XLA_FFI_Error_Code = 32,
});

/// Arguments of `Error_GetMessage` (slot 1), up to r8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Error_GetMessage_Args_R0 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error to read.
    pub error: *mut XLA_FFI_Error,
    /// Out: the message, NUL-terminated and valid as long as the error.
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
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The error to destroy.
    pub error: *mut XLA_FFI_Error,
}
layout!(XLA_FFI_Error_Destroy_Args, R0.., size 24, struct_size error 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    error: *mut XLA_FFI_Error = 16,
});
