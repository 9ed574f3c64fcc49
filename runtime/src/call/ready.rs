//! Where a call leaves what is laid out for the next one of its executable.

use std::any::Any;
use std::sync::{Mutex, TryLockError};

/// Room for one thing. Who finds it busy makes his own: nobody waits here. What it is, calls know: handlers
/// hold the room and lie below them.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Box<dyn Any + Send>>>);

impl Spare {
    /// What is left there, if it is a `T` and fits.
    pub(crate) fn take_if<T: Any>(&self, fits: impl FnOnce(&T) -> bool) -> Option<Box<T>> {
        let mut left = match self.0.try_lock() {
            Ok(left) => left,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if left.as_deref()?.downcast_ref().is_some_and(fits) {
            left.take()?.downcast().ok()
        } else {
            None
        }
    }

    /// Leaves something, in place of what is there.
    pub(crate) fn put<T: Any + Send>(&self, body: Box<T>) {
        let replaced: Option<Box<dyn Any + Send>> = match self.0.try_lock() {
            Ok(mut left) => left.replace(body),
            Err(_) => Some(body),
        };
        drop(replaced);
    }
}
