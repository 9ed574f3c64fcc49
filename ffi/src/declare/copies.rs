//! The numbers that XLA copies gave to a type.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::frame::host::Host;
use crate::error::Result;

/// What is known of a type in one XLA copy.
struct Known {
    id: i64,
    notes: AtomicU8,
}

impl Known {
    fn new(id: i64) -> Self {
        Self {
            id,
            notes: AtomicU8::new(0),
        }
    }
}

/// The XLA copies that know a type, each with the number that it gave it.
pub(crate) struct Copies {
    /// The first one, in most processes the only one, is found without a lock.
    first: OnceLock<(Host, Known)>,
    /// The others, by the addresses of their tables.
    others: Mutex<BTreeMap<usize, Known>>,
}

impl Copies {
    pub(crate) const fn new() -> Self {
        Self {
            first: OnceLock::new(),
            others: Mutex::new(BTreeMap::new()),
        }
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<usize, Known>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn with<R>(&self, host: Host, look: impl FnOnce(&Known) -> R) -> Option<R> {
        match self.first.get() {
            Some((first, known)) if *first == host => Some(look(known)),
            _ => self.others().get(&host.api().addr()).map(look),
        }
    }

    /// The number in an XLA copy.
    #[inline]
    pub(crate) fn id(&self, host: Host) -> Option<i64> {
        self.with(host, |known| known.id)
    }

    /// The number in an XLA copy, which `ask` gets if there is none yet.
    #[inline(never)]
    pub(crate) fn add(&self, host: Host, ask: impl FnOnce() -> Result<i64>) -> Result<i64> {
        let mut others = self.others();
        let api = host.api().addr();
        match (self.first.get(), others.get(&api)) {
            (Some((first, known)), _) if *first == host => return Ok(known.id),
            (_, Some(known)) => return Ok(known.id),
            _ => {}
        }
        let id = ask()?;
        if self.first.set((host, Known::new(id))).is_err() {
            others.insert(api, Known::new(id));
        }
        Ok(id)
    }

    /// Notes some bits for [`Copies::notes`].
    pub(crate) fn note(&self, host: Host, bits: u8) {
        self.with(host, |known| known.notes.fetch_or(bits, Ordering::Relaxed));
    }

    /// All bits that were noted.
    pub(crate) fn notes(&self, host: Host) -> u8 {
        self.with(host, |known| known.notes.load(Ordering::Relaxed))
            .unwrap_or(0)
    }
}
