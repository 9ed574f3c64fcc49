//! `State_Set` and `State_Get`: state that a stage stores for later stages, in all layouts of the arguments.
//!
//! | layout | fields after the head | bytes | version |
//! |---|---|---|---|
//! | SET1 | ctx, id, state, deleter | 48 | 0.1 |
//! | SET2 | ctx, id, state | 40 | 0.2 |
//! | SET3 | ctx, stage, id, state | 48 | 0.3 and later |
//! | GET1 | ctx, id, state | 40 | up to 0.2 |
//! | GET3 | ctx, stage, id, state | 48 | 0.3 and later |
//!
//! SET1 and SET3 have the same size and differ in the word after `ctx`, which is a pointer in SET1 and a stage in
//! SET3. XLA interprets all arguments in the layout of its revision, and crashes if they have a different layout. The
//! embedded runtime reports a wrong layout.

use super::context::type_id;
use super::{check_size, error_or_null, revision};
use crate::context::Context;
use crate::frame::Stage;
use crate::host::state_object::StateObject;
use std::ffi::c_void;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};
use xla_ffi_sys::{
    Revision, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_InvokeContext, XLA_FFI_State_Get_Args,
    XLA_FFI_State_Get_Args_R0, XLA_FFI_State_Set_Args, XLA_FFI_State_Set_Args_R0,
    XLA_FFI_State_Set_Args_R7, XLA_FFI_TypeId,
};

/// The largest stage number. In practice, the low half of a pointer is a larger number.
const LAST_STAGE: u32 = XLA_FFI_ExecutionStage::RECORD.0;
/// The size of arguments that contain neither a stage nor a deleter.
const SHORT: usize = XLA_FFI_State_Set_Args_R7::STRUCT_SIZE;
const LONG: usize = XLA_FFI_State_Set_Args::STRUCT_SIZE;
const _: () = assert!(SHORT == XLA_FFI_State_Get_Args_R0::STRUCT_SIZE);
const _: () = assert!(
    LONG == XLA_FFI_State_Get_Args::STRUCT_SIZE && LONG == XLA_FFI_State_Set_Args_R0::STRUCT_SIZE
);
/// The number of words before the word in which the layouts differ: size, extension chain and context.
const TELLING_WORD: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// SET1: a pointer after `ctx`, and a deleter at the end.
    WithDeleter,
    /// SET2 or GET1: a pointer after `ctx`, and no deleter.
    Plain,
    /// SET3 or GET3: a stage after `ctx`.
    Staged,
}

/// Returns the layout of the arguments, or an error if hosts of the revision do not support it.
///
/// # Safety
/// `args` must be null or point to state arguments of any revision.
unsafe fn form<const R: u8>(args: *const c_void, set: bool) -> Result<Form> {
    let revision = revision::<R>();
    let staged = revision >= Revision::R8;
    let expected = match (set, staged) {
        // jaxlib 0.9.1 and 0.9.2 reject the 40-byte arguments of r7; jaxlib 0.10.0 and newer accept them.
        _ if revision >= Revision::R9 => SHORT,
        (true, _) if revision == Revision::R7 => SHORT,
        (true, _) | (false, true) => LONG,
        (false, false) => SHORT,
    };
    // SAFETY: guaranteed by the caller.
    let size = unsafe { check_size(args, expected) }?;
    if size < LONG {
        // No layout has a size between 40 and 48 bytes.
        return if expected == SHORT && size > SHORT && revision >= Revision::R9 {
            Err(Error::invalid_argument(format!(
                "struct_size is {size}, this host expects {SHORT} or {LONG}"
            )))
        } else {
            Ok(Form::Plain)
        };
    }
    // SAFETY: the size is at least 48 bytes.
    let word = unsafe { args.cast::<u32>().add(TELLING_WORD * 2) };
    // SAFETY: the size is at least 48 bytes; any bits are a valid number.
    let is_stage = unsafe { word.read() } <= LAST_STAGE;
    let minor = revision.minor_version();
    let told = |theirs: &str, ours: &str| {
        let name = if set { "State_Set" } else { "State_Get" };
        Error::hazard(
            Hazard::StateLayout,
            format!(
                "{name} arguments are laid out for version {theirs}, this host of version 0.{minor} \
                 reads them as {ours} and would crash: build the library with an SDK that asks the \
                 host for its version"
            ),
        )
    };
    match (is_stage, staged) {
        (true, false) => Err(told("0.3 or later", "{ctx, id, state}")),
        (false, true) => Err(told("0.1", "{ctx, stage, id, state}")),
        (true, true) => Ok(Form::Staged),
        (false, false) if set && revision < Revision::R7 => Ok(Form::WithDeleter),
        (false, false) => Ok(Form::Plain),
    }
}

fn refuse_on_r0<const R: u8>() -> Result<()> {
    if revision::<R>() == Revision::R0 {
        return Err(Error::hazard(
            Hazard::StateLayout,
            "r0 (jaxlib 0.4.31) has the slot but no instantiate stage: a call crashes it",
        ));
    }
    Ok(())
}

pub(super) unsafe extern "C" fn state_set<const R: u8>(args: *mut c_void) -> *mut XLA_FFI_Error {
    error_or_null("State_Set", || {
        refuse_on_r0::<R>()?;
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        let form = unsafe { form::<R>(args, true) }?;
        let (ctx, stage, id, state, deleter) = match form {
            Form::WithDeleter => {
                // SAFETY: `form` verified this layout.
                let args = unsafe { args.cast::<XLA_FFI_State_Set_Args_R0>().read() };
                (args.ctx, None, args.type_id, args.state, Some(args.deleter))
            }
            Form::Plain => {
                // SAFETY: `form` verified this layout.
                let args = unsafe { args.cast::<XLA_FFI_State_Set_Args_R7>().read() };
                (args.ctx, None, args.type_id, args.state, None)
            }
            Form::Staged => {
                // SAFETY: `form` verified this layout.
                let args = unsafe { args.cast::<XLA_FFI_State_Set_Args>().read() };
                (args.ctx, Some(args.stage.0), args.type_id, args.state, None)
            }
        };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(ctx) }?;
        // SAFETY: the handler's type id is valid at least until this call returns.
        let id = unsafe { type_id(id) }?;
        if state.is_null() {
            return Err(Error::invalid_argument("the state is a null pointer"));
        }
        let deleter = match deleter {
            // Measured behaviour: jaxlib 0.4.33 to 0.8.0 (r1 to r6) accept a null deleter and call it when the
            // executable is destroyed.
            Some(None) => {
                return Err(Error::hazard(
                    Hazard::StateLayout,
                    "the deleter of the state is a null pointer, which this host calls when the executable goes: give \
                     it a function, which may do nothing",
                ));
            }
            Some(deleter) => deleter,
            None => {
                let deleter = context.shared().types.info(id)?.deleter();
                // XLA rejects a null deleter since jaxlib 0.8.1 (r7).
                if deleter.is_none() {
                    return Err(Error::invalid_argument("the state's type has no deleter"));
                }
                deleter
            }
        };
        let stage = stage_of(stage)?;
        if stage == Stage::Execute || stage == Stage::Record {
            return Err(Error::hazard(
                Hazard::AbsentState,
                format!("the {stage} stage has no state; a real host follows a null pointer"),
            ));
        }
        let owner = std::sync::Arc::downgrade(context.shared());
        let slot = context.state(stage)?;
        let running = context.stage();
        if stage != Stage::Instantiate && matches!(running, Stage::Execute | Stage::Record) {
            return Err(Error::hazard(
                Hazard::AbsentState,
                format!(
                    "the {stage} stage is over, but the {running} stage sets its state, which later executions would see"
                ),
            ));
        }
        let object = StateObject::new(id, state, deleter, owner);
        slot.set(object).map_err(|refused| {
            // After an error, the handler still owns the state.
            refused.object.leave();
            *refused.why
        })
    })
}

fn stage_of(raw: Option<u32>) -> Result<Stage> {
    match raw {
        None => Ok(Stage::Instantiate),
        Some(raw) => Stage::from_raw(raw)
            .ok_or_else(|| Error::invalid_argument(format!("{raw} is not a stage"))),
    }
}

fn get(
    ctx: *mut XLA_FFI_InvokeContext,
    stage: Stage,
    id: *mut XLA_FFI_TypeId,
) -> Result<*mut c_void> {
    // SAFETY: handlers pass the context of their frame, as the ABI requires.
    let context: &Context = unsafe { Context::from_raw(ctx) }?;
    // SAFETY: the handler's type id is valid at least until this call returns.
    let id = unsafe { type_id(id) }?;
    context
        .state(stage)?
        .get(id)
        .map_err(|error| match error.code() {
            ErrorCode::NotFound => error.within(format_args!("the {stage} stage")),
            _ => error,
        })
}

pub(super) unsafe extern "C" fn state_get<const R: u8>(args: *mut c_void) -> *mut XLA_FFI_Error {
    error_or_null("State_Get", || {
        refuse_on_r0::<R>()?;
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        if unsafe { form::<R>(args, false) }? == Form::Staged {
            let args = args.cast::<XLA_FFI_State_Get_Args>();
            // SAFETY: `form` verified this layout.
            let asked = unsafe { args.read() };
            let state = get(asked.ctx, stage_of(Some(asked.stage.0))?, asked.type_id)?;
            // SAFETY: `form` verified this layout.
            unsafe { (*args).state = state };
        } else {
            let args = args.cast::<XLA_FFI_State_Get_Args_R0>();
            // SAFETY: `form` verified this layout.
            let asked = unsafe { args.read() };
            let state = get(asked.ctx, Stage::Instantiate, asked.type_id)?;
            // SAFETY: `form` verified this layout.
            unsafe { (*args).state = state };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use xla_ffi_sys::StateReading;

    /// Returns the layout of arguments that have `size` bytes and the given word after the context.
    fn form_of<const R: u8>(
        size: usize,
        word: usize,
        set: bool,
    ) -> std::result::Result<Form, bool> {
        let args = [size, 0, 0, word, 0, 0];
        // SAFETY: the longest layout has six words.
        unsafe { form::<R>(args.as_ptr().cast(), set) }
            .map_err(|error| error.has(Hazard::StateLayout))
    }

    /// Checks that `StateReading` describes the behaviour of this host for every extension version and revision.
    #[test]
    fn readings_are_those_that_are_known() {
        fn host<const R: u8>(minor: i32) -> StateReading {
            let (size, word) = match minor {
                1 => (48, 0x7f12_3456_7890),
                2 => (40, 0x7f12_3456_7890),
                _ => (48, 0),
            };
            match form_of::<R>(size, word, true) {
                Ok(_) => StateReading::Right,
                Err(false) => StateReading::Refused,
                Err(true) => StateReading::Misread,
            }
        }
        fn compare<const R: u8>() {
            for minor in 1..=5 {
                let known = StateReading::of(revision::<R>(), minor);
                assert_eq!(host::<R>(minor), known, "0.{minor} on r{R}");
            }
        }
        compare::<1>();
        compare::<2>();
        compare::<3>();
        compare::<4>();
        compare::<5>();
        compare::<6>();
        compare::<7>();
        compare::<8>();
        compare::<9>();
        compare::<10>();
    }
}
