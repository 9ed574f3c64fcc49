//! Whether anybody still wants the result.

use super::{Context, context};
use crate::error::{Error, ErrorCode, Result};
use crate::frame::Frame;
use crate::frame::call_handle::CallHandle;
use xla_ffi_sys::Revision;

/// Whether anybody still wants the result: a handler that works for long asks now and then, and gives up when
/// nobody does. Outlives the handler's return, for asynchronous ones.
///
/// The embedded runtime tells it from r9 on: its callers cancel calls, set deadlines and shut the runtime
/// down. Any other host tells nothing, and a call there is never cancelled.
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
    /// Returns true if nobody waits for the result any more. Cheap enough to be asked every few microseconds.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns the reason why nobody waits for the result any more, as an error code: `Cancelled` by a canceller,
    /// `DeadlineExceeded` after the time limit, `Unavailable` after a shutdown of the runtime.
    #[must_use]
    pub fn reason(&self) -> Option<ErrorCode> {
        self.0.cancelled()
    }

    /// Gives up when nobody waits for the result any more: `cancellation.check()?`.
    ///
    /// # Errors
    /// The code of [`Cancellation::reason`].
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

    /// Retains a host's extension; never cancelled if it is null or has another layout.
    ///
    /// # Safety
    /// `raw` is null or an extension that is alive.
    #[cfg(feature = "internal")]
    pub(crate) unsafe fn retained(raw: *const xla_ffi_sys::XLA_FFI_Extension) -> Self {
        // SAFETY: as promised by the caller.
        Self(unsafe { CallHandle::retained(raw) })
    }
}

impl<'f> Context<'f> for Cancellation {
    const NAME: &'static str = "cancellation";
    // A host without it never cancels.
    const SINCE: Revision = Revision::R0;

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        Ok(Self(CallHandle::of(frame)))
    }
}

context!(Cancellation);
