//! Tracks in debug builds which results of the active calls were accessed.
//!
//! A result counts as written once the handler gets its elements or its address for writing.
//! Release builds do not have this module.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::{Error, Result, problems};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// A result that the handler must write.
pub(crate) struct Entry {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) is_accessed: AtomicBool,
    pub(crate) name: &'static str,
    /// The index of the result among the results of a variadic parameter.
    pub(crate) number: Option<usize>,
}

/// The results that an active call must write.
pub(crate) struct Ledger {
    /// The handler's name.
    pub(crate) handler: &'static str,
    pub(crate) entries: Vec<Entry>,
}

/// The ledgers of all active calls.
static LEDGERS: Mutex<Vec<Weak<Ledger>>> = Mutex::new(Vec::new());

fn ledgers() -> MutexGuard<'static, Vec<Weak<Ledger>>> {
    LEDGERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that the handler gets the memory at `data` for writing.
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
    /// Tracks the results of this ledger until the returned value is dropped.
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

/// The results that an active call must write. The call's return and completion share these
/// results.
pub(crate) struct Results(Option<Arc<Ledger>>);

thread_local! {
    /// The ledger of the handler that runs on this thread. The pointer has no destructor, because a
    /// thread-local destructor would prevent the library from being unloaded.
    pub(crate) static HERE: Cell<*const Ledger> = const { Cell::new(std::ptr::null()) };
}

impl Results {
    /// Returns the results of the handler that runs on this thread.
    pub(crate) fn of_this_call() -> Self {
        let here = HERE.get();
        if here.is_null() {
            return Self(None);
        }
        // SAFETY: the scope that set the pointer on this thread holds a reference count.
        unsafe { Arc::increment_strong_count(here) };
        // SAFETY: this function has incremented the reference count.
        Self(Some(unsafe { Arc::from_raw(here) }))
    }

    /// Returns the error of a completed call, or an error for unwritten results.
    pub(crate) fn or_unwritten(&self, failure: Option<Error>) -> Option<Error> {
        failure.or_else(|| self.check().err())
    }

    /// Returns an error if a result was not accessed.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |ledger| ledger.check())
    }
}
