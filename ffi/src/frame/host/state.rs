//! What the host keeps for a handler: its state, and user data.

use std::ffi::c_void;

use crate::frame::host::Host;
use crate::error::Result;
use xla_ffi_sys::*;

impl Host {
    /// Fails where there is no state: r0 has the functions, but they crash.
    pub(crate) fn needs_state(self) -> Result<()> {
        if self.at_least(Feature::State.since()) {
            Ok(())
        } else {
            Err(self.lacks(Feature::State))
        }
    }

    /// Fails where only the instantiate stage can leave state.
    pub(crate) fn has_stage_state(self) -> Result<()> {
        if self.at_least(Feature::StageState.since()) {
            Ok(())
        } else {
            Err(self.lacks(Feature::StageState))
        }
    }

    /// Hands an object of type `type_id` over as the state of `stage`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call. The object is one that `deleter`, registered with
    /// the type, destroys; on success it belongs to the host.
    pub(crate) unsafe fn set_state(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        stage: u32,
        type_id: i64,
        state: *mut c_void,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<()> {
        let mut id = XLA_FFI_TypeId { type_id };
        if self.at_least(Feature::StageState.since()) {
            let mut args = XLA_FFI_State_Set_Args {
                struct_size: XLA_FFI_State_Set_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                stage: XLA_FFI_ExecutionStage(stage),
                type_id: &raw mut id,
                state,
            };
            // SAFETY: the layout of versions from 0.3.
            return unsafe { self.call(Slot::StateSet, Feature::State, &mut args) };
        }
        if stage != XLA_FFI_ExecutionStage::INSTANTIATE.0 {
            self.has_stage_state()?;
        }
        if self.at_least(Feature::TypeDeleters.since()) {
            let mut args = XLA_FFI_State_Set_Args_R7 {
                struct_size: XLA_FFI_State_Set_Args_R7::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                type_id: &raw mut id,
                state,
            };
            // SAFETY: the layout of version 0.2.
            return unsafe { self.call(Slot::StateSet, Feature::State, &mut args) };
        }
        self.needs_state()?;
        let mut args = XLA_FFI_State_Set_Args_R0 {
            struct_size: XLA_FFI_State_Set_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            state,
            deleter: Some(deleter),
        };
        // SAFETY: the layout of version 0.1.
        unsafe { self.call(Slot::StateSet, Feature::State, &mut args) }
    }

    /// The state of `stage`, which is of type `type_id`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn state(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        stage: u32,
        type_id: i64,
    ) -> Result<*mut c_void> {
        let mut id = XLA_FFI_TypeId { type_id };
        if self.at_least(Feature::StageState.since()) {
            let mut args = XLA_FFI_State_Get_Args {
                struct_size: XLA_FFI_State_Get_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                stage: XLA_FFI_ExecutionStage(stage),
                type_id: &raw mut id,
                state: std::ptr::null_mut(),
            };
            // SAFETY: the layout of versions from 0.3.
            unsafe { self.call(Slot::StateGet, Feature::State, &mut args) }?;
            return Ok(args.state);
        }
        if stage != XLA_FFI_ExecutionStage::INSTANTIATE.0 {
            self.has_stage_state()?;
        }
        self.needs_state()?;
        let mut args = XLA_FFI_State_Get_Args_R0 {
            struct_size: XLA_FFI_State_Get_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            state: std::ptr::null_mut(),
        };
        // SAFETY: the layout of versions 0.1 and 0.2.
        unsafe { self.call(Slot::StateGet, Feature::State, &mut args) }?;
        Ok(args.state)
    }

    /// The object of user data of type `type_id`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn user_data(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        type_id: i64,
    ) -> Result<*mut c_void> {
        let mut id = XLA_FFI_TypeId { type_id };
        let mut args = XLA_FFI_InvokeContext_Get_Args {
            struct_size: XLA_FFI_InvokeContext_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            data: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::InvokeContextGet, Feature::UserData, &mut args) }?;
        Ok(args.data)
    }
}
