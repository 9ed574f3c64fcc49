//! A call while it runs.

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
    /// The current calls of this thread, the innermost last.
    static CALLS: RefCell<Vec<Arc<Running>>> = const { RefCell::new(Vec::new()) };
}

/// A stage of a handler. Exceptions may pass through it; the host handles them.
pub(crate) type Handler =
    unsafe extern "C-unwind" fn(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// The handler's stage for which a trampoline was created.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) function: Handler,
    pub(crate) library: String,
    pub(crate) handler: String,
    pub(crate) stages: BTreeMap<String, String>,
}

/// A call that has started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) session: Arc<Session>,
    pub(crate) call: Call,
    pub(crate) slot: usize,
    host: Host,
    /// Whether the host's functions are watched; otherwise the completion of a future is not seen.
    watched: bool,
    rets: Vec<Place>,
    progress: Mutex<Progress>,
}

/// The progress of a call.
#[derive(Debug)]
struct Progress {
    /// `None` once the call has ended.
    writer: Option<Writer>,
    /// The future that the handler returned; unknown while the handler runs.
    returned: Option<usize>,
    /// The futures that the handler created, with the outcomes of those that are complete.
    futures: Vec<(usize, Option<Outcome>)>,
}

/// Returns the innermost call of this thread.
pub(crate) fn innermost() -> Option<Arc<Running>> {
    CALLS
        .try_with(|calls| calls.borrow().last().cloned())
        .ok()?
}

/// Returns the name of a stage; `None` for stages that are not recorded.
fn stage_name(stage: XLA_FFI_ExecutionStage) -> Option<&'static str> {
    match stage {
        XLA_FFI_ExecutionStage::INSTANTIATE => Some("instantiate"),
        XLA_FFI_ExecutionStage::PREPARE => Some("prepare"),
        XLA_FFI_ExecutionStage::INITIALIZE => Some("initialize"),
        XLA_FFI_ExecutionStage::EXECUTE => Some("execute"),
        _ => None,
    }
}

/// Starts to record a call; `None` if this kind of call is not recorded.
///
/// # Safety
/// The frame is from a host of the session's revision, and is passed to a handler.
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
    // SAFETY: every revision's frame has this field.
    let stage = stage_name(unsafe { (*frame).stage })?;
    // SAFETY: hosts pass a valid frame.
    let (args, rets) = unsafe { frame::operands(frame) }?;
    // SAFETY: every revision's frame has this field.
    let api = unsafe { (*frame).api };
    // SAFETY: the table belongs to the frame's host, whose revision the session knows.
    let host = unsafe { Host::new(api, session.revision) };
    // SAFETY: every revision's frame has this field.
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
    // The first argument of those that share memory.
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
            // SAFETY: the arguments belong to the call, which has not started.
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
    /// Notes the state that the call set.
    pub(crate) fn state_set(&self, state: usize) {
        if self.call.stage == "instantiate" {
            self.session.state_set(state, self.slot, &self.call);
        }
    }

    /// Notes that the call requested the state of an instantiate stage.
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
        // Without its state, the call cannot be repeated.
        writer.discard();
        self.session.failed.fetch_add(1, Ordering::Relaxed);
        self.session.open.fetch_sub(1, Ordering::Release);
    }

    /// Notes that the handler created a future, whose address an earlier future may have had.
    pub(crate) fn made(&self, future: usize) {
        let futures = &mut lock(&self.progress).futures;
        futures.retain(|(known, _)| *known != future);
        futures.push((future, None));
    }

    /// Notes that a future is complete. This is the end of the call if the handler returned that future.
    ///
    /// # Safety
    /// If it is the returned future: the results still belong to the call, and nothing writes to them.
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

    /// Notes that the handler returned a future.
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
            // The future was created here, so its completion will be seen.
            Some(None) => {}
            // SAFETY: the caller upholds this function's safety contract.
            Some(Some(outcome)) => unsafe { self.ended(outcome, true) },
            None => hooks::expect(future, self),
        }
    }

    /// Notes that the handler returned no future.
    fn forget_futures(self: &Arc<Self>) {
        let futures = std::mem::take(&mut lock(&self.progress).futures);
        for (future, _) in futures {
            hooks::forget(future, self);
        }
    }

    /// Returns the code and the text of a handler's error.
    ///
    /// # Safety
    /// The error belongs to the call's host and is alive.
    pub(crate) unsafe fn error(&self, error: *mut XLA_FFI_Error) -> Outcome {
        // SAFETY: the caller upholds this function's safety contract.
        let (code, message) = unsafe { self.host.error(error) };
        Outcome::Error { code, message }
    }

    /// Writes the end of the call, once: when the handler returns, or later.
    ///
    /// # Safety
    /// If the call succeeded: the results still belong to the call, and nothing writes to them.
    unsafe fn ended(&self, outcome: Outcome, later: bool) {
        let Some(mut writer) = lock(&self.progress).writer.take() else {
            return;
        };
        let rets: &[Place] = match outcome {
            Outcome::Done => &self.rets,
            _ => &[],
        };
        // A file that ends inside a section belongs to a call that never ended.
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

/// The time during which a thread is inside a call.
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

    /// Ends the call after the handler returned.
    ///
    /// # Safety
    /// The handler returned this error, or null, from a call with this frame.
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
            // SAFETY: frames have this field from r2 on.
            unsafe { (*frame).future }
        };
        if !future.is_null() && error.is_null() && running.watched {
            // SAFETY: the host has not seen the future yet.
            return unsafe { running.note_future(future as usize) };
        }
        running.forget_futures();
        let outcome = if !error.is_null() {
            // SAFETY: the handler returned this error, which the host has not seen yet.
            unsafe { running.error(error) }
        } else if future.is_null() {
            Outcome::Done
        } else {
            Outcome::Unwatched
        };
        let later = outcome == Outcome::Unwatched;
        // SAFETY: the handler has returned, without a future.
        unsafe { running.ended(outcome, later) };
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = CALLS.try_with(|calls| calls.borrow_mut().pop());
        if !self.returned {
            self.running.forget_futures();
            // SAFETY: the call failed, so results are not read.
            unsafe { self.running.ended(Outcome::Unwound, false) };
        }
    }
}
