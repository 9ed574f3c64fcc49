//! Timers for calls that no thread waits for. One thread serves all timers; the first timer starts the thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// The time of a timer, and its number.
type Key = (Instant, u64);

struct Alarms {
    has_thread: bool,
    count: u64,
    entries: BTreeMap<Key, Box<dyn FnOnce() + Send>>,
}

static ALARMS: Mutex<Alarms> = Mutex::new(Alarms {
    has_thread: false,
    count: 0,
    entries: BTreeMap::new(),
});
static CHANGED: Condvar = Condvar::new();

fn alarms() -> MutexGuard<'static, Alarms> {
    ALARMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer that is cancelled when it is dropped.
pub(crate) struct Alarm(Key);

impl Drop for Alarm {
    fn drop(&mut self) {
        let entry = alarms().entries.remove(&self.0);
        // The lock is released first, because the closure belongs to the program.
        drop(entry);
    }
}

/// Runs `work` after the given time; never if the clock cannot represent that time. `work` must not panic.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` if the system cannot start the timer thread.
pub(crate) fn set(after: Duration, work: impl FnOnce() + Send + 'static) -> Result<Option<Alarm>> {
    let Some(at) = Instant::now().checked_add(after) else {
        return Ok(None);
    };
    let mut all = alarms();
    if !all.has_thread {
        let thread = std::thread::Builder::new().name("xla-ffi-timer".into());
        thread.spawn(serve).map_err(|error| {
            let why = "the thread that watches time limits cannot start";
            Error::new(ErrorCode::ResourceExhausted, why).with_source(error)
        })?;
        all.has_thread = true;
    }
    all.count += 1;
    let key = (at, all.count);
    all.entries.insert(key, Box::new(work));
    if all.entries.keys().next() == Some(&key) {
        CHANGED.notify_one();
    }
    Ok(Some(Alarm(key)))
}

fn serve() {
    let mut all = alarms();
    loop {
        let now = Instant::now();
        let left = match all.entries.first_entry() {
            Some(entry) if entry.key().0 <= now => {
                let work = entry.remove();
                drop(all);
                work();
                all = alarms();
                continue;
            }
            Some(entry) => entry.key().0 - now,
            None => Duration::MAX,
        };
        let waited = CHANGED.wait_timeout(all, left.min(Duration::from_secs(3600)));
        all = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
