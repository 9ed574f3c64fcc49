//! Calls that are being recorded, while they run.

use crate::call::{Call, Context, Data, End, Operand, Outcome, State};
use crate::file::{ARGS, CALL, DONE, RETS, STATE, Writer};
use crate::frame::{self, Place};
use crate::hooks;
use crate::host::Host;
use crate::session::{Session, lock};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::Result;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use xla_ffi_sys::{
    Revision, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_Future,
};

thread_local! {
    /// The recorded calls in progress on this thread, the innermost last.
    static CALLS: RefCell<Vec<Arc<Running>>> = const { RefCell::new(Vec::new()) };
}

/// The function of a handler's stage. Exceptions may unwind through it to the host.
pub(crate) type Handler =
    unsafe extern "C-unwind" fn(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// A handler's stage that a trampoline calls.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) function: Handler,
    pub(crate) library: String,
    pub(crate) handler: String,
    pub(crate) stages: BTreeMap<String, String>,
}

/// A recorded call that has started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) session: Arc<Session>,
    pub(crate) call: Call,
    pub(crate) slot: usize,
    host: Host,
    /// Whether the host's functions are watched. Otherwise, the recorder does not notice the completion of futures.
    watched: bool,
    rets: Vec<Place>,
    progress: Mutex<Progress>,
}

/// The progress of a recorded call.
#[derive(Debug)]
struct Progress {
    /// The writer of the call's file; `None` after the end of the call.
    writer: Option<Writer>,
    /// The future that the handler returned; `None` until the handler has returned.
    returned: Option<usize>,
    /// The futures that the handler created, with the outcomes of those that are complete.
    futures: Vec<(usize, Option<Outcome>)>,
}

/// Returns the innermost recorded call in progress on this thread.
pub(crate) fn innermost() -> Option<Arc<Running>> {
    CALLS
        .try_with(|calls| calls.borrow().last().cloned())
        .ok()?
}

/// Returns the name of a stage in recorded calls; `None` for stages that are not recorded.
fn stage_name(stage: XLA_FFI_ExecutionStage) -> Option<&'static str> {
    match stage {
        XLA_FFI_ExecutionStage::INSTANTIATE => Some("instantiate"),
        XLA_FFI_ExecutionStage::PREPARE => Some("prepare"),
        XLA_FFI_ExecutionStage::INITIALIZE => Some("initialize"),
        XLA_FFI_ExecutionStage::EXECUTE => Some("execute"),
        _ => None,
    }
}

/// Starts to record a call. Returns `None` if calls of this kind are not recorded.
///
/// # Safety
/// `frame` must be the call frame of a host of the session's revision, which is passed to a handler.
pub(crate) unsafe fn begin(
    session: &Arc<Session>,
    index: usize,
    slot: &Slot,
    frame: *const XLA_FFI_CallFrame,
) -> Option<Arc<Running>> {
    if frame.is_null() {
        return None;
    }
    // SAFETY: hosts pass a valid frame.
    if session.revision >= Revision::R1 && unsafe { frame::asks_for_metadata(frame) } {
        return None;
    }
    // SAFETY: the frames of all revisions have this field.
    let stage = stage_name(unsafe { (*frame).stage })?;
    // SAFETY: hosts pass a valid frame.
    let (args, rets) = unsafe { frame::operands(frame) }?;
    // SAFETY: the frames of all revisions have this field.
    let api = unsafe { (*frame).api };
    // SAFETY: the table belongs to the frame's host, whose revision is that of the session.
    let host = unsafe { Host::new(api, session.revision) };
    // SAFETY: the frames of all revisions have this field.
    let ctx = unsafe { (*frame).ctx };
    let executes = stage == "execute" && !ctx.is_null() && !api.is_null();
    let operands = |place: &Place, alias| {
        let data = match place.size {
            None => Data::Untyped,
            Some(_) if !place.has_address() => Data::Absent,
            Some(bytes) if session.reserve(bytes as u64) => Data::Kept(bytes as u64),
            Some(_) => Data::Limit,
        };
        Operand {
            dtype: place.dtype,
            dims: place.dims.clone(),
            alias,
            data,
        }
    };
    // For each memory region, the index of the first argument in this memory.
    let in_args: HashMap<_, _> = args
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(index, arg)| Some((arg.memory()?, index)))
        .collect();
    let alias = |ret: &Place| in_args.get(&ret.memory()?).copied();
    let call = Call {
        number: session.number(),
        library: slot.library.clone(),
        handler: slot.handler.clone(),
        stages: slot.stages.clone(),
        stage: stage.into(),
        host: session.host.clone(),
        revision: session.revision as u8,
        process: session.process,
        context: if executes {
            host.context(ctx)
        } else {
            Context::default()
        },
        // SAFETY: hosts pass a valid frame.
        attributes: unsafe { frame::attributes(frame) },
        args: args.iter().map(|place| operands(place, None)).collect(),
        rets: rets
            .iter()
            .map(|place| operands(place, alias(place)))
            .collect(),
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    if call
        .args
        .iter()
        .chain(&call.rets)
        .any(|operand| operand.data == Data::Limit)
    {
        count(&session.truncated);
    }
    let write = |writer: &mut Writer| -> Result<()> {
        writer.json(CALL, &call)?;
        for (index, (place, operand)) in args.iter().zip(&call.args).enumerate() {
            // SAFETY: the call owns the arguments, and the handler has not started.
            if let (Data::Kept(_), Some(bytes)) = (operand.data, unsafe { place.bytes() }) {
                writer.operand(ARGS, index, bytes)?;
            }
        }
        Ok(())
    };
    let fail = || {
        count(&session.failed);
        None
    };
    let Ok(mut writer) = Writer::create(&session.folder, &call) else {
        return fail();
    };
    if write(&mut writer).is_err() {
        writer.discard();
        return fail();
    }
    count(&session.open);
    Some(Arc::new(Running {
        session: session.clone(),
        slot: index,
        host,
        watched: hooks::watch(host),
        rets,
        progress: Mutex::new(Progress {
            writer: Some(writer),
            returned: None,
            futures: vec![],
        }),
        call,
    }))
}

impl Running {
    /// Records the state that this call set.
    pub(crate) fn state_set(&self, state: usize) {
        if self.call.stage == "instantiate" {
            self.session.state_set(state, self.slot, &self.call);
        }
    }

    /// Records that this call requested the state of an instantiate stage.
    pub(crate) fn state_got(&self, state: usize) {
        let instance = self.session.state_of(state, &self.call);
        let mut progress = lock(&self.progress);
        let Some(mut writer) = progress.writer.take() else {
            return;
        };
        if writer.json(STATE, &State { instance }).is_ok() {
            progress.writer = Some(writer);
            return;
        }
        // Without its state, the call cannot be replayed.
        writer.discard();
        self.session.failed.fetch_add(1, Ordering::Relaxed);
        self.session.open.fetch_sub(1, Ordering::Release);
    }

    /// Records that the handler created a future. A freed future may have had the same address.
    pub(crate) fn made(&self, future: usize) {
        let futures = &mut lock(&self.progress).futures;
        futures.retain(|(known, _)| *known != future);
        futures.push((future, None));
    }

    /// Records that a future is complete. If the handler returned this future, the call ends.
    ///
    /// # Safety
    /// If the handler returned this future, the call must still own the results, and no code may write to them.
    pub(crate) unsafe fn completed(&self, future: usize, outcome: Outcome) {
        {
            let mut progress = lock(&self.progress);
            match progress.returned {
                None => {
                    let mut futures = progress.futures.iter_mut();
                    if let Some(known) = futures.find(|known| known.0 == future) {
                        known.1 = Some(outcome);
                    }
                    return;
                }
                Some(returned) if returned != future => return,
                Some(_) => {}
            }
        }
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.ended(outcome, true) };
    }

    /// Records that the handler returned a future.
    ///
    /// # Safety
    /// The requirements of [`Running::completed`] apply.
    unsafe fn note_future(self: &Arc<Self>, future: usize) {
        let futures = {
            let mut progress = lock(&self.progress);
            progress.returned = Some(future);
            std::mem::take(&mut progress.futures)
        };
        let mut returned = None;
        for (known, outcome) in futures {
            if known == future {
                returned = Some(outcome);
            } else {
                hooks::forget(known, self);
            }
        }
        match returned {
            // The recorder watches the future from its creation, so it will also notice the completion.
            Some(None) => {}
            // SAFETY: the caller upholds this function's safety contract.
            Some(Some(outcome)) => unsafe { self.ended(outcome, true) },
            None => hooks::expect(future, self),
        }
    }

    /// Records that the handler returned without a future.
    fn forget_futures(self: &Arc<Self>) {
        let futures = std::mem::take(&mut lock(&self.progress).futures);
        for (future, _) in futures {
            hooks::forget(future, self);
        }
    }

    /// Returns the outcome of a call that failed with this error.
    ///
    /// # Safety
    /// `error` must be an error of the call's host that is not freed.
    pub(crate) unsafe fn error(&self, error: *mut XLA_FFI_Error) -> Outcome {
        // SAFETY: the caller upholds this function's safety contract.
        let (code, message) = unsafe { self.host.error(error) };
        Outcome::Error { code, message }
    }

    /// Writes the end of the call to the file, unless it is already written. `later` is set if a future ended the
    /// call.
    ///
    /// # Safety
    /// If the call succeeded, it must still own the results, and no code may write to them.
    unsafe fn ended(&self, outcome: Outcome, later: bool) {
        let Some(mut writer) = lock(&self.progress).writer.take() else {
            return;
        };
        let rets: &[Place] = match outcome {
            Outcome::Done => &self.rets,
            _ => &[],
        };
        // If a write fails, the file ends inside a section. Readers treat such a call as a call that did not end.
        let write = || -> Result<()> {
            for (index, (place, operand)) in rets.iter().zip(&self.call.rets).enumerate() {
                // SAFETY: the caller upholds this function's safety contract.
                if let (Data::Kept(_), Some(bytes)) = (operand.data, unsafe { place.bytes() }) {
                    writer.operand(RETS, index, bytes)?;
                }
            }
            writer.json(DONE, &End { outcome, later })
        };
        let counter = match write() {
            Ok(()) => &self.session.recorded,
            Err(_) => &self.session.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.session.open.fetch_sub(1, Ordering::Release);
    }
}

/// A guard for the time during which a thread runs a recorded call.
#[derive(Debug)]
pub(crate) struct Inside {
    running: Arc<Running>,
    returned: bool,
}

impl Inside {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        CALLS.with(|calls| calls.borrow_mut().push(running.clone()));
        Self {
            running,
            returned: false,
        }
    }

    /// Ends the call after the handler has returned.
    ///
    /// # Safety
    /// The handler must have returned `error`, which may be null, from a call with `frame`.
    pub(crate) unsafe fn returned(
        mut self,
        error: *mut XLA_FFI_Error,
        frame: *const XLA_FFI_CallFrame,
    ) {
        self.returned = true;
        let running = &self.running;
        let future: *mut XLA_FFI_Future = if running.session.revision < Revision::R2 {
            std::ptr::null_mut()
        } else {
            // SAFETY: frames have this field from r2.
            unsafe { (*frame).future }
        };
        if !future.is_null() && error.is_null() && running.watched {
            // SAFETY: the host has not received the future yet, so the call still owns the results.
            return unsafe { running.note_future(future as usize) };
        }
        running.forget_futures();
        let outcome = if !error.is_null() {
            // SAFETY: the handler returned this error, and the host has not received it yet.
            unsafe { running.error(error) }
        } else if future.is_null() {
            Outcome::Done
        } else {
            Outcome::Unwatched
        };
        let later = outcome == Outcome::Unwatched;
        // SAFETY: the handler has returned without a future, so no code writes to the results.
        unsafe { running.ended(outcome, later) };
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = CALLS.try_with(|calls| calls.borrow_mut().pop());
        if !self.returned {
            self.running.forget_futures();
            // SAFETY: the call failed, so its results are not read.
            unsafe { self.running.ended(Outcome::Unwound, false) };
        }
    }
}
