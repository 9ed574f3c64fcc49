//! Cancellation of calls: a caller that no longer needs the result cancels the call, and handlers that poll can stop
//! early.

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

/// Cancels calls, from any thread. Pass a canceller to calls with [`Call::canceller`](crate::Call::canceller).
/// Handlers can poll for the cancellation and are not interrupted. A call that starts after the cancellation is
/// refused as `CANCELLED`.
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
    /// Returns a new canceller, which is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all calls that use a clone of this canceller. A cancellation cannot be undone.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns true if this canceller or a clone of it has cancelled its calls.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The state of a call's cancellation. If a handler retains the state, it outlives the call.
pub(crate) struct Watched {
    pub(crate) canceller: Option<Canceller>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) runtime: Weak<Shared>,
}

impl Watched {
    /// Returns the code of the reason for which the result is no longer needed; `None` if the result is needed.
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

/// The extension with which a handler polls for cancellation: by its caller, by the deadline, or by a shutdown of the
/// runtime. If a handler retains the extension's object, the object outlives the call.
pub(crate) struct CancellationExtension {
    raw: XFFI_Cancellation_Extension,
    watched: Arc<Watched>,
}

// SAFETY: `next` is null, and the object pointer refers to a `Watched`, which any thread may use.
unsafe impl Send for CancellationExtension {}
// SAFETY: a shared reference allows no changes.
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

    /// Returns the code of the reason for which the result is no longer needed; `None` if the result is needed.
    pub(crate) fn reason(&self) -> Option<ErrorCode> {
        self.watched.reason()
    }
}

/// Implements the extension's `is_cancelled`: returns the error code of the cancellation, or 0 if the call is not
/// cancelled.
///
/// # Safety
/// `object` must belong to an extension that still exists, or must be retained.
unsafe extern "C" fn is_cancelled(object: *const c_void) -> i32 {
    // SAFETY: guaranteed by the caller.
    let reason = unsafe { &*object.cast::<Watched>() }.reason();
    reason.map_or(0, |reason| reason as i32)
}

/// Implements the extension's `retain`: the object stays valid after the call, until `release`.
///
/// # Safety
/// The requirements of [`is_cancelled`] apply.
unsafe extern "C" fn retain(object: *const c_void) {
    // SAFETY: the caller guarantees that the object belongs to an `Arc<Watched>`.
    unsafe { Arc::increment_strong_count(object.cast::<Watched>()) };
}

/// Implements the extension's `release`: ends the effect of one `retain`.
///
/// # Safety
/// `object` must be retained, and must not be used after this call.
unsafe extern "C" fn release(object: *const c_void) {
    // SAFETY: the caller guarantees that the object belongs to an `Arc<Watched>`.
    unsafe { Arc::decrement_strong_count(object.cast::<Watched>()) };
}

type Task = unsafe extern "C" fn(data: *mut c_void, run: i32);

/// A task of a handler's library, with its data. If the program's executor drops the task without a call, the library
/// is notified.
struct Handed(Option<Task>, *mut c_void);

// SAFETY: the contract of the extension allows any thread to run the task.
unsafe impl Send for Handed {}

impl Handed {
    fn end(&mut self, run: bool) {
        if let Some(task) = self.0.take() {
            // SAFETY: the contract of the extension allows one call of the task, on any thread.
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
/// The requirements of [`is_cancelled`] apply. One call of `task` with `data` must be allowed, on any thread.
unsafe extern "C" fn execute(object: *const c_void, task: Task, data: *mut c_void) {
    let mut task = Handed(Some(task), data);
    // SAFETY: guaranteed by the caller.
    if let Some(executor) = &unsafe { &*object.cast::<Watched>() }.executor {
        run_callback(|| executor.execute(Box::new(move || task.end(true))));
    }
}
