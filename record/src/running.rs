//! One call while it runs.

use crate::call::{Call, Context, Data, End, Operand, Outcome, State};
use crate::file::{ARGS, CALL, DONE, RETS, STATE};
use crate::frame::{self, Place};
use crate::hooks;
use crate::host::Host;
use crate::session::{Handler, Session, lock};
use crate::trampoline::Slot;
use crate::write::Writer;
use std::cell::RefCell;
use std::io::Result;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use xla_ffi_sys::{
    Revision, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_ExecutionStage, XLA_FFI_Future,
};

thread_local! {
    /// The calls that this thread is in, the innermost last.
    static CALLS: RefCell<Vec<Arc<Running>>> = const { RefCell::new(Vec::new()) };
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) session: Arc<Session>,
    pub(crate) call: Call,
    pub(crate) slot: usize,
    host: Host,
    /// Whether the host's functions are watched: if not, a future's completion is not seen.
    watched: bool,
    rets: Vec<Place>,
    /// Gone once the call is over.
    writer: Mutex<Option<Writer>>,
}

/// The innermost call of this thread.
pub(crate) fn innermost() -> Option<Arc<Running>> {
    CALLS
        .try_with(|calls| calls.borrow().last().cloned())
        .ok()?
}

/// The name of a stage; `None` for one that is not recorded.
fn stage_name(stage: XLA_FFI_ExecutionStage) -> Option<&'static str> {
    match stage {
        XLA_FFI_ExecutionStage::INSTANTIATE => Some("instantiate"),
        XLA_FFI_ExecutionStage::PREPARE => Some("prepare"),
        XLA_FFI_ExecutionStage::INITIALIZE => Some("initialize"),
        XLA_FFI_ExecutionStage::EXECUTE => Some("execute"),
        _ => None,
    }
}

/// Begins to record a call; `None` where it is none that is recorded.
///
/// # Safety
/// The frame is one that a host of the session's revision hands to a handler.
pub(crate) unsafe fn begin(
    session: &Arc<Session>,
    index: usize,
    slot: &Slot,
    frame: *const XLA_FFI_CallFrame,
) -> Option<Arc<Running>> {
    if frame.is_null() {
        return None;
    }
    // SAFETY: the frame is a host's.
    if session.revision >= Revision::R1 && unsafe { frame::asks_for_metadata(frame) } {
        return None;
    }
    // SAFETY: every revision's frame has this field.
    let stage = stage_name(unsafe { (*frame).stage })?;
    // SAFETY: the frame is a host's.
    let (args, rets) = unsafe { frame::operands(frame) }?;
    // SAFETY: every revision's frame has this field.
    let api = unsafe { (*frame).api };
    // SAFETY: the table of the frame's host, whose revision the session was told.
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
        // SAFETY: the frame is a host's.
        attributes: unsafe { frame::attributes(frame) },
        args: args.iter().map(|place| operands(place, None)).collect(),
        rets: rets
            .iter()
            .map(|place| operands(place, args.iter().position(|arg| arg.is(place))))
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
    let write = || -> Result<Writer> {
        let mut writer = Writer::create(&session.folder, &call)?;
        writer.json(CALL, &call)?;
        for (index, (place, operand)) in args.iter().zip(&call.args).enumerate() {
            // SAFETY: the arguments are the call's, which has not begun.
            if let (Data::Kept(_), Some(bytes)) = (operand.data, unsafe { place.bytes() }) {
                writer.operand(ARGS, index, bytes)?;
            }
        }
        Ok(writer)
    };
    let Ok(writer) = write() else {
        count(&session.failed);
        return None;
    };
    count(&session.open);
    Some(Arc::new(Running {
        session: session.clone(),
        slot: index,
        host,
        watched: hooks::watch(host),
        rets,
        writer: Mutex::new(Some(writer)),
        call,
    }))
}

impl Running {
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.writer).is_none()
    }

    fn handler(&self) -> Handler {
        (self.call.library.clone(), self.call.handler.clone())
    }

    /// Notes a state that the call has left.
    pub(crate) fn state_set(&self, state: usize) {
        if self.call.stage == "instantiate" {
            let call = &self.call;
            self.session.state_set(
                state,
                self.slot,
                call.number,
                self.handler(),
                &call.attributes,
            );
        }
    }

    /// Notes the state of an instantiation that the call has asked for.
    pub(crate) fn state_got(&self, state: usize) {
        let instance = self
            .session
            .state_of(state, &self.handler(), &self.call.attributes);
        if let Some(writer) = lock(&self.writer).as_mut() {
            if writer.json(STATE, &State { instance }).is_err() {
                self.session.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The call went well, now or later.
    ///
    /// # Safety
    /// The results are still the call's, and nobody writes to them.
    pub(crate) unsafe fn done(&self, later: bool) {
        self.end(Outcome::Done, later, |writer| {
            for (index, (place, operand)) in self.rets.iter().zip(&self.call.rets).enumerate() {
                // SAFETY: the caller's promise.
                if let (Data::Kept(_), Some(bytes)) = (operand.data, unsafe { place.bytes() }) {
                    writer.operand(RETS, index, bytes)?;
                }
            }
            Ok(())
        });
    }

    /// The call ended with an error of the handler, now or later.
    ///
    /// # Safety
    /// The error is one of the call's host, alive.
    pub(crate) unsafe fn failed(&self, error: *mut XLA_FFI_Error, later: bool) {
        // SAFETY: the caller's promise.
        let (code, message) = unsafe { self.host.error(error) };
        self.end(Outcome::Error { code, message }, later, |_| Ok(()));
    }

    /// Writes the end of the call, once.
    fn end(&self, outcome: Outcome, later: bool, before: impl FnOnce(&mut Writer) -> Result<()>) {
        let Some(mut writer) = lock(&self.writer).take() else {
            return;
        };
        let written = before(&mut writer).and_then(|()| writer.json(DONE, &End { outcome, later }));
        let counter = match written {
            Ok(()) => &self.session.recorded,
            Err(_) => &self.session.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.session.open.fetch_sub(1, Ordering::Release);
    }
}

/// The time in which a thread is in a call.
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

    /// The handler has returned.
    ///
    /// # Safety
    /// With this error or none, from a call with this frame.
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
        if !error.is_null() {
            hooks::forget(running);
            // SAFETY: the handler's answer, which the host has not seen yet.
            unsafe { running.failed(error, false) };
        } else if future.is_null() {
            hooks::forget(running);
            // SAFETY: the handler has returned, and left no future.
            unsafe { running.done(false) };
        } else if running.watched {
            hooks::expect(future, running);
        } else {
            running.end(Outcome::Unwatched, true, |_| Ok(()));
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = CALLS.try_with(|calls| calls.borrow_mut().pop());
        if !self.returned {
            hooks::forget(&self.running);
            self.running.end(Outcome::Unwound, false, |_| Ok(()));
        }
    }
}
