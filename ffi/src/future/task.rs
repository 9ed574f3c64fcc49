//! Runs the future of an `async fn` handler on the program's threads if the host provides them, otherwise on threads of
//! this library ([`executor`]).
//!
//! Users' code runs when a body is polled and when a body is destroyed. Both happen on these threads, catch panics,
//! and hold no lock of this library. On a host without futures, the call must wait, so the handler's thread polls
//! first.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::error::{Error, Result, panics};
use crate::frame::Frame;
use crate::frame::call_handle::CallHandle;
use crate::frame::frame_copy::OwnedFrame;
use crate::frame::pending::sync::{Mutex, MutexGuard};
use crate::frame::pending::{Completion, Flow, pair};
use crate::future::executor;

/// The future of a call, which borrows from the call's frame.
pub type Body<'f> = Pin<Box<dyn std::future::Future<Output = Result<()>> + Send + 'f>>;

/// The data of a running call: its body, copied frame and completion.
struct Work {
    // The field precedes the frame. Fields are dropped in order, and the body borrows from the
    // frame.
    body: Body<'static>,
    frame: OwnedFrame,
    completion: Completion,
}

impl Work {
    /// Destroys the body, then completes the call. The order matters, because a body must not access an operand after
    /// the completion.
    fn end(self, outcome: Result<()>) {
        let Self {
            body,
            frame,
            completion,
        } = self;
        let destroyed = panics::destroy(body);
        drop(frame);
        completion.complete(match destroyed {
            Ok(()) => outcome,
            Err(panic) => Err(Error::internal(panics::describe("", panic))),
        });
    }
}

/// A running call; its wakers share this value.
struct Task {
    state: Mutex<State>,
    /// The call's handle, which provides the program's threads, if any.
    program: CallHandle,
}

enum State {
    /// The body waits for a waker.
    Idle(Work),
    /// The body is queued for polling.
    Scheduled(Work),
    /// The body is being polled. If it is woken meanwhile, it is polled again.
    Polled {
        woken: bool,
    },
    Done,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.notify() {
            self.schedule(false);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notify() {
            Arc::clone(self).schedule(false);
        }
    }
}

impl Task {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the body was woken. Returns true if the body has to be scheduled.
    fn notify(&self) -> bool {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Done) {
            State::Idle(work) => {
                *state = State::Scheduled(work);
                return true;
            }
            State::Polled { .. } => *state = State::Polled { woken: true },
            other => *state = other,
        }
        false
    }

    /// Queues the scheduled body for polling. This method runs no user code, because the waking thread may hold any
    /// lock.
    fn schedule(self: Arc<Self>, starts: bool) {
        let program = self.program.clone();
        executor::run(Box::new(self), &program, starts);
    }

    /// Fails the call if no thread can poll its body. Destroying the body may deadlock on a lock of the waking
    /// thread, but otherwise the call would never end.
    #[cold]
    fn fail(&self, why: Error) {
        let state = std::mem::replace(&mut *self.state(), State::Done);
        if let State::Scheduled(work) = state {
            work.end(Err(why));
        }
    }

    /// Polls the scheduled body once. If the body was woken meanwhile, queues it again after the other bodies, so
    /// that a body that always wakes itself does not block them.
    fn run(self: Arc<Self>) {
        let polled = State::Polled { woken: false };
        let State::Scheduled(mut work) = std::mem::replace(&mut *self.state(), polled) else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        let polled =
            std::panic::catch_unwind(AssertUnwindSafe(|| work.body.as_mut().poll(&mut context)));
        let outcome = match polled {
            Ok(Poll::Pending) => {
                drop(waker);
                let mut state = self.state();
                let woken = matches!(*state, State::Polled { woken: true });
                *state = match woken {
                    true => State::Scheduled(work),
                    false => State::Idle(work),
                };
                drop(state);
                if woken {
                    self.schedule(false);
                }
                return;
            }
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => Err(Error::internal(panics::describe("", panic))),
        };
        *self.state() = State::Done;
        work.end(outcome);
    }
}

/// Polls the body when a thread runs the job.
impl executor::Job for Arc<Task> {
    fn run(self: Box<Self>) {
        Task::run(*self);
    }

    fn refuse(self: Box<Self>, why: Error) {
        self.fail(why);
    }
}

/// The job that ends a call whose body can no longer be woken.
struct End(Work);

impl executor::Job for End {
    fn run(self: Box<Self>) {
        self.0.end(Err(Error::internal(
            "its future can never be woken, because all wakers were dropped while it was pending",
        )));
    }

    /// Ends the call on the calling thread. This is allowed, because ending only destroys the body
    /// and completes the call.
    fn refuse(self: Box<Self>, _: Error) {
        self.run();
    }
}

/// Ends the call when the last waker is dropped. The executor destroys the body, because the dropping thread may hold
/// any lock.
impl Drop for Task {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Idle(work) = std::mem::replace(state, State::Done) {
            executor::run(Box::new(End(work)), &self.program, false);
        }
    }
}

/// Starts an asynchronous call. `start` decodes a copy of the frame and returns the body. Used by the macros.
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
    // SAFETY: only the lifetime is erased. The body borrows from the copy, whose parts are on the heap and do not move;
    // `Task` drops the body first.
    let body = unsafe { std::mem::transmute::<Body<'_>, Body<'static>>(body) };
    let host = frame.host();
    let (completion, call) = pair();
    let task = Arc::new(Task {
        state: Mutex::new(State::Scheduled(Work {
            body,
            frame: owned,
            completion,
        })),
        program: CallHandle::of(frame),
    });
    if host.has_futures() {
        task.schedule(true);
    } else {
        task.run();
    }
    call.settle(host, (handler, frame.stage()), None)
}

/// Tests every order of a body's polls and wakes. The executor runs each poll on a separate thread.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::frame::host::Host;
    use crate::frame::loom_host;
    use std::cell::RefCell;
    use xla_ffi_sys::*;

    thread_local! {
        /// The body for the next call of the test handler. A thread-local suffices, because loom runs all threads of
        /// a model on one system thread.
        static BODY: RefCell<Option<Body<'static>>> = const { RefCell::new(None) };
    }

    /// Calls an asynchronous handler whose body is `body`. Returns true if the call succeeds.
    fn call(host: Host, body: Body<'static>) -> bool {
        // SAFETY: the struct has only numbers and pointers, which may be zero.
        let mut raw: XLA_FFI_CallFrame = unsafe { std::mem::zeroed() };
        raw.struct_size = XLA_FFI_CallFrame::STRUCT_SIZE;
        raw.args.struct_size = XLA_FFI_Args::STRUCT_SIZE;
        raw.rets.struct_size = XLA_FFI_Rets::STRUCT_SIZE;
        raw.attrs.struct_size = XLA_FFI_Attrs::STRUCT_SIZE;
        raw.api = host.api();
        // SAFETY: the frame is complete and has no operands.
        let frame = unsafe { Frame::new(&raw const raw) }.unwrap();
        BODY.set(Some(body));
        let flow = start_async(&frame, "the model", |_| Ok(BODY.take().unwrap()));
        loom_host::went_well(flow)
    }

    /// The timer from the book "Asynchronous Programming in Rust", which wakes the task while holding the timer's
    /// lock.
    #[derive(Default)]
    struct Timer {
        ready: bool,
        gone: bool,
        waker: Option<Waker>,
    }

    type Shared = Arc<Mutex<Timer>>;

    fn until_ready(timer: Shared) -> Body<'static> {
        Box::pin(std::future::poll_fn(move |context| {
            let mut timer = timer.lock().unwrap();
            if timer.ready {
                return Poll::Ready(Ok(()));
            }
            if !timer.gone {
                timer.waker = Some(context.waker().clone());
            }
            Poll::Pending
        }))
    }

    fn timer() -> Shared {
        Arc::new(Mutex::new(Timer::default()))
    }

    #[test]
    fn loom_no_wake_is_lost() {
        for host in loom_host::both() {
            loom::model(move || {
                let timer = timer();
                let there = Arc::clone(&timer);
                let thread = loom::thread::spawn(move || {
                    let mut timer = there.lock().unwrap();
                    timer.ready = true;
                    if let Some(waker) = timer.waker.take() {
                        waker.wake();
                    }
                });
                assert!(call(host, until_ready(timer)));
                thread.join().unwrap();
            });
        }
    }

    /// Tests that a body that two threads wake, possibly during a poll, is polled again by one thread at a time.
    #[test]
    fn loom_wakes_meet() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let timer = timer();
            let there = Arc::clone(&timer);
            let thread = loom::thread::spawn(move || {
                let waker = there.lock().unwrap().waker.take();
                if let Some(waker) = &waker {
                    waker.wake_by_ref();
                }
                let mut timer = there.lock().unwrap();
                timer.ready = true;
                let newer = timer.waker.take();
                drop(timer);
                for waker in waker.into_iter().chain(newer) {
                    waker.wake();
                }
            });
            assert!(call(loom_host::bare(), until_ready(timer)));
            thread.join().unwrap();
        });
    }

    /// Tests that the call fails instead of hanging if the last waker is dropped during or after a poll.
    #[test]
    fn loom_a_body_that_nobody_wakes_fails() {
        for host in loom_host::both() {
            loom::model(move || {
                let timer = timer();
                let there = Arc::clone(&timer);
                let thread = loom::thread::spawn(move || {
                    let mut timer = there.lock().unwrap();
                    timer.gone = true;
                    let waker = timer.waker.take();
                    drop(timer);
                    drop(waker);
                });
                assert!(!call(host, until_ready(timer)));
                thread.join().unwrap();
            });
        }
    }
}
