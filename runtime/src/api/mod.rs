//! The functions of the table: what a handler may ask of its host, on every revision.
//!
//! Each function is generic over the revision that its table belongs to, so that the size checks
//! and the argument layouts are that revision's. What a function cannot learn from its arguments
//! (which runtime, which call) it takes from the call in progress on its thread.

pub(crate) mod context;
pub(crate) mod errors;
pub(crate) mod futures;
pub(crate) mod pool;
pub(crate) mod register;
pub(crate) mod state;
pub(crate) mod table;

use crate::call::context::Context;
use crate::runtime::Shared;
use crate::{Code, Error, Finding, Result};
use std::cell::Cell;
use std::ptr;
use xla_ffi_sys::{Layout, Revision, XLA_FFI_Error, XLA_FFI_InvokeContext};

/// The revision with this number; tables are only made for numbers that exist.
pub(crate) const fn revision<const R: u8>() -> Revision {
    Revision::ALL[R as usize]
}

/// Runs the body of a table function: its error becomes an error object, and so does a panic.
pub(crate) fn answer(name: &str, body: impl FnOnce() -> Result<()>) -> *mut XLA_FFI_Error {
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            crate::guard::discard(payload);
            Err(Error::new(Code::Internal, "the host panicked"))
        });
    match outcome {
        Ok(()) => ptr::null_mut(),
        Err(error) => {
            for finding in error.findings() {
                note(finding.clone());
            }
            errors::create(error.within(name))
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

/// The context behind a handler's pointer.
///
/// # Safety
/// `ctx` is null or was given to a handler by this host, and its call object still exists.
pub(crate) unsafe fn context<'a>(ctx: *mut XLA_FFI_InvokeContext) -> Result<&'a Context> {
    if ctx.is_null() {
        return Err(Error::invalid(
            "ctx is null: metadata calls have no context",
        ));
    }
    // SAFETY: contexts are handed out as pointers to `Context`.
    let context = unsafe { &*ctx.cast::<Context>() };
    context.check_alive()?;
    Ok(context)
}

/// The call in progress on a thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    /// The runtime; null when there is no call.
    pub(crate) shared: *const Shared,
    /// The context; null in metadata calls and pool tasks.
    pub(crate) context: *const Context,
}

thread_local! {
    static CURRENT: Cell<Current> =
        const { Cell::new(Current { shared: ptr::null(), context: ptr::null() }) };
}

/// Makes a call the current one of this thread until dropped.
pub(crate) struct Entered(Current);

impl Entered {
    /// Enters a call. What the pointers name must outlive the guard.
    pub(crate) fn new(shared: &Shared, context: Option<&Context>) -> Self {
        let current = Current {
            shared,
            context: context.map_or(ptr::null(), ptr::from_ref),
        };
        Self(CURRENT.replace(current))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Gives `body` the runtime whose table a call without a context belongs to: that of the call in
/// progress on this thread, else the only living one of the revision.
pub(crate) fn with_shared<const R: u8, T>(body: impl FnOnce(&Shared) -> Result<T>) -> Result<T> {
    let current = CURRENT.get();
    if !current.shared.is_null() {
        // SAFETY: `Entered` is dropped before what it points to.
        let shared = unsafe { &*current.shared };
        if shared.revision == revision::<R>() {
            return body(shared);
        }
    }
    body(&*crate::runtime::only_living(revision::<R>())?)
}

/// Tells the call in progress on this thread of a finding.
pub(crate) fn note(finding: Finding) {
    if let Some(context) = current_context() {
        context.note(finding);
    }
}

/// The context of the call in progress on this thread.
pub(crate) fn current_context<'a>() -> Option<&'a Context> {
    let current = CURRENT.get();
    // SAFETY: `Entered` is dropped before what it points to.
    unsafe { current.context.as_ref() }
}
