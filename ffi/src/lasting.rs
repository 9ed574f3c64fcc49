//! Values that are made at their first use and kept. No thread ever waits for another: a child that is
//! forked while another thread makes one has nobody to wait for, as it would have in `OnceLock`.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value, or the place for one. Threads that come together may all make one; the first that is put here
/// is everybody's from then on.
pub(crate) struct Lasting<T> {
    // Invariant: null, or from a box that is freed when this is dropped, and never replaced.
    value: AtomicPtr<T>,
    _owns: std::marker::PhantomData<T>,
}

impl<T: Send + Sync> Lasting<T> {
    pub(crate) const fn new() -> Self {
        Self {
            value: AtomicPtr::new(std::ptr::null_mut()),
            _owns: std::marker::PhantomData,
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the invariant; what the box holds was written before it came here.
        unsafe { self.value.load(Ordering::Acquire).as_ref() }
    }

    /// Puts a value here.
    ///
    /// # Errors
    /// The value, where there is one.
    pub(crate) fn set(&self, value: Box<T>) -> Result<(), Box<T>> {
        let (none, own) = (std::ptr::null_mut(), Box::into_raw(value));
        let (won, lost) = (Ordering::Release, Ordering::Relaxed);
        match self.value.compare_exchange(none, own, won, lost) {
            Ok(_) => Ok(()),
            // SAFETY: it was made a pointer right here, and nobody else has it.
            Err(_) => Err(unsafe { Box::from_raw(own) }),
        }
    }
}

impl<T> Drop for Lasting<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        if !value.is_null() {
            // SAFETY: the invariant.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}
