//! The function table of a revision as raw memory of exactly that revision's size and order.

use super::{answer, context, errors, futures, pool, register, state};
use crate::{Error, Hazard};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use xla_ffi_sys::{Revision, Slot, XLA_FFI_Api, XLA_FFI_Error, XLA_FFI_InternalApi};

/// Words before the first function.
const HEAD: usize = 6;
/// Words behind the table. Each holds [`absent`]: a library that calls a function which this
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
    pub(crate) fn new(revision: Revision) -> Self {
        match revision {
            Revision::R0 => Self::build::<0>(),
            Revision::R1 => Self::build::<1>(),
            Revision::R2 => Self::build::<2>(),
            Revision::R3 => Self::build::<3>(),
            Revision::R4 => Self::build::<4>(),
            Revision::R5 => Self::build::<5>(),
            Revision::R6 => Self::build::<6>(),
            Revision::R7 => Self::build::<7>(),
            Revision::R8 => Self::build::<8>(),
            Revision::R9 => Self::build::<9>(),
            Revision::R10 => Self::build::<10>(),
        }
    }

    fn build<const R: u8>() -> Self {
        let revision = super::revision::<R>();
        let internal = revision.api_size() / 8;
        let mut words = vec![0; internal + BEHIND].into_boxed_slice();
        words[0] = revision.api_struct_size();
        words[2] = 24;
        // Two C ints, the major version (0) in the low half on the little-endian hosts there are.
        words[4] = (revision.minor_version() as u32 as usize) << 32;
        words[5] = &raw const words[internal] as usize;
        words[internal..].fill(absent::<R> as *const () as usize);
        for slot in Slot::ALL {
            if let Some(index) = slot.index(revision) {
                words[HEAD + index] = function::<R>(slot);
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

/// Keeps a table for good, in a list so that leak checkers see it.
fn keep(words: Box<[usize]>) -> &'static [usize] {
    static KEPT: Mutex<Vec<&'static [usize]>> = Mutex::new(Vec::new());
    let words: &'static [usize] = Box::leak(words);
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(words);
    words
}

/// Stands where the table has ended.
extern "C" fn absent<const R: u8>(_args: *mut c_void) -> *mut XLA_FFI_Error {
    answer("the function table", || {
        let revision = super::revision::<R>();
        Err(Error::hazard(
            Hazard::AbsentFunction,
            format!(
                "a function was called that {revision} (jaxlib {}) does not have; a real host would \
                 jump into other memory: ask for the table's length before",
                revision.first_jaxlib()
            ),
        ))
    })
}

/// The address of a slot's function for the revision.
fn function<const R: u8>(slot: Slot) -> usize {
    match slot {
        Slot::ErrorCreate => errors::error_create::<R> as *const () as usize,
        Slot::ErrorGetDetails => errors::error_get_details::<R> as *const () as usize,
        Slot::ErrorDestroy => errors::error_destroy::<R> as *const () as usize,
        Slot::HandlerRegister => register::handler_register::<R> as *const () as usize,
        Slot::StreamGet => context::stream_get::<R> as *const () as usize,
        Slot::TypeRegister => register::type_register::<R> as *const () as usize,
        Slot::InvokeContextGet => context::invoke_context_get::<R> as *const () as usize,
        Slot::StateSet => state::state_set::<R> as *const () as usize,
        Slot::StateGet => state::state_get::<R> as *const () as usize,
        Slot::DeviceMemoryAllocate => context::device_memory_allocate::<R> as *const () as usize,
        Slot::DeviceMemoryFree => context::device_memory_free::<R> as *const () as usize,
        Slot::ThreadPoolSchedule => pool::thread_pool_schedule::<R> as *const () as usize,
        Slot::ThreadPoolNumThreads => pool::thread_pool_num_threads::<R> as *const () as usize,
        Slot::FutureCreate => futures::future_create::<R> as *const () as usize,
        Slot::FutureSetAvailable => futures::future_set_available::<R> as *const () as usize,
        Slot::FutureSetError => futures::future_set_error::<R> as *const () as usize,
        Slot::RunIdGet => context::run_id_get::<R> as *const () as usize,
        Slot::DeviceOrdinalGet => context::device_ordinal_get::<R> as *const () as usize,
        Slot::InvokeContextFindExtension => {
            context::invoke_context_find_extension::<R> as *const () as usize
        }
        Slot::CustomOptionsGet => context::custom_options_get::<R> as *const () as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_their_revisions_length_and_version() {
        for revision in Revision::ALL {
            let table = Table::new(revision);
            let distance = table.internal_api() as usize - table.api() as usize;
            assert_eq!(distance, revision.api_size(), "{revision}");
            assert_eq!(table.words[0], revision.api_struct_size());
            let filled = table.words[HEAD..table.internal]
                .iter()
                .filter(|word| **word != 0);
            assert_eq!(filled.count(), revision.slot_count(), "{revision}");
        }
    }

    #[test]
    fn the_head_reads_as_the_struct() {
        let table = Table::new(Revision::R8);
        // SAFETY: the fields read lie in every revision's table.
        let version = unsafe { (*table.api()).api_version };
        assert_eq!(
            (
                version.struct_size,
                version.major_version,
                version.minor_version
            ),
            (24, 0, 3)
        );
    }

    #[test]
    fn the_future_slots_move_between_r2_and_r3() {
        let at = |revision, index: usize| Table::new(revision).words[HEAD + index];
        assert_eq!(
            at(Revision::R2, 12),
            futures::future_create::<2> as *const () as usize
        );
        assert_eq!(
            at(Revision::R3, 13),
            futures::future_create::<3> as *const () as usize
        );
        assert_eq!(
            at(Revision::R3, 12),
            pool::thread_pool_num_threads::<3> as *const () as usize
        );
    }
}
