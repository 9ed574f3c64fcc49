//! Where a call leaves what is laid out for the next one of its executable.

use super::body::Body;
use crossbeam_utils::atomic::AtomicCell;

/// Room for one. Who finds it empty makes his own: nobody waits here.
#[derive(Default)]
pub(crate) struct Spare(AtomicCell<Option<Box<Body>>>);

// A word, taken and left in one step.
const _: () = assert!(AtomicCell::<Option<Box<Body>>>::is_lock_free());

impl Spare {
    /// What is left there.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<Body>> {
        self.0.take()
    }

    /// Leaves something, in place of what is there.
    #[inline]
    pub(super) fn put(&self, body: Box<Body>) {
        drop(self.0.swap(Some(body)));
    }
}
