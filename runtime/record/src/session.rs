//! A recording: its folder, its limit, and its numbers of calls.

use crate::Call;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::Revision;

/// Whether a recording is active. Every interposed call checks this flag first.
static RECORDS: AtomicBool = AtomicBool::new(false);
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// Locks a mutex. A panic of a thread that holds the lock does not make the data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording of calls, from its start to its end.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) folder: PathBuf,
    pub(crate) host: String,
    pub(crate) revision: Revision,
    pub(crate) process: u32,
    /// The number of operand bytes that the recording may still keep.
    left: AtomicU64,
    next: AtomicU64,
    /// The number of calls in progress. The following fields are the numbers of ended calls by outcome.
    pub(crate) open: AtomicU64,
    pub(crate) recorded: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) failed: AtomicU64,
    states: Mutex<HashMap<usize, Vec<StoredState>>>,
}

/// A state that an instantiate stage set during the recording.
#[derive(Debug)]
struct StoredState {
    slot: usize,
    call: Call,
}

/// Returns the active recording of this process.
pub(crate) fn current() -> Option<Arc<Session>> {
    RECORDS
        .load(Ordering::Acquire)
        .then(|| lock(&SESSION).clone())?
}

/// Starts a recording. Returns `false` if a recording is active.
pub(crate) fn begin(folder: PathBuf, limit: u64, host: String, revision: Revision) -> bool {
    let mut session = lock(&SESSION);
    if session.is_some() {
        return false;
    }
    *session = Some(Arc::new(Session {
        folder,
        host,
        revision,
        process: process::id(),
        left: AtomicU64::new(limit),
        next: AtomicU64::new(1),
        open: AtomicU64::new(0),
        recorded: AtomicU64::new(0),
        truncated: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        states: Mutex::default(),
    }));
    RECORDS.store(true, Ordering::Release);
    true
}

/// Ends the recording and returns it; `None` if no recording is active.
pub(crate) fn end() -> Option<Arc<Session>> {
    RECORDS.store(false, Ordering::Release);
    lock(&SESSION).take()
}

impl Session {
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Reserves bytes of the remaining limit. Returns `false`, and reserves nothing, if the limit is too small.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        let order = Ordering::Relaxed;
        self.left.fetch_update(order, order, take).is_ok()
    }

    /// Records the state that an instantiate stage set.
    pub(crate) fn state_set(&self, state: usize, slot: usize, call: &Call) {
        let mut states = lock(&self.states);
        let left = states.entry(state).or_default();
        left.retain(|left| left.slot != slot || left.call.attributes != call.attributes);
        let call = call.clone();
        left.push(StoredState { slot, call });
    }

    /// Returns the number of the call whose instantiate stage set the state. Handlers and attributes are also
    /// compared, because objects of size zero may share an address, and handlers may share an object.
    pub(crate) fn state_of(&self, state: usize, call: &Call) -> Option<u64> {
        let states = lock(&self.states);
        let is_own = |left: &&StoredState| {
            left.call.library == call.library && left.call.handler == call.handler
        };
        let mut own = states.get(&state)?.iter().rev().filter(is_own);
        let last = own.clone().next();
        let same = own.find(|left| left.call.attributes == call.attributes);
        same.or(last).map(|left| left.call.number)
    }
}
