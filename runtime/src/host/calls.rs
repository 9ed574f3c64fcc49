//! The calls of a runtime that have not ended. A shutdown waits for them, and their outcomes are counted.
//!
//! Each call writes only its own memory, including its counters. Totals are computed from the counters of all calls.

use super::futures::Completion;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_sys::{Error, ErrorCode, Result};

const IDLE: u8 = 0;
/// The phase of a call whose handler has not returned.
const INSIDE: u8 = 1;
/// The phase of a call whose handler has returned a future that is not complete, or is about to.
const OPEN: u8 = 2;
/// The phase of a call whose object was dropped before the data that the handler may use is freed.
const LEFT: u8 = 3;

/// The outcomes of a handler's executions. Successes of existing calls are counted in their [`Progress`] instead.
pub(crate) struct Tally {
    pub(crate) name: Arc<str>,
    succeeded: AtomicU64,
    failed: [AtomicU64; ErrorCode::ALL.len()],
}

/// The outcomes of a handler's executions, from [`Runtime::counts`](crate::Runtime::counts).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCounts {
    /// The handler's name.
    pub name: String,
    /// The number of executions that have not ended: the handler has not returned, or its future is not complete.
    pub in_flight: u64,
    /// The number of executions that succeeded.
    pub succeeded: u64,
    /// The number of executions that failed, were refused or exceeded their time limit, by error code. Codes with the
    /// number 0 are omitted. An execution counts once, with the first outcome that its caller receives: a success
    /// after the time limit counts as `DEADLINE_EXCEEDED`. Errors in reading the results are not counted.
    pub failed: Vec<(ErrorCode, u64)>,
}

/// A finished execution, as passed to the function of [`Runtime::observe`](crate::Runtime::observe).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Execution<'a> {
    /// The handler's name.
    pub handler: &'a str,
    /// The run id of the call.
    pub run_id: i64,
    /// The time from the start of the handler's call until the handler returned or its future was completed.
    pub duration: Duration,
    /// The code of the handler's error; `None` if the handler succeeded.
    pub code: Option<ErrorCode>,
}

/// The function of the program that receives finished executions.
struct Observer {
    /// The function receives one in `every` executions of each call.
    every: u64,
    told: Box<dyn Fn(&Execution<'_>) + Send + Sync>,
}

impl Tally {
    #[cold]
    pub(crate) fn fail(&self, code: ErrorCode) {
        self.failed[code as usize - 1].fetch_add(1, Ordering::Relaxed);
    }
}

/// The progress of a call object. The alignment ensures that calls on several threads share no cache line.
#[repr(align(128))]
pub(crate) struct Progress {
    phase: AtomicU8,
    tally: Arc<Tally>,
    open: Mutex<Option<Arc<Completion>>>,
    /// The number of successes. Only the thread of the current execution writes it.
    succeeded: AtomicU64,
    begun: AtomicU64,
}

/// Increments a counter that no other thread writes, without an atomic read-modify-write operation.
#[inline]
fn increment(counter: &AtomicU64) -> u64 {
    let count = counter.load(Ordering::Relaxed);
    counter.store(count + 1, Ordering::Relaxed);
    count
}

impl Progress {
    /// Marks the start of a handler's call.
    #[inline]
    pub(crate) fn begin(&self) {
        // The store is sequentially consistent with the shutdown flag: either the call is refused, or the shutdown
        // waits for the call.
        self.phase.store(INSIDE, Ordering::SeqCst);
    }

    /// Marks the handler's return. The call has ended unless a future is open.
    #[inline]
    pub(crate) fn end(&self, open: bool) {
        let phase = if open {
            // `set_open` stores the new future later. The future of the previous execution is complete.
            self.keep(None);
            OPEN
        } else {
            IDLE
        };
        self.phase.store(phase, Ordering::Release);
    }

    /// Stores the future whose completion ends the call. Without a future, the call has ended.
    pub(crate) fn set_open(&self, completion: Option<Arc<Completion>>) {
        let phase = if completion.is_some() { OPEN } else { IDLE };
        self.keep(completion);
        self.phase.store(phase, Ordering::Release);
    }

    fn keep(&self, completion: Option<Arc<Completion>>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *open, completion);
        drop(open);
        // The lock is released first, because dropping an error may run destructors that list the running calls.
        drop(before);
    }

    /// Marks that the call object was dropped while its future is open. The call ends when its data is freed and it
    /// [leaves](Calls::leave).
    pub(crate) fn stay(&self) {
        self.phase.store(LEFT, Ordering::Release);
    }

    /// Returns the future of the last invocation, if the future is not complete.
    pub(crate) fn open(&self) -> Option<Arc<Completion>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().filter(|open| !open.is_done())
    }

    /// Returns true if the handler is running.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.phase.load(Ordering::Acquire) == INSIDE
    }

    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Counts an execution with the error code of its outcome; `None` counts a success.
    #[inline]
    pub(crate) fn count(&self, code: Option<ErrorCode>) {
        match code {
            None => _ = increment(&self.succeeded),
            Some(code) => self.tally.fail(code),
        }
    }

    /// Returns true if the handler is running or its future is not complete.
    fn is_in_flight(&self) -> bool {
        match self.phase.load(Ordering::Acquire) {
            IDLE => false,
            INSIDE => true,
            phase => {
                let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                let is_done = open.as_ref().map(|open| open.is_done());
                // An open call without a stored future counts as in flight, because the future will be stored soon.
                !is_done.unwrap_or(phase == LEFT)
            }
        }
    }

    /// Returns the reason why the call has not ended; `None` if the call has ended.
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

/// The calls and counters of a runtime.
#[derive(Default)]
pub(crate) struct Calls {
    is_over: AtomicBool,
    observer: OnceLock<Observer>,
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

    /// Returns the counters of the handler with this name.
    pub(crate) fn tally(&self, name: &str) -> Arc<Tally> {
        let new = |name: Arc<str>| {
            Arc::new(Tally {
                name,
                succeeded: AtomicU64::new(0),
                failed: Default::default(),
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

    /// Adds a call. A shutdown waits for the call until it [leaves](Calls::leave).
    pub(crate) fn enter(&self, tally: &Arc<Tally>) -> Arc<Progress> {
        let progress = Arc::new(Progress {
            phase: AtomicU8::new(IDLE),
            tally: tally.clone(),
            open: Mutex::new(None),
            succeeded: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        });
        let place = Arc::as_ptr(&progress) as usize;
        self.all().insert(place, progress.clone());
        progress
    }

    /// Removes a call whose call object was dropped.
    pub(crate) fn leave(&self, progress: &Arc<Progress>) {
        let place = Arc::as_ptr(progress) as usize;
        let mut all = self.all();
        let gone = all.remove(&place);
        // The lock is held, so that each success is counted in exactly one place.
        let succeeded = progress.succeeded.load(Ordering::Relaxed);
        let total = &progress.tally.succeeded;
        total.fetch_add(succeeded, Ordering::Relaxed);
        drop(all);
        drop(gone);
    }

    /// Returns true if new calls are refused.
    pub(crate) fn are_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns an error if the runtime was shut down.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.are_over() {
            return Err(cancelled(ErrorCode::Unavailable));
        }
        Ok(())
    }

    /// Sets `told` as the function that receives one in `every` executions of each call.
    pub(crate) fn observe(
        &self,
        every: u32,
        told: Box<dyn Fn(&Execution<'_>) + Send + Sync>,
    ) -> Result<()> {
        let every = u64::from(every.max(1));
        self.observer.set(Observer { every, told }).map_err(|_| {
            let why = "the executions of this runtime are observed already";
            Error::new(ErrorCode::AlreadyExists, why)
        })
    }

    /// Returns the start time of an execution if its end must be reported.
    #[inline]
    pub(crate) fn sample(&self, progress: &Progress) -> Option<Instant> {
        let observer = self.observer.get()?;
        let number = increment(&progress.begun);
        (number % observer.every == 0).then(Instant::now)
    }

    /// Reports the end of an execution for which [`Calls::sample`] returned a start time.
    #[cold]
    pub(crate) fn tell(&self, handler: &str, run_id: i64, begun: Instant, code: Option<ErrorCode>) {
        if let Some(observer) = self.observer.get() {
            let duration = begun.elapsed();
            (observer.told)(&Execution {
                handler,
                run_id,
                duration,
                code,
            });
        }
    }

    /// Returns the counts of each handler that has been called.
    pub(crate) fn counts(&self) -> Vec<HandlerCounts> {
        let tallies: Vec<_> = self.tallies().values().cloned().collect();
        // The lock prevents changes of the list of calls while they are counted.
        let all = self.all();
        let mut alive = BTreeMap::<_, (u64, u64)>::new();
        for call in all.values() {
            let sums = alive.entry(Arc::as_ptr(&call.tally)).or_default();
            sums.0 += u64::from(call.is_in_flight());
            sums.1 += call.succeeded.load(Ordering::Relaxed);
        }
        let count = |tally: Arc<Tally>| {
            let sums = alive.get(&Arc::as_ptr(&tally)).copied();
            let (in_flight, succeeded) = sums.unwrap_or_default();
            let failed = tally
                .failed
                .iter()
                .map(|count| count.load(Ordering::Relaxed));
            let failed = ErrorCode::ALL.into_iter().zip(failed);
            HandlerCounts {
                name: tally.name.to_string(),
                in_flight,
                succeeded: succeeded + tally.succeeded.load(Ordering::Relaxed),
                failed: failed.filter(|(_, count)| *count > 0).collect(),
            }
        };
        let mut counts: Vec<_> = tallies.into_iter().map(count).collect();
        counts.retain(|it| it.in_flight + it.succeeded > 0 || !it.failed.is_empty());
        counts
    }

    /// Refuses all new calls. [`Calls::wait`] waits for the earlier calls.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Waits until all calls have ended. At the time limit, the error lists the handlers of unfinished calls.
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

    /// Returns the handlers of unfinished calls with the reasons, and the number of calls per handler and reason.
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

/// Returns the error of a call that is refused with this error code.
#[cold]
pub(crate) fn cancelled(reason: ErrorCode) -> Error {
    let why = match reason {
        ErrorCode::Unavailable => "the runtime was shut down, and makes no more calls",
        ErrorCode::Cancelled => "the call was cancelled before it started",
        _ => "the time limit was over before the call started",
    };
    Error::new(reason, why)
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
        // The second execution is between the handler's return and the evaluation of its outcome.
        progress.begin();
        progress.end(true);
        assert!(progress.delay().is_some());
        progress.set_open(None);
        assert_eq!(progress.delay(), None);
        calls.leave(&progress);
    }

    /// After a wait for all calls returns, the data of dropped calls is freed.
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
