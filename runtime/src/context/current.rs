//! The call in progress on a thread.

use super::Context;
use crate::host::shared::{Shared, only_living};
use crate::{Finding, Result};
use std::cell::Cell;
use std::ptr;
use xla_ffi_sys::{Revision, XLA_FFI_InternalApi};

/// The runtime, null when there is no call, and the context, null in metadata calls and pool tasks.
type Current = (*const Shared, *const Context);

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new((ptr::null(), ptr::null())) };
}

/// Makes a call the current one of this thread until dropped.
pub(crate) struct Entered(Current);

impl Entered {
    /// Enters a call. What the pointers name must outlive the guard.
    pub(crate) fn new(shared: &Shared, context: Option<&Context>) -> Self {
        let context = context.map_or(ptr::null(), ptr::from_ref);
        Self(CURRENT.replace((shared, context)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Whether a call or a registration of this image's runtimes is in progress on this thread.
pub(crate) fn is_asking() -> bool {
    !CURRENT.get().0.is_null()
}

/// Whether it is one of the runtime whose `internal_api` this is: the address alone is compared.
pub(crate) fn is_current(internal_api: *const XLA_FFI_InternalApi) -> bool {
    // SAFETY: `Entered` is dropped before what it points to.
    unsafe { CURRENT.get().0.as_ref() }.is_some_and(|shared| shared.internal_api() == internal_api)
}

/// Gives `body` the runtime whose table a call without a context belongs to: that of the call in
/// progress on this thread, else the only living one of the revision.
pub(crate) fn with_shared<T>(
    revision: Revision,
    body: impl FnOnce(&Shared) -> Result<T>,
) -> Result<T> {
    // SAFETY: `Entered` is dropped before what it points to.
    let current = unsafe { CURRENT.get().0.as_ref() };
    if let Some(shared) = current.filter(|shared| shared.revision == revision) {
        return body(shared);
    }
    body(&*only_living(revision)?)
}

/// Tells the call in progress on this thread of a finding.
pub(crate) fn note(finding: Finding) {
    if let Some(context) = current_context() {
        context.note(finding);
    }
}

/// The context of the call in progress on this thread.
pub(crate) fn current_context<'a>() -> Option<&'a Context> {
    // SAFETY: `Entered` is dropped before what it points to.
    unsafe { CURRENT.get().1.as_ref() }
}
