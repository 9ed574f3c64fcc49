//! State that a stage leaves for later ones. Three layouts of the set arguments, two of the get
//! arguments; hosts tell them apart by version, or by size, or not at all.

use crate::{
    XLA_FFI_ExecutionStage, XLA_FFI_InternalExtension, XLA_FFI_InvokeContext, XLA_FFI_TypeId,
};
use core::ffi::c_void;

/// Arguments of `State_Set` (slot 7) from r8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Set_Args {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage that the state belongs to.
    pub stage: XLA_FFI_ExecutionStage,
    /// The type of the state, registered with its deleter.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host owns it from here.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Set_Args, R8..=R10, size 48, struct_size state 48 {
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state, registered with its deleter.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host owns it from here.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// The state; the host owns it from here.
    pub state: *mut c_void,
    /// Destroys the state.
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
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The stage whose state is asked for.
    pub stage: XLA_FFI_ExecutionStage,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the state; the host keeps it.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Get_Args, R8..=R10, size 48, struct_size state 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    stage: XLA_FFI_ExecutionStage = 24,
    type_id: *mut XLA_FFI_TypeId = 32,
    state: *mut c_void = 40,
});

/// Arguments of `State_Get` (slot 8) up to r7. On r0 the slot exists but crashes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_State_Get_Args_R0 {
    /// Bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// Extension chain.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The context.
    pub ctx: *mut XLA_FFI_InvokeContext,
    /// The type of the state.
    pub type_id: *mut XLA_FFI_TypeId,
    /// Out: the state; the host keeps it.
    pub state: *mut c_void,
}
layout!(XLA_FFI_State_Get_Args_R0 as "XLA_FFI_State_Get_Args", R0..=R7, size 40, struct_size state 40 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    ctx: *mut XLA_FFI_InvokeContext = 16,
    type_id: *mut XLA_FFI_TypeId = 24,
    state: *mut c_void = 32,
});
