//! A recording: where it goes, how much of it there may be, and what came of it.

use crate::Attributes;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::Revision;

/// The process that records, or 0: what every interposed call looks at first.
static RECORDS: AtomicU32 = AtomicU32::new(0);
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// A lock whose data stays good when somebody panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One recording.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) folder: PathBuf,
    pub(crate) host: String,
    pub(crate) revision: Revision,
    pub(crate) process: u32,
    /// Bytes of operands that may still be kept.
    left: AtomicU64,
    next: AtomicU64,
    /// Calls under way, and what happened to those that are over.
    pub(crate) open: AtomicU64,
    pub(crate) recorded: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) failed: AtomicU64,
    states: Mutex<HashMap<usize, Vec<Left>>>,
}

/// A state that an instantiation left somewhere.
#[derive(Debug)]
struct Left {
    number: u64,
    slot: usize,
    handler: Handler,
    attributes: Attributes,
}

/// A handler's library and name.
pub(crate) type Handler = (String, String);

/// The recording that is under way in this process.
pub(crate) fn current() -> Option<Arc<Session>> {
    let process = RECORDS.load(Ordering::Acquire);
    // A process that was forked from the one that records has no part in it.
    if process == 0 || process != process::id() {
        return None;
    }
    lock(&SESSION).clone()
}

/// Begins a recording; `false` when there is one.
pub(crate) fn begin(folder: PathBuf, limit: u64, host: String, revision: Revision) -> bool {
    let mut session = lock(&SESSION);
    if session.as_ref().is_some_and(|session| session.is_here()) {
        return false;
    }
    let process = process::id();
    *session = Some(Arc::new(Session {
        folder,
        host,
        revision,
        process,
        left: AtomicU64::new(limit),
        next: AtomicU64::new(1),
        open: AtomicU64::new(0),
        recorded: AtomicU64::new(0),
        truncated: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        states: Mutex::default(),
    }));
    RECORDS.store(process, Ordering::Release);
    true
}

/// Ends the recording: no call begins to be recorded from here on.
pub(crate) fn end() -> Option<Arc<Session>> {
    RECORDS.store(0, Ordering::Release);
    // A process that was forked from the one that records leaves its recording alone.
    lock(&SESSION).take().filter(|session| session.is_here())
}

impl Session {
    /// Whether it is of this process: a forked one comes out of calls that its parent records.
    pub(crate) fn is_here(&self) -> bool {
        self.process == process::id()
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes so many bytes of what may be kept, all or none.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        taken.is_ok()
    }

    /// Notes the state that an instantiation has left.
    pub(crate) fn state_set(
        &self,
        state: usize,
        slot: usize,
        number: u64,
        handler: Handler,
        attributes: &Attributes,
    ) {
        let mut states = lock(&self.states);
        let left = states.entry(state).or_default();
        left.retain(|left| left.slot != slot || left.attributes != *attributes);
        left.push(Left {
            number,
            slot,
            handler,
            attributes: attributes.clone(),
        });
    }

    /// The instantiation that left a state. Types without size all lie at one address, and handlers may share an object:
    /// handler and attributes tell them apart.
    pub(crate) fn state_of(
        &self,
        state: usize,
        handler: &Handler,
        attributes: &Attributes,
    ) -> Option<u64> {
        let states = lock(&self.states);
        let left = states.get(&state)?;
        let mut own = left.iter().rev().filter(|left| left.handler == *handler);
        let last = own.clone().next();
        let same = own.find(|left| left.attributes == *attributes);
        same.or(last).map(|left| left.number)
    }
}
