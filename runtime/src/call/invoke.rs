//! Calls the function of a handler's stage, and converts its outcome. Also creates executables, by running the
//! instantiate stage.

use super::body::{Body, keep_until_done};
use super::request::Request;
use crate::context::{Context, Entered, Parts};
use crate::frame::encoded::Encoded;
use crate::frame::{CallFrame, RawFrame, Stage, attribute_parser, print};
use crate::handler::{Executable, Handler};
use crate::host::futures::{self, Completion};
use crate::host::{Shared, errors};
use crate::process::{guard, log};
use crate::value::Attributes;
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};
use xla_ffi_sys::{Revision, XLA_FFI_Error, XLA_FFI_Future, XLA_FFI_Handler};

/// Calls a handler. Returns its outcome and, if the handler left a future open, the future.
#[inline]
pub(crate) fn invoke(
    shared: &Shared,
    context: &Context,
    handler: XLA_FFI_Handler,
    stage: Stage,
    frame: &mut RawFrame,
) -> Result<Option<Arc<Completion>>> {
    let revision = shared.revision;
    frame.reset(revision);
    if context.prints() {
        // SAFETY: the frame is complete for the revision.
        let text = unsafe { print::describe(frame.as_mut_ptr()) };
        let name = &context.progress().tally().name;
        log(log::Level::Info, format_args!("handler '{name}': {text}"));
    }
    context.begin(stage);
    // The check follows the counting of the call: either the shutdown waits for the call, or the call is refused.
    if let Err(error) = shared.calls.check() {
        context.end(false);
        return Err(error);
    }
    let entered = Entered::new(shared, Some(context));
    // SAFETY: the frame is complete for the revision and outlives the call; the loader of the library guarantees that
    // the function is a handler.
    let outcome = unsafe { guard::call_handler(handler, frame.as_mut_ptr()) };
    drop(entered);
    context.end(!frame.future(revision).is_null());
    match outcome {
        Ok(error)
            if error.is_null()
                && frame.future(revision).is_null()
                && frame.is_whole(revision)
                && context.is_clean() =>
        {
            Ok(None)
        }
        outcome => {
            let (outcome, open) = outcome_of(shared, context, frame, outcome);
            if open.is_none() {
                context.free_memory();
            }
            context.progress().set_open(open.clone());
            outcome.map(|()| open)
        }
    }
}

/// Returns the outcome of a call whose handler returned an error or a future, or in which a problem was found. A
/// future may be open even if the handler returned an error. Until the future is completed, its handler may use the
/// operands.
#[cold]
fn outcome_of(
    shared: &Shared,
    context: &Context,
    frame: &mut RawFrame,
    outcome: std::result::Result<*mut XLA_FFI_Error, guard::Unwound>,
) -> (Result<()>, Option<Arc<Completion>>) {
    let revision = shared.revision;
    let future: *mut XLA_FFI_Future = frame.future(revision);
    let whole = frame.is_whole(revision);
    frame.repair_guard();
    let mut findings = context.findings();
    // XLA does not report a scratch-memory leak, so the leak does not change the call's outcome.
    if let Some(leak) = context.scratch_leak() {
        shared.note(leak);
    }
    let kept_back = context.forget_futures_but(future as usize);
    if !whole {
        findings.push(Finding::new(
            Hazard::FrameOverrun,
            format!("bytes after the call frame of {revision} were written"),
        ));
    }
    let error = match outcome {
        // XLA catches only exceptions that are derived from `std::exception`.
        Err(unwound) if unwound.is_standard => Some(translate(
            shared,
            Error::new(ErrorCode::Unknown, format!("{unwound} left the handler")),
        )),
        Err(unwound) => Some(Error::hazard(
            Hazard::Unwound,
            format!("{unwound} left the handler"),
        )),
        Ok(error) if error.is_null() => None,
        Ok(error) if error as usize == errors::NO_USER_DATA => {
            Some(translate(shared, context.no_user_data().into_handlers()))
        }
        // Like XLA, accept an error object with the code OK as success.
        Ok(error) => {
            errors::take_error(error).map(|error| translate(shared, error.into_handlers()))
        }
    };
    if error.is_some() && !future.is_null() {
        findings.push(Finding::new(
            Hazard::ErrorAndFuture,
            "both an error and a future were returned; a call leaves one of them",
        ));
    }
    if kept_back.is_some() {
        findings.push(Finding::new(
            Hazard::FutureMisuse,
            "a future was created but neither returned nor completed",
        ));
    }
    let (open, unknown) = match future.is_null() {
        true => (kept_back, None),
        false => match futures::find(future) {
            Ok(completion) => {
                let misused = completion.returned().err();
                (Some(completion), misused)
            }
            Err(unknown) => (None, Some(unknown)),
        },
    };
    if let Some(error) = error.or(unknown) {
        return (Err(error.with_findings(findings)), open);
    }
    match findings.first() {
        None => (Ok(()), open),
        // The handler still uses the operands, so the call stays open. Waiting for the call returns this error.
        Some(_) if !future.is_null() => {
            for finding in findings {
                context.note(finding);
            }
            (Ok(()), open)
        }
        Some(first) => {
            let message = first.to_string();
            let error = Error::new(ErrorCode::Internal, message);
            (Err(error.with_findings(findings)), open)
        }
    }
}

/// Calls a handler's function for a stage that does not support futures. If the handler leaves a future open anyway,
/// the context's [progress](crate::host::calls::Progress::open) keeps the future.
pub(super) fn run_stage(
    executable: &Executable,
    context: &Context,
    handler: XLA_FFI_Handler,
    stage: Stage,
    frame: &mut RawFrame,
) -> Result<()> {
    let shared = &executable.handler().shared;
    match invoke(shared, context, handler, stage, frame) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => {
            let error = Error::invalid_argument("returned a future; only the execute stage may");
            Err(stage_error(error, executable, stage))
        }
        Err(error) => Err(stage_error(error, executable, stage)),
    }
}

/// Converts a handler's error to the error that the host reports: r0 and r1 report every error as INTERNAL.
pub(crate) fn translate(shared: &Shared, error: Error) -> Error {
    if shared.revision < xla_ffi_sys::Revision::R2 {
        error.with_code(ErrorCode::Internal)
    } else {
        error
    }
}

/// Prefixes an error's message with the handler and the stage. A message from the handler is not changed.
pub(crate) fn stage_error(error: Error, executable: &Executable, stage: Stage) -> Error {
    if error.is_from_handler() {
        return error;
    }
    error.within(format_args!("{} ({stage})", executable.handler().name()))
}

impl Handler {
    /// Creates an executable with these attributes. Runs the instantiate stage if the handler has one; r0 supports
    /// only the execute stage. The state of the instantiate stage is kept as long as the executable.
    ///
    /// # Errors
    /// The handler's error. `INVALID_ARGUMENT` if the attribute parser of the revision's hosts rejects an attribute.
    /// Before r2, the parser rejects dictionaries; before r3, `dense<…>` and unsigned arrays. On every revision, the
    /// parser rejects floats other than `f32` and `f64`, integers of less than 8 bits, and complex numbers. It also
    /// rejects arrays of these types and of booleans.
    pub fn instantiate(&self, attributes: &Attributes) -> Result<Executable> {
        attribute_parser::accept(attributes, self.shared.revision)?;
        self.instantiate_any(attributes)
    }

    /// Creates an executable like [`Handler::instantiate`], and also accepts attributes that JAX cannot pass to
    /// handlers. Use this function for other hosts, for frames that are built by hand, and for recorded frames.
    ///
    /// # Errors
    /// The handler's error, and `FAILED_PRECONDITION` after a shutdown.
    pub fn instantiate_any(&self, attributes: &Attributes) -> Result<Executable> {
        self.shared.calls.check()?;
        let encoded = Encoded::new(attributes, self.shared.revision);
        let executable = Executable::new(self.clone(), encoded);
        if self.bundle.get(Stage::Instantiate).is_some() && self.shared.revision != Revision::R0 {
            instantiate(&executable)?;
        }
        Ok(executable)
    }
}

/// Runs the instantiate stage of an executable, with all attributes and without operands.
fn instantiate(executable: &Executable) -> Result<()> {
    let shared = &executable.handler().shared;
    let handler = executable.function(Stage::Instantiate)?;
    let attributes: Arc<Encoded> = executable.attributes().clone();
    let mut frame = CallFrame::of_tensors(shared.revision, &[], &[], attributes)?;
    let parts = Parts {
        thread_pool: false,
        device_ordinal: -1,
        ..Parts::new()
    };
    let tally = &executable.handler().tally;
    let state = executable.state().clone();
    let context = Box::new(Context::new(shared.clone(), tally, parts, state, false));
    let mut raw = frame.raw(shared.api(), context.raw(), Stage::Instantiate);
    let outcome = run_stage(executable, &context, handler, Stage::Instantiate, &mut raw);
    if let Some(open) = context.progress().open() {
        let body = Body {
            context,
            raw,
            frame,
            request: Request::default(),
            rets: vec![],
        };
        keep_until_done(open, Box::new(body), executable.clone());
    }
    outcome
}
