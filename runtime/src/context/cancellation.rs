//! Cancelling: a caller says that nobody wants the result any more, and a handler that polls gives up early.

use crate::host::Shared;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use xla_ffi_sys::{
    XFFI_Cancellation_Extension, XFFI_Extension_Cancellation, XLA_FFI_Extension,
    XLA_FFI_ExtensionId,
};

/// Cancels calls: [`Call::canceller`](crate::Call::canceller) takes a clone, and any thread may cancel. Handlers
/// are asked to give up, not made to; a call that begins later is refused as `CANCELLED`.
///
/// ```
/// let canceller = xla_ffi_runtime::Canceller::new();
/// let other = canceller.clone();
/// other.cancel();
/// assert!(canceller.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// One that has not cancelled anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the calls that have a clone of this, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether they are cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Watched {
    canceller: Option<Canceller>,
    deadline: Option<Instant>,
    runtime: Weak<Shared>,
}

impl Watched {
    fn is_cancelled(&self) -> bool {
        self.canceller.as_ref().is_some_and(Canceller::is_cancelled)
            || self
                .runtime
                .upgrade()
                .is_none_or(|runtime| runtime.calls.are_over())
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// What a handler polls: cancelled by its caller, past its deadline, or the runtime shuts down. Retained, it outlives
/// the call.
pub(crate) struct CancellationExtension {
    raw: XFFI_Cancellation_Extension,
    watched: Arc<Watched>,
}

// SAFETY: the pointer is the object's own, which any thread may use.
unsafe impl Send for CancellationExtension {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for CancellationExtension {}

impl CancellationExtension {
    pub(crate) fn new(
        canceller: Option<Canceller>,
        deadline: Option<Instant>,
        runtime: &Arc<Shared>,
    ) -> Box<Self> {
        let watched = Arc::new(Watched {
            canceller,
            deadline,
            runtime: Arc::downgrade(runtime),
        });
        let raw = XFFI_Cancellation_Extension {
            extension: XLA_FFI_Extension {
                struct_size: XFFI_Cancellation_Extension::STRUCT_SIZE,
                id: XLA_FFI_ExtensionId {
                    extension_type: XFFI_Extension_Cancellation,
                    major_version: 0,
                    minor_version: 1,
                },
                next: std::ptr::null(),
            },
            object: Arc::as_ptr(&watched).cast(),
            is_cancelled: Some(is_cancelled),
            retain: Some(retain),
            release: Some(release),
        };
        Box::new(Self { raw, watched })
    }

    pub(crate) fn raw(&self) -> *const XLA_FFI_Extension {
        (&raw const self.raw).cast()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.watched.is_cancelled()
    }
}

/// # Safety
/// The object of an extension that is alive, or that was retained.
unsafe extern "C" fn is_cancelled(object: *const c_void) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { &*object.cast::<Watched>() }.is_cancelled().into()
}

/// # Safety
/// As [`is_cancelled`].
unsafe extern "C" fn retain(object: *const c_void) {
    // SAFETY: the object is that of an `Arc`, as promised by the caller.
    unsafe { Arc::increment_strong_count(object.cast::<Watched>()) };
}

/// # Safety
/// The object was retained, and is not used afterwards.
unsafe extern "C" fn release(object: *const c_void) {
    // SAFETY: as above.
    unsafe { Arc::decrement_strong_count(object.cast::<Watched>()) };
}
