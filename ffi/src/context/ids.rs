//! Parameters for the run id of an execution and the global ordinal of a device.

use super::{Context, context};
use crate::error::Result;
use crate::frame::Frame;
use xla_ffi_sys::{Feature, Revision};

/// The run id of the execution, which is the same on all participating devices.
///
/// Available since r4 (jaxlib 0.5.1).
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
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<run_number>("{}")?.run_id(77).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![77_i64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId(i64);

impl RunId {
    /// Returns the run id as a number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl<'f> Context<'f> for RunId {
    const NAME: &'static str = "run_id";
    const SINCE: Revision = Feature::RunId.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the context belongs to the call frame.
        unsafe { frame.host().run_id(frame.ctx()) }.map(Self)
    }
}

context!(RunId);

/// The global ordinal of the device, which is unrelated to CUDA's device numbers.
///
/// For example, the first CPU device of the second process has ordinal 2048. Available since r5
/// (jaxlib 0.6.0).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn device(ordinal: Option<DeviceOrdinal>, mut y: Out<i32, 0>) -> Result<()> {
///     y.fill(ordinal.map_or(-1, |ordinal| ordinal.get()));
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<device>("{}")?
///     .device_ordinal(2048)
///     .ret(Shape::new(DType::S32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2048]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceOrdinal(i32);

impl DeviceOrdinal {
    /// Returns the ordinal as a number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl<'f> Context<'f> for DeviceOrdinal {
    const NAME: &'static str = "device_ordinal";
    const SINCE: Revision = Feature::DeviceOrdinal.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the context belongs to the call frame.
        unsafe { frame.host().device_ordinal(frame.ctx()) }.map(Self)
    }
}

context!(DeviceOrdinal);
