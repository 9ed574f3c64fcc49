//! The CUDA stream of a call.

use std::marker::PhantomData;
use std::sync::Arc;

use super::context::CudaContext;
use super::driver::{check, ready};
use super::kernel::View;
use crate::context::stream::refuse_in_replay;
use crate::context::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::Element;
use crate::operand::device::{DeviceBuffer, DeviceOut};
use cudarc::driver::sys;
use xla_ffi_sys::{Feature, Revision};

/// The CUDA stream of the call, which XLA owns. A handler adds its work to this stream and returns.
///
/// The call fails if there is no CUDA driver. Use [`crate::Stream`] if you need only the raw pointer. Available since
/// r0 (jaxlib 0.4.31).
///
/// ```no_run
/// use xla_ffi::cuda::Stream;
/// use xla_ffi::prelude::*;
/// use xla_ffi::{DeviceBuffer, DeviceOut};
///
/// #[xla_ffi::handler(platforms = ["cuda"], shape = "... -> ..., ...")]
/// fn twice(x: DeviceBuffer<f32>, y: DeviceOut<f32>, z: DeviceOut<f32>, stream: Stream) -> Result<()> {
///     stream.copy(&x, &y)?;
///     if stream.is_capturing()? {
///         return stream.fill_bytes(&z, 0);
///     }
///     // cudarc's safe interface, in its own order on XLA's stream.
///     // SAFETY: used in this call alone, one view of each; `x` is only read.
///     let cudarc = unsafe { stream.to_cudarc() }?;
///     let from = unsafe { stream.view(&x) }?;
///     let mut to = unsafe { stream.view_out(&z) }?;
///     let copied = cudarc.memcpy_dtod(&*from, &mut *to);
///     copied.map_err(|error| Error::internal(error.to_string()))?;
///     stream.synchronize()
/// }
///
/// /// A target of the original custom calls, which gets a bare pointer.
/// unsafe fn original(stream: *mut std::ffi::c_void) -> Result<()> {
///     // SAFETY: the program's stream.
///     let stream: Stream = unsafe { Stream::from_raw(stream) }?;
///     println!("{:p} of {:?}", stream.as_raw(), stream.context()?);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stream<'f> {
    raw: sys::CUstream,
    _call: PhantomData<&'f ()>,
}

// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Sync for Stream<'_> {}

impl Stream<'_> {
    /// Wraps a stream that a program passes as a raw pointer, for example to a target of the original custom calls.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the pointer is null or there is no driver.
    ///
    /// # Safety
    /// The pointer is null or a CUDA stream that lives as long as `'f`.
    pub unsafe fn from_raw(raw: *mut std::ffi::c_void) -> Result<Self> {
        if raw.is_null() {
            return Err(Error::failed_precondition(
                "the host's stream is a null pointer: it names no context",
            ));
        }
        ready()?;
        Ok(Self {
            raw: raw.cast(),
            _call: PhantomData,
        })
    }

    /// Returns the driver's handle of the stream, which is valid during the call. The CUDA runtime accepts the handle
    /// as a `cudaStream_t`.
    #[must_use]
    #[inline]
    pub fn as_raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Returns the stream's context, which determines the device of the call.
    ///
    /// # Errors
    /// Any error of the driver.
    #[inline]
    pub fn context(&self) -> Result<CudaContext> {
        let mut context = std::ptr::null_mut();
        // SAFETY: XLA keeps the stream alive during the call.
        let answer = unsafe { sys::cuStreamGetCtx(self.raw, &raw mut context) };
        check("cuStreamGetCtx", answer)?;
        Ok(CudaContext(context))
    }

    /// Returns the stream for cudarc's safe interface. Dropping the returned value does not destroy the stream.
    ///
    /// # Errors
    /// Any error of the driver.
    ///
    /// # Safety
    /// The returned value and everything created from it is used during the call only. If the handler is compatible
    /// with command buffers, it must not wait or allocate through the returned value; debug builds do not check this.
    pub unsafe fn to_cudarc(&self) -> Result<Arc<cudarc::driver::CudaStream>> {
        let context = self.context()?.to_cudarc()?;
        // SAFETY: XLA's stream belongs to this context and is valid during the call. The caller uses the returned
        // value only during the call.
        Ok(unsafe { context.wrap_borrowed_stream(self.raw) })
    }

    /// Returns an argument as a device memory slice for cudarc's safe interface.
    ///
    /// # Errors
    /// Any error of the driver.
    ///
    /// # Safety
    /// The requirements of [`Stream::to_cudarc`] apply. In addition, the elements are not written. The slice is not
    /// swapped with a different slice (`mem::swap`), which would free the host's memory.
    pub unsafe fn view<T: Element, const RANK: usize>(
        &self,
        buffer: &DeviceBuffer<'_, T, RANK>,
    ) -> Result<View<T>> {
        // SAFETY: the caller upholds the contract of `to_cudarc`.
        let stream = unsafe { self.to_cudarc() }?;
        // SAFETY: the host's buffer has this number of elements.
        Ok(unsafe { View::new(&stream, buffer.as_device_ptr() as u64, buffer.len()) })
    }

    /// Returns a result as a device memory slice for cudarc's safe interface.
    ///
    /// # Errors
    /// Any error of the driver.
    ///
    /// # Safety
    /// The requirements of [`Stream::to_cudarc`] apply. In addition, only one view of the result exists at a time.
    /// Its slice is not swapped with a different slice (`mem::swap`), which would free the host's memory.
    pub unsafe fn view_out<T: Element, const RANK: usize>(
        &self,
        out: &DeviceOut<'_, T, RANK>,
    ) -> Result<View<T>> {
        // SAFETY: the caller upholds the contract of `to_cudarc`.
        let stream = unsafe { self.to_cudarc() }?;
        // SAFETY: the host's buffer has this number of elements.
        Ok(unsafe { View::new(&stream, out.as_device_mut_ptr() as u64, out.len()) })
    }

    /// Copies all elements of `from` to `to` on the stream.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the numbers of elements differ, and any
    /// error of the driver.
    pub fn copy<T: Element, const A: usize, const B: usize>(
        &self,
        from: &DeviceBuffer<'_, T, A>,
        to: &DeviceOut<'_, T, B>,
    ) -> Result<()> {
        if from.len() != to.len() {
            return Err(Error::invalid_argument(format!(
                "{} elements are copied to {}",
                from.len(),
                to.len()
            )));
        }
        let (source, target) = (from.as_device_ptr() as u64, to.as_device_mut_ptr() as u64);
        if from.is_empty() || source == target {
            return Ok(());
        }
        // SAFETY: both operands have this size in device memory, and are valid until the stream has finished.
        let answer =
            unsafe { sys::cuMemcpyDtoDAsync_v2(target, source, from.byte_size(), self.raw) };
        check("cuMemcpyDtoDAsync", answer)
    }

    /// Sets all bytes of `to` to `byte` on the stream.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn fill_bytes<T: Element, const RANK: usize>(
        &self,
        to: &DeviceOut<'_, T, RANK>,
        byte: u8,
    ) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let target = to.as_device_mut_ptr() as u64;
        // SAFETY: the result has this size in device memory.
        let answer = unsafe { sys::cuMemsetD8Async(target, byte, to.byte_size(), self.raw) };
        check("cuMemsetD8Async", answer)
    }

    /// Returns true if XLA is capturing the stream into a command buffer. During the capture, the handler must not
    /// wait for the stream.
    ///
    /// # Errors
    /// Any error of the driver.
    pub fn is_capturing(&self) -> Result<bool> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: XLA keeps the stream alive during the call.
        let answer = unsafe { sys::cuStreamIsCapturing(self.raw, &raw mut status) };
        check("cuStreamIsCapturing", answer)?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Waits until the device has finished all work on the stream. The wait stalls XLA and is rarely needed.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) in debug builds if the handler is
    /// declared `command_buffer_compatible`. Otherwise, any error of the driver, for example of an earlier kernel.
    pub fn synchronize(&self) -> Result<()> {
        refuse_in_replay(
            "waits for the stream",
            "leave the waiting to XLA, or to another handler",
        )?;
        // SAFETY: XLA keeps the stream alive during the call.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.raw)
        })
    }
}

impl<'f> Context<'f> for Stream<'f> {
    const NAME: &'static str = "stream";
    const SINCE: Revision = Feature::Stream.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the context belongs to the call frame.
        let raw = unsafe { frame.host().stream(frame.ctx()) }?;
        // SAFETY: the host's stream is valid during the call.
        unsafe { Self::from_raw(raw) }
    }
}

context!(Stream<'f>);
