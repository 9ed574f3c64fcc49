//! Calls that were dropped while their handlers, or their stream, were at work.

use super::super::body::Body;
use crate::handler::Executable;
use crate::host::calls::Progress;
use crate::host::futures::Completion;
use crate::process::isolate::in_child_process;
use std::sync::{Arc, Mutex, PoisonError};

/// What handlers may still touch that were not done when their call was dropped, and streams on whose own thread it
/// was. It is freed when they are done: on a thread of its own, not on that of the handler, whose own state is among it.
static LEFT_OPEN: Mutex<Vec<LeftOpen>> = Mutex::new(Vec::new());

struct LeftOpen {
    completion: Option<Arc<Completion>>,
    // Gone before the executable, whose library destroys its state.
    body: Box<Body>,
    _executable: Executable,
}

/// Keeps what belongs to a call that was dropped open until its handler is done.
pub(in crate::call) fn leave_open(
    completion: Arc<Completion>,
    body: Box<Body>,
    executable: Executable,
) {
    if let Some(progress) = leave(Some(completion.clone()), body, executable) {
        completion.on_done(Box::new(move |_| sweep_elsewhere(&progress)));
    }
}

/// Keeps what belongs to a call that was dropped on its stream's own thread until that has run what is on the stream.
pub(super) fn leave_on_stream(body: Box<Body>, executable: Executable) {
    if let Some(progress) = leave(None, body, executable) {
        sweep_elsewhere(&progress);
    }
}

fn leave(
    completion: Option<Arc<Completion>>,
    body: Box<Body>,
    executable: Executable,
) -> Option<Arc<Progress>> {
    // The lock of the process that this one is a fork of may be held for ever.
    if in_child_process() {
        std::mem::forget((completion, body, executable));
        return None;
    }
    // Who waits for calls has what they used back afterwards.
    let progress = body.context.progress().clone();
    progress.stay();
    LEFT_OPEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(LeftOpen {
            completion,
            body,
            _executable: executable,
        });
    Some(progress)
}

fn sweep_elsewhere(progress: &Progress) {
    let sweeper = std::thread::Builder::new().name("xla-ffi-sweep".into());
    // Where there is no thread to be had, the next call that ends late frees it.
    if sweeper.spawn(sweep).is_err() {
        progress.stay_no_longer();
    }
}

/// Frees what is over by now.
fn sweep() {
    let mut left = LEFT_OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_over = |left: &LeftOpen| left.completion.as_ref().is_none_or(|open| open.is_done());
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut *left).into_iter().partition(is_over);
    *left = open;
    // Libraries destroy their state here, in whatever way they do.
    drop(left);
    for mut left in over {
        left.body.forget_future();
        if let Err(error) = left.body.synchronize() {
            crate::host::log::warn(format_args!("{error}"));
        }
    }
}
