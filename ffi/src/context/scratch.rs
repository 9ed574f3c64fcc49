//! Scratch memory on the device.

use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{Feature, Revision, XLA_FFI_InvokeContext};

/// The largest alignment that every platform of XLA accepts in a request (see XLA's `ffi_api.cc`).
const ASKED: usize = 16;
/// The alignment that XLA's GPU allocators guarantee, whatever alignment is requested.
const GIVEN: usize = 256;

/// The host's allocator of device memory. CPU hosts have no allocator. Available since r0 (jaxlib 0.4.31).
///
/// All allocations are freed when this value is dropped at the end of the handler, because XLA does not free them
/// itself. XLA reuses the memory in stream order, after the work that the call launched on its stream. If you
/// launched work on other streams, wait for that work first.
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
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = |device| {
///     let x = Tensor::from_slice([2], &[2.0_f32, 1.0])?;
///     let call = embed::call::<sort>("{}")?.arg(x).ret(Shape::new(DType::F32, [2])?);
///     match device {
///         Some(device) => call.on_device(device).run(),
///         None => call.run(),
///     }
/// };
/// let device = CpuDevice::new()?;
/// assert!(call(Some(&device)).is_ok());
/// assert!(call(None).is_err()); // no allocator there
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Scratch<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    /// The allocations to free, with the size of each.
    taken: RefCell<Vec<(NonNull<c_void>, usize)>>,
    _call: PhantomData<&'f ()>,
}

impl<'f> Scratch<'f> {
    /// Allocates `size` bytes of device memory, aligned to `alignment`, which is at most 256. If `size` is 0, no
    /// memory is allocated and the address must not be dereferenced.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if `alignment` is not a power of two or
    ///   exceeds 256.
    /// - [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) in debug builds if the handler is
    ///   declared `command_buffer_compatible`.
    /// - [`ErrorCode::Internal`](crate::ErrorCode::Internal) if the host's memory is not aligned as requested.
    /// - Any error of the host, for example `UNIMPLEMENTED` if the host has no allocator.
    pub fn allocate(&self, size: usize, alignment: usize) -> Result<NonNull<c_void>> {
        if !alignment.is_power_of_two() || alignment > GIVEN {
            return Err(Error::invalid_argument(format!(
                "alignment {alignment} is not a power of two up to {GIVEN}"
            )));
        }
        crate::context::stream::refuse_in_replay(
            "allocates scratch memory",
            "take the memory as another result of the call",
        )?;
        // For 0 bytes, some hosts return null and other hosts return memory.
        if let (0, Some(nowhere)) = (
            size,
            NonNull::new(std::ptr::without_provenance_mut(alignment)),
        ) {
            return Ok(nowhere);
        }
        // SAFETY: the context belongs to the call, which is valid for 'f.
        let data = unsafe { self.host.allocate(self.ctx, size, alignment.min(ASKED)) }?;
        let data = NonNull::new(data).ok_or_else(|| {
            Error::resource_exhausted(format!("{size} bytes of scratch memory are not available"))
        })?;
        self.taken.borrow_mut().push((data, size));
        if data.addr().get() % alignment != 0 {
            // SAFETY: the memory was allocated with this size in this function, and was never used.
            unsafe { self.free(data, size) }?;
            return Err(Error::internal(format!(
                "the host's scratch memory is not aligned to {alignment}"
            )));
        }
        Ok(data)
    }

    /// Allocates room for `len` elements, aligned to 256 bytes. If `len` is 0, no memory is allocated and the address
    /// is null.
    ///
    /// For an example, see [`ScratchBuffer`]. Elements with a larger alignment do not compile:
    ///
    /// ```compile_fail,E0080
    /// use xla_ffi::{DeviceOut, prelude::*};
    ///
    /// #[derive(Clone, Copy)]
    /// #[repr(align(512))] // 256 compiles
    /// struct Page([u8; 512]);
    ///
    /// #[xla_ffi::handler(platforms = ["cuda"])]
    /// fn pages(y: DeviceOut<i32>, scratch: Scratch) -> Result<()> {
    ///     let pages = scratch.array::<Page>(y.len())?;
    ///     assert!(!pages.is_empty());
    ///     Ok(())
    /// }
    /// # assert!(xla_ffi::embed::call::<pages>("{}").is_ok());
    /// ```
    ///
    /// # Errors
    /// The errors of [`Scratch::allocate`].
    pub fn array<T: Copy>(&self, len: usize) -> Result<ScratchBuffer<'_, T>> {
        const {
            assert!(
                align_of::<T>() <= GIVEN,
                "scratch memory is aligned to 256 bytes; an element type cannot need more"
            );
        }
        let size = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::resource_exhausted(format!(
                "{len} elements of {} bytes do not fit any memory",
                size_of::<T>()
            ))
        })?;
        let data = match size {
            0 => std::ptr::null_mut(),
            _ => self.allocate(size, GIVEN)?.as_ptr(),
        };
        Ok(ScratchBuffer {
            data: data.cast(),
            len,
            _scratch: PhantomData,
        })
    }

    /// Frees scratch memory before the handler ends.
    ///
    /// # Errors
    /// Any error of the host.
    ///
    /// # Safety
    /// `data` was returned by [`Scratch::allocate`] of this call for this `size`, and the memory is no longer used.
    pub unsafe fn free(&self, data: NonNull<c_void>, size: usize) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let mut taken = self.taken.borrow_mut();
        if let Some(index) = taken.iter().rposition(|own| *own == (data, size)) {
            taken.swap_remove(index);
        }
        // SAFETY: the context belongs to the call. The caller guarantees that the memory was allocated with this
        // size.
        unsafe { self.host.free(self.ctx, size, data.as_ptr()) }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        for (data, size) in std::mem::take(self.taken.get_mut()) {
            // SAFETY: this value allocated the memory with this size. XLA reuses the memory only after the work that
            // the call launched on the stream.
            let freed = unsafe { self.host.free(self.ctx, size, data.as_ptr()) };
            drop(freed); // a destructor cannot report errors
        }
    }
}

/// Elements in scratch memory: an address for kernels, not a slice. The buffer borrows the [`Scratch`] that allocated
/// it.
///
/// ```
/// use xla_ffi::{DeviceBuffer, DeviceOut, device::ScratchBuffer, prelude::*};
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn sum(x: DeviceBuffer<f32>, y: DeviceOut<f32, 0>, scratch: Scratch, stream: Stream) -> Result<()> {
///     let partial: ScratchBuffer<'_, f32> = scratch.array(x.len().div_ceil(1024))?;
///     // … one kernel that writes `partial.len()` sums, another that adds them up …
///     assert_eq!((partial.len(), partial.byte_size()), (2, 8));
///     assert!(!partial.as_device_mut_ptr().is_null() && !y.as_device_mut_ptr().is_null());
///     # let _ = stream;
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = embed::call::<sum>("{}")?
///     .on_device(&CpuDevice::new()?)
///     .arg(Tensor::from_slice([2000], &[1.0_f32; 2000])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert!(call.run().is_ok());
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct ScratchBuffer<'s, T> {
    data: *mut T,
    len: usize,
    _scratch: PhantomData<&'s ()>,
}

impl<T> ScratchBuffer<'_, T> {
    /// Returns the address in device memory, which is null if there are no elements.
    #[must_use]
    pub fn as_device_mut_ptr(&self) -> *mut T {
        self.data
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of all elements in bytes.
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
            taken: RefCell::default(),
            _call: PhantomData,
        })
    }
}

context!(Scratch<'f>);
