//! State that stages leave for later ones.

use std::ops::Deref;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::types::State;
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

const INSTANTIATE: u32 = XLA_FFI_ExecutionStage::INSTANTIATE.0;
const PREPARE: u32 = XLA_FFI_ExecutionStage::PREPARE.0;
const INITIALIZE: u32 = XLA_FFI_ExecutionStage::INITIALIZE.0;

/// Hands a state to the host.
pub(crate) fn store_state<T: State>(frame: &Frame<'_>, stage: u32, state: T) -> Result<()> {
    let host = frame.host();
    host.needs_state()?;
    let host_type = T::host_type().erased();
    let id = host_type.id(host)?;
    let state = Box::into_raw(Box::new(state));
    // SAFETY: the frame's own context; the deleter drops a box of T.
    let stored =
        unsafe { host.set_state(frame.ctx(), stage, id, state.cast(), host_type.deleter()) };
    if stored.is_err() {
        // SAFETY: the host did not take it, so it is still ours.
        drop(unsafe { Box::from_raw(state) });
    } else if stage != INSTANTIATE {
        host_type.note_stored(host, stage, has_stream(frame));
    }
    stored
}

fn has_stream(frame: &Frame<'_>) -> bool {
    // SAFETY: the frame's own context.
    unsafe { frame.host().stream(frame.ctx()) }.is_ok()
}

/// For the macros: the state that `stage` left.
#[doc(hidden)]
pub fn load_state<'f, T: State>(frame: &Frame<'f>, stage: u32) -> Result<&'f T> {
    let host = frame.host();
    host.needs_state()?;
    let host_type = T::host_type().erased();
    let id = host_type.id(host)?;
    if stage != INSTANTIATE && !host_type.was_stored(host, stage, has_stream(frame)) {
        host.has_stage_state()?;
        return Err(Error::failed_precondition(format!(
            "no state: the {} stage did not run; XLA runs it on GPUs alone",
            crate::diagnose::stage_name(stage)
        )));
    }
    // SAFETY: the frame's own context.
    let state = unsafe { host.state(frame.ctx(), stage, id) }?;
    // SAFETY: the type's number names T, and the host keeps the state at least until the call ends;
    // it is shared between concurrent calls, and T is Sync.
    let state = unsafe { state.cast::<T>().as_ref() };
    state.ok_or_else(|| {
        Error::failed_precondition(format!(
            "no state: the {} stage did not run; register the whole bundle (the old CPU runtime of \
             jaxlib 0.4.35 to 0.5.3 skips instantiate)",
            crate::diagnose::stage_name(stage)
        ))
    })
}

macro_rules! state_of {
    ($(#[$meta:meta])* $name:ident $stage:ident $text:literal $since:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<'f, T>(&'f T);

        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<T> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.0
            }
        }

        impl<'f, T: State> Context<'f> for $name<'f, T> {
            const NAME: &'static str = $text;
            const SINCE: Revision = Revision::$since;

            fn take(frame: &Frame<'f>) -> Result<Self> {
                load_state(frame, $stage).map(Self)
            }
        }

        context!({T: State} $name<'f, T>);
    };
}

state_of! {
    /// The state that the instantiate stage left: made once for each call site when the program is
    /// compiled, dropped with the executable. Since r1 (jaxlib 0.4.33). Stages of a
    /// [`stateful`](macro@crate::stateful) type have it as `&self`.
    StateRef INSTANTIATE "state" R1
}
state_of! {
    /// The state that the prepare stage left, dropped when the execution ends. Since r8
    /// (jaxlib 0.9.1).
    Prepared PREPARE "prepared_state" R8
}
state_of! {
    /// The state that the initialize stage left, dropped when the execution ends. Since r8
    /// (jaxlib 0.9.1).
    Initialized INITIALIZE "initialized_state" R8
}
