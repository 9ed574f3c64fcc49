//! Objects that handlers hold by a number instead of an address: one that is gone or was never
//! made here is told from one that lives, whatever a handler does with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Objects by number.
pub(crate) struct Handles<T> {
    next: AtomicUsize,
    objects: Mutex<BTreeMap<usize, T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(base: usize) -> Self {
        Self {
            next: AtomicUsize::new(base + 16),
            objects: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, T>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, object: T) -> usize {
        let handle = self.next.fetch_add(16, Ordering::Relaxed);
        self.lock().insert(handle, object);
        handle
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<T> {
        self.lock().remove(&handle)
    }
}
