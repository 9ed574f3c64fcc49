//! Prepared calls, whose call frame is built once. A run costs little more than a direct call of the handler.

use super::body::{Body, keep_until_done};
use super::invoke::{invoke, run_stage, stage_error};
use super::request::{Request, flips, operands};
use super::unwritten::Poison;
use super::{Call, Stages, Unwritten};
use crate::api::Recorder;
use crate::context::{Context, Parts};
use crate::frame::{CallFrame, Stage};
use crate::handler::Executable;
use crate::host::futures::Completion;
use crate::value::Tensor;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use xla_ffi_sys::XLA_FFI_Handler;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Frees the data of a call whose handler is done, after the work on the call's stream has run.
fn release(body: Box<Body>, executable: &Executable) {
    // Threads that wait for all calls to end keep waiting until the data of this call is freed.
    body.context.progress().stay();
    if let Some(stream) = body.context.parts().stream.clone() {
        stream.synchronize_and_drop((body, executable.clone()));
    }
}

/// Runs a stage before execute, and prepares the frame for the execute stage again.
fn run_before(executable: &Executable, body: &mut Body, stage: Stage) -> Result<()> {
    body.context
        .check_wanted()
        .map_err(|error| stage_error(error, executable, stage))?;
    let handler = executable.function(stage)?;
    let api = body.context.shared().api();
    body.raw = body.frame.raw(api, body.context.raw(), stage);
    run_stage(executable, &body.context, handler, stage, &mut body.raw)?;
    body.raw = body.frame.raw(api, body.context.raw(), Stage::Execute);
    Ok(())
}

#[cold]
pub(super) fn own_arrays() -> Error {
    Error::invalid_argument("the operands of this call are its own arrays")
}

/// A call with its operands and a complete call frame, for many runs.
///
/// A prepared call has one set of operands, so only one thread can run it at a time. To run a call from several
/// threads, create a clone per thread with [`PreparedCall::try_clone`]. Clones share no lock and no written memory.
/// Alternatively, protect one prepared call with a lock. Prepared calls are `Send` and `Sync`: any thread may call
/// [`PreparedCall::is_open`], or read the results between two runs.
///
/// An execution that exceeds its time limit stays open: its handler may use the operands until
/// [`PreparedCall::wait`], [`PreparedCall::wait_for`] or [`PreparedCall::on_end`] reports its end. An open call may
/// be dropped; its data is kept as long as the handler may use it.
pub struct PreparedCall {
    handler: XLA_FFI_Handler,
    /// The random bytes with which the results of the current execution were filled, to detect unwritten results.
    pub(super) poison: Option<Poison>,
    pub(super) open: Option<Arc<Completion>>,
    /// The results with the element order of [`Tensor`]. Set at the first request, if the host packs elements in a
    /// different order.
    pub(super) unpacked: OnceLock<Vec<Tensor>>,
    /// Identifies this call to recorders; set by the first recording.
    recorded: Option<Arc<()>>,
    // Fields are dropped in order: the executable's library must stay loaded until the body's state is destroyed.
    pub(super) body: ManuallyDrop<Box<Body>>,
    pub(super) executable: Executable,
}

impl PreparedCall {
    pub(crate) fn new(call: Call, frame: Option<CallFrame>) -> Result<Self> {
        let tally = call.executable.handler().tally.clone();
        Self::lay_out(call, frame).inspect_err(|error| tally.fail(error.code()))
    }

    fn lay_out(call: Call, frame: Option<CallFrame>) -> Result<Self> {
        let Call {
            executable,
            mut request,
        } = call;
        let shared = &executable.handler().shared;
        shared.calls.check()?;
        if let Some(data) = &request.parts.user_data {
            data.check(shared)?;
        }
        let mut rets = vec![];
        operands(
            &mut request.args,
            &mut request.rets,
            shared.revision,
            &mut rets,
        )?;
        let attributes = executable.attributes().clone();
        let frame = match frame {
            Some(frame) => frame.with_attributes(attributes),
            None => CallFrame::of_tensors(shared.revision, &request.args, &rets, attributes)?,
        };
        Self::assemble(executable, frame, *request, rets)
    }

    /// Runs the stages before execute and returns the prepared call.
    fn assemble(
        executable: Executable,
        mut frame: CallFrame,
        mut request: Request,
        rets: Vec<Tensor>,
    ) -> Result<Self> {
        frame.check_overlap()?;
        let shared = executable.handler().shared.clone();
        let rules = request.rules;
        let both = rules.stages == Stages::All;
        let tally = &executable.handler().tally;
        let state = executable.state().clone();
        let parts = std::mem::replace(&mut request.parts, Parts::new());
        let mut context = Context::new(shared.clone(), tally, parts, state, both);
        // An expired time limit is reported at the start of a stage, so the result is ignored.
        let _ = context.start_time_limit(rules.time_limit.flatten());
        let context = Box::new(context);
        let raw = frame.raw(shared.api(), context.raw(), Stage::Execute);
        let mut body = Box::new(Body {
            context,
            raw,
            frame,
            request,
            rets,
        });
        for stage in [Stage::Prepare, Stage::Initialize] {
            if !executable.runs(stage, rules.stages) {
                continue;
            }
            let Err(error) = run_before(&executable, &mut body, stage) else {
                continue;
            };
            match body.context.progress().open() {
                Some(open) => {
                    // After an error, the caller may free its memory and gets no later notification, so this function
                    // waits for the handler.
                    if body.is_on_memory_of_callers() {
                        let _ = open.wait(rules.wait_limit());
                    }
                    keep_until_done(open, body, executable);
                }
                None => release(body, &executable),
            }
            return Err(error);
        }
        Self::ready(executable, body)
    }

    /// Returns a prepared call. The stages before execute have already run.
    fn ready(executable: Executable, body: Box<Body>) -> Result<Self> {
        Ok(Self {
            handler: executable.function(Stage::Execute)?,
            poison: None,
            open: None,
            unpacked: OnceLock::new(),
            recorded: None,
            body: ManuallyDrop::new(body),
            executable,
        })
    }

    /// Starts an execution. Returns `true` if the execution is already complete; its results can then be read without
    /// a wait.
    ///
    /// # Errors
    /// The handler's error, hazards, and `FAILED_PRECONDITION` while the previous execution is open.
    #[inline]
    pub fn start(&mut self) -> Result<bool> {
        if self.open.is_some() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the last execution of this call is not over, or has not been waited for",
            ));
        }
        if let Err(error) = self.admit() {
            self.body.context.progress().count(Some(error.code()));
            return Err(stage_error(error, &self.executable, Stage::Execute));
        }
        let shared = &self.executable.handler().shared;
        let progress = self.body.context.progress();
        let begun = shared.calls.sample(progress);
        let body = &mut **self.body;
        let mut outcome = invoke(
            shared,
            &body.context,
            self.handler,
            Stage::Execute,
            &mut body.raw,
        )
        .map_err(|error| stage_error(error, &self.executable, Stage::Execute));
        if let Ok(Some(completion)) = outcome {
            return self.keep_open(completion, begun);
        }
        if self.poison.is_some() && outcome.is_ok() {
            outcome = self.look_for_unwritten().map(|()| None);
        }
        let code = outcome.as_ref().err().map(Error::code);
        let context = &self.body.context;
        context.progress().count(code);
        if let Some(begun) = begun {
            let calls = &context.shared().calls;
            calls.tell(
                &context.progress().tally().name,
                context.parts().run_id,
                begun,
                code,
            );
        }
        if let Err(error) = outcome {
            self.stay_open();
            return Err(error);
        }
        Ok(true)
    }

    /// Returns an error if the execution is cancelled or past its deadline. This check is before any write, so that a
    /// refused execution does not change the results.
    #[inline]
    fn admit(&mut self) -> Result<()> {
        let limit = self.body.request.rules.time_limit.flatten();
        self.body.context.start_time_limit(limit)?;
        let shared = &self.executable.handler().shared;
        shared.calls.check()?;
        if self.body.request.rules.unwritten == Unwritten::Refused {
            // Work that is queued on the stream may use the current contents of the results.
            self.body.synchronize()?;
            // SAFETY: no execution is open. If unwritten results are refused, the operands are in host memory: either
            // the call owns them, or the caller of `Call::prepare_on` guarantees this.
            self.poison = Some(unsafe { Poison::frame(&self.body.frame) });
        }
        if flips(shared.revision) {
            self.unpacked.take();
        }
        Ok(())
    }

    /// Keeps the execution open after the handler returned a future. Returns `true` if the future is already
    /// complete.
    fn keep_open(&mut self, completion: Arc<Completion>, begun: Option<Instant>) -> Result<bool> {
        let progress = self.body.context.progress().clone();
        completion.count(Box::new(move |code| progress.count(code)));
        if let Some(begun) = begun {
            let shared = self.body.context.shared().clone();
            let tally = self.body.context.progress().tally().clone();
            let run_id = self.body.context.parts().run_id;
            completion.observe(Box::new(move |code| {
                shared.calls.tell(&tally.name, run_id, begun, code);
            }));
        }
        let is_done = completion.is_done();
        self.open = Some(completion);
        // The outcome is reported immediately, because callers do not wait for a finished execution.
        if is_done {
            self.wait_for(None)?;
        }
        Ok(is_done)
    }

    /// Keeps the execution open after an error if the handler left a future open, because the handler's threads may
    /// still write the operands.
    #[cold]
    fn stay_open(&mut self) {
        self.open = self.body.context.progress().open();
        self.poison = None;
    }

    /// Runs the record stage. The first recording with a recorder creates commands; later recordings update them.
    ///
    /// # Errors
    /// The handler's error, and an error if the handler has no record stage.
    pub fn record(&mut self, recorder: &mut Recorder) -> Result<()> {
        self.check_closed()?;
        self.body
            .context
            .check_wanted()
            .map_err(|error| stage_error(error, &self.executable, Stage::Record))?;
        let handler = self.executable.function(Stage::Record)?;
        let call = self.recorded.get_or_insert_default();
        let body = &mut **self.body;
        let shared = &self.executable.handler().shared;
        let mut raw = body
            .frame
            .raw(shared.api(), body.context.raw(), Stage::Record);
        let outcome = recorder.with_extension(call, |extension| {
            body.context.set_record(extension);
            let executable = &self.executable;
            let outcome = run_stage(executable, &body.context, handler, Stage::Record, &mut raw);
            body.context.set_record(std::ptr::null());
            outcome
        });
        if outcome.is_err() {
            self.stay_open();
        }
        outcome
    }

    /// Returns an error if a successful execution left results unwritten and the call refuses such results.
    #[cold]
    pub(super) fn look_for_unwritten(&mut self) -> Result<()> {
        let Some(poison) = self.poison.take() else {
            return Ok(());
        };
        self.body.synchronize()?;
        self.body.check_guards()?;
        // SAFETY: the execution has ended, and the call still has the same operands.
        unsafe { poison.check() }
            .map_err(|error| stage_error(error, &self.executable, Stage::Execute))
    }

    /// Runs the execute stage and waits until it is complete.
    ///
    /// A synchronous handler blocks the caller beyond the time limit ([`Call::time_limit`]).
    ///
    /// # Errors
    /// The errors of [`PreparedCall::start`] and [`PreparedCall::wait`].
    #[inline]
    pub fn invoke(&mut self) -> Result<()> {
        self.start()?;
        if self.open.is_some() {
            return self.wait();
        }
        Ok(())
    }

    /// Waits until the call's stream has run the work of all executions.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.body.synchronize()
    }

    pub(super) fn check_closed(&self) -> Result<()> {
        let why = match &self.open {
            None => return Ok(()),
            Some(completion) if completion.is_done() => {
                "the last execution is over, and what became of it has not been asked: wait for it"
            }
            Some(_) => "an execution is open: the handler may still write the results",
        };
        Err(Error::new(ErrorCode::FailedPrecondition, why))
    }

    /// Returns a copy of the call for a different thread. The copy shares its arguments with this call. Results, and
    /// arguments whose memory results share, get new memory that is initialised with zeros. The stages before execute
    /// run again. Both calls use the same state of the instantiate stage and the same user data.
    ///
    /// # Errors
    /// The errors of [`Call::prepare`]. `FAILED_PRECONDITION` while an execution is open, or if the operands are in
    /// the caller's memory (use [`PreparedCall::try_clone_on`]). `FAILED_PRECONDITION` on the thread of the call's
    /// stream if a result uses an argument's memory.
    pub fn try_clone(&self) -> Result<Self> {
        self.check_closed()?;
        let body = &**self.body;
        if body.is_on_memory_of_callers() && body.frame.has_operands() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the operands are the caller's memory, which two calls cannot have at once: name other \
                 memory (try_clone_on)",
            ));
        }
        let mut args = body.request.args.clone();
        let mut rets = Vec::with_capacity(body.rets.len());
        for ret in &body.rets {
            let shared_with = args.iter_mut().find(|arg| arg.shares_memory_with(ret));
            rets.push(match shared_with {
                Some(arg) => {
                    // Work on the stream from the last execution may still write this result.
                    body.synchronize()?;
                    *arg = Tensor::from_bytes(ret.shape().clone(), ret.bytes())?;
                    arg.clone()
                }
                None => Tensor::zeros(ret.shape().clone())?,
            });
        }
        let executable = self.executable.clone();
        let attributes = executable.attributes().clone();
        let frame = CallFrame::of_tensors(body.revision(), &args, &rets, attributes)?;
        Self::assemble(executable, frame, body.request_of_another(args), rets)
    }

    /// Returns a copy of a call whose operands are in the caller's memory, like [`PreparedCall::try_clone`]. The copy
    /// uses the given memory.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a wrong number of pointers or for a call that owns its operands.
    ///
    /// # Safety
    /// The requirements of [`Call::prepare_on`] apply.
    pub unsafe fn try_clone_on(&self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<Self> {
        let body = &**self.body;
        if !body.is_on_memory_of_callers() {
            return Err(own_arrays());
        }
        let frame = body.frame.copy_with(args, rets)?;
        let executable = self.executable.clone();
        Self::assemble(executable, frame, body.request_of_another(vec![]), vec![])
    }

    /// Returns the results of the last execution, in order.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or on the thread of the call's stream; a hazard if a handler
    /// wrote bytes after an operand.
    pub fn into_rets(mut self) -> Result<Vec<Tensor>> {
        self.check_closed()?;
        self.body.synchronize()?;
        self.body.check_guards()?;
        let body = &mut **self.body;
        body.request.args.clear();
        let rets = std::mem::take(&mut body.rets);
        if flips(body.revision()) {
            return rets.iter().map(Tensor::with_flipped_packing).collect();
        }
        Ok(rets)
    }

    /// Returns the bytes of a result of the last execution.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or on the thread of the call's stream; `OUT_OF_RANGE` for a
    /// result that does not exist.
    pub fn ret_bytes(&self, index: usize) -> Result<&[u8]> {
        self.check_closed()?;
        self.body.synchronize()?;
        let mut rets = &self.body.rets;
        if flips(self.body.revision()) {
            rets = match self.unpacked.get() {
                Some(known) => known,
                None => {
                    let new = rets.iter().map(Tensor::with_flipped_packing);
                    let new = new.collect::<Result<_>>()?;
                    self.unpacked.get_or_init(|| new)
                }
            };
        }
        rets.get(index).map(Tensor::bytes).ok_or_else(|| {
            let count = self.body.rets.len();
            Error::new(
                ErrorCode::OutOfRange,
                format!("result {index} is asked for, there are {count}"),
            )
        })
    }
}

impl Drop for PreparedCall {
    fn drop(&mut self) {
        // SAFETY: only `drop` takes the body, and it does not use the field afterwards.
        let mut body = unsafe { ManuallyDrop::take(&mut self.body) };
        match self.open.take() {
            // A handler that has not completed its future may still write its operands.
            Some(completion) if !completion.is_done() => {
                keep_until_done(completion, body, self.executable.clone());
            }
            over => {
                if over.is_some() {
                    body.forget_future();
                }
                release(body, &self.executable);
            }
        }
    }
}

impl std::fmt::Debug for PreparedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedCall")
            .field("handler", &self.executable.handler())
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

// Prepared calls are `Send` and `Sync`.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<PreparedCall>();
    any_thread::<Call>();
};
