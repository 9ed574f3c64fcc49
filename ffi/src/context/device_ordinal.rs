//! The device's number.

use super::{Context, context};
use crate::frame::Frame;
use crate::error::Result;
use xla_ffi_sys::{Feature, Revision};

/// Global number of the device: 2048 for the first CPU device of the second process, so it says
/// nothing about the numbers that CUDA gives. Since r5 (jaxlib 0.6.0).
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
/// # use xla_ffi::internal::{self, DType, Shape};
/// let call = internal::call::<device>("{}")?
///     .device_ordinal(2048)
///     .ret(Shape::new(DType::S32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2048]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceOrdinal(i32);

impl DeviceOrdinal {
    /// The number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl<'f> Context<'f> for DeviceOrdinal {
    const NAME: &'static str = "device_ordinal";
    const SINCE: Revision = Feature::DeviceOrdinal.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        unsafe { frame.host().device_ordinal(frame.ctx()) }.map(Self)
    }
}

context!(DeviceOrdinal);
