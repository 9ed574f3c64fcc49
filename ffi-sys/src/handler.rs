//! Handlers: their registration from inside a library, and the metadata call (from r1), by which a host learns what
//! one needs.

use crate::{
    XLA_FFI_Api_Version, XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_Error,
    XLA_FFI_InternalExtension, XLA_FFI_TypeId,
};

/// A handler: null is success, anything else an error that the host owns.
pub type XLA_FFI_Handler =
    unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// The handlers of one custom call, one a stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Bundle {
    /// Optional.
    pub instantiate:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Optional.
    pub prepare:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Optional.
    pub initialize:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Required.
    pub execute:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Optional; from r9.
    pub record:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
}
layout!(XLA_FFI_Handler_Bundle, R9.., size 40 {
    instantiate: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 0,
    prepare: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 8,
    initialize: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 16,
    execute: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 24,
    record: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 32,
});

/// The handlers of one custom call up to r8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Bundle_R0 {
    /// Optional.
    pub instantiate:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Optional.
    pub prepare:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Optional.
    pub initialize:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// Required.
    pub execute:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
}
layout!(XLA_FFI_Handler_Bundle_R0 as "XLA_FFI_Handler_Bundle", R0..=R8, size 32 {
    instantiate: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 0,
    prepare: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 8,
    initialize: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 16,
    execute: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 24,
});

/// Bits of [`XLA_FFI_Handler_Traits`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_Handler_TraitsBits(pub u32);

impl XLA_FFI_Handler_TraitsBits {
    /// Every call launches the same device operations, so it may be captured into a command buffer
    /// and replayed.
    pub const COMMAND_BUFFER_COMPATIBLE: Self = Self(1);

    /// The enumeration as data.
    pub const ENUM: crate::EnumLayout = crate::EnumLayout {
        name: "XLA_FFI_Handler_TraitsBits",
        values: &[crate::Enumerator {
            name: "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE",
            value: 1,
            since: "0.4.31",
        }],
    };
}

/// A set of [`XLA_FFI_Handler_TraitsBits`].
pub type XLA_FFI_Handler_Traits = u32;

/// Arguments of `Handler_Register` (slot 3) from r9. Hand over [`XLA_FFI_Handler_Register_Args_R0`]
/// unless a record stage is given: every host understands that.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Register_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The custom call's target name.
    pub name: XLA_FFI_ByteSpan,
    /// The platform, `"cpu"` or `"cuda"` for instance, in any case.
    pub platform: XLA_FFI_ByteSpan,
    /// The handlers.
    pub bundle: XLA_FFI_Handler_Bundle,
    /// The traits, OR-ed with those of the metadata.
    pub traits: XLA_FFI_Handler_Traits,
}
layout!(XLA_FFI_Handler_Register_Args, R9.., size 96, struct_size traits 92 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    name: XLA_FFI_ByteSpan = 16,
    platform: XLA_FFI_ByteSpan = 32,
    bundle: XLA_FFI_Handler_Bundle = 48,
    traits: XLA_FFI_Handler_Traits = 88,
});

/// Arguments of `Handler_Register` (slot 3) up to r8, understood by every host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Register_Args_R0 {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The custom call's target name.
    pub name: XLA_FFI_ByteSpan,
    /// The platform, `"cpu"` or `"cuda"` for instance, in any case.
    pub platform: XLA_FFI_ByteSpan,
    /// The handlers.
    pub bundle: XLA_FFI_Handler_Bundle_R0,
    /// The traits, OR-ed with those of the metadata.
    pub traits: XLA_FFI_Handler_Traits,
}
layout!(XLA_FFI_Handler_Register_Args_R0 as "XLA_FFI_Handler_Register_Args", R0..=R8, size 88, struct_size traits 84 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    name: XLA_FFI_ByteSpan = 16,
    platform: XLA_FFI_ByteSpan = 32,
    bundle: XLA_FFI_Handler_Bundle_R0 = 48,
    traits: XLA_FFI_Handler_Traits = 80,
});

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
