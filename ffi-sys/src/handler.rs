//! Handlers: their registration from inside a library, and the metadata query (from r1), in which a
//! host reads their requirements.

use crate::{
    XLA_FFI_Api_Version, XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_Error,
    XLA_FFI_InternalExtension, XLA_FFI_TypeId,
};

/// A handler's C function. Returns null for success, or an error, which the host then owns.
pub type XLA_FFI_Handler =
    unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// The handlers of one custom call, one per stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Bundle {
    /// The handler of the instantiate stage; may be null.
    pub instantiate:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the prepare stage; may be null.
    pub prepare:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the initialize stage; may be null.
    pub initialize:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the execute stage; required.
    pub execute:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the record stage; may be null. From r9.
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
    /// The handler of the instantiate stage; may be null.
    pub instantiate:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the prepare stage; may be null.
    pub prepare:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the initialize stage; may be null.
    pub initialize:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
    /// The handler of the execute stage; required.
    pub execute:
        Option<unsafe extern "C" fn(call_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error>,
}
layout!(XLA_FFI_Handler_Bundle_R0 as "XLA_FFI_Handler_Bundle", R0..=R8, size 32 {
    instantiate: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 0,
    prepare: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 8,
    initialize: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 16,
    execute: Option<unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error> = 24,
});

/// A trait of a handler: one bit of [`XLA_FFI_Handler_Traits`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_Handler_TraitsBits(pub u32);

impl XLA_FFI_Handler_TraitsBits {
    /// Every call launches the same device operations, so the call may be captured into a command
    /// buffer and replayed.
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

/// Arguments of `Handler_Register` (slot 3) from r9. Without a record stage, pass
/// [`XLA_FFI_Handler_Register_Args_R0`], which every host accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Register_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The target name of the custom call.
    pub name: XLA_FFI_ByteSpan,
    /// The platform, for example `"cpu"` or `"cuda"`; case-insensitive.
    pub platform: XLA_FFI_ByteSpan,
    /// The handlers of the custom call, one per stage.
    pub bundle: XLA_FFI_Handler_Bundle,
    /// The handler's traits. The host combines them (OR) with those of the handler's metadata.
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

/// Arguments of `Handler_Register` (slot 3) up to r8, which every host accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Handler_Register_Args_R0 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The target name of the custom call.
    pub name: XLA_FFI_ByteSpan,
    /// The platform, for example `"cpu"` or `"cuda"`; case-insensitive.
    pub platform: XLA_FFI_ByteSpan,
    /// The handlers of the custom call, one per stage.
    pub bundle: XLA_FFI_Handler_Bundle_R0,
    /// The handler's traits. The host combines them (OR) with those of the handler's metadata.
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

/// A handler's metadata. `state_type_id` exists from r6, and hosts read the field from r7. Writing
/// the field on r1 to r5 overwrites the host's stack. `struct_size` is 36 in all revisions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata {
    /// Size of this struct in bytes without `state_type_id`, set by the host.
    pub struct_size: usize,
    /// Out: the version of the ABI that the handler was compiled for.
    pub api_version: XLA_FFI_Api_Version,
    /// Out: the handler's traits.
    pub traits: XLA_FFI_Handler_Traits,
    /// Out: the number of the state's type, or 0 if there is no state.
    pub state_type_id: XLA_FFI_TypeId,
}
layout!(XLA_FFI_Metadata, R6.., size 48, struct_size traits 36 {
    struct_size: usize = 0,
    api_version: XLA_FFI_Api_Version = 8,
    traits: XLA_FFI_Handler_Traits = 32,
    state_type_id: XLA_FFI_TypeId = 40,
});

/// A handler's metadata in r1 to r5.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_R1 {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// Out: the version of the ABI that the handler was compiled for.
    pub api_version: XLA_FFI_Api_Version,
    /// Out: the handler's traits.
    pub traits: XLA_FFI_Handler_Traits,
}
layout!(XLA_FFI_Metadata_R1 as "XLA_FFI_Metadata", R1..=R5, size 40, struct_size traits 36 {
    struct_size: usize = 0,
    api_version: XLA_FFI_Api_Version = 8,
    traits: XLA_FFI_Handler_Traits = 32,
});

/// The extension that marks a metadata query.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_Extension {
    /// The entry in the extension chain.
    pub extension_base: XLA_FFI_InternalExtension,
    /// Out: the struct that the handler fills in.
    pub metadata: *mut XLA_FFI_Metadata,
}
layout!(XLA_FFI_Metadata_Extension, R2.., size 32, struct_size metadata 32 {
    extension_base: XLA_FFI_InternalExtension = 0,
    metadata: *mut XLA_FFI_Metadata = 24,
});

/// The extension that marks a metadata query on r1. The fields of the chain's entry are part of the
/// struct.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Metadata_Extension_R1 {
    /// Size of this struct in bytes, set by the host.
    pub struct_size: usize,
    /// The kind of extension.
    pub r#type: crate::XLA_FFI_InternalExtension_Type,
    /// The next extension in the chain, or null.
    pub next: *mut XLA_FFI_InternalExtension,
    /// Out: the struct that the handler fills in.
    pub metadata: *mut XLA_FFI_Metadata,
}
layout!(XLA_FFI_Metadata_Extension_R1 as "XLA_FFI_Metadata_Extension", R1..=R1, size 32, struct_size metadata 32 {
    struct_size: usize = 0,
    r#type: crate::XLA_FFI_InternalExtension_Type = 8,
    next: *mut XLA_FFI_InternalExtension = 16,
    metadata: *mut XLA_FFI_Metadata = 24,
});
