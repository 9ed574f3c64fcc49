//! In debug builds: the results of the calls under way, and which of them were touched.
//!
//! A result counts as written once its elements or its address were handed out for writing. Release
//! builds do not have this module.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{Error, Result, problems};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// A result that has to be written.
pub(crate) struct Entry {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) is_accessed: AtomicBool,
    pub(crate) name: &'static str,
    /// Which one of those that a parameter takes.
    pub(crate) number: Option<usize>,
}

/// The results of a call under way.
pub(crate) struct Ledger {
    /// The handler's name.
    pub(crate) handler: &'static str,
    pub(crate) entries: Vec<Entry>,
}

/// Those of all calls under way.
static LEDGERS: Mutex<Vec<Weak<Ledger>>> = Mutex::new(Vec::new());

fn ledgers() -> MutexGuard<'static, Vec<Weak<Ledger>>> {
    LEDGERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Word that memory is handed out for writing, from this address on.
pub fn mark_accessed(data: *const u8) {
    for ledger in ledgers().iter().filter_map(Weak::upgrade) {
        for entry in &ledger.entries {
            if (entry.start..entry.start + entry.bytes).contains(&data.addr()) {
                entry.is_accessed.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Ledger {
    /// Watches the results until this is dropped.
    pub(crate) fn watch(self) -> Arc<Self> {
        let this = Arc::new(self);
        let mut ledgers = ledgers();
        ledgers.retain(|ledger| ledger.strong_count() > 0);
        ledgers.push(Arc::downgrade(&this));
        this
    }

    fn check(&self) -> Result<()> {
        let is_left = |entry: &&Entry| !entry.is_accessed.load(Ordering::Relaxed);
        if !self.entries.iter().any(|entry| is_left(&entry)) {
            return Ok(());
        }
        let stage = XLA_FFI_ExecutionStage::EXECUTE.0;
        let (message, _) = problems::message(self.handler, stage, &mut |problems| {
            for Entry { name, number, .. } in self.entries.iter().filter(is_left) {
                let number = number
                    .map(|number| format!("[{number}]"))
                    .unwrap_or_default();
                problems.push(format!(
                    "result `{name}{number}` was never written: write it, or call `leave_unwritten`; only debug builds detect this, in release builds the caller gets whatever was in its memory"
                ));
            }
        });
        Err(Error::internal(message))
    }
}

/// What a call under way has to write: shared by its return and its completion.
pub(crate) struct Results(Option<Arc<Ledger>>);

thread_local! {
    /// That of the handler that runs on this thread. Without a destructor, which would keep the
    /// library from being unloaded.
    pub(crate) static HERE: Cell<*const Ledger> = const { Cell::new(std::ptr::null()) };
}

impl Results {
    /// Those of the handler that runs on this thread.
    pub(crate) fn of_this_call() -> Self {
        let here = HERE.get();
        if here.is_null() {
            return Self(None);
        }
        // SAFETY: the scope that put it here, on this thread, holds a count of it.
        unsafe { Arc::increment_strong_count(here) };
        // SAFETY: the count that was made right now.
        Self(Some(unsafe { Arc::from_raw(here) }))
    }

    /// Why a call failed that is over, or what it left unwritten.
    pub(crate) fn or_unwritten(&self, failure: Option<Error>) -> Option<Error> {
        failure.or_else(|| self.check().err())
    }

    /// An error where a result was not touched.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |ledger| ledger.check())
    }
}
