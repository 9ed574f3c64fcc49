//! Prepared calls, whose frame is laid out: running one costs little more than calling the handler directly.

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

/// Frees a body that no handler uses any more, after the work on its stream has run.
fn release(body: Box<Body>, executable: &Executable) {
    // Threads that wait for calls keep waiting until the data of this call is freed.
    body.context.progress().stay();
    if let Some(stream) = body.context.parts().stream.clone() {
        stream.synchronize_and_drop((body, executable.clone()));
    }
}

/// Runs a stage before execute, and lays the frame out for execute again.
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

/// A call with its operands in place.
///
/// It has one set of operands, so one thread runs it at a time: running takes `&mut self`. To run from several threads,
/// give each its own clone ([`PreparedCall::try_clone`]), which shares no lock and no written memory with the others.
/// Alternatively, protect one call with a lock. It is `Send` and `Sync`: any thread may ask whether it is open, or read
/// its results between two runs.
///
/// An execution that exceeds its time limit stays open. Its operands belong to it until [`PreparedCall::wait`],
/// [`PreparedCall::wait_for`] or [`PreparedCall::on_end`] reports its end. A call may be dropped while it is open; its
/// data is kept as long as the handler may use it.
pub struct PreparedCall {
    handler: XLA_FFI_Handler,
    /// The initial contents of the results of the current execution.
    pub(super) poison: Option<Poison>,
    pub(super) open: Option<Arc<Completion>>,
    /// The results in the packing of tensors, after they were requested, if the host packs them differently.
    pub(super) unpacked: OnceLock<Vec<Tensor>>,
    /// The identity of this call for recorders, after it was recorded.
    recorded: Option<Arc<()>>,
    // Dropped before the executable, because the executable's library destroys its state.
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

    /// Runs the stages before execute and makes the call ready.
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
        // A time limit that has passed is reported when a stage starts.
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
                    // The caller cannot be notified later, and may take back the memory when this error is returned.
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

    /// Returns a call whose stages before execute have run.
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

    /// Starts an execution. Returns `true` if the execution is already complete, so that its results may be read
    /// without waiting.
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

    /// Refuses an execution that was cancelled or is too late, before anything is written, so that its results do not
    /// change.
    #[inline]
    fn admit(&mut self) -> Result<()> {
        let limit = self.body.request.rules.time_limit.flatten();
        self.body.context.start_time_limit(limit)?;
        let shared = &self.executable.handler().shared;
        shared.calls.check()?;
        if self.body.request.rules.unwritten == Unwritten::Refused {
            // Queued work may use the current contents of the results.
            self.body.synchronize()?;
            // SAFETY: no execution is open. If unwritten results are refused, the operands are host memory: the call
            // owns them, or the caller of `Call::prepare_on` guarantees this.
            self.poison = Some(unsafe { Poison::frame(&self.body.frame) });
        }
        if flips(shared.revision) {
            self.unpacked.take();
        }
        Ok(())
    }

    /// Keeps the execution open after the handler returned a future. Returns `true` if the future is complete already.
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
        // The outcome is reported here, because callers do not wait for a finished execution.
        if is_done {
            self.wait_for(None)?;
        }
        Ok(is_done)
    }

    /// Keeps the execution open after an error if the handler left a future: its threads may still write.
    #[cold]
    fn stay_open(&mut self) {
        self.open = self.body.context.progress().open();
        self.poison = None;
    }

    /// Runs the record stage. The first time that this call gets the recorder, its handler makes commands; later it
    /// updates them.
    ///
    /// # Errors
    /// A handler without a record stage, and the handler's error.
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

    /// Reports results that a successful execution left unwritten, if this is requested.
    #[cold]
    pub(super) fn look_for_unwritten(&mut self) -> Result<()> {
        let Some(poison) = self.poison.take() else {
            return Ok(());
        };
        self.body.synchronize()?;
        self.body.check_guards()?;
        // SAFETY: the execution is over, and its operands are still in place.
        unsafe { poison.check() }
            .map_err(|error| stage_error(error, &self.executable, Stage::Execute))
    }

    /// Runs the execute stage and waits until it is complete.
    ///
    /// A handler that is not asynchronous blocks the caller beyond the time limit ([`Call::time_limit`]).
    ///
    /// # Errors
    /// As for [`PreparedCall::start`] and [`PreparedCall::wait`].
    #[inline]
    pub fn invoke(&mut self) -> Result<()> {
        self.start()?;
        if self.open.is_some() {
            return self.wait();
        }
        Ok(())
    }

    /// Waits for the work that the executions put on the call's stream.
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

    /// Returns a copy of the call for another thread. Arguments are shared with this call; results, and arguments whose
    /// memory results share, get new memory that is zero. The stages before execute run again; the state of the
    /// instantiate stage and the user data are the same objects.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or if the operands are the caller's memory
    /// ([`PreparedCall::try_clone_on`]). `FAILED_PRECONDITION` on the stream's own thread if a result has an argument's
    /// memory. Otherwise as for [`Call::prepare`].
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
                    // Work of the last execution may still write this result.
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

    /// Copies a call that uses the caller's memory, like [`PreparedCall::try_clone`]; the copy uses the given memory.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a wrong number of pointers or a call that owns its operands.
    ///
    /// # Safety
    /// As for [`Call::prepare_on`].
    pub unsafe fn try_clone_on(&self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<Self> {
        let body = &**self.body;
        if !body.is_on_memory_of_callers() {
            return Err(own_arrays());
        }
        let frame = body.frame.copy_with(args, rets)?;
        let executable = self.executable.clone();
        Self::assemble(executable, frame, body.request_of_another(vec![]), vec![])
    }

    /// Returns the results of an execution.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or on the stream's own thread; a hazard if bytes after an
    /// operand were written.
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

    /// Returns the bytes of a result of an execution.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` while an execution is open, or on the stream's own thread; `OUT_OF_RANGE` for a result
    /// that does not exist.
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
        // SAFETY: taken only here, and not used afterwards.
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

// Prepared calls can move between threads and be shared by them.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<PreparedCall>();
    any_thread::<Call>();
};
