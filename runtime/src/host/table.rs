//! The function table of a revision as raw memory of exactly that revision's size and order.

use std::sync::{Mutex, PoisonError};
use xla_ffi_sys::{Revision, Slot, XLA_FFI_Api, XLA_FFI_InternalApi};

/// Words before the first function.
const HEAD: usize = 6;
/// Words behind the table. Each holds the function for absent ones: a library that calls a function which this
/// revision lacks lands there, where a real host has somebody else's memory.
const BEHIND: usize = 16;

/// A table and, right behind it, the object that `internal_api` names: on r0–r4, where
/// `struct_size` says 88, the distance between the two is how libraries learn the table's length.
pub(crate) struct Table {
    // Never freed: libraries know hosts by this address, so a later table must not get it.
    words: &'static [usize],
    internal: usize,
}

impl Table {
    /// The table of `revision`: each slot's function from `function`, and `absent` behind the last.
    pub(crate) fn new(revision: Revision, absent: usize, function: fn(Slot) -> usize) -> Self {
        let internal = revision.api_size() / 8;
        let mut words = vec![0; internal + BEHIND].into_boxed_slice();
        words[0] = revision.api_struct_size();
        words[2] = 24;
        // Two C ints, the major version (0) in the low half on the little-endian hosts there are.
        words[4] = (revision.minor_version() as u32 as usize) << 32;
        words[5] = &raw const words[internal] as usize;
        words[internal..].fill(absent);
        for slot in Slot::ALL {
            if let Some(index) = slot.index(revision) {
                words[HEAD + index] = function(slot);
            }
        }
        let words = keep(words);
        Self { words, internal }
    }

    pub(crate) fn api(&self) -> *const XLA_FFI_Api {
        self.words.as_ptr().cast()
    }

    pub(crate) fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        (&raw const self.words[self.internal]).cast()
    }
}

/// The tables, for leak checkers to see.
static KEPT: Mutex<Vec<&'static [usize]>> = Mutex::new(Vec::new());

/// Keeps a table for good.
fn keep(words: Box<[usize]>) -> &'static [usize] {
    let words: &'static [usize] = Box::leak(words);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(words);
    words
}

#[cfg(test)]
impl Table {
    /// The words behind the head, up to the table's end.
    pub(crate) fn functions(&self) -> &[usize] {
        &self.words[HEAD..self.internal]
    }

    /// The first word: `struct_size`.
    pub(crate) fn struct_size(&self) -> usize {
        self.words[0]
    }
}
