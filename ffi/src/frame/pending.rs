//! A call that may outlast its handler: the state that the handler's return and the call's completion
//! share.
//!
//! There are two parties, one [`Return`] and one [`Completion`], on any two threads. Each party changes the state
//! once. The party that changes the state last reports the outcome to the host and frees the memory. The other party
//! no longer accesses the memory. A future of the host is created only if the handler returns first, because a
//! completed call does not need a future.

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

/// The outcome of a handler's code, from which the entry point creates its return value.
#[derive(Debug)]
pub enum Flow {
    /// The call succeeded.
    Done,
    /// The call is pending. The entry point stores the future in the call frame.
    Pending(*mut std::ffi::c_void),
    /// A parameter did not decode, so the handler did not run.
    Mismatch,
    /// The call failed.
    Failed(Error),
}

struct Call {
    // The state is OPEN at first, then RETURNED or DONE, depending on which party acts first.
    state: AtomicU8,
    // The reason why the call failed, if it did. Owned by the completion until the completion acts,
    // then by the other party.
    failure: UnsafeCell<Option<Error>>,
    // The recipient of the outcome. Owned by the return until the return acts, then by the other
    // party.
    waiter: UnsafeCell<Waiter>,
    // The results that must be written. They are checked when both parties have acted.
    #[cfg(debug_assertions)]
    results: Results,
    // Makes loom report a leak of this memory.
    #[cfg(loom)]
    #[expect(dead_code, reason = "its drop is what counts")]
    alive: loom::alloc::Track<()>,
}

const OPEN: u8 = 0;
const RETURNED: u8 = 1;
const DONE: u8 = 2;

/// The name of a call's handler, and the number of its stage.
type HandlerStage = (&'static str, u32);

/// The recipient of the outcome, to which the completion reports.
enum Waiter {
    /// No party reports the outcome.
    Nobody,
    /// The host's future reports the outcome. An error of the handler replaces the outcome.
    Future {
        host: Host,
        future: *mut XLA_FFI_Future,
        of: HandlerStage,
        failure: Option<Error>,
    },
    /// The return waits at this gate for the outcome, because the host has no futures.
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

/// Creates the two parties of a pending call.
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

/// Takes ownership of the call's memory and of the data in this memory.
///
/// # Safety
/// The caller is the party that acted last, or it has observed that the other party has acted. The
/// memory is not used afterwards.
#[inline]
unsafe fn end(call: NonNull<Call>) -> Box<Call> {
    // SAFETY: `pair` created the box, and the caller is now its only owner.
    unsafe { Box::from_raw(call.as_ptr()) }
}

/// The obligation to complete a call. Dropping the value completes the call with an error. If the value is forgotten
/// (`mem::forget`), the host waits forever.
pub(crate) struct Completion {
    call: Option<NonNull<Call>>,
}

// SAFETY: hosts allow futures to be completed on any thread, and the state determines which party
// owns the memory.
unsafe impl Send for Completion {}
// SAFETY: a shared reference gives no access to the call.
unsafe impl Sync for Completion {}

impl Completion {
    /// Completes the call with an outcome.
    #[inline(always)]
    pub(crate) fn complete(mut self, outcome: Result<()>) {
        self.fire(outcome);
    }

    #[inline(always)]
    fn fire(&mut self, outcome: Result<()>) {
        let Some(call) = self.call.take() else {
            return;
        };
        // SAFETY: neither party has freed the memory, because the completion has not acted.
        let shared = unsafe { call.as_ref() };
        if let Err(error) = outcome {
            // SAFETY: the field `failure` belongs to the completion and is not set yet.
            shared
                .failure
                .with_mut(|place| unsafe { place.write(Some(error)) });
        }
        let before = shared.state.swap(DONE, Ordering::AcqRel);
        if before == RETURNED {
            // SAFETY: the return has acted, so the completion owns the memory.
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
/// The requirements of [`end`] apply.
#[inline(never)]
unsafe fn answer_late(call: NonNull<Call>) {
    // SAFETY: the caller owns the memory, by this function's safety contract.
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
            // SAFETY: the future comes from this host, and only the party that acts last completes
            // it.
            unsafe { host.complete(future, &outcome) };
        }
        Waiter::Gate(gate) => gate.open(outcome),
    }
}

/// The handler's side of a call, which must be settled when the handler has returned.
#[derive(Debug)]
pub(crate) struct Return {
    call: NonNull<Call>,
}

impl Return {
    /// Ends a call that has already completed successfully. Otherwise, returns `self`, which must
    /// still be settled.
    #[inline(always)]
    pub(crate) fn try_end(self) -> std::result::Result<(), Self> {
        // SAFETY: neither party has freed the memory, because the return has not acted.
        let shared = unsafe { self.call.as_ref() };
        if shared.state.load(Ordering::Acquire) != DONE {
            return Err(self);
        }
        // SAFETY: the completion has acted, so the return owns the memory.
        if shared.failure.with(|place| unsafe { &*place }.is_some()) {
            return Err(self);
        }
        #[cfg(debug_assertions)]
        if shared.results.check().is_err() {
            return Err(self);
        }
        // SAFETY: the completion has acted, so the return owns the memory.
        drop(unsafe { end(self.call) });
        std::mem::forget(self);
        Ok(())
    }

    /// Returns the outcome for the host after the handler has returned. `error` is the error that the handler
    /// returned, if any.
    #[inline(never)]
    pub(crate) fn settle(self, host: Host, of: HandlerStage, error: Option<Error>) -> Flow {
        let call = self.call;
        std::mem::forget(self);
        // SAFETY: neither party has freed the memory, because the return has not acted.
        let state = unsafe { call.as_ref() }.state.load(Ordering::Acquire);
        if state != DONE {
            // SAFETY: the return of `call` has not acted.
            return unsafe { return_open(call, host, of, error) };
        }
        // SAFETY: the completion has acted, so the return owns the memory.
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
        // SAFETY: neither party has freed the memory, because the return has not acted.
        let state = &unsafe { self.call.as_ref() }.state;
        if state.swap(RETURNED, Ordering::AcqRel) == DONE {
            // SAFETY: the completion has acted, so the return owns the memory.
            drop(unsafe { end(self.call) });
        }
    }
}

/// Returns the handler's error, or the completion's outcome if the handler returned no error.
fn flow(outcome: Result<()>, error: Option<Error>) -> Flow {
    match error.map_or(outcome, Err) {
        Ok(()) => Flow::Done,
        Err(error) => Flow::Failed(error),
    }
}

/// Returns from a handler whose call has not completed yet.
///
/// # Safety
/// `call` is a call whose return has not acted.
#[inline(never)]
unsafe fn return_open(
    call: NonNull<Call>,
    host: Host,
    of: HandlerStage,
    error: Option<Error>,
) -> Flow {
    // SAFETY: the caller guarantees that the return has not acted, so the memory is not freed.
    let shared = unsafe { call.as_ref() };
    // A host that cannot create a future is treated like a host without futures.
    let future = if host.has_futures() {
        host.make_future().ok()
    } else {
        None
    };
    let Some(future) = future else {
        let gate = Arc::new(Gate::default());
        // SAFETY: `waiter` belongs to the return until the return acts.
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
                // SAFETY: the completion has acted, so the return owns the memory.
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
    // SAFETY: `waiter` belongs to the return until the return acts.
    shared.waiter.with_mut(|place| unsafe { *place = waiter });
    let spoke = shared
        .state
        .compare_exchange(OPEN, RETURNED, Ordering::AcqRel, Ordering::Acquire);
    if spoke.is_err() {
        // SAFETY: the completion has acted, so the return owns the memory.
        unsafe { answer_late(call) };
    }
    Flow::Pending(future.cast())
}

/// The call for which a handler has created a promise, if any. Stored on the entry point's stack.
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

/// Synchronization types of the standard library, or of loom, which explores all thread interleavings. The loom
/// models are next to the code that they test, in modules called `loom_tests`.
pub(crate) mod sync {
    #[cfg(loom)]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
    #[cfg(not(loom))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

    /// A cell whose ownership passes between the parties by an atomic state.
    #[cfg(loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// A cell whose ownership passes between the parties by an atomic state, with the interface of
    /// loom's cell.
    #[cfg(not(loom))]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        #[inline(always)]
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Passes a pointer to the value to `look`, which only reads the value.
        #[inline(always)]
        pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            look(self.0.get())
        }

        /// Passes a pointer to the value to `change`, which may write the value.
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

/// Explores all interleavings of a handler's return and the call's completion.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::frame::loom_host;

    /// How the completion of a call ends in a test.
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

    /// Tests that the host receives the outcome exactly once, with and without futures.
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

    /// Tests that an error of the handler takes precedence over the completion's outcome.
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
