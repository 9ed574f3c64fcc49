//! A call that may outlast its handler: what the handler's return and the call's completion share.
//!
//! There are two parties, one [`Return`] and one [`Completion`], on any two threads. Each speaks once,
//! by one change of the state. Whoever speaks second brings the answer to the host and frees the
//! memory; the first does not touch it again. A future of the host is made only where the return
//! speaks first: a call that is complete when its handler returns needs none.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use crate::error::problems::named;
use crate::error::{Error, Result};
use crate::frame::host::Host;
use crate::frame::pending::sync::atomic::{AtomicU8, Ordering};
use crate::frame::pending::sync::{Condvar, Mutex, UnsafeCell};
#[cfg(debug_assertions)]
use crate::frame::result_ledger::Results;
use xla_ffi_sys::XLA_FFI_Future;

/// How a call went.
#[derive(Debug)]
pub enum Flow {
    /// It worked.
    Done,
    /// It is under way; the frame gets this future.
    Pending(*mut std::ffi::c_void),
    /// A parameter did not decode; the handler did not run.
    Mismatch,
    /// It failed.
    Failed(Error),
}

struct Call {
    // OPEN until a party speaks: then RETURNED by the return, or DONE by the completion.
    state: AtomicU8,
    // Why the call failed, if it did: the completion's until it speaks, then the other party's.
    failure: UnsafeCell<Option<Error>>,
    // The return's until it speaks, then the other party's.
    waiter: UnsafeCell<Waiter>,
    // What is looked at when both have spoken.
    #[cfg(debug_assertions)]
    results: Results,
    // A model is told when the memory leaks.
    #[cfg(loom)]
    #[expect(dead_code, reason = "its drop is what counts")]
    alive: loom::alloc::Track<()>,
}

const OPEN: u8 = 0;
const RETURNED: u8 = 1;
const DONE: u8 = 2;

/// The handler of a call, and the stage.
type HandlerStage = (&'static str, u32);

/// What the return leaves for the completion.
enum Waiter {
    /// Nobody waits for the outcome.
    Nobody,
    /// The host's future, and an error of the handler's that takes the place of the outcome.
    Future {
        host: Host,
        future: *mut XLA_FFI_Future,
        of: HandlerStage,
        failure: Option<Error>,
    },
    /// The host has no futures: the return waits here.
    Gate(Arc<Gate>),
}

#[derive(Default)]
struct Gate {
    outcome: Mutex<Option<Result<()>>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, outcome: Result<()>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.opened.notify_all();
    }

    fn wait(&self) -> Result<()> {
        let mut slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match slot.take() {
                Some(outcome) => return outcome,
                None => {
                    slot = self
                        .opened
                        .wait(slot)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// The two parties of a call under way.
#[inline]
pub(crate) fn pair() -> (Completion, Return) {
    let call = NonNull::from(Box::leak(Box::new(Call {
        state: AtomicU8::new(OPEN),
        failure: UnsafeCell::new(None),
        waiter: UnsafeCell::new(Waiter::Nobody),
        #[cfg(debug_assertions)]
        results: Results::of_this_call(),
        #[cfg(loom)]
        alive: loom::alloc::Track::new(()),
    })));
    (Completion { call: Some(call) }, Return { call })
}

/// Ends the call's memory and gives what the parties left in it.
///
/// # Safety
/// The caller is the party that spoke second, or has seen that the other one spoke; the memory is not
/// used afterwards.
#[inline]
unsafe fn end(call: NonNull<Call>) -> Box<Call> {
    // SAFETY: made by `pair`, and the caller's alone by now.
    unsafe { Box::from_raw(call.as_ptr()) }
}

/// The duty to complete a call. Dropping it completes the call with an error; forgetting it
/// (`mem::forget`) leaves the host waiting for ever.
pub(crate) struct Completion {
    call: Option<NonNull<Call>>,
}

// SAFETY: hosts let futures be completed on any thread; the state decides who owns the memory.
unsafe impl Send for Completion {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Completion {}

impl Completion {
    /// Completes the call.
    #[inline(always)]
    pub(crate) fn complete(mut self, outcome: Result<()>) {
        self.fire(outcome);
    }

    #[inline(always)]
    fn fire(&mut self, outcome: Result<()>) {
        let Some(call) = self.call.take() else {
            return;
        };
        // SAFETY: neither party has freed it, since this one has not spoken.
        let shared = unsafe { call.as_ref() };
        if let Err(error) = outcome {
            // SAFETY: this is the completion's, and not yet set.
            shared
                .failure
                .with_mut(|place| unsafe { place.write(Some(error)) });
        }
        let before = shared.state.swap(DONE, Ordering::AcqRel);
        if before == RETURNED {
            // SAFETY: the return has spoken before.
            unsafe { answer_late(call) };
        }
    }
}

impl Drop for Completion {
    #[inline(always)]
    fn drop(&mut self) {
        if self.call.is_some() {
            self.drop_open();
        }
    }
}

impl Completion {
    #[cold]
    #[inline(never)]
    fn drop_open(&mut self) {
        self.fire(Err(Error::internal(
            "the handler dropped its promise without completing it",
        )));
    }
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}

/// Completes a call whose handler has returned.
///
/// # Safety
/// As for [`end`].
#[inline(never)]
unsafe fn answer_late(call: NonNull<Call>) {
    // SAFETY: the caller's promise.
    let call = unsafe { end(call) };
    let failure = call.failure.into_inner();
    #[cfg(debug_assertions)]
    let failure = call.results.or_unwritten(failure);
    let outcome = failure.map_or(Ok(()), Err);
    match call.waiter.into_inner() {
        Waiter::Nobody => {}
        Waiter::Future {
            host,
            future,
            of: (handler, stage),
            failure,
        } => {
            let outcome = failure.map_or(outcome, Err);
            let outcome = outcome.map_err(|error| named(error, handler, stage));
            // SAFETY: the future came from this host; it is completed here, once.
            unsafe { host.complete(future, &outcome) };
        }
        Waiter::Gate(gate) => gate.open(outcome),
    }
}

/// The handler's side: to be settled when the handler has returned.
#[derive(Debug)]
pub(crate) struct Return {
    call: NonNull<Call>,
}

impl Return {
    /// Ends a call that is complete and went well, which needs no more words; gives back a return
    /// that is still to be settled.
    #[inline(always)]
    pub(crate) fn try_end(self) -> std::result::Result<(), Self> {
        // SAFETY: neither party has freed it, since this one has not spoken.
        let shared = unsafe { self.call.as_ref() };
        if shared.state.load(Ordering::Acquire) != DONE {
            return Err(self);
        }
        // SAFETY: the completion has spoken.
        if shared.failure.with(|place| unsafe { &*place }.is_some()) {
            return Err(self);
        }
        #[cfg(debug_assertions)]
        if shared.results.check().is_err() {
            return Err(self);
        }
        // SAFETY: the completion has spoken.
        drop(unsafe { end(self.call) });
        std::mem::forget(self);
        Ok(())
    }

    /// What the host is told when the handler has returned, perhaps with an error of its own.
    #[inline(never)]
    pub(crate) fn settle(self, host: Host, of: HandlerStage, error: Option<Error>) -> Flow {
        let call = self.call;
        std::mem::forget(self);
        // SAFETY: neither party has freed it, since this one has not spoken.
        let state = unsafe { call.as_ref() }.state.load(Ordering::Acquire);
        if state != DONE {
            // SAFETY: as above.
            return unsafe { return_open(call, host, of, error) };
        }
        // SAFETY: the completion has spoken.
        let call = unsafe { end(call) };
        if let Some(error) = error {
            return Flow::Failed(error);
        }
        let failure = call.failure.into_inner();
        #[cfg(debug_assertions)]
        let failure = call.results.or_unwritten(failure);
        match failure {
            None => Flow::Done,
            Some(error) => Flow::Failed(error),
        }
    }
}

impl Drop for Return {
    fn drop(&mut self) {
        // SAFETY: neither party has freed it, since this one has not spoken.
        let state = &unsafe { self.call.as_ref() }.state;
        if state.swap(RETURNED, Ordering::AcqRel) == DONE {
            // SAFETY: the completion has spoken.
            drop(unsafe { end(self.call) });
        }
    }
}

/// An error of the handler's goes before the completion's outcome.
fn flow(outcome: Result<()>, error: Option<Error>) -> Flow {
    match error.map_or(outcome, Err) {
        Ok(()) => Flow::Done,
        Err(error) => Flow::Failed(error),
    }
}

/// The return of a handler whose call is not complete yet.
///
/// # Safety
/// `call` is a call whose return has not spoken.
#[inline(never)]
unsafe fn return_open(
    call: NonNull<Call>,
    host: Host,
    of: HandlerStage,
    error: Option<Error>,
) -> Flow {
    // SAFETY: the caller's promise.
    let shared = unsafe { call.as_ref() };
    // A host that cannot make a future is as one that has none.
    let future = if host.has_futures() {
        host.make_future().ok()
    } else {
        None
    };
    let Some(future) = future else {
        let gate = Arc::new(Gate::default());
        // SAFETY: `waiter` is this party's.
        shared
            .waiter
            .with_mut(|place| unsafe { *place = Waiter::Gate(Arc::clone(&gate)) });
        let spoke =
            shared
                .state
                .compare_exchange(OPEN, RETURNED, Ordering::AcqRel, Ordering::Acquire);
        let outcome = match spoke {
            Ok(_) => gate.wait(),
            Err(_) => {
                // SAFETY: the completion has spoken.
                let call = unsafe { end(call) };
                let failure = call.failure.into_inner();
                #[cfg(debug_assertions)]
                let failure = call.results.or_unwritten(failure);
                failure.map_or(Ok(()), Err)
            }
        };
        return flow(outcome, error);
    };
    let waiter = Waiter::Future {
        host,
        future,
        of,
        failure: error,
    };
    // SAFETY: `waiter` is this party's.
    shared.waiter.with_mut(|place| unsafe { *place = waiter });
    let spoke = shared
        .state
        .compare_exchange(OPEN, RETURNED, Ordering::AcqRel, Ordering::Acquire);
    if spoke.is_err() {
        // SAFETY: the completion has spoken.
        unsafe { answer_late(call) };
    }
    Flow::Pending(future.cast())
}

/// The call that a handler has made a promise of, if any. It lives in the entry point's frame.
#[derive(Default)]
pub(crate) struct Pending {
    call: Cell<Option<Return>>,
}

impl Pending {
    #[inline]
    pub(crate) fn set(&self, call: Return) {
        self.call.set(Some(call));
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Return> {
        self.call.take()
    }
}

/// What threads share memory by: the standard library's, or loom's, which tries every order in which
/// threads can meet. The models stand beside what they model, in modules called `loom_tests`.
pub(crate) mod sync {
    #[cfg(loom)]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
    #[cfg(not(loom))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

    /// Memory that parties hand to each other by a change of state elsewhere.
    #[cfg(loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// Memory that parties hand to each other by a change of state elsewhere; with loom's functions.
    #[cfg(not(loom))]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        #[inline(always)]
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// For a look at the value.
        #[inline(always)]
        pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            look(self.0.get())
        }

        /// For a change of the value.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}

/// Every order in which a handler's return and the call's completion can meet.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::frame::loom_host;

    /// How the completion ends.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        Well,
        Badly,
        Dropped,
    }

    impl End {
        fn play(self, completion: Completion) {
            match self {
                Self::Well => completion.complete(Ok(())),
                Self::Badly => completion.complete(Err(Error::internal("on purpose"))),
                Self::Dropped => drop(completion),
            }
        }
    }

    fn models(hosts: [Host; 2], model: fn(Host, End)) {
        for host in hosts {
            for end in [End::Well, End::Badly, End::Dropped] {
                loom::model(move || model(host, end));
            }
        }
    }

    /// With a host that has futures and with one that has none: the host is told once, as it was.
    #[test]
    fn loom_the_second_to_speak_tells_the_host() {
        models(loom_host::both(), |host, end| {
            let (completion, back) = pair();
            let thread = loom::thread::spawn(move || end.play(completion));
            let well = match back.try_end() {
                Ok(()) => true,
                Err(back) => loom_host::went_well(back.settle(host, ("loom", 3), None)),
            };
            assert_eq!(well, end == End::Well);
            thread.join().unwrap();
        });
    }

    /// An error of the handler's goes before what the completion says.
    #[test]
    fn loom_an_error_of_the_handlers_waits_for_the_completion() {
        models(loom_host::both(), |host, end| {
            let (completion, back) = pair();
            let thread = loom::thread::spawn(move || end.play(completion));
            let flow = back.settle(host, ("loom", 3), Some(Error::internal("its own")));
            assert!(!loom_host::went_well(flow));
            thread.join().unwrap();
        });
    }
}
