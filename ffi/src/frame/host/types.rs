//! Handlers and types of user data, made known to the host.

use std::ffi::c_void;

use crate::error::{Error, ErrorCode, Result};
use crate::frame::host::Host;
use xla_ffi_sys::*;

impl Host {
    /// Registers a handler. A record stage needs r9; without one every host takes the short form.
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
            // SAFETY: the long form is what hosts from version 0.4 want.
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
        // SAFETY: the short form is understood by every host.
        unsafe { self.call(Slot::HandlerRegister, Feature::Registration, &mut args) }
    }

    /// Registers a user type and gives its number in this XLA copy, which is `wanted` unless that is
    /// 0 or the host older than r5. On r0 the number is of no use.
    pub(crate) fn register_type(
        self,
        name: &str,
        wanted: i64,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<i64> {
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
        // SAFETY: the size (40, up to `type_id`) is what every revision expects; r7 and later read
        // `type_info` behind it in any case, and older ones do not look there.
        unsafe { self.call(Slot::TypeRegister, Feature::UserTypes, &mut args) }?;
        Ok(id.type_id)
    }

    /// The number of a user type that libraries share by its name. Every host refuses a name that it
    /// knows, and says the number in the refusal.
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
        // From r5 on a name may be registered again with its own number and no other.
        if self.revision() >= Feature::TypesAgain.since() {
            self.register_type(name, id, deleter)?;
        }
        Ok(id)
    }

    /// Whether the error of a look-up says that there is nothing to be found. Hosts before r9 tell no
    /// code but INTERNAL, so `words` of the message have to do.
    pub(crate) fn is_absent_error(self, error: &Error, words: &str) -> bool {
        error.code() == ErrorCode::NotFound
            || !self.at_least(Feature::ErrorCodes.since()) && error.message().contains(words)
    }
}

/// The number in a host's refusal of a type whose name is taken; its words changed with r5.
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
    /// Fails where there is no state: r0 has the functions, but they crash.
    pub(crate) fn needs_state(self) -> Result<()> {
        if self.at_least(Feature::State.since()) {
            Ok(())
        } else {
            Err(self.missing_feature(Feature::State))
        }
    }

    /// Fails where only the instantiate stage can leave state.
    pub(crate) fn has_stage_state(self) -> Result<()> {
        if self.at_least(Feature::StageState.since()) {
            Ok(())
        } else {
            Err(self.missing_feature(Feature::StageState))
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

#[cfg(test)]
mod tests {
    use super::taken_number;

    #[test]
    fn a_refusal_tells_the_number_of_a_name() {
        // The words of 0.6.2 and later, of 0.4.31 to 0.5.3, and of the embedded runtime.
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
