//! Registration of handlers and types with the host, and access to state and user data.

use std::ffi::c_void;

use crate::error::{Error, ErrorCode, Result};
use crate::frame::host::Host;
use xla_ffi_sys::*;

impl Host {
    /// Registers a handler. Handlers with a record stage require r9. All other handlers use the short
    /// struct, which every host accepts.
    pub(crate) fn register(
        self,
        name: &str,
        platform: &str,
        bundle: XLA_FFI_Handler_Bundle,
        traits: u32,
    ) -> Result<()> {
        let span = |text: &str| XLA_FFI_ByteSpan {
            ptr: text.as_ptr().cast(),
            len: text.len(),
        };
        if bundle.record.is_some() && self.at_least(Feature::RecordStage.since()) {
            let mut args = XLA_FFI_Handler_Register_Args {
                struct_size: XLA_FFI_Handler_Register_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                name: span(name),
                platform: span(platform),
                bundle,
                traits,
            };
            // SAFETY: hosts with version 0.4 or later expect the struct with a record stage.
            return unsafe { self.call(Slot::HandlerRegister, Feature::Registration, &mut args) };
        }
        let mut args = XLA_FFI_Handler_Register_Args_R0 {
            struct_size: XLA_FFI_Handler_Register_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            name: span(name),
            platform: span(platform),
            bundle: XLA_FFI_Handler_Bundle_R0 {
                instantiate: bundle.instantiate,
                prepare: bundle.prepare,
                initialize: bundle.initialize,
                execute: bundle.execute,
            },
            traits,
        };
        // SAFETY: every host accepts the struct without a record stage.
        unsafe { self.call(Slot::HandlerRegister, Feature::Registration, &mut args) }
    }

    /// Registers a user type and returns the type's number in this copy of XLA. The number is
    /// `wanted`, unless `wanted` is 0 or the host predates r5. On r0, the number is not usable.
    pub(crate) fn register_type(
        self,
        name: &str,
        wanted: i64,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<i64> {
        self.has_known_types()?;
        let info = XLA_FFI_TypeInfo {
            struct_size: XLA_FFI_TypeInfo::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            deleter: Some(deleter),
        };
        let mut id = XLA_FFI_TypeId { type_id: wanted };
        let mut args = XLA_FFI_Type_Register_Args {
            struct_size: XLA_FFI_Type_Register_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            name: XLA_FFI_ByteSpan {
                ptr: name.as_ptr().cast(),
                len: name.len(),
            },
            type_id: &raw mut id,
            type_info: &raw const info,
        };
        // SAFETY: every revision accepts this size (40, up to `type_id`). Hosts from r7 on read
        // `type_info` regardless of the size; older hosts do not read it.
        unsafe { self.call(Slot::TypeRegister, Feature::UserTypes, &mut args) }?;
        Ok(id.type_id)
    }

    /// Returns the number of a user type that libraries share by name. Every host rejects a name that is already
    /// registered, and the error message contains the number.
    pub(crate) fn share_type(
        self,
        name: &str,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<i64> {
        let unknown = XLA_FFI_UNKNOWN_TYPE_ID.type_id;
        let refusal = match self.register_type(name, unknown, deleter) {
            Ok(id) => return Ok(id),
            Err(refusal) => refusal,
        };
        let Some(id) = taken_number(name, refusal.message()) else {
            return Err(refusal);
        };
        // Since r5, a type name may be registered again, but only with its existing type id.
        if self.revision() >= Feature::TypesAgain.since() {
            self.register_type(name, id, deleter)?;
        }
        Ok(id)
    }

    /// Returns true if the error of a lookup means that nothing was found. Hosts before r9 always
    /// report the code INTERNAL, so the message is searched for `words`.
    pub(crate) fn is_absent_error(self, error: &Error, words: &str) -> bool {
        error.code() == ErrorCode::NotFound
            || !self.at_least(Feature::ErrorCodes.since()) && error.message().contains(words)
    }
}

/// Parses the type's number in a host's error about a registered name. The wording of the error
/// changed with r5.
fn taken_number(name: &str, refusal: &str) -> Option<i64> {
    let since_r5 = |text: &'_ str| -> Option<i64> {
        let rest = text.split_once("Type name ")?.1.strip_prefix(name)?;
        let rest = rest.strip_prefix(" already registered with type id ")?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    let before = |text: &'_ str| -> Option<i64> {
        let rest = text.split_once("Type id ")?.1.strip_suffix(name)?;
        rest.strip_suffix(" already registered for type name ")?
            .parse()
            .ok()
    };
    since_r5(refusal)
        .or_else(|| before(refusal))
        .filter(|id| *id > 0)
}

impl Host {
    /// Returns an error if the host has no usable state. Hosts of r0 have the functions for state,
    /// but the functions crash.
    pub(crate) fn needs_state(self) -> Result<()> {
        if self.at_least(Feature::State.since()) {
            Ok(())
        } else {
            Err(self.missing_feature(Feature::State))
        }
    }

    /// Returns an error if the host supports state only for the instantiate stage.
    pub(crate) fn has_stage_state(self) -> Result<()> {
        if self.at_least(Feature::StageState.since()) {
            Ok(())
        } else {
            Err(self.missing_feature(Feature::StageState))
        }
    }

    /// Passes an object of type `type_id` to the host as the state of `stage`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call. The `deleter` that was registered with the type can destroy the
    /// object. If the function succeeds, the host owns the object.
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
            // SAFETY: the arguments have the layout of version 0.3 and later.
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
            // SAFETY: the arguments have the layout of version 0.2.
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
        // SAFETY: the arguments have the layout of version 0.1.
        unsafe { self.call(Slot::StateSet, Feature::State, &mut args) }
    }

    /// Returns the state of `stage`, which is of type `type_id`.
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
            // SAFETY: the arguments have the layout of version 0.3 and later.
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
        // SAFETY: the arguments have the layout of versions 0.1 and 0.2.
        unsafe { self.call(Slot::StateGet, Feature::State, &mut args) }?;
        Ok(args.state)
    }

    /// Returns the user data of type `type_id`.
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

#[cfg(test)]
mod tests {
    use super::taken_number;

    #[test]
    fn a_refusal_tells_the_number_of_a_name() {
        // The messages are those of jaxlib 0.6.2 and later, of 0.4.31 to 0.5.3, and of the embedded
        // runtime.
        let taken = |text| taken_number("a::B", text);
        assert_eq!(
            taken("Type name a::B already registered with type id 12"),
            Some(12)
        );
        assert_eq!(
            taken("Type id 7 already registered for type name a::B"),
            Some(7)
        );
        assert_eq!(
            taken("Type_Register: Type name a::B already registered with type id 3 vs 4)"),
            Some(3)
        );
        for other in [
            "Type name a::Bc already registered with type id 12",
            "Type id 7 already registered for type name a::Bc",
            "Type id 7 already registered for type name ba::B",
            "Type name a::B already registered with type id 0",
            "Type name a::B already registered with type id ",
            "Type name a::B already registered with type id 99999999999999999999",
            "no",
        ] {
            assert_eq!(taken(other), None, "{other}");
        }
    }
}
