//! Where a call leaves what is laid out for the next one of its executable.

use super::prepared::Body;
use std::sync::{Mutex, TryLockError};

/// Room for one of them. Who finds it busy makes his own: nobody waits here.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Box<Body>>>);

impl Spare {
    /// What is left there, if it fits.
    pub(crate) fn take_if(&self, fits: impl FnOnce(&Body) -> bool) -> Option<Box<Body>> {
        let mut left = match self.0.try_lock() {
            Ok(left) => left,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if left.as_deref().is_some_and(fits) {
            left.take()
        } else {
            None
        }
    }

    /// Leaves something, in place of what is there.
    pub(crate) fn put(&self, body: Box<Body>) {
        let replaced = match self.0.try_lock() {
            Ok(mut left) => left.replace(body),
            Err(_) => Some(body),
        };
        drop(replaced);
    }
}
