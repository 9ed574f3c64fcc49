//! The device stream, and the debug check for handlers that are compatible with command buffers.
//!
//! XLA captures the execute stage of a compatible handler once and replays the launched work. A call that waits for
//! the stream breaks the capture. Memory that was allocated for the captured call belongs to other code during the
//! replay. The check covers operations that use this crate. It exists in debug builds only, because it costs every
//! call a thread-local access.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use xla_ffi_sys::{Feature, Revision};

/// The stream of the call: a `CUstream` on CUDA. CPU hosts have no stream and reject the call, unless the parameter
/// is an `Option`. Available since r0 (jaxlib 0.4.31).
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
/// # use xla_ffi::embed::{self, DType, Shape};
/// # use xla_ffi_runtime::CpuDevice;
/// let call = || embed::call::<launch>("{}").map(|call| call.ret(Shape::new(DType::F32, [1]).unwrap()));
/// assert!(call()?.on_device(&CpuDevice::new()?).run().is_ok());
/// assert!(call()?.run().is_err());
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stream<'f> {
    raw: *mut c_void,
    _call: PhantomData<&'f ()>,
}

impl Stream<'_> {
    /// Returns the platform's handle, which is valid during the call.
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
        // SAFETY: the context belongs to the call frame.
        let raw = unsafe { frame.host().stream(frame.ctx()) }?;
        Ok(Self {
            raw,
            _call: PhantomData,
        })
    }
}

context!(Stream<'f>);

thread_local! {
    /// The name of the command-buffer-compatible handler whose execute stage is running on this
    /// thread.
    static RUNNING: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Marks the execute stage of a command-buffer-compatible handler until dropped. In release builds, the type is empty
/// and has no destructor, because a destructor would cost every call stack space.
#[derive(Debug)]
pub(crate) struct Replayed {
    #[cfg(debug_assertions)]
    before: Option<&'static str>,
}

impl Replayed {
    /// Marks the running execute stage if the handler is declared compatible with command buffers.
    #[cfg(debug_assertions)]
    pub(crate) fn enter(handler: &'static str, traits: u32, stage: u32) -> Option<Self> {
        use xla_ffi_sys::{XLA_FFI_ExecutionStage, XLA_FFI_Handler_TraitsBits};
        let compatible = traits & XLA_FFI_Handler_TraitsBits::COMMAND_BUFFER_COMPATIBLE.0 != 0;
        (compatible && stage == XLA_FFI_ExecutionStage::EXECUTE.0).then(|| Self {
            before: RUNNING.replace(Some(handler)),
        })
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn enter(_: &str, _: u32, _: u32) -> Self {
        Self {}
    }
}

#[cfg(debug_assertions)]
impl Drop for Replayed {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// Returns an error for the operation `what` in debug builds if a handler that is compatible with
/// command buffers is executing.
///
/// # Errors
/// `FAILED_PRECONDITION` with the handler's name and the `remedy`.
#[inline]
pub(crate) fn refuse_in_replay(what: &str, remedy: &str) -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    match RUNNING.get() {
        None => Ok(()),
        Some(name) => Err(Error::failed_precondition(format!(
            "{name} is declared `command_buffer_compatible`, but its execute stage {what}: XLA \
             captures the stage once and replays it without calling the handler again; {remedy}, or \
             drop the trait"
        ))),
    }
}
