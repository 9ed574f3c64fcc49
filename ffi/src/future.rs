//! Calls that complete after the handler has returned.
//!
//! What makes this sound: a promise owns operands whose memory the host takes back once the call is
//! over. So from the moment a promise exists, the call *is* pending, whatever the handler returns
//! ([`Pending`], [`Return::settle`](crate::pending::Return::settle)): an error of the handler's waits for the promise, too.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::bind::Bind;
use crate::diagnose::Problems;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::host::Host;
use crate::param::{At, Param};
use crate::pending::{Completion, Pending, pair};
use xla_ffi_sys::Revision;

/// What a handler returns to say that the call is under way. On hosts without futures (r0, r1)
/// returning it waits for the completion instead.
///
/// It only says so: a handler that has made a promise is under way whatever it returns. An error
/// that it returns after that reaches the host when the promise is completed or dropped, in the
/// place of the promise's own outcome.
#[derive(Debug)]
#[must_use = "return it from the handler"]
pub struct Future {
    // Belongs to its call, so to its thread.
    _here: PhantomData<*const ()>,
}

/// Operands that can outlive the handler: what their data pointers name stays until the call is
/// completed, everything else is copied. [`Buffer`](crate::Buffer), [`Out`](crate::Out),
/// [`InOut`](crate::InOut), [`AnyBuffer`](crate::AnyBuffer) and [`AnyOut`](crate::AnyOut) implement
/// it, and tuples of up to eight.
///
/// # Safety
/// What `detach` gives reaches no memory of the host but operand data.
pub unsafe trait Detach {
    /// The operands kept for later.
    type Kept: Kept;

    /// Copies what ends with the handler.
    ///
    /// # Safety
    /// What comes back is dropped before the call is completed.
    unsafe fn detach(self) -> Self::Kept;
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
/// Futures exist since r2 (jaxlib 0.4.34). On older hosts the call waits where the handler returns,
/// so a handler needs no other code there.
pub struct Later<'f> {
    host: Host,
    pending: &'f Pending,
}

impl std::fmt::Debug for Later<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").finish_non_exhaustive()
    }
}

impl Later<'_> {
    /// Whether the handler's return and the completion are two events: the host has futures.
    #[must_use]
    pub fn is_async(&self) -> bool {
        self.host.has_futures()
    }

    /// A promise that owns the operands it may touch, and the future to return.
    ///
    /// The host's future is made when the handler returns, if the call is still under way then.
    ///
    /// # Errors
    /// None so far.
    #[inline]
    pub fn promise<T: Detach>(self, operands: T) -> Result<(Promise<T::Kept>, Future)> {
        let (completion, call) = pair();
        self.pending.set(call);
        let promise = Promise {
            // SAFETY: the call is pending from here on, and the promise drops the operands before
            // it completes the call.
            operands: unsafe { operands.detach() },
            completion,
        };
        let future = Future { _here: PhantomData };
        Ok((promise, future))
    }
}

/// The name of this part of the context, by which the entry point knows that it is taken.
pub(crate) const CONTEXT: &str = "future";

// SAFETY: takes no operand.
unsafe impl<'f> Bind<'f> for Later<'f> {
    const PARAM: Param = Param::context(CONTEXT, Revision::R0);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        Some(Self {
            host: frame.host(),
            pending: frame.pending()?,
        })
    }

    fn explain(_: &Frame<'f>, _: &At, _: &mut Problems<'_>) {}
}

/// The duty to complete a call, with the operands that may be touched until then. Dropped, it
/// completes the call with an error. Completing consumes it: nothing reaches an operand afterwards.
pub struct Promise<K: Kept> {
    // Declared, and so dropped, before the completion.
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
    #[inline(always)]
    pub fn complete(self, outcome: Result<()>) {
        // The operands' own memory goes first; the data they name belongs to the host.
        drop(self.operands);
        self.completion.complete(outcome);
    }

    /// Works on the operands and completes the call with the outcome; a panic becomes an error.
    pub fn complete_with(mut self, work: impl for<'a> FnOnce(K::At<'a>) -> Result<()>) {
        crate::panics::install();
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self.operands.at())));
        let outcome = outcome.unwrap_or_else(|panic| {
            Err(Error::internal(crate::panics::describe(
                "the handler",
                panic,
            )))
        });
        self.complete(outcome);
    }

    /// Several promises out of one: the call completes when all parts have, with the first error if
    /// there is one. The operands are dropped first.
    ///
    /// ```
    /// use xla_ffi::{Future, Later, prelude::*};
    ///
    /// #[xla_ffi::handler]
    /// fn two_halves(_x: Buffer<f32>, later: Later) -> Result<Future> {
    ///     let (promise, future) = later.promise(())?;
    ///     for part in promise.count_down(2) {
    ///         std::thread::spawn(move || part.complete(Ok(())));
    ///     }
    ///     Ok(future)
    /// }
    /// ```
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
