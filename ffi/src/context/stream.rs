//! The platform's stream.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::{Context, context};
use crate::frame::Frame;
use crate::error::Result;
use xla_ffi_sys::{Feature, Revision};

/// The stream that the call belongs to, a `CUstream` on CUDA. CPU hosts have none: there the call is
/// refused, unless the parameter is an `Option`. Since r0.
///
/// ```
/// use xla_ffi::{DeviceOut, prelude::*};
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn launch(y: DeviceOut<f32>, stream: Stream) -> Result<()> {
///     // What `cuLaunchKernel` is given.
///     let (address, handle) = (y.as_device_mut_ptr(), stream.as_raw());
///     assert!(!address.is_null() && !handle.is_null());
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = || internal::call::<launch>("{}").map(|call| call.ret(Shape::new(DType::F32, [1]).unwrap()));
/// assert!(call()?.on_device(&CpuDevice::new()?).run().is_ok());
/// assert!(call()?.run().is_err());
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stream<'f> {
    raw: *mut c_void,
    _call: PhantomData<&'f ()>,
}

impl Stream<'_> {
    /// The platform's handle, valid during the call.
    #[must_use]
    pub fn as_raw(self) -> *mut c_void {
        self.raw
    }
}

impl<'f> Context<'f> for Stream<'f> {
    const NAME: &'static str = "stream";
    const SINCE: Revision = Feature::Stream.since();

    #[inline]
    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        let raw = unsafe { frame.host().stream(frame.ctx()) }?;
        Ok(Self {
            raw,
            _call: PhantomData,
        })
    }
}

context!(Stream<'f>);
