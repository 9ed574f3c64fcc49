//! Cancellation: a caller no longer wants the result, and a handler that polls can stop early.

use crate::host::futures::run_callback;
use crate::host::{Executor, Shared};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use xla_ffi_sys::{
    ErrorCode, XFFI_Cancellation_Extension, XFFI_Extension_Cancellation, XLA_FFI_Extension,
    XLA_FFI_ExtensionId,
};

/// Cancels calls. [`Call::canceller`](crate::Call::canceller) takes a clone, and any thread may cancel. Handlers can
/// poll for the cancellation and are not interrupted; a call that starts later is refused as `CANCELLED`.
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
    /// Returns a canceller that has not cancelled anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all calls that have a clone of this canceller. A cancellation cannot be undone.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns true if the calls are cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The state of a call's cancellation, which outlives the call if a handler has retained it.
pub(crate) struct Watched {
    pub(crate) canceller: Option<Canceller>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) runtime: Weak<Shared>,
}

impl Watched {
    /// Returns why the result is no longer wanted, as a code; `None` while it is wanted.
    fn reason(&self) -> Option<ErrorCode> {
        if self.canceller.as_ref().is_some_and(Canceller::is_cancelled) {
            return Some(ErrorCode::Cancelled);
        }
        let runtime = self.runtime.upgrade();
        if runtime.is_none_or(|runtime| runtime.calls.are_over()) {
            return Some(ErrorCode::Unavailable);
        }
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
            .then_some(ErrorCode::DeadlineExceeded)
    }
}

/// The extension that a handler polls: cancelled by its caller, after its deadline, or because the runtime shuts
/// down. It outlives the call if it is retained.
pub(crate) struct CancellationExtension {
    raw: XFFI_Cancellation_Extension,
    watched: Arc<Watched>,
}

// SAFETY: the pointer refers to the object itself, which any thread may use.
unsafe impl Send for CancellationExtension {}
// SAFETY: as above; a shared reference allows no changes.
unsafe impl Sync for CancellationExtension {}

impl CancellationExtension {
    pub(crate) fn new(watched: Watched) -> Box<Self> {
        let watched = Arc::new(watched);
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
            execute: watched.executor.is_some().then_some(execute),
        };
        Box::new(Self { raw, watched })
    }

    pub(crate) fn raw(&self) -> *const XLA_FFI_Extension {
        (&raw const self.raw).cast()
    }

    /// Returns why the result is no longer wanted, as a code.
    pub(crate) fn reason(&self) -> Option<ErrorCode> {
        self.watched.reason()
    }
}

/// Implements the extension's `is_cancelled`: returns the code of the reason, or 0.
///
/// # Safety
/// The object must belong to a live extension, or be retained.
unsafe extern "C" fn is_cancelled(object: *const c_void) -> i32 {
    // SAFETY: guaranteed by the caller.
    let reason = unsafe { &*object.cast::<Watched>() }.reason();
    reason.map_or(0, |reason| reason as i32)
}

/// Implements the extension's `retain`: keeps the object alive after the call.
///
/// # Safety
/// As for [`is_cancelled`].
unsafe extern "C" fn retain(object: *const c_void) {
    // SAFETY: the object is that of an `Arc`, as guaranteed by the caller.
    unsafe { Arc::increment_strong_count(object.cast::<Watched>()) };
}

/// Implements the extension's `release`: the opposite of `retain`.
///
/// # Safety
/// The object must be retained, and must not be used afterwards.
unsafe extern "C" fn release(object: *const c_void) {
    // SAFETY: as above.
    unsafe { Arc::decrement_strong_count(object.cast::<Watched>()) };
}

type Task = unsafe extern "C" fn(data: *mut c_void, run: i32);

/// A task of a handler's library, which is reported as refused if the program's executor drops it.
struct Handed(Option<Task>, *mut c_void);

// SAFETY: by the extension's contract, any thread may run the task.
unsafe impl Send for Handed {}

impl Handed {
    fn end(&mut self, run: bool) {
        if let Some(task) = self.0.take() {
            // SAFETY: by the extension's contract, the task is called once, on any thread.
            unsafe { task(self.1, run.into()) };
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Implements the extension's `execute`: runs a task on the program's executor.
///
/// # Safety
/// As for [`is_cancelled`]; it must be allowed to call the task once with the data, on any thread.
unsafe extern "C" fn execute(object: *const c_void, task: Task, data: *mut c_void) {
    let mut task = Handed(Some(task), data);
    // SAFETY: guaranteed by the caller.
    if let Some(executor) = &unsafe { &*object.cast::<Watched>() }.executor {
        run_callback(|| executor.execute(Box::new(move || task.end(true))));
    }
}
