//! The functions of the table: what a handler may ask of its host, on every revision.
//!
//! Each function is generic over the revision that its table belongs to, so that the size checks
//! and the argument layouts are that revision's. What a function cannot learn from its arguments
//! (which runtime, which call) it takes from the call in progress on its thread.

pub(crate) mod collectives;
pub(crate) mod concurrency;
mod context;
mod errors;
mod futures;
pub(crate) mod record;
mod register;
mod slots;
mod state;

use crate::context::current::note;
use crate::{Code, Error, Result};
use std::ptr;
use xla_ffi_sys::{Layout, Revision, XLA_FFI_Error};

/// The revision with this number; tables are only made for numbers that exist.
pub(crate) const fn revision<const R: u8>() -> Revision {
    Revision::ALL[R as usize]
}

/// Runs the body of a table function: its error becomes an error object, and so does a panic.
pub(crate) fn error_or_null(name: &str, body: impl FnOnce() -> Result<()>) -> *mut XLA_FFI_Error {
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            let panic = crate::process::guard::panic_text(payload);
            let message = format!(
                "{panic} in the host, or in what the program has given it (an allocator, say)"
            );
            Err(Error::new(Code::Internal, message))
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

/// Checks that `args` is there and says to be at least `expected` bytes long.
///
/// # Safety
/// `args` is null or points to a struct of the ABI, whose first field is its size.
pub(crate) unsafe fn check_size<T>(args: *const T, expected: usize) -> Result<usize> {
    if args.is_null() {
        return Err(Error::invalid("the arguments are a null pointer"));
    }
    // SAFETY: every args struct begins with its size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < expected {
        return Err(Error::invalid(format!(
            "struct_size is {size}, this host expects at least {expected}"
        )));
    }
    Ok(size)
}

/// Checks `args` against the size that upstream's macro gives for its layout.
///
/// # Safety
/// As [`check_size`].
pub(crate) unsafe fn check<T: Layout>(args: *const T) -> Result<usize> {
    let expected = T::LAYOUT
        .struct_size
        .map_or(T::LAYOUT.size, |(_, size)| size);
    // SAFETY: as promised by the caller.
    unsafe { check_size(args, expected) }
}
