//! Slices of memory that is written element by element. Rust's own functions for it are younger than the oldest
//! Rust that this crate builds with.

use std::mem::MaybeUninit;

/// Copies `source` into `room`, which has as many elements.
#[inline]
pub(crate) fn copy<'a, T: Copy>(room: &'a mut [MaybeUninit<T>], source: &[T]) -> &'a mut [T] {
    assert_eq!(room.len(), source.len(), "elements to copy");
    for (slot, value) in room.iter_mut().zip(source) {
        slot.write(*value);
    }
    // SAFETY: every element was written by the loop.
    unsafe { written(room) }
}

/// The elements of a slice that has been written.
///
/// # Safety
/// Every element is initialised.
#[inline]
pub(crate) unsafe fn written<T>(room: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: a `MaybeUninit<T>` lies in memory as a `T` does, and by the caller's promise it is one.
    unsafe { &mut *(std::ptr::from_mut(room) as *mut [T]) }
}
