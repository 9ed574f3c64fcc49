//! XLA's stream.

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

/// The stream that the call belongs to. It is XLA's own: what a handler does, it puts on this stream
/// and returns. Since r0.
///
/// The call fails where there is no driver; [`crate::Stream`] hands out the pointer alone.
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

// SAFETY: a handle; the driver's functions on it may be called from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Stream<'_> {}

impl Stream<'_> {
    /// A stream that a program hands over as a bare pointer: to a target of the original custom calls,
    /// for instance.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for a null pointer, and where there is no driver.
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

    /// The driver's handle, valid during the call; a runtime's `cudaStream_t` is the same.
    #[must_use]
    #[inline]
    pub fn as_raw(&self) -> sys::CUstream {
        self.raw
    }

    /// The context that the stream belongs to, and so the device that the call runs on.
    ///
    /// # Errors
    /// What the driver answers.
    #[inline]
    pub fn context(&self) -> Result<CudaContext> {
        let mut context = std::ptr::null_mut();
        // SAFETY: XLA's stream lives during the call.
        let answer = unsafe { sys::cuStreamGetCtx(self.raw, &raw mut context) };
        check("cuStreamGetCtx", answer)?;
        Ok(CudaContext(context))
    }

    /// The stream as cudarc's safe interface takes it. Dropping it destroys nothing.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// What is made of it is used during the call only, and neither waits nor allocates if the
    /// handler is compatible with command buffers: nothing checks it there.
    pub unsafe fn to_cudarc(&self) -> Result<Arc<cudarc::driver::CudaStream>> {
        let context = self.context()?.to_cudarc()?;
        // SAFETY: XLA's stream belongs to that context and lives during the call; the caller keeps
        // what is made of it no longer.
        Ok(unsafe { context.wrap_borrowed_stream(self.raw) })
    }

    /// An argument as cudarc's safe interface takes it: a slice of device memory.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Stream::to_cudarc`]; and the argument's elements are not written, nor is the slice exchanged for another
    /// (`mem::swap`), which would free the host's memory.
    pub unsafe fn view<T: Element, const RANK: usize>(
        &self,
        buffer: &DeviceBuffer<'_, T, RANK>,
    ) -> Result<View<T>> {
        // SAFETY: the caller's promise.
        let stream = unsafe { self.to_cudarc() }?;
        // SAFETY: the host's buffer holds so many elements.
        Ok(unsafe { View::new(&stream, buffer.as_device_ptr() as u64, buffer.len()) })
    }

    /// A result as cudarc's safe interface takes it: a slice of device memory.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Stream::to_cudarc`]; and there is one view of the result at a time, whose slice is not exchanged for another
    /// (`mem::swap`), which would free the host's memory.
    pub unsafe fn view_out<T: Element, const RANK: usize>(
        &self,
        out: &DeviceOut<'_, T, RANK>,
    ) -> Result<View<T>> {
        // SAFETY: the caller's promise.
        let stream = unsafe { self.to_cudarc() }?;
        // SAFETY: the host's buffer holds so many elements.
        Ok(unsafe { View::new(&stream, out.as_device_mut_ptr() as u64, out.len()) })
    }

    /// Copies all elements of `from` to `to`, on the stream.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when the numbers of elements
    /// differ; otherwise what the driver answers.
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
        // SAFETY: both hold so many bytes of device memory, and live until the stream has run.
        let answer =
            unsafe { sys::cuMemcpyDtoDAsync_v2(target, source, from.byte_size(), self.raw) };
        check("cuMemcpyDtoDAsync", answer)
    }

    /// Sets all bytes of `to`, on the stream.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn fill_bytes<T: Element, const RANK: usize>(
        &self,
        to: &DeviceOut<'_, T, RANK>,
        byte: u8,
    ) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let target = to.as_device_mut_ptr() as u64;
        // SAFETY: the result holds so many bytes of device memory.
        let answer = unsafe { sys::cuMemsetD8Async(target, byte, to.byte_size(), self.raw) };
        check("cuMemsetD8Async", answer)
    }

    /// Whether XLA is capturing the stream into a command buffer: then nothing may wait for it.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn is_capturing(&self) -> Result<bool> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: XLA's stream lives during the call.
        let answer = unsafe { sys::cuStreamIsCapturing(self.raw, &raw mut status) };
        check("cuStreamIsCapturing", answer)?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Waits until the device has done everything on the stream. It stalls XLA: a handler rarely
    /// needs it.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) in debug builds of a
    /// handler that is declared `command_buffer_compatible`; otherwise what the driver answers, an
    /// error of an earlier kernel for instance.
    pub fn synchronize(&self) -> Result<()> {
        refuse_in_replay(
            "waits for the stream",
            "leave the waiting to XLA, or to another handler",
        )?;
        // SAFETY: XLA's stream lives during the call.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.raw)
        })
    }
}

impl<'f> Context<'f> for Stream<'f> {
    const NAME: &'static str = "stream";
    const SINCE: Revision = Feature::Stream.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        let raw = unsafe { frame.host().stream(frame.ctx()) }?;
        // SAFETY: the host's stream lives as long as the call.
        unsafe { Self::from_raw(raw) }
    }
}

context!(Stream<'f>);
