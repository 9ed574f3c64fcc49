//! Calls that were dropped while their handlers were at work.

use super::super::body::Body;
use crate::handler::Executable;
use crate::host::futures::Completion;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What handlers may still touch that were not done when their call was dropped. It is freed when they
/// are: on a thread of its own, not on that of the handler, whose own state is among it.
static LEFT_OPEN: Mutex<Vec<LeftOpen>> = Mutex::new(Vec::new());

fn left_open() -> MutexGuard<'static, Vec<LeftOpen>> {
    LEFT_OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct LeftOpen {
    completion: Arc<Completion>,
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
    let told = completion.clone();
    // Who waits for calls has what they used back afterwards.
    body.context.progress().stay();
    left_open().push(LeftOpen {
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
    let mut left = left_open();
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut *left)
        .into_iter()
        .partition(|left| left.completion.is_done());
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
