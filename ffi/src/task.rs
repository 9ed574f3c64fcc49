//! Runs the future of an `async fn` handler: first on the host's pool, then on whichever thread
//! wakes it.

use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::entry::Flow;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::owned::OwnedFrame;
use crate::pending::{Completion, pair};

/// The future of a call, which borrows from the call's frame.
pub type Body<'f> = Pin<Box<dyn std::future::Future<Output = Result<()>> + Send + 'f>>;

/// A call under way.
struct Task {
    // Declared before the frame: fields are dropped in order, and the body borrows from the frame.
    body: Mutex<Option<(Body<'static>, OwnedFrame)>>,
    completion: Mutex<Option<Completion>>,
    handler: &'static str,
    state: AtomicU8,
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const NOTIFIED: u8 = 2;
const DONE: u8 = 3;

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                IDLE => RUNNING,
                RUNNING => NOTIFIED,
                _ => return,
            };
            match self
                .state
                .compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(IDLE) => return self.run(),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}

impl Task {
    /// Polls until the body waits for something else; `state` is RUNNING.
    fn run(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(outcome) = self.poll(&mut context) {
                self.state.store(DONE, Ordering::Release);
                let mut completion = self
                    .completion
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if let Some(completion) = completion.take() {
                    completion.complete(outcome);
                }
                return;
            }
            let idle =
                self.state
                    .compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if idle.is_ok() {
                return;
            }
            self.state.store(RUNNING, Ordering::Release);
        }
    }

    /// Polls once. When the body is done, or has panicked, it is dropped before this returns: it
    /// must not reach an operand after the completion.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((future, _)) = body.as_mut() else {
            return Poll::Pending;
        };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        let outcome = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => Err(Error::internal(crate::panics::describe(
                self.handler,
                panic,
            ))),
        };
        let done = body.take();
        let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(done)));
        Poll::Ready(match dropped {
            Ok(()) => outcome,
            Err(panic) => Err(Error::internal(crate::panics::describe(
                self.handler,
                panic,
            ))),
        })
    }
}

/// Runs on the host's pool: the first poll.
unsafe extern "C" fn first_poll(task: *mut c_void) {
    // SAFETY: the pointer comes from `start`, and the host calls a task once.
    let task = unsafe { Arc::from_raw(task.cast_const().cast::<Task>()) };
    task.run();
}

/// For the macros: starts an asynchronous call. `start` decodes a copy of the frame, for any
/// lifetime, and gives the body.
#[doc(hidden)]
pub fn start_async(
    frame: &Frame<'_>,
    handler: &'static str,
    start: for<'x> fn(&Frame<'x>) -> std::result::Result<Body<'x>, Flow>,
) -> Flow {
    let owned = OwnedFrame::new(frame);
    let Some(copy) = owned.frame() else {
        return Flow::Failed(Error::internal("the copy of the call frame cannot be read"));
    };
    let body = match start(&copy) {
        Ok(body) => body,
        Err(flow) => return flow,
    };
    // SAFETY: only the lifetime is erased. The body borrows from the copy, whose parts lie on the
    // heap and stay where they are; `Task` drops the body first.
    let body = unsafe { std::mem::transmute::<Body<'_>, Body<'static>>(body) };
    let host = frame.host();
    let (completion, call) = pair();
    let task = Arc::new(Task {
        body: Mutex::new(Some((body, owned))),
        completion: Mutex::new(Some(completion)),
        handler,
        state: AtomicU8::new(RUNNING),
    });
    // Where the call has to wait for its completion, the pool's only thread might be this one.
    if host.has_futures() {
        let data = Arc::into_raw(Arc::clone(&task)).cast_mut().cast::<c_void>();
        // SAFETY: the frame's own context, during the call; `first_poll` takes the count back, once.
        if unsafe { host.schedule(frame.ctx(), first_poll, data) }.is_ok() {
            return call.settle(host, None);
        }
        // SAFETY: the host did not take the task, so the count is still ours.
        drop(unsafe { Arc::from_raw(data.cast_const().cast::<Task>()) });
    }
    task.run();
    call.settle(host, None)
}
