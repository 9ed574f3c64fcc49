//! The XLA copies that know a type, each with the number that it gave it. Lists that only grow: they are
//! read by every call that uses the type. No thread ever waits for another: a child that is forked in the
//! middle of another thread's first call has nobody to wait for.

use crate::call::host::Host;
use crate::error::Result;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// The number of a type in one XLA copy.
pub(crate) struct Known {
    host: Host,
    // These two are written before the entry is in the list, and never again.
    id: UnsafeCell<i64>,
    older: UnsafeCell<*const Known>,
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

/// As many lists of copies as a type has. A server makes runtimes and drops them: their entries stay, and no call is
/// to walk past thousands.
const LISTS: usize = if cfg!(loom) { 1 } else { 64 };

#[cfg(not(loom))]
macro_rules! lists {
    () => {
        [const { AtomicPtr::new(std::ptr::null_mut()) }; LISTS]
    };
}
#[cfg(loom)]
macro_rules! lists {
    () => {
        [AtomicPtr::new(std::ptr::null_mut())]
    };
}

pub(crate) struct Copies {
    // Each with the newest first, by the address of the copy. Invariant: null, or an entry that is never freed.
    newest: [AtomicPtr<Known>; LISTS],
}

impl Copies {
    constant! {
        pub(crate) fn new() -> Self {
            Self {
                newest: lists!(),
            }
        }
    }

    /// The entry of an XLA copy.
    #[inline]
    pub(crate) fn find(&self, host: Host) -> Option<&'static Known> {
        Self::find_from(self.list(host).load(Ordering::Acquire), host)
    }

    #[inline]
    fn list(&self, host: Host) -> &AtomicPtr<Known> {
        &self.newest[host.place(LISTS)]
    }

    fn find_from(newest: *const Known, host: Host) -> Option<&'static Known> {
        let mut copy = newest;
        // SAFETY: the invariant on `newest`, for the head and for each `older`.
        while let Some(entry) = unsafe { copy.as_ref() } {
            if entry.host == host {
                return Some(entry);
            }
            // SAFETY: the entry is in the list: nobody writes any more.
            copy = entry.older.with(|older| unsafe { *older });
        }
        None
    }

    /// The number in an XLA copy, which `ask` gets where there is none yet. Threads that come here together
    /// may all ask; the first answer is everybody's from then on. `ask` is told the address of its new
    /// entry, which nothing else in the process ever has.
    #[inline(never)]
    pub(crate) fn add(&self, host: Host, ask: impl FnOnce(usize) -> Result<i64>) -> Result<i64> {
        // Kept for good, as the host's table is: one entry for each XLA copy in the process, and one for
        // each thread that came too late, since its host may know the address by now.
        let entry = Box::new(Known {
            host,
            id: UnsafeCell::new(0),
            older: UnsafeCell::new(std::ptr::null()),
            stored: AtomicU8::new(0),
        });
        let id = ask(std::ptr::from_ref(&*entry).addr())?;
        let entry: &'static Known = Box::leak(entry);
        // SAFETY: nobody else has the entry yet.
        entry.id.with_mut(|place| unsafe { *place = id });
        let list = self.list(host);
        let mut newest = list.load(Ordering::Acquire);
        loop {
            if let Some(first) = Self::find_from(newest, host) {
                return Ok(first.id());
            }
            // SAFETY: as above.
            entry.older.with_mut(|place| unsafe { *place = newest });
            let here = std::ptr::from_ref(entry).cast_mut();
            let (won, lost) = (Ordering::Release, Ordering::Acquire);
            match list.compare_exchange(newest, here, won, lost) {
                Ok(_) => return Ok(id),
                Err(other) => newest = other,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_first_call_waits_for_no_other_threads() {
        static COPIES: Copies = Copies::new();
        // SAFETY: only compared.
        let host = || unsafe { Host::new(std::ptr::from_ref(&COPIES).cast()) };
        let asked = std::sync::Barrier::new(2);
        let answered = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                COPIES.add(host(), |_| {
                    asked.wait();
                    answered.wait();
                    Ok(1)
                })
            });
            asked.wait();
            assert_eq!(COPIES.add(host(), |_| Ok(2)).unwrap(), 2);
            answered.wait();
            assert_eq!(late.join().unwrap().unwrap(), 2, "the first answer holds");
        });
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
            assert_eq!(here, number(&shared.0, host(0), &shared.1));
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
            assert_eq!(shared.0.find(host(0)).map(Known::id), Some(here));
            assert_ne!(shared.0.find(host(1)).map(Known::id), Some(here));
        });
    }
}
