//! What handlers may return.

use crate::context::store_state;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host_type::HostType;
use crate::frame::pending::Flow;

/// The return type of the execute stage: nothing, or a `Result` whose error becomes an [`Error`].
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `Result<()>`, a result whose error converts into `xla_ffi::Error`, or nothing"
)]
pub trait Outcome {
    /// How the call went.
    fn flow(self) -> Flow;
}

impl Outcome for () {
    #[inline(always)]
    fn flow(self) -> Flow {
        Flow::Done
    }
}

impl<E: Failure> Outcome for Result<(), E> {
    #[inline(always)]
    fn flow(self) -> Flow {
        match self {
            Ok(()) => Flow::Done,
            Err(error) => Flow::Failed(error.error()),
        }
    }
}

/// The return type of an `async fn` handler: nothing, or a `Result` whose error becomes an [`Error`].
#[diagnostic::on_unimplemented(
    message = "an async handler cannot return `{Self}`",
    note = "return `Result<()>`, a result whose error converts into `xla_ffi::Error`, or nothing"
)]
pub trait LateOutcome {
    /// What completes the call.
    fn outcome(self) -> Result<()>;
}

impl LateOutcome for () {
    fn outcome(self) -> Result<()> {
        Ok(())
    }
}

impl<E: Failure> LateOutcome for Result<(), E> {
    fn outcome(self) -> Result<()> {
        self.map_err(Failure::error)
    }
}

/// The error of a handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    note = "return an error that converts into `xla_ffi::Error`: implement `From<{Self}> for \
            xla_ffi::Error`, or use `map_err`"
)]
pub trait Failure: Sized {
    /// The error that any host understands.
    fn error(self) -> Error;
}

impl<E: Into<Error>> Failure for E {
    #[inline(always)]
    fn error(self) -> Error {
        self.into()
    }
}

/// The return type of the other stages: nothing, state, or a `Result` with either.
#[diagnostic::on_unimplemented(
    message = "this stage cannot return `{Self}`",
    note = "return `Result<()>`, or `Result<S>` with a type of state: `#[derive(xla_ffi::HostType)]`"
)]
pub trait StageOutcome {
    /// Hands state to the host and says how the call went.
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

/// What `instantiate` returns where other stages take what it makes as `&self`.
#[diagnostic::on_unimplemented(
    message = "`self` is the state that `instantiate` makes, and this one returns `{Self}`",
    note = "return `Self` or `Result<Self>`; a stage takes state of another type as `State<…>`"
)]
pub trait Makes<S> {}

impl<S: HostType> Makes<S> for S {}

impl<S: HostType, T: Makes<S>, E> Makes<S> for Result<T, E> {}

/// For the macros: says that a stage makes the state that others take as `&self`.
#[doc(hidden)]
pub const fn makes_self<S>(_: &impl Makes<S>) {}

/// For the macros: the end of an execute stage.
#[doc(hidden)]
#[inline(always)]
pub fn finish(outcome: impl Outcome) -> Flow {
    outcome.flow()
}

/// For the macros: the end of an `async fn`.
#[doc(hidden)]
pub fn completed(outcome: impl LateOutcome) -> Result<()> {
    outcome.outcome()
}

/// For the macros: the end of another stage.
#[doc(hidden)]
pub fn finish_stage<T: StageOutcome, const STAGE: u32>(frame: &Frame<'_>, outcome: T) -> Flow {
    outcome.flow(frame, STAGE)
}

/// The runtime's side of the call; an error if the host is not the runtime of this image.
#[cfg(feature = "internal")]
pub(crate) fn invocation<'f>(
    frame: &Frame<'f>,
) -> Result<xla_ffi_runtime::internal::Invocation<'f>> {
    // SAFETY: the frame of the current call.
    unsafe { xla_ffi_runtime::internal::Invocation::from_frame(frame.raw()) }
}
