//! A parameter for the cancellation of calls.

use super::{Context, context};
use crate::error::{Error, ErrorCode, Result};
use crate::frame::Frame;
use crate::frame::call_handle::CallHandle;
use xla_ffi_sys::Revision;

/// Reports whether a call is cancelled because its result is no longer needed. Long-running handlers should check
/// this regularly and stop early. Asynchronous handlers can still use the value after they return.
///
/// Only the embedded runtime, from r9 on, cancels calls: when callers cancel them, after a time limit, or when the
/// runtime shuts down.
///
/// ```
/// use xla_ffi::{Cancellation, prelude::*};
///
/// #[xla_ffi::handler]
/// fn search(cancelled: Cancellation, mut y: Out<i64, 0>) -> Result<()> {
///     for step in 0.. {
///         cancelled.check()?;
///         y.fill(step);
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, Canceller, DType, Shape};
/// let canceller = Canceller::new();
/// let call = embed::call::<search>("{}")?.canceller(&canceller);
/// let mut call = call.ret(Shape::new(DType::S64, [])?).prepare()?;
/// let error = std::thread::scope(|scope| {
///     let running = scope.spawn(|| call.invoke());
///     std::thread::sleep(std::time::Duration::from_millis(10));
///     canceller.cancel();
///     running.join().unwrap()
/// });
/// assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(CallHandle);

impl Cancellation {
    /// Returns true if the call is cancelled. The query is cheap enough for a check every few microseconds.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns the reason for the cancellation: `Cancelled` by a canceller, `DeadlineExceeded` after the time
    /// limit, or `Unavailable` after a shutdown of the runtime.
    #[must_use]
    pub fn reason(&self) -> Option<ErrorCode> {
        self.0.cancelled()
    }

    /// Returns an error if the call is cancelled: `cancellation.check()?`.
    ///
    /// # Errors
    /// An error with the code of [`Cancellation::reason`].
    pub fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| {
            let why = match reason {
                ErrorCode::DeadlineExceeded => "gave up, because the time limit is over",
                ErrorCode::Unavailable => "gave up, because the runtime shuts down",
                _ => "gave up, because the call was cancelled",
            };
            Err(Error::new(reason, why))
        })
    }

    /// Retains a host's cancellation extension. If the extension is null or has a different layout, the returned
    /// value never reports a cancellation.
    ///
    /// # Safety
    /// `raw` is null or a valid extension.
    #[cfg(feature = "internal")]
    pub(crate) unsafe fn retained(raw: *const xla_ffi_sys::XLA_FFI_Extension) -> Self {
        // SAFETY: the caller upholds this function's safety contract.
        Self(unsafe { CallHandle::retained(raw) })
    }
}

impl<'f> Context<'f> for Cancellation {
    const NAME: &'static str = "cancellation";
    // The parameter is available on every revision. On a host without the extension, a call is never cancelled.
    const SINCE: Revision = Revision::R0;

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        Ok(Self(CallHandle::of(frame)))
    }
}

context!(Cancellation);
