//! Locks of this process alone.

use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock, and what it guards, of the process that looks. A process that is forked begins with one of
/// its own, open and with nothing in it: the thread that held its parent's is not in there to give it back.
pub(crate) struct Own<T: 'static> {
    now: AtomicPtr<Of<T>>,
}

/// What one process has.
struct Of<T> {
    process: u32,
    value: Mutex<T>,
}

impl<T: Default> Own<T> {
    pub(crate) const fn new() -> Self {
        Self {
            now: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'static, T> {
        let process = process::id();
        let mut known = self.now.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or one that was put there below and is never freed.
            if let Some(own) = unsafe { known.as_ref() }.filter(|own| own.process == process) {
                return lock(&own.value);
            }
            let value = Mutex::default();
            let fresh = Box::into_raw(Box::new(Of { process, value }));
            let put = self
                .now
                .compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
            known = match put {
                Ok(_) => fresh,
                Err(other) => {
                    // SAFETY: made above, and seen by nobody.
                    drop(unsafe { Box::from_raw(fresh) });
                    other
                }
            };
        }
    }
}

/// A lock whose data stays good when somebody panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
