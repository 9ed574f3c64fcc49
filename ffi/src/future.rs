//! Calls that complete after the handler has returned.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::bind::Bind;
use crate::diagnose::Problems;
use crate::entry::Flow;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::host::Host;
use crate::param::{At, Param};
use xla_ffi_sys::{Revision, XLA_FFI_Future};

/// Where a completion goes: to the host's future, or to a call that waits since its host has none.
enum Target {
    Host {
        host: Host,
        future: *mut XLA_FFI_Future,
    },
    Waiting(Arc<Waiting>),
}

// SAFETY: hosts let futures be completed on any thread.
unsafe impl Send for Target {}
// SAFETY: completing takes the target by value.
unsafe impl Sync for Target {}

#[derive(Default)]
struct Waiting {
    outcome: Mutex<Option<Result<()>>>,
    done: Condvar,
}

/// The duty to complete a call. Dropping it completes the call with an error; forgetting it
/// (`mem::forget`) leaves the host waiting for ever.
pub(crate) struct Completion {
    target: Option<Target>,
}

impl Completion {
    /// Completes the call.
    pub(crate) fn complete(mut self, outcome: Result<()>) {
        self.fire(outcome);
    }

    fn fire(&mut self, outcome: Result<()>) {
        match self.target.take() {
            None => {}
            // SAFETY: the future came from this host; `take` makes this the one completion.
            Some(Target::Host { host, future }) => unsafe { host.complete(future, &outcome) },
            Some(Target::Waiting(waiting)) => {
                let mut slot = waiting
                    .outcome
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *slot = Some(outcome);
                drop(slot);
                waiting.done.notify_all();
            }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
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

/// What a handler returns to say that the call is under way. On hosts without futures (r0, r1)
/// returning it waits for the completion instead.
#[derive(Debug)]
#[must_use = "return it from the handler"]
pub struct Future {
    state: State,
}

enum State {
    Host(*mut XLA_FFI_Future),
    Waiting(Arc<Waiting>),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host(_) => "of the host",
            Self::Waiting(_) => "waits",
        })
    }
}

impl Future {
    pub(crate) fn into_flow(self) -> Flow {
        match self.state {
            State::Host(future) => Flow::Pending(future.cast::<c_void>()),
            State::Waiting(waiting) => {
                let mut outcome = waiting
                    .outcome
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                loop {
                    match outcome.take() {
                        Some(Ok(())) => return Flow::Done,
                        Some(Err(error)) => return Flow::Failed(error),
                        None => {
                            outcome = waiting
                                .done
                                .wait(outcome)
                                .unwrap_or_else(PoisonError::into_inner);
                        }
                    }
                }
            }
        }
    }
}

/// A completion and the future that goes with it.
pub(crate) fn pair(host: Host) -> Result<(Completion, Future)> {
    if host.has_futures() {
        let future = host.make_future()?;
        return Ok((
            Completion {
                target: Some(Target::Host { host, future }),
            },
            Future {
                state: State::Host(future),
            },
        ));
    }
    let waiting = Arc::new(Waiting::default());
    Ok((
        Completion {
            target: Some(Target::Waiting(Arc::clone(&waiting))),
        },
        Future {
            state: State::Waiting(waiting),
        },
    ))
}

/// Operands that can outlive the handler: what their data pointers name stays until the call is
/// completed, everything else is copied.
///
/// # Safety
/// What `detach` gives reaches no memory of the host but operand data.
pub unsafe trait Detach {
    /// The operands kept for later.
    type Kept: Kept;

    /// Copies what ends with the handler.
    fn detach(self) -> Self::Kept;
}

/// Operands kept for later.
pub trait Kept: Send + 'static {
    /// The operands, borrowed.
    type At<'a>;

    /// The operands, for as long as they are borrowed.
    fn at(&mut self) -> Self::At<'_>;
}

/// The right to return before the call is complete, taken as a parameter.
///
/// ```
/// use xla_ffi::{Future, Later, prelude::*};
///
/// #[xla_ffi::handler]
/// fn add_one(x: Buffer<f32>, y: Out<f32>, later: Later) -> Result<Future> {
///     let (promise, future) = later.promise((x, y))?;
///     std::thread::spawn(move || {
///         promise.complete_with(|(x, mut y)| {
///             y.write_iter(x.iter().map(|x| x + 1.0))?;
///             Ok(())
///         });
///     });
///     Ok(future)
/// }
/// ```
///
/// Futures exist since r2 (jaxlib 0.4.34). On older hosts the call waits where the handler returns
/// the future, so a handler needs no other code there.
#[derive(Debug)]
pub struct Later<'f> {
    host: Host,
    _call: std::marker::PhantomData<&'f ()>,
}

impl Later<'_> {
    /// Whether the handler's return and the completion are two events: the host has futures.
    #[must_use]
    pub fn is_async(&self) -> bool {
        self.host.has_futures()
    }

    /// A promise that owns the operands it may touch, and the future to return.
    ///
    /// # Errors
    /// What the host answers when it cannot make a future.
    pub fn promise<T: Detach>(self, operands: T) -> Result<(Promise<T::Kept>, Future)> {
        let (completion, future) = pair(self.host)?;
        Ok((
            Promise {
                operands: operands.detach(),
                completion,
            },
            future,
        ))
    }
}

impl<'f> Bind<'f> for Later<'f> {
    const PARAM: Param = Param::context("future", Revision::R0);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        Some(Self {
            host: frame.host(),
            _call: std::marker::PhantomData,
        })
    }

    fn explain(_: &Frame<'f>, _: &At, _: &mut Problems<'_>) {}
}

/// The duty to complete a call, with the operands that may be touched until then. Dropped, it
/// completes the call with an error. Completing consumes it: nothing reaches an operand afterwards.
pub struct Promise<K: Kept> {
    operands: K,
    completion: Completion,
}

impl<K: Kept> std::fmt::Debug for Promise<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<K: Kept> Promise<K> {
    /// Works on the operands without completing the call.
    pub fn with<R>(&mut self, work: impl for<'a> FnOnce(K::At<'a>) -> R) -> R {
        work(self.operands.at())
    }

    /// Completes the call.
    pub fn complete(self, outcome: Result<()>) {
        // The operands' own memory goes first; the data they name belongs to the host.
        drop(self.operands);
        self.completion.complete(outcome);
    }

    /// Works on the operands and completes the call with the outcome; a panic becomes an error.
    pub fn complete_with(mut self, work: impl for<'a> FnOnce(K::At<'a>) -> Result<()>) {
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self.operands.at())));
        let outcome = outcome.unwrap_or_else(|panic| {
            Err(Error::internal(crate::panics::describe(
                "the handler",
                &*panic,
            )))
        });
        self.complete(outcome);
    }

    /// Several promises out of one: the call completes when all parts have, with the first error if
    /// there is one. The operands are dropped first.
    ///
    /// # Panics
    /// When `parts` is 0.
    #[must_use]
    pub fn count_down(self, parts: usize) -> Vec<Part> {
        assert!(parts > 0, "a call in no parts would never complete");
        drop(self.operands);
        let latch = Arc::new(Latch {
            left: AtomicUsize::new(parts),
            error: Mutex::new(None),
            completion: Mutex::new(Some(self.completion)),
        });
        (0..parts)
            .map(|_| Part {
                latch: Some(Arc::clone(&latch)),
            })
            .collect()
    }
}

#[derive(Debug)]
struct Latch {
    left: AtomicUsize,
    error: Mutex<Option<Error>>,
    completion: Mutex<Option<Completion>>,
}

/// One of several parts of a call's completion; see [`Promise::count_down`].
#[derive(Debug)]
pub struct Part {
    latch: Option<Arc<Latch>>,
}

impl Part {
    /// Completes this part.
    pub fn complete(mut self, outcome: Result<()>) {
        self.fire(outcome);
    }

    fn fire(&mut self, outcome: Result<()>) {
        let Some(latch) = self.latch.take() else {
            return;
        };
        if let Err(error) = outcome {
            let mut first = latch.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
        if latch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let lock = |e: PoisonError<_>| e.into_inner();
            let completion = latch.completion.lock().unwrap_or_else(lock).take();
            let error = latch
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(completion) = completion {
                completion.complete(error.map_or(Ok(()), Err));
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.fire(Err(Error::internal(
            "the handler dropped a part of its promise without completing it",
        )));
    }
}
