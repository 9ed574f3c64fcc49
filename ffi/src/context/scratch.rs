//! Scratch memory on the device.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::host::Host;
use xla_ffi_sys::{Revision, XLA_FFI_InvokeContext};

/// The host's allocator of device memory. CPU hosts have none. Since r0.
///
/// Memory that is not freed by hand lives until the stream has run what the call launched.
///
/// ```
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*};
///
/// #[xla_ffi::handler(platforms = ["cuda"])]
/// fn sort(x: DeviceBuffer<f32, 1>, y: DeviceOut<f32, 1>, scratch: Scratch, stream: Stream) -> Result<()> {
///     let workspace = scratch.allocate(x.byte_size().max(1), 256)?;
///     // … kernels on `stream` that sort into `y` by way of `workspace` …
///     # let _ = (workspace, stream, y);
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scratch<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    _call: PhantomData<&'f ()>,
}

impl Scratch<'_> {
    /// Allocates `size` bytes of device memory at a multiple of `alignment`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when `alignment` is no
    /// power of two; otherwise what the host answers, `UNIMPLEMENTED` where it has no allocator.
    pub fn allocate(&self, size: usize, alignment: usize) -> Result<NonNull<c_void>> {
        if !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "alignment {alignment} is no power of two"
            )));
        }
        // SAFETY: the call's own context, which 'f keeps alive.
        let data = unsafe { self.host.allocate(self.ctx, size, alignment) }?;
        NonNull::new(data).ok_or_else(|| {
            Error::resource_exhausted(format!("no {size} bytes of scratch memory to be had"))
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

impl<'f> Context<'f> for Scratch<'f> {
    const NAME: &'static str = "scratch";
    const SINCE: Revision = Revision::R0;

    fn take(frame: &Frame<'f>) -> Result<Self> {
        Ok(Self {
            host: frame.host(),
            ctx: frame.ctx(),
            _call: PhantomData,
        })
    }
}

context!(Scratch<'f>);
