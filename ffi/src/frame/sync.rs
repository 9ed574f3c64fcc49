//! What threads share memory by: the standard library's, or loom's, which tries every order in which
//! threads can meet. The models stand beside what they model, in modules called `loom_tests`.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

/// Memory that parties hand to each other by a change of state elsewhere.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// Memory that parties hand to each other by a change of state elsewhere; with loom's functions.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    #[inline(always)]
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// For a look at the value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// For a change of the value.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
