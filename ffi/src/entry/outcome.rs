//! The return types of handlers.

use crate::context::store_state;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host_type::HostType;
use crate::frame::pending::Flow;

/// The return type of the execute stage and of an `async fn`: `()`, or a `Result` whose error converts to an
/// [`Error`].
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "expected `Result<()>`",
    note = "the error may be of any type that converts into `xla_ffi::Error`; write results of the call as parameters, \
            `mut y: Out<f32>`"
)]
pub trait Outcome {
    /// Converts the handler's return value to the outcome of the call.
    fn outcome(self) -> Result<()>;
}

impl Outcome for () {
    #[inline(always)]
    fn outcome(self) -> Result<()> {
        Ok(())
    }
}

impl<E: Failure> Outcome for Result<(), E> {
    #[inline(always)]
    fn outcome(self) -> Result<()> {
        self.map_err(Failure::error)
    }
}

/// The error type of a handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    label = "does not convert into `xla_ffi::Error`",
    note = "implement `From<{Self}> for xla_ffi::Error`, or return `Result<()>` and use `map_err`"
)]
pub trait Failure: Sized {
    /// Converts the handler's error to an [`Error`], which every host can receive.
    fn error(self) -> Error;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Error>> Failure for E {
    #[inline(always)]
    fn error(self) -> Error {
        self.into()
    }
}

/// The return type of stages other than execute: `()`, a state, or a `Result` with `()` or a state.
#[diagnostic::on_unimplemented(
    message = "this stage cannot return `{Self}`",
    note = "return `Result<()>`, or `Result<T>` where `T` is state and has `#[derive(xla_ffi::HostType)]`"
)]
pub trait StageOutcome {
    /// Passes the state to the host and returns the outcome of the call.
    fn flow(self, frame: &Frame<'_>, stage: u32) -> Flow;
}

impl StageOutcome for () {
    fn flow(self, _: &Frame<'_>, _: u32) -> Flow {
        Flow::Done
    }
}

impl<S: HostType> StageOutcome for S {
    fn flow(self, frame: &Frame<'_>, stage: u32) -> Flow {
        match store_state(frame, stage, self) {
            Ok(()) => Flow::Done,
            Err(error) => Flow::Failed(error),
        }
    }
}

impl<T: StageOutcome, E: Into<Error>> StageOutcome for Result<T, E> {
    fn flow(self, frame: &Frame<'_>, stage: u32) -> Flow {
        match self {
            Ok(outcome) => outcome.flow(frame, stage),
            Err(error) => Flow::Failed(error.into()),
        }
    }
}

/// The return type of `instantiate` if other stages receive its state as `&self`.
#[diagnostic::on_unimplemented(
    message = "`instantiate` returns `{Self}`, but other stages take `&self`",
    label = "expected `Result<Self>`",
    note = "to return state of another type, take `State<T>` instead of `&self` in the other stages"
)]
pub trait Makes<S>: StageOutcome {}

impl<S: HostType> Makes<S> for S {}

impl<S: HostType, T: Makes<S>, E: Into<Error>> Makes<S> for Result<T, E> {}

/// Converts the return value of an execute stage. Used by the macros.
#[doc(hidden)]
#[inline(always)]
pub fn finish(outcome: impl Outcome) -> Flow {
    match outcome.outcome() {
        Ok(()) => Flow::Done,
        Err(error) => Flow::Failed(error),
    }
}

/// Converts the return value of an `async fn`. Used by the macros.
#[doc(hidden)]
pub fn completed(outcome: impl Outcome) -> Result<()> {
    outcome.outcome()
}

/// Converts the return value of a stage other than execute. Used by the macros.
#[doc(hidden)]
pub fn finish_stage<T: StageOutcome, const STAGE: u32>(frame: &Frame<'_>, outcome: T) -> Flow {
    outcome.flow(frame, STAGE)
}

/// Converts the return value of the stage that creates the `&self` state. Used by the macros.
#[doc(hidden)]
pub fn finish_state<S, const STAGE: u32>(frame: &Frame<'_>, outcome: impl Makes<S>) -> Flow {
    outcome.flow(frame, STAGE)
}

/// Returns the runtime's data for the call, or an error if the host is not the runtime that is linked into this
/// image.
#[cfg(feature = "internal")]
pub(crate) fn invocation<'f>(
    frame: &Frame<'f>,
) -> Result<xla_ffi_runtime::internal::Invocation<'f>> {
    // SAFETY: the call frame belongs to the current call.
    unsafe { xla_ffi_runtime::internal::Invocation::from_frame(frame.raw()) }
}
