//! The metadata call: how a host learns what a handler needs. From r1.

use crate::{
    XLA_FFI_Api_Version, XLA_FFI_Handler_Traits, XLA_FFI_InternalExtension, XLA_FFI_TypeId,
};

/// What a handler says about itself. `state_type_id` exists from r6, and hosts from r7 read it;
/// writing it on r1–r5 overwrites the host's stack. `struct_size` is 36 everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata {
    /// Bytes of this struct that the host prepared, `state_type_id` never counted.
    pub struct_size: usize,
    /// Out: the version that the handler answers.
    pub api_version: XLA_FFI_Api_Version,
    /// Out: the handler's traits.
    pub traits: XLA_FFI_Handler_Traits,
    /// Out: the type of the state, or 0.
    pub state_type_id: XLA_FFI_TypeId,
}
layout!(XLA_FFI_Metadata, R6.., size 48, struct_size traits 36 {
    struct_size: usize = 0,
    api_version: XLA_FFI_Api_Version = 8,
    traits: XLA_FFI_Handler_Traits = 32,
    state_type_id: XLA_FFI_TypeId = 40,
});

/// What a handler says about itself, r1–r5.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_R1 {
    /// Bytes of this struct that the host prepared.
    pub struct_size: usize,
    /// Out: the version that the handler answers.
    pub api_version: XLA_FFI_Api_Version,
    /// Out: the handler's traits.
    pub traits: XLA_FFI_Handler_Traits,
}
layout!(XLA_FFI_Metadata_R1 as "XLA_FFI_Metadata", R1..=R5, size 40, struct_size traits 36 {
    struct_size: usize = 0,
    api_version: XLA_FFI_Api_Version = 8,
    traits: XLA_FFI_Handler_Traits = 32,
});

/// The extension that makes a call a metadata call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_Extension {
    /// The link of the chain.
    pub extension_base: XLA_FFI_InternalExtension,
    /// Where the handler answers.
    pub metadata: *mut XLA_FFI_Metadata,
}
layout!(XLA_FFI_Metadata_Extension, R2.., size 32, struct_size metadata 32 {
    extension_base: XLA_FFI_InternalExtension = 0,
    metadata: *mut XLA_FFI_Metadata = 24,
});

/// The same bytes on r1, where the link's fields stand in the struct itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_Extension_R1 {
    /// Bytes of this struct that the host filled.
    pub struct_size: usize,
    /// Which extension this is.
    pub r#type: crate::XLA_FFI_InternalExtension_Type,
    /// The next link, or null.
    pub next: *mut XLA_FFI_InternalExtension,
    /// Where the handler answers.
    pub metadata: *mut XLA_FFI_Metadata,
}
layout!(XLA_FFI_Metadata_Extension_R1 as "XLA_FFI_Metadata_Extension", R1..=R1, size 32, struct_size metadata 32 {
    struct_size: usize = 0,
    r#type: crate::XLA_FFI_InternalExtension_Type = 8,
    next: *mut XLA_FFI_InternalExtension = 16,
    metadata: *mut XLA_FFI_Metadata = 24,
});
