//! The run id.

use super::{Context, context};
use crate::frame::Frame;
use crate::error::Result;
use xla_ffi_sys::{Feature, Revision};

/// Number of the execution, the same on all devices that take part in it. Since r4 (jaxlib 0.5.1).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn run_number(run: RunId, mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(run.get());
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape};
/// let call = internal::call::<run_number>("{}")?.run_id(77).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![77_i64]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId(i64);

impl RunId {
    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl<'f> Context<'f> for RunId {
    const NAME: &'static str = "run_id";
    const SINCE: Revision = Feature::RunId.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        unsafe { frame.host().run_id(frame.ctx()) }.map(Self)
    }
}

context!(RunId);
