//! Device operands as cudarc's slices.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};

/// An operand as a slice of cudarc's, which does not free the memory: XLA owns it.
///
/// Made by [`Stream::view`](super::Stream::view) and [`Stream::view_out`](super::Stream::view_out);
/// it is what cudarc's launches and libraries take.
///
/// ```no_run
/// use xla_ffi::cuda::{Stream, View};
/// use xla_ffi::prelude::*;
/// use xla_ffi::{DeviceBuffer, DeviceOut};
///
/// fn copy(x: &DeviceBuffer<f32>, y: &DeviceOut<f32>, stream: &Stream) -> Result<()> {
///     // SAFETY: used before the handler returns, one view of each; `x` is only read.
///     let (x, mut y): (View<f32>, View<f32>) = unsafe { (stream.view(x)?, stream.view_out(y)?) };
///     // SAFETY: as above.
///     let copied = unsafe { stream.to_cudarc() }?.memcpy_dtod(&*x, &mut *y);
///     copied.map_err(|error| Error::internal(error.to_string()))
/// }
/// ```
#[derive(Debug)]
pub struct View<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
}

impl<T> View<T> {
    /// # Safety
    /// `len` elements lie at `address`, in the stream's device, as long as the view is used.
    pub(super) unsafe fn new(stream: &Arc<CudaStream>, address: u64, len: usize) -> Self {
        // SAFETY: the caller's promise; `drop` leaves the memory alone.
        let slice = unsafe { stream.upgrade_device_ptr(address, len) };
        Self {
            slice: ManuallyDrop::new(slice),
        }
    }
}

impl<T> Drop for View<T> {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // Lets go of the stream and keeps the memory.
        slice.leak();
    }
}

impl<T> Deref for View<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T> DerefMut for View<T> {
    fn deref_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }
}
