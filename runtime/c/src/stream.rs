//! The functions of `runtime.h` for streams of CPU devices, which are threads.

use crate::status::{status_or_null, xffi_rt_status};
use crate::take_back;
use crate::{hand_over, object};
use host::{CpuStream, DeviceStream, Error, Stream};
use std::ffi::c_void;
use std::sync::Arc;

/// `xffi_rt_stream` in C: a stream of a CPU device.
pub(crate) struct xffi_rt_stream(Arc<CpuStream>);
const _: () = crate::any_thread::<xffi_rt_stream>();

/// Returns the stream with a handle. If the handle is not that of a stream of this library, the caller must
/// synchronize the stream.
///
/// # Safety
/// The handle must remain valid while calls use it.
pub(crate) unsafe fn stream_from_handle(handle: *mut c_void) -> Stream {
    match CpuStream::from_handle(handle) {
        Some(stream) => stream.stream(),
        // SAFETY: guaranteed by the caller.
        None => unsafe { Stream::borrowed(handle) },
    }
}

/// Implements `xffi_rt_stream_create`.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_create(
    out: *mut *mut xffi_rt_stream,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { hand_over(out, xffi_rt_stream(CpuStream::new()?)) })
}

/// Implements `xffi_rt_stream_destroy`.
///
/// # Safety
/// The stream must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_destroy(stream: *mut xffi_rt_stream) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(stream) };
}

/// Implements `xffi_rt_stream_handle`.
///
/// # Safety
/// The stream must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_handle(
    stream: *const xffi_rt_stream,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let stream = unsafe { stream.as_ref() };
    stream.map_or(std::ptr::null_mut(), |stream| stream.0.handle())
}

/// Implements `xffi_rt_stream_synchronize`.
///
/// # Safety
/// The stream must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_synchronize(
    stream: *const xffi_rt_stream,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { object(stream, "stream") }?.0.synchronize()
    })
}

/// Implements `xffi_rt_stream_enqueue`.
///
/// # Safety
/// Any thread must be allowed to call `task` once with `data`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_enqueue(
    handle: *mut c_void,
    task: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        let stream = CpuStream::from_handle(handle).ok_or_else(|| {
            Error::invalid_argument(format!("{handle:p} is not a stream of this runtime"))
        })?;
        // SAFETY: guaranteed by the caller.
        stream.try_enqueue(Box::new(unsafe { crate::task(task, data) }?))
    })
}
