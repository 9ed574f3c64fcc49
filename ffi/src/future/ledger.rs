//! In debug builds: the results of the calls under way, and which of them were touched.
//!
//! A result counts as written once its elements or its address were handed out for writing. Release
//! builds do not have this module.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::declare::handler_info::HandlerInfo;
use crate::entry::problems;
use crate::error::{Error, Result};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// A result of a call under way: where it lies, and whether it was touched.
struct Slot {
    // FREE, TAKEN while the rest is written, or the first address.
    start: AtomicUsize,
    end: AtomicUsize,
    touched: AtomicBool,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

// Neither locks nor memory of its own: handlers run in forked processes, too.
static SLOTS: [Slot; 256] = [const {
    Slot {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        touched: AtomicBool::new(false),
    }
}; 256];
/// Slots behind this one have never been taken.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Watches the bytes in a slot of their own: those from `start` on; `None` when there are too many results to look
/// after.
pub(crate) fn watch(start: usize, bytes: usize) -> Option<usize> {
    for (index, slot) in SLOTS.iter().enumerate() {
        let taken = slot
            .start
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            slot.end.store(start.wrapping_add(bytes), Ordering::Relaxed);
            slot.touched.store(false, Ordering::Relaxed);
            slot.start.store(start, Ordering::Release);
            USED.fetch_max(index + 1, Ordering::AcqRel);
            return Some(index);
        }
    }
    None
}

/// Word that memory is handed out for writing, from this address on.
pub(crate) fn touched(data: *const u8) {
    let address = data.addr();
    // All of them: a promise that was forgotten leaves its slots behind.
    for slot in &SLOTS[..USED.load(Ordering::Acquire)] {
        let start = slot.start.load(Ordering::Acquire);
        if start > TAKEN && start <= address && address < slot.end.load(Ordering::Relaxed) {
            slot.touched.store(true, Ordering::Release);
        }
    }
}

/// A result by its place among the slots and by its name.
pub(crate) struct Entry {
    pub(crate) slot: usize,
    pub(crate) name: &'static str,
    /// Which one of those that a parameter takes.
    pub(crate) number: Option<usize>,
}

pub(crate) struct Ledger {
    pub(crate) info: &'static HandlerInfo,
    pub(crate) entries: Vec<Entry>,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        for entry in &self.entries {
            SLOTS[entry.slot].start.store(FREE, Ordering::Release);
        }
    }
}

impl Ledger {
    fn check(&self) -> Result<()> {
        let is_left = |entry: &&Entry| !SLOTS[entry.slot].touched.load(Ordering::Acquire);
        if !self.entries.iter().any(|entry| is_left(&entry)) {
            return Ok(());
        }
        let stage = XLA_FFI_ExecutionStage::EXECUTE.0;
        let (message, _) = problems::message(self.info, stage, &mut |problems| {
            for Entry { name, number, .. } in self.entries.iter().filter(is_left) {
                let number = number
                    .map(|number| format!("[{number}]"))
                    .unwrap_or_default();
                problems.push(format!(
                    "result `{name}{number}` was never written: write it, or say `leave_unwritten`; only debug builds look for this, \
                     elsewhere the caller gets whatever lay in its memory"
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
    pub(crate) fn judge(&self, failure: Option<Error>) -> Option<Error> {
        failure.or_else(|| self.check().err())
    }

    /// An error where a result was not touched.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |ledger| ledger.check())
    }
}
