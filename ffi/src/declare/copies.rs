//! The XLA copies that know a type, each with the number that it gave it. A list that only grows: it is
//! read by every call that uses the type, without a lock.

use std::sync::PoisonError;

use crate::call::host::Host;
use crate::error::Result;
use crate::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use crate::sync::{Mutex, UnsafeCell};

/// The number of a type in one XLA copy.
pub(crate) struct Known {
    host: Host,
    // Written before the entry is in the list, and never again.
    id: UnsafeCell<i64>,
    older: *const Known,
    stored: AtomicU8,
}

impl Known {
    pub(crate) fn id(&self) -> i64 {
        // SAFETY: the entry is in the list: nobody writes any more.
        self.id.with(|id| unsafe { *id })
    }

    /// Notes some bits for [`Known::notes`].
    pub(crate) fn note(&self, bits: u8) {
        self.stored.fetch_or(bits, Ordering::Relaxed);
    }

    /// All bits that were noted.
    pub(crate) fn notes(&self) -> u8 {
        self.stored.load(Ordering::Relaxed)
    }
}

pub(crate) struct Copies {
    // The newest first. Invariant: null, or an entry that is never freed.
    newest: AtomicPtr<Known>,
    adding: Mutex<()>,
}

impl Copies {
    constant! {
        pub(crate) fn new() -> Self {
            Self {
                newest: AtomicPtr::new(std::ptr::null_mut()),
                adding: Mutex::new(()),
            }
        }
    }

    /// The entry of an XLA copy.
    #[inline]
    pub(crate) fn find(&self, host: Host) -> Option<&'static Known> {
        let mut copy = self.newest.load(Ordering::Acquire).cast_const();
        // SAFETY: the invariant on `newest`, for the head and for each `older`.
        while let Some(entry) = unsafe { copy.as_ref() } {
            if entry.host == host {
                return Some(entry);
            }
            copy = entry.older;
        }
        None
    }

    /// The number in an XLA copy; `ask` gets it where there is none yet, once however many threads
    /// come here. It is told the address of the new entry, which nothing else in the process ever has.
    #[inline(never)]
    pub(crate) fn add(&self, host: Host, ask: impl FnOnce(usize) -> Result<i64>) -> Result<i64> {
        let _one_at_a_time = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.find(host) {
            return Ok(known.id());
        }
        // Kept for good, as the host's table is: one entry for each XLA copy in the process.
        let entry = Box::new(Known {
            host,
            id: UnsafeCell::new(0),
            older: self.newest.load(Ordering::Relaxed),
            stored: AtomicU8::new(0),
        });
        let id = ask(std::ptr::from_ref(&*entry).addr())?;
        // SAFETY: nobody else has the entry yet.
        entry.id.with_mut(|place| unsafe { *place = id });
        let entry = Box::into_raw(entry);
        self.newest.store(entry, Ordering::Release);
        Ok(id)
    }
}

/// Every order in which the first calls of threads can meet.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    fn host(number: usize) -> Host {
        static TABLES: [usize; 2] = [0; 2];
        // SAFETY: only compared.
        unsafe { Host::new((&raw const TABLES[number]).cast()) }
    }

    /// What a handler does with its type.
    fn number(copies: &Copies, host: Host, asked: &Asked) -> i64 {
        match copies.find(host) {
            Some(known) => known.id(),
            None => copies.add(host, |_| Ok(asked.next())).unwrap(),
        }
    }

    /// Counts without being one of the things that the model orders.
    #[derive(Default)]
    struct Asked(std::sync::atomic::AtomicI64);

    impl Asked {
        fn next(&self) -> i64 {
            1 + self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[test]
    fn loom_first_calls_get_one_number() {
        loom::model(|| {
            let shared = Arc::new((Copies::new(), Asked::default()));
            let there = shared.clone();
            let other = loom::thread::spawn(move || number(&there.0, host(0), &there.1));
            let here = number(&shared.0, host(0), &shared.1);
            assert_eq!(here, other.join().unwrap());
            assert_eq!(shared.1.next(), 2, "the host was asked once");
        });
    }

    /// Two XLA copies in one process: neither hides the other.
    #[test]
    fn loom_two_copies_of_xla_are_told_apart() {
        loom::model(|| {
            let shared = Arc::new((Copies::new(), Asked::default()));
            let there = shared.clone();
            let other = loom::thread::spawn(move || {
                number(&there.0, host(1), &there.1);
                number(&there.0, host(0), &there.1)
            });
            let here = number(&shared.0, host(0), &shared.1);
            assert_eq!(here, other.join().unwrap());
            assert_ne!(shared.0.find(host(1)).map(Known::id), Some(here));
            assert_eq!(shared.1.next(), 3, "each host was asked once");
        });
    }
}
