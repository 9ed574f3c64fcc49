//! CUDA support for targets of the original conventions: reads and writes addresses in tuples, and provides events.

use std::ffi::c_void;

use crate::{Device, Leaf};
use cudarc::driver::sys;
use cudarc::driver::sys::CUresult;
use xla_ffi::__private::check_cuda as check;
use xla_ffi::Result;
use xla_ffi::cuda::{CudaContext, Stream};

/// Copies addresses to device memory on a stream. Pass this function as `copy` to
/// [`adapt!`](crate::adapt) on CUDA.
///
/// ```
/// use std::ffi::{c_char, c_void};
/// use xla_ffi_legacy::cuda::copy_addresses;
/// # use xla_ffi::prelude::*;
///
/// /// x, y -> (x + y, x - y), as an old kernel that finds its results in a tuple.
/// unsafe extern "C" fn sums(
///     _stream: *mut c_void,
///     _buffers: *mut *mut c_void,
///     _opaque: *const c_char,
///     _opaque_len: usize,
/// ) {
///     // … launch …
/// }
///
/// xla_ffi_legacy::adapt! {
///     sums_ffi = unsafe gpu(sums), structure = "_, _ -> (_, _)", copy = copy_addresses;
/// }
/// # fn main() {}
/// ```
///
/// # Errors
/// Errors from the driver.
///
/// # Safety
/// `to` is device memory with room for all addresses, and the stream is a CUDA stream of the same device.
pub unsafe fn copy_addresses(
    stream: *mut c_void,
    to: *mut *mut c_void,
    from: &[*mut c_void],
) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller guarantees that the stream is a CUDA stream.
    let stream = unsafe { Stream::from_raw(stream) }?;
    let _current = stream.context()?.make_current()?;
    // SAFETY: the caller guarantees that `to` has room. The driver has read pageable host memory when it returns.
    let copied = unsafe {
        sys::cuMemcpyHtoDAsync_v2(
            to as u64,
            from.as_ptr().cast(),
            size_of_val(from),
            stream.as_raw(),
        )
    };
    check("cuMemcpyHtoDAsync", copied)
}

/// A stream that this crate creates and that does not wait implicitly for other streams.
struct Own(sys::CUstream);

impl Own {
    /// Creates a stream in the current context.
    fn new() -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; `drop` destroys the stream.
        check("cuStreamCreate", unsafe {
            sys::cuStreamCreate(&raw mut raw, flags)
        })?;
        Ok(Self(raw))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: only this value destroys the stream. The driver keeps the resources that the
        // stream's work needs.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// Returns the address of an operand's leaf. If the list of buffers lacks the address, reads the operand's tuples
/// from device memory. This happens on a separate stream, after the work on the program's stream. The calling thread
/// waits for the read; the program's stream does not. The address is null for a leaf of size zero without an address.
///
/// ```no_run
/// use std::ffi::c_void;
/// use xla_ffi_legacy::{Buffers, Form};
/// use xla_ffi::Result;
/// use xla_ffi_legacy::cuda::resolve;
///
/// /// The two elements of a pair.
/// ///
/// /// # Safety
/// /// The list of ((x, y)) -> z, and its stream.
/// unsafe fn pair(stream: *mut c_void, list: *const *mut c_void) -> Result<[*mut c_void; 2]> {
///     // SAFETY: the caller's list.
///     let buffers = unsafe { Buffers::new(list, "(_, _) -> _", Form::Nodes) }?;
///     // SAFETY: the caller's stream, and tuples of that structure.
///     let [x, y] = [0, 1].map(|leaf| unsafe { resolve(stream, &buffers.args()[leaf]) });
///     Ok([x?, y?])
/// }
/// ```
///
/// # Safety
/// The stream is the call's stream. When the stream's current work has finished, the leaf's root leads to tuples of
/// the declared structure in device memory.
///
/// # Errors
/// Errors from the driver.
pub unsafe fn resolve(stream: *mut c_void, leaf: &Leaf) -> Result<*mut c_void> {
    if let Some(address) = leaf.address() {
        return Ok(address);
    }
    let mut event = Events.event(stream)?;
    Events.record(&mut event, stream)?;
    let _current = event.context.make_current()?;
    let own = Own::new()?;
    // SAFETY: the stream and the event belong to the current context, and are not destroyed yet.
    check("cuStreamWaitEvent", unsafe {
        sys::cuStreamWaitEvent(own.0, event.raw, 0)
    })?;
    let mut at = leaf.root();
    for index in leaf.path() {
        if at.is_null() {
            break;
        }
        let from = at as u64 + (index * size_of::<*mut c_void>()) as u64;
        let to = (&raw mut at).cast();
        // SAFETY: a tuple is an array of its elements' addresses in device memory. `at` is valid until the copy has
        // run.
        let copied =
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, size_of::<*mut c_void>(), own.0) };
        check("cuMemcpyDtoHAsync", copied)?;
        // SAFETY: the stream is not destroyed yet.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(own.0)
        })?;
    }
    Ok(at)
}

/// CUDA events for [`Staging`](crate::Staging), in targets that write the tuples of their result.
///
/// ```
/// use xla_ffi_legacy::cuda::Events;
/// use xla_ffi_legacy::Staging;
///
/// static TUPLES: Staging<Events> = Staging::new(Events, 16);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Events;

/// A CUDA event: a point on a stream.
///
/// ```no_run
/// use xla_ffi::cuda::Stream;
/// use xla_ffi_legacy::cuda::{Event, Events};
/// use xla_ffi_legacy::Device;
/// use xla_ffi::prelude::*;
///
/// /// Waits for what is on the stream so far.
/// fn drain(stream: &Stream) -> Result<()> {
///     let mut event: Event = Events.event(stream.as_raw().cast())?;
///     Events.record(&mut event, stream.as_raw().cast())?;
///     Events.wait(&event)
/// }
/// ```
#[derive(Debug)]
pub struct Event {
    raw: sys::CUevent,
    context: CudaContext,
}

// SAFETY: the value is a handle, which the driver's functions accept on any thread.
unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.make_current() {
            // SAFETY: only this value destroys the event. The driver keeps the resources that a stream's work needs.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the trait is unsafe to implement: its callers pass streams of calls"
)]
// SAFETY: the driver reports an event as complete when all earlier work on its stream has run.
unsafe impl Device for Events {
    type Event = Event;

    fn device_of(&self, stream: *mut c_void) -> Result<u64> {
        // SAFETY: the pool's stream is the stream of the call.
        let context = unsafe { Stream::from_raw(stream) }?.context()?;
        Ok(context.as_raw() as u64)
    }

    fn event(&self, stream: *mut c_void) -> Result<Event> {
        // SAFETY: the pool's stream is the stream of the call.
        let context = unsafe { Stream::from_raw(stream) }?.context()?;
        let _current = context.make_current()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current; `drop` destroys the event.
        check("cuEventCreate", unsafe {
            sys::cuEventCreate(&raw mut raw, flags)
        })?;
        Ok(Event { raw, context })
    }

    fn record(&self, event: &mut Event, stream: *mut c_void) -> Result<()> {
        let _current = event.context.make_current()?;
        // SAFETY: the event and the stream belong to the same context.
        check("cuEventRecord", unsafe {
            sys::cuEventRecord(event.raw, stream.cast())
        })
    }

    fn is_complete(&self, event: &Event) -> Result<bool> {
        let _current = event.context.make_current()?;
        // SAFETY: the event is not destroyed yet.
        match unsafe { sys::cuEventQuery(event.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => check("cuEventQuery", other).map(|()| true),
        }
    }

    fn wait(&self, event: &Event) -> Result<()> {
        let _current = event.context.make_current()?;
        // SAFETY: the event is not destroyed yet.
        check("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(event.raw)
        })
    }

    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { copy_addresses(stream, to, from) }
    }

    unsafe fn resolve(&self, stream: *mut c_void, leaf: &Leaf) -> Result<*mut c_void> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { resolve(stream, leaf) }
    }
}
