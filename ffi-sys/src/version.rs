//! The version that headers and runtimes state about themselves.

use crate::XLA_FFI_InternalExtension;

/// Major version of the newest revision; it has been 0 in all of them.
pub const XLA_FFI_API_MAJOR: i32 = 0;
/// Minor version of the newest revision ([`Revision::NEWEST`](crate::Revision::NEWEST)).
pub const XLA_FFI_API_MINOR: i32 = 5;

/// A version, embedded in [`XLA_FFI_Api`](crate::XLA_FFI_Api) and
/// [`XLA_FFI_Metadata`](crate::XLA_FFI_Metadata).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Api_Version {
    /// Bytes of this struct that its maker filled.
    pub struct_size: usize,
    /// Extension chain; null so far.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// Major version.
    pub major_version: i32,
    /// Minor version.
    pub minor_version: i32,
}
layout!(XLA_FFI_Api_Version, R0.., size 24, struct_size minor_version 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    major_version: i32 = 16,
    minor_version: i32 = 20,
});
