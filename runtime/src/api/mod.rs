//! The functions of the function table, through which handlers use their host, on every revision.
//!
//! Each function is generic over the revision of its table, which determines the size checks and the argument
//! layouts. Information that the arguments lack, such as the runtime, is that of the call in progress on the thread.

pub(crate) mod collectives;
pub(crate) mod concurrency;
mod context;
mod errors;
pub(crate) mod record;
mod register;
mod state;

pub use collectives::{Collectives, CommunicatorKey, DeviceCommunicator};
pub use record::{Command, KernelArg, Recorded, Recorder};

use crate::context::note;
use crate::host::{Runtime, Shared, Table};
use std::ffi::c_void;
use std::ptr;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};
use xla_ffi_sys::{Layout, Revision, Slot, XLA_FFI_Error};

/// Returns the revision with the number `R`, which must exist.
pub(crate) const fn revision<const R: u8>() -> Revision {
    Revision::ALL[R as usize]
}

/// Runs the body of a table function and converts its error or panic to an error object. Returns null on success.
pub(crate) fn error_or_null(name: &str, body: impl FnOnce() -> Result<()>) -> *mut XLA_FFI_Error {
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            let panic = crate::process::guard::panic_text(payload);
            let message = format!(
                "{panic} in the host, or in an object that the program provides, such as an allocator"
            );
            Err(Error::new(ErrorCode::Internal, message))
        });
    match outcome {
        Ok(()) => ptr::null_mut(),
        Err(error) => {
            for finding in error.findings() {
                note(finding.clone());
            }
            crate::host::errors::create(error.within(name))
        }
    }
}

/// Checks that `args` is not null and that its size field is at least `expected`; returns the size.
///
/// # Safety
/// `args` must be null or point to a struct of the ABI, whose first field is its size.
pub(crate) unsafe fn check_size<T>(args: *const T, expected: usize) -> Result<usize> {
    if args.is_null() {
        return Err(Error::invalid_argument("the arguments are a null pointer"));
    }
    // SAFETY: every args struct starts with its size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < expected {
        return Err(Error::invalid_argument(format!(
            "struct_size is {size}, this host expects at least {expected}"
        )));
    }
    Ok(size)
}

/// Checks that the size field of `args` is at least the size that XLA's headers compute for `T`; returns the size.
///
/// # Safety
/// The requirements of [`check_size`] apply.
pub(crate) unsafe fn check<T: Layout>(args: *const T) -> Result<usize> {
    let expected = T::LAYOUT
        .struct_size
        .map_or(T::LAYOUT.size, |(_, size)| size);
    // SAFETY: guaranteed by the caller.
    unsafe { check_size(args, expected) }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new(Revision::NEWEST)
    }
}

impl Runtime {
    /// Returns a runtime that behaves like the hosts of `revision`. Its thread pool has one thread per processor, and
    /// at least two threads.
    #[must_use]
    pub fn new(revision: Revision) -> Self {
        let threads = std::thread::available_parallelism()
            .map_or(2, usize::from)
            .max(2);
        Self::with_threads(revision, threads)
    }

    /// Returns a runtime with the given number of threads in its thread pool.
    #[must_use]
    pub fn with_threads(revision: Revision, threads: usize) -> Self {
        Self::from_shared(Shared::new(revision, table(revision), threads))
    }
}

/// Returns a new function table of a revision.
fn table(revision: Revision) -> Table {
    match revision {
        Revision::R0 => table_of::<0>(),
        Revision::R1 => table_of::<1>(),
        Revision::R2 => table_of::<2>(),
        Revision::R3 => table_of::<3>(),
        Revision::R4 => table_of::<4>(),
        Revision::R5 => table_of::<5>(),
        Revision::R6 => table_of::<6>(),
        Revision::R7 => table_of::<7>(),
        Revision::R8 => table_of::<8>(),
        Revision::R9 => table_of::<9>(),
        Revision::R10 => table_of::<10>(),
    }
}

fn table_of<const R: u8>() -> Table {
    let absent = absent::<R> as *const () as usize;
    Table::new(revision::<R>(), absent, function::<R>)
}

/// Fills the slots that the revision's table lacks. A handler that calls this function receives an error, and the
/// call is reported.
extern "C" fn absent<const R: u8>(_args: *mut c_void) -> *mut XLA_FFI_Error {
    error_or_null("the function table", || {
        let revision = revision::<R>();
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

/// Returns the address of the function that fills a slot in revision `R`.
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
        Slot::ThreadPoolSchedule => concurrency::thread_pool_schedule::<R> as *const () as usize,
        Slot::ThreadPoolNumThreads => {
            concurrency::thread_pool_num_threads::<R> as *const () as usize
        }
        Slot::FutureCreate => concurrency::future_create::<R> as *const () as usize,
        Slot::FutureSetAvailable => concurrency::future_set_available::<R> as *const () as usize,
        Slot::FutureSetError => concurrency::future_set_error::<R> as *const () as usize,
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
            let table = table(revision);
            let distance = table.internal_api() as usize - table.api() as usize;
            assert_eq!(distance, revision.api_size(), "{revision}");
            assert_eq!(table.struct_size(), revision.api_struct_size());
            let filled = table.functions().iter().filter(|word| **word != 0);
            assert_eq!(filled.count(), revision.slot_count(), "{revision}");
        }
    }
}
