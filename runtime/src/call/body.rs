//! What a running call is made of, and calls that were dropped while their handlers were at work.

use super::request::Request;
use crate::context::Context;
use crate::device::Stream;
use crate::frame::{CallFrame, RawFrame, Stage};
use crate::handler::Executable;
use crate::host::futures::{Completion, forget};
use crate::value::Tensor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::Revision;
use xla_ffi_sys::{Error, Result};

/// What a running handler may touch. While a future is open it is neither read nor freed.
pub(crate) struct Body {
    pub(super) context: Box<Context>,
    pub(super) raw: RawFrame,
    pub(super) frame: CallFrame,
    /// The arguments and the rules of the call under way; its parts are the context's.
    pub(super) request: Request,
    pub(super) rets: Vec<Tensor>,
}

impl Body {
    pub(super) fn revision(&self) -> Revision {
        self.context.shared().revision
    }

    /// Gives the handler a frame that leads to what there is now.
    pub(super) fn lay_out(&mut self) {
        let api = self.context.shared().api();
        self.raw = self.frame.raw(api, self.context.raw(), Stage::Execute);
    }

    /// What asks for a call like this one, with other arguments.
    pub(super) fn request_of_another(&self, args: Vec<Tensor>) -> Request {
        Request {
            parts: self.context.parts().clone(),
            args,
            rets: vec![],
            rules: self.request.rules,
        }
    }

    /// Whether the operands are no arrays of the call's own.
    pub(super) fn is_on_memory_of_callers(&self) -> bool {
        self.request.args.is_empty() && self.rets.is_empty()
    }

    /// The future's number dies: a second completion is told from then on.
    pub(super) fn forget_future(&mut self) {
        let future = self.raw.future(self.revision());
        forget(future as usize);
        self.context.forget_futures();
    }

    /// Says where bytes behind an array of the call's own were written.
    pub(super) fn check_guards(&self) -> Result<()> {
        for (what, tensors) in [("argument", &self.request.args), ("result", &self.rets)] {
            for (index, tensor) in tensors.iter().enumerate() {
                if let Some(finding) = tensor.check_guard(format_args!("{what} {index}")) {
                    return Err(Error::hazard(finding.hazard, finding.message));
                }
            }
        }
        Ok(())
    }

    /// Waits for the device's stream, if the call has one.
    pub(super) fn synchronize(&self) -> Result<()> {
        let stream = self.context.parts().stream.as_ref();
        stream.map_or(Ok(()), Stream::synchronize)
    }
}

/// What handlers may still touch that were not done when their call was dropped. It is freed when they
/// are: on a thread of its own, not on that of the handler, whose own state is among it.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Unfinished {
    completion: Arc<Completion>,
    // Gone before the executable, whose library destroys its state.
    body: Box<Body>,
    _executable: Executable,
}

/// Keeps what belongs to a call that was dropped open until its handler is done.
pub(super) fn keep_until_done(
    completion: Arc<Completion>,
    body: Box<Body>,
    executable: Executable,
) {
    let told = completion.clone();
    // Who waits for calls has what they used back afterwards.
    body.context.progress().stay();
    unfinished().push(Unfinished {
        completion,
        body,
        _executable: executable,
    });
    // First: a callback of the caller's may wait for calls, this one among them.
    told.on_done_first(Box::new(move |_| {
        let sweeper = std::thread::Builder::new().name("xla-ffi-sweep".into());
        // Where there is no thread to be had, the next call that ends late frees it.
        let _ = sweeper.spawn(sweep);
    }));
}

/// Frees what is over by now.
fn sweep() {
    let mut left = unfinished();
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut *left)
        .into_iter()
        .partition(|left| left.completion.is_done());
    *left = open;
    // Libraries destroy their state here, in whatever way they do.
    drop(left);
    for mut left in over {
        left.body.forget_future();
        if let Err(error) = left.body.synchronize() {
            crate::process::warn(format_args!("{error}"));
        }
    }
}
