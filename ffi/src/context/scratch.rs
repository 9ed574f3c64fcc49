//! Scratch memory on the device.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, context};
use crate::call::frame::Frame;
use crate::call::host::Host;
use crate::error::{Error, Result};
use xla_ffi_sys::{Feature, Revision, XLA_FFI_InvokeContext};

/// The host's allocator of device memory. CPU hosts have none. Since r0.
///
/// Memory that is not freed by hand lives until the stream has run what the call launched.
///
/// ```
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*};
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn sort(x: DeviceBuffer<f32, 1>, y: DeviceOut<f32, 1>, scratch: Scratch) -> Result<()> {
///     let workspace = scratch.allocate(x.byte_size(), 256)?;
///     let kernel_arguments = (x.as_device_ptr(), workspace.as_ptr(), y.as_device_mut_ptr());
///     assert!(kernel_arguments.1.addr().is_multiple_of(256));
///     let too_much = scratch.allocate(64, 64)?;
///     // SAFETY: allocated above, with this size, and never used.
///     unsafe { scratch.free(too_much, 64) }
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = |device| {
///     let x = Tensor::from_slice([2], &[2.0_f32, 1.0])?;
///     let call = internal::call::<sort>("{}")?.arg(x).ret(Shape::new(DType::F32, [2])?);
///     match device {
///         Some(device) => call.on_device(device).run(),
///         None => call.run(),
///     }
/// };
/// let device = CpuDevice::new()?;
/// assert!(call(Some(&device)).is_ok());
/// assert!(call(None).is_err()); // no allocator there
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scratch<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    _call: PhantomData<&'f ()>,
}

impl<'f> Scratch<'f> {
    /// Allocates `size` bytes of device memory at a multiple of `alignment`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when `alignment` is no
    /// power of two; [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) in debug
    /// builds of a handler that is declared `command_buffer_compatible`; otherwise what the host answers, `UNIMPLEMENTED` where it has no allocator.
    pub fn allocate(&self, size: usize, alignment: usize) -> Result<NonNull<c_void>> {
        if !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "alignment {alignment} is no power of two"
            )));
        }
        crate::entry::command_buffer::forbid(
            "allocates scratch memory",
            "take the memory as another result of the call",
        )?;
        // SAFETY: the call's own context, which 'f keeps alive.
        let data = unsafe { self.host.allocate(self.ctx, size, alignment) }?;
        NonNull::new(data).ok_or_else(|| {
            Error::resource_exhausted(format!("{size} bytes of scratch memory are not available"))
        })
    }

    /// Allocates room for `len` elements, aligned to 256 bytes as operands are. None at all takes no
    /// memory, and its address is null. [`ScratchBuffer`] has an example.
    ///
    /// # Errors
    /// As [`Scratch::allocate`].
    pub fn array<T: Copy>(&self, len: usize) -> Result<ScratchBuffer<'f, T>> {
        let size = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::resource_exhausted(format!(
                "{len} elements of {} bytes do not fit any memory",
                size_of::<T>()
            ))
        })?;
        let data = match size {
            0 => std::ptr::null_mut(),
            _ => self.allocate(size, 256)?.as_ptr(),
        };
        Ok(ScratchBuffer {
            data: data.cast(),
            len,
            _call: PhantomData,
        })
    }

    /// Frees memory before its time.
    ///
    /// # Errors
    /// What the host answers.
    ///
    /// # Safety
    /// `data` came from [`Scratch::allocate`] of this call with this `size`, and nothing uses it
    /// any more.
    pub unsafe fn free(&self, data: NonNull<c_void>, size: usize) -> Result<()> {
        // SAFETY: the call's own context; the caller vouches for the memory.
        unsafe { self.host.free(self.ctx, size, data.as_ptr()) }
    }
}

/// Elements in scratch memory: an address for kernels, no slices. It belongs to the call.
///
/// ```
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*};
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn sum(x: DeviceBuffer<f32>, y: DeviceOut<f32, 0>, scratch: Scratch, stream: Stream) -> Result<()> {
///     let partial = scratch.array::<f32>(x.len().div_ceil(1024))?;
///     // … one kernel that writes `partial.len()` sums, another that adds them up …
///     assert_eq!((partial.len(), partial.byte_size()), (2, 8));
///     assert!(!partial.as_device_mut_ptr().is_null() && !y.as_device_mut_ptr().is_null());
///     # let _ = stream;
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = internal::call::<sum>("{}")?
///     .on_device(&CpuDevice::new()?)
///     .arg(Tensor::from_slice([2000], &[1.0_f32; 2000])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert!(call.run().is_ok());
/// # Ok::<(), internal::Error>(())
/// ```
pub struct ScratchBuffer<'f, T> {
    data: *mut T,
    len: usize,
    _call: PhantomData<&'f ()>,
}

impl<T> ScratchBuffer<'_, T> {
    /// The address in device memory; null where there are no elements.
    #[must_use]
    pub fn as_device_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all elements.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> std::fmt::Debug for ScratchBuffer<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScratchBuffer")
            .field("data", &self.data)
            .field("len", &self.len)
            .finish()
    }
}

impl<'f> Context<'f> for Scratch<'f> {
    const NAME: &'static str = "scratch";
    const SINCE: Revision = Feature::ScratchMemory.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        Ok(Self {
            host: frame.host(),
            ctx: frame.ctx(),
            _call: PhantomData,
        })
    }
}

context!(Scratch<'f>);
