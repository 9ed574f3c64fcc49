//! Futures, which report the end of an asynchronous handler. Handlers receive futures as numbers, like errors.
//! Completing a future twice, or a freed future, is reported and does not corrupt memory.

use super::errors::Handles;
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use xla_ffi_sys::XLA_FFI_Future;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};

const BASE: usize = 0xF47_u64.wrapping_shl(52) as usize;

/// The state that a future's host and handler share.
#[derive(Default)]
pub(crate) struct Completion {
    progress: Mutex<Progress>,
    woken: Condvar,
}

/// A function that runs when a future is complete, with the code of the future's error; `None` for a success.
type Callback = Box<dyn FnOnce(Option<ErrorCode>) + Send>;

#[derive(Default)]
struct Progress {
    /// Whether a handler has returned the future from a call.
    is_returned: bool,
    outcome: Option<std::result::Result<(), Error>>,
    /// The error code, set when the handler completes the future. The outcome is set later, after the execution is
    /// counted and observed.
    ended: Option<Option<ErrorCode>>,
    count: Option<Callback>,
    observe: Option<Callback>,
    then: Vec<Callback>,
}

impl Completion {
    pub(crate) fn complete(&self, outcome: std::result::Result<(), Error>) -> Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.ended.is_some() {
            return Err(Error::hazard(
                Hazard::FutureMisuse,
                "the future was completed before",
            ));
        }
        let failed = outcome.as_ref().err().map(Error::code);
        progress.ended = Some(failed);
        if let Some(count) = progress.count.take() {
            count(failed);
        }
        if let Some(observe) = progress.observe.take() {
            // The lock is released first, because `observe` is a function of the program.
            drop(progress);
            run_callback(|| observe(failed));
            progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        }
        progress.outcome = Some(outcome);
        self.woken.notify_all();
        let then = std::mem::take(&mut progress.then);
        // The callbacks run without the lock, because they may call functions of the future.
        drop(progress);
        for then in then {
            run_callback(|| then(failed));
        }
        Ok(())
    }

    /// Marks that a call returned the future. Returns an error if two calls return the same future, which XLA frees
    /// after the first call.
    pub(crate) fn returned(&self) -> Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut progress.is_returned, true) {
            return Err(Error::hazard(
                Hazard::FutureMisuse,
                "the future was returned by an earlier call; each call needs its own",
            ));
        }
        Ok(())
    }

    /// Runs `count` before the completion is visible; immediately if the future is already complete. `count` runs
    /// under the lock, so it must not use the future.
    pub(crate) fn count(&self, count: Callback) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match progress.ended {
            None => progress.count = Some(count),
            Some(code) => count(code),
        }
    }

    /// Runs `observe` like [`Completion::count`], without the lock.
    pub(crate) fn observe(&self, observe: Callback) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match progress.ended {
            None => progress.observe = Some(observe),
            Some(code) => {
                drop(progress);
                observe(code);
            }
        }
    }

    /// Counts the execution with this code, unless the execution is already counted.
    pub(crate) fn count_now(&self, code: ErrorCode) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = progress.count.take() {
            count(Some(code));
        }
    }

    /// Runs `then` when the future is complete, on the thread that completes it. If the future is already complete,
    /// runs `then` immediately.
    pub(crate) fn on_done(&self, then: Callback) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.outcome.is_none() {
            progress.then.push(then);
            return;
        }
        let failed = progress.ended.flatten();
        drop(progress);
        run_callback(|| then(failed));
    }

    /// Runs `then` like [`Completion::on_done`], before all other callbacks, because they may wait for its effects.
    pub(crate) fn on_done_first(&self, then: Callback) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.outcome.is_none() {
            progress.then.insert(0, then);
            return;
        }
        drop(progress);
        self.on_done(then);
    }

    /// Returns true if the future is complete.
    pub(crate) fn is_done(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.outcome.is_some()
    }

    /// Waits until the future is complete and returns its outcome; `None` at the time limit.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<std::result::Result<(), Error>> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // The replacement value makes a second completion fail.
            if let Some(outcome) = progress.outcome.as_mut() {
                return Some(std::mem::replace(outcome, Ok(())));
            }
            progress = match end {
                None => self
                    .woken
                    .wait(progress)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.woken
                        .wait_timeout(progress, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }
}

/// Runs a callback. A panic of the callback is caught, because it must not reach the handler that completes the
/// future.
pub(crate) fn run_callback(then: impl FnOnce()) {
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then)) {
        crate::process::guard::discard(payload);
        crate::process::warn(format_args!(
            "a panic left what was to run at the end of a call"
        ));
    }
}

static FUTURES: Handles<Arc<Completion>> = Handles::new(BASE);

/// Returns the number of existing futures in this process.
pub(crate) fn living() -> usize {
    FUTURES.lock().len()
}

/// Returns the host's object for the future that a handler returned.
pub(crate) fn find(future: *mut XLA_FFI_Future) -> Result<Arc<Completion>> {
    FUTURES
        .lock()
        .get(&(future as usize))
        .cloned()
        .ok_or_else(|| unknown(future))
}

/// Creates a future and returns its number for handlers.
pub(crate) fn create() -> usize {
    FUTURES.insert(Arc::default())
}

/// Removes a future for which no call waits.
pub(crate) fn forget(handle: usize) {
    FUTURES.remove(handle);
}

fn unknown(future: *mut XLA_FFI_Future) -> Error {
    Error::hazard(
        Hazard::FutureMisuse,
        format!("a future was named that this host did not make or has no more ({future:p})"),
    )
}

/// Tests every order of two completions and a waiting host. To run these tests, use `RUSTFLAGS="--cfg loom" cargo
/// test -p xla-ffi-runtime --lib --target-dir target/loom loom` or `cargo xtask test`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn loom_one_completion_counts_and_wakes() {
        loom::model(|| {
            let completion = loom::sync::Arc::new(Completion::default());
            // The atomic type is loom's, so that loom also tests a load before the store.
            let counted = loom::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
            let counts = counted.clone();
            let order = loom::sync::atomic::Ordering::Relaxed;
            completion.count(Box::new(move |_| counts.store(true, order)));
            let complete = |outcome: fn() -> std::result::Result<(), Error>| {
                let completion = completion.clone();
                loom::thread::spawn(move || completion.complete(outcome()).is_ok())
            };
            let one = complete(|| Ok(()));
            let two = complete(|| Err(Error::new(xla_ffi_sys::ErrorCode::Aborted, "two")));
            let outcome = completion.wait(None).expect("no limit");
            assert!(counted.load(order));
            let (one, two) = (one.join().unwrap(), two.join().unwrap());
            assert!(one != two, "one of them counts");
            assert_eq!(outcome.is_err(), two);
            assert!(completion.is_done());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn completion_wakes_once() {
        let completion = Arc::new(Completion::default());
        assert!(completion.wait(Some(Duration::from_millis(5))).is_none());
        let other = completion.clone();
        let thread = std::thread::spawn(move || other.complete(Ok(())).is_ok());
        assert!(completion.wait(None).is_some_and(|outcome| outcome.is_ok()));
        assert!(thread.join().unwrap());
        assert!(
            completion
                .complete(Ok(()))
                .unwrap_err()
                .has(Hazard::FutureMisuse)
        );
    }
}
