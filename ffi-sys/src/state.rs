//! State that a stage creates for later stages. The arguments of `State_Set` have three layouts,
//! and the arguments of `State_Get` two. Some hosts distinguish the layouts by version or by size;
//! other hosts do not distinguish them.

use crate::{
    Revision, XLA_FFI_ExecutionStage, XLA_FFI_InternalExtension, XLA_FFI_InvokeContext,
    XLA_FFI_TypeId,
};
use core::ffi::c_void;

/// How a runtime handles state arguments with the layout of a different version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateReading {
    /// The runtime reads the arguments correctly.
    Right,
    /// The runtime rejects the arguments because of their size. Handlers that use XLA's headers may
    /// then crash.
    Refused,
    /// The runtime reads wrong bytes as the type and the state, which causes an error or a crash.
    Misread,
}

impl StateReading {
    /// Returns how a runtime of `revision` reads the `State_Set` arguments of a handler compiled
    /// for version 0.`minor`, if the runtime accepts that version.
    ///
    /// The layout of version 0.1 has the deleter after the state, 0.2 omits the deleter, and 0.3
    /// has the stage before the type. The layouts of 0.1 and 0.2 start with the same fields.
    /// Runtimes from r9, and jaxlib 0.10.0 to 0.11.0, distinguish the layouts of 0.2 and 0.3 by
    /// size.
    #[must_use]
    pub const fn of(revision: Revision, minor: i32) -> Self {
        match (minor, revision as u8) {
            // Runtimes before r7 require the deleter and reject the shorter struct.
            (2, ..=6) => Self::Refused,
            (..=2, ..=7) => Self::Right,
            (2, 8) => Self::Refused,
            (2, _) => Self::Right,
            (..=1, _) => Self::Misread,
            (_, ..=7) => Self::Misread,
            (_, _) => Self::Right,
        }
    }
}

/// Arguments of `State_Set` (slot 7) from r8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Set_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage that the state belongs to.
    pub stage: XLA_FFI_ExecutionStage,
    /// The type of the state, registered with its deleter.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host takes ownership of it.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Set_Args, R8.., size 48, struct_size state 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    stage: XLA_FFI_ExecutionStage = 24,
    type_id: *mut XLA_FFI_TypeId = 32,
    state: *mut c_void = 40,
});

/// Arguments of `State_Set` (slot 7) on r7.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Set_Args_R7 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state, registered with its deleter.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host takes ownership of it.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Set_Args_R7 as "XLA_FFI_State_Set_Args", R7..=R7, size 40, struct_size state 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    type_id: *mut XLA_FFI_TypeId = 24,
    state: *mut c_void = 32,
});

/// Arguments of `State_Set` (slot 7) up to r6.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Set_Args_R0 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host takes ownership of it.
    pub state: *mut c_void,
    /// The function that destroys the state.
    pub deleter: Option<unsafe extern "C" fn(state: *mut c_void)>,
}
layout!(XLA_FFI_State_Set_Args_R0 as "XLA_FFI_State_Set_Args", R0..=R6, size 48, struct_size deleter 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    type_id: *mut XLA_FFI_TypeId = 24,
    state: *mut c_void = 32,
    deleter: Option<unsafe extern "C" fn(*mut c_void)> = 40,
});

/// Arguments of `State_Get` (slot 8) from r8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Get_Args {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage whose state is requested.
    pub stage: XLA_FFI_ExecutionStage,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the state, which the host still owns.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Get_Args, R8.., size 48, struct_size state 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    stage: XLA_FFI_ExecutionStage = 24,
    type_id: *mut XLA_FFI_TypeId = 32,
    state: *mut c_void = 40,
});

/// Arguments of `State_Get` (slot 8) up to r7. On r0, the slot exists, but a call crashes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Get_Args_R0 {
    /// Size of this struct in bytes, set by the caller.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The invocation context of the call.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the state, which the host still owns.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Get_Args_R0 as "XLA_FFI_State_Get_Args", R0..=R7, size 40, struct_size state 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    type_id: *mut XLA_FFI_TypeId = 24,
    state: *mut c_void = 32,
});
