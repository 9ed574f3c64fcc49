//! The data of a running call, and of calls that were dropped while their handlers were still running.

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

/// The data that a running handler may access. While a future is open, the runtime neither reads nor frees
/// this data.
pub(crate) struct Body {
    pub(super) context: Box<Context>,
    pub(super) raw: RawFrame,
    pub(super) frame: CallFrame,
    /// The arguments and the rules of the call. The context of the call refers to parts of the request.
    pub(super) request: Request,
    pub(super) rets: Vec<Tensor>,
}

impl Body {
    pub(super) fn revision(&self) -> Revision {
        self.context.shared().revision
    }

    /// Writes the handler's frame with the current operands and context.
    pub(super) fn lay_out(&mut self) {
        let api = self.context.shared().api();
        self.raw = self.frame.raw(api, self.context.raw(), Stage::Execute);
    }

    /// Returns a request like that of this call, with different arguments.
    pub(super) fn request_of_another(&self, args: Vec<Tensor>) -> Request {
        Request {
            parts: self.context.parts().clone(),
            args,
            rets: vec![],
            rules: self.request.rules,
        }
    }

    /// Returns true if the caller owns the operands' memory.
    pub(super) fn is_on_memory_of_callers(&self) -> bool {
        self.request.args.is_empty() && self.rets.is_empty()
    }

    /// Marks the last future as freed, so that a second completion of it is reported.
    pub(super) fn forget_future(&mut self) {
        let future = self.raw.future(self.revision());
        forget(future as usize);
        self.context.forget_futures();
    }

    /// Returns an error if a handler wrote past the end of an array that the call owns.
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

    /// Waits until the call's stream has run all work, if the call has a stream.
    pub(super) fn synchronize(&self) -> Result<()> {
        let stream = self.context.parts().stream.as_ref();
        stream.map_or(Ok(()), Stream::synchronize)
    }
}

/// The data of calls that were dropped before their handlers finished. A separate thread frees the data when the
/// handlers are done. The handler's thread cannot free the data, because the data contains the handler's state.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Unfinished {
    completion: Arc<Completion>,
    // Fields are dropped in order: the executable's library must stay loaded until the body's state is destroyed.
    body: Box<Body>,
    _executable: Executable,
}

/// Keeps the data of a dropped call until its handler is done.
pub(super) fn keep_until_done(
    completion: Arc<Completion>,
    body: Box<Body>,
    executable: Executable,
) {
    let told = completion.clone();
    // Threads that wait for all calls to end keep waiting until the data of this call is freed.
    body.context.progress().stay();
    unfinished().push(Unfinished {
        completion,
        body,
        _executable: executable,
    });
    // The callback runs before the caller's callbacks, because they may wait for all calls, including this call.
    told.on_done_first(Box::new(move |_| {
        let sweeper = std::thread::Builder::new().name("xla-ffi-sweep".into());
        // If the system cannot start a thread, the next dropped call to finish frees the data.
        let _ = sweeper.spawn(sweep);
    }));
}

/// Frees the data of dropped calls whose handlers are done.
fn sweep() {
    let mut left = unfinished();
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut *left)
        .into_iter()
        .partition(|left| left.completion.is_done());
    *left = open;
    // The lock is released first, because the destructors of a library's state may panic or lock mutexes.
    drop(left);
    for mut left in over {
        left.body.forget_future();
        if let Err(error) = left.body.synchronize() {
            crate::process::warn(format_args!("{error}"));
        }
    }
}
