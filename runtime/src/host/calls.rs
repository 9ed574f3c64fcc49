//! The calls of a runtime that are under way: what a shutdown waits for, and what is counted.
//!
//! A call writes to memory of its own alone, also when it is counted on one thread; who wants to know looks at
//! all of them.

use super::futures::Completion;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Calls are refused.
const OVER: u8 = 1;
/// Calls are counted.
const COUNTED: u8 = 2;

const IDLE: u8 = 0;
/// The handler has not returned.
const INSIDE: u8 = 1;
/// The handler has returned a future, or is about to.
const OPEN: u8 = 2;
/// The call object is gone, and what the handler may use is not freed.
const LEFT: u8 = 3;

/// What a handler's executions came to, while they were counted.
pub(crate) struct Tally {
    pub(crate) name: Arc<str>,
    calls: AtomicU64,
    errors: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Executions of a handler, counted since [`Runtime::start_counting`](crate::Runtime::start_counting).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCounts {
    /// The handler's name.
    pub name: String,
    /// Executions that are over.
    pub calls: u64,
    /// How many of them ended with an error of the handler or a hazard; what is found in results when they are looked
    /// at (unwritten ones, bytes behind them) is not counted.
    pub errors: u64,
    /// How long they took together, from the call of the handler until it or its future was done.
    pub time: Duration,
}

impl Tally {
    pub(crate) fn add(&self, took: Duration, failed: bool) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.errors.fetch_add(failed.into(), Ordering::Relaxed);
        // Last: who sees a call sees what it came to.
        self.calls.fetch_add(1, Ordering::Release);
    }

    fn counts(&self) -> HandlerCounts {
        HandlerCounts {
            name: self.name.to_string(),
            calls: self.calls.load(Ordering::Acquire),
            errors: self.errors.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
        }
    }
}

/// How far one call object is. Aligned so that calls on several threads share no cache line.
#[repr(align(128))]
pub(crate) struct Progress {
    phase: AtomicU8,
    tally: Arc<Tally>,
    open: Mutex<Option<Arc<Completion>>>,
}

impl Progress {
    /// The handler is called from here on.
    #[inline]
    pub(crate) fn begin(&self) {
        // In one order with the mode: either the call sees that it may not begin, or the shutdown sees the call.
        self.phase.store(INSIDE, Ordering::SeqCst);
    }

    /// The handler has returned, and the call is over but for a future.
    #[inline]
    pub(crate) fn end(&self, open: bool) {
        let phase = if open {
            // Which future it is follows; that of the last execution is complete, and this call is not over.
            self.keep(None);
            OPEN
        } else {
            IDLE
        };
        self.phase.store(phase, Ordering::Release);
    }

    /// The call is over when this is complete; without it, now.
    pub(crate) fn set_open(&self, completion: Option<Arc<Completion>>) {
        let phase = if completion.is_some() { OPEN } else { IDLE };
        self.keep(completion);
        self.phase.store(phase, Ordering::Release);
    }

    fn keep(&self, completion: Option<Arc<Completion>>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *open, completion);
        drop(open);
        // Its error has causes of the handler's, whose destructors may ask for the calls that are under way.
        drop(before);
    }

    /// The call object goes while its future is open: it is over when what it used is freed, and it
    /// [leaves](Calls::leave).
    pub(crate) fn stay(&self) {
        self.phase.store(LEFT, Ordering::Release);
    }

    /// The future that the last invocation left open.
    pub(crate) fn open(&self) -> Option<Arc<Completion>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().filter(|open| !open.is_done())
    }

    /// Whether the handler has not returned.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.phase.load(Ordering::Acquire) == INSIDE
    }

    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// What the call waits for; `None` when it is over.
    fn delay(&self) -> Option<&'static str> {
        match self.phase.load(Ordering::SeqCst) {
            INSIDE => Some("the handler has not returned"),
            phase @ (OPEN | LEFT) => {
                let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                let done = open.as_ref().map(|open| open.is_done());
                match (phase, done) {
                    (LEFT, None | Some(true)) => Some("what it used is not freed yet"),
                    (_, None | Some(false)) => Some("its future is open"),
                    (_, Some(true)) => None,
                }
            }
            _ => None,
        }
    }
}

/// All calls of a runtime.
#[derive(Default)]
pub(crate) struct Calls {
    mode: AtomicU8,
    all: Mutex<BTreeMap<usize, Arc<Progress>>>,
    tallies: Mutex<BTreeMap<Arc<str>, Arc<Tally>>>,
}

impl Calls {
    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Progress>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Tally>>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the handler of this name comes to.
    pub(crate) fn tally(&self, name: &str) -> Arc<Tally> {
        let new = |name: Arc<str>| {
            Arc::new(Tally {
                name,
                calls: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                nanoseconds: AtomicU64::new(0),
            })
        };
        let mut tallies = self.tallies();
        if let Some(known) = tallies.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        let tally = new(name.clone());
        tallies.insert(name, tally.clone());
        tally
    }

    /// A call that is to be waited for until it [leaves](Calls::leave).
    pub(crate) fn enter(&self, tally: &Arc<Tally>) -> Arc<Progress> {
        let progress = Arc::new(Progress {
            phase: AtomicU8::new(IDLE),
            tally: tally.clone(),
            open: Mutex::new(None),
        });
        let place = Arc::as_ptr(&progress) as usize;
        self.all().insert(place, progress.clone());
        progress
    }

    /// The call object goes.
    pub(crate) fn leave(&self, progress: &Arc<Progress>) {
        let place = Arc::as_ptr(progress) as usize;
        let gone = self.all().remove(&place);
        drop(gone);
    }

    /// Whether calls are counted.
    pub(crate) fn are_counted(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & COUNTED != 0
    }

    /// Whether calls are refused.
    pub(crate) fn are_over(&self) -> bool {
        self.mode.load(Ordering::SeqCst) & OVER != 0
    }

    /// Refuses calls after a shutdown.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.are_over() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the runtime was shut down, and makes no more calls",
            ));
        }
        Ok(())
    }

    pub(crate) fn count(&self, on: bool) {
        if on {
            self.mode.fetch_or(COUNTED, Ordering::Relaxed);
        } else {
            self.mode.fetch_and(!COUNTED, Ordering::Relaxed);
        }
    }

    /// Of each handler that was called while calls were counted.
    pub(crate) fn counts(&self) -> Vec<HandlerCounts> {
        let counts = self
            .tallies()
            .values()
            .map(|tally| tally.counts())
            .collect();
        let mut counts: Vec<HandlerCounts> = counts;
        counts.retain(|counts| counts.calls > 0);
        counts
    }

    /// From here on every call is refused, or seen by [`Calls::wait`].
    pub(crate) fn end(&self) {
        self.mode.fetch_or(OVER, Ordering::SeqCst);
    }

    /// Waits until no call is under way; the error names those that are when time is up.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut pause = Duration::from_micros(50);
        loop {
            let late = self.unfinished();
            if late.is_empty() {
                return Ok(());
            }
            if let Some(end) = end {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(timeout_error(&late, limit.unwrap_or_default()));
                }
                pause = pause.min(left);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// The handlers of calls that are under way, why, and how often.
    fn unfinished(&self) -> BTreeMap<(Arc<str>, &'static str), usize> {
        let mut late = BTreeMap::new();
        for progress in self.all().values() {
            if let Some(delay) = progress.delay() {
                let name = progress.tally.name.clone();
                *late.entry((name, delay)).or_default() += 1;
            }
        }
        late
    }
}

fn timeout_error(late: &BTreeMap<(Arc<str>, &'static str), usize>, limit: Duration) -> Error {
    let mut text = format!("after {limit:?} calls are under way:");
    for (index, ((name, delay), count)) in late.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma} {count} of '{name}' ({delay})");
    }
    Error::new(ErrorCode::DeadlineExceeded, text)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_future_is_not_known_yet_is_under_way() {
        let calls = Calls::default();
        let progress = calls.enter(&calls.tally("twice"));
        progress.begin();
        progress.end(true);
        let first = Arc::new(Completion::default());
        progress.set_open(Some(first.clone()));
        assert!(progress.delay().is_some());
        first.complete(Ok(())).unwrap();
        assert_eq!(progress.delay(), None);
        // The second execution, between the handler's return and what is made of its answer.
        progress.begin();
        progress.end(true);
        assert!(progress.delay().is_some());
        progress.set_open(None);
        assert_eq!(progress.delay(), None);
        calls.leave(&progress);
    }

    /// Who waits has what was lent back.
    #[test]
    fn a_call_that_is_gone_is_under_way_until_what_it_used_is_freed() {
        let calls = Calls::default();
        let progress = calls.enter(&calls.tally("late"));
        progress.begin();
        progress.end(true);
        let future = Arc::new(Completion::default());
        progress.set_open(Some(future.clone()));
        progress.stay();
        assert_eq!(progress.delay(), Some("its future is open"));
        future.complete(Ok(())).unwrap();
        assert_eq!(progress.delay(), Some("what it used is not freed yet"));
        assert!(calls.wait(Some(Duration::ZERO)).is_err());
        calls.leave(&progress);
        assert!(calls.wait(None).is_ok());
    }
}
