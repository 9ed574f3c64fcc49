//! Streams of a device that is a thread.

use crate::status::{status_or_null, xffi_rt_status};
use crate::take_back;
use crate::{hand_over, object};
use host::{CpuStream, DeviceStream, Error, Stream};
use std::ffi::c_void;
use std::sync::Arc;

/// `xffi_rt_stream`.
pub(crate) struct xffi_rt_stream(Arc<CpuStream>);
const _: () = crate::any_thread::<xffi_rt_stream>();

/// The stream of a device that is a thread, or one that the caller looks after.
///
/// # Safety
/// The handle is one of these, for as long as calls use it.
pub(crate) unsafe fn stream_from_handle(handle: *mut c_void) -> Stream {
    match CpuStream::from_handle(handle) {
        Some(stream) => stream.stream(),
        // SAFETY: as promised by the caller.
        None => unsafe { Stream::borrowed(handle) },
    }
}

/// `xffi_rt_stream_create`.
///
/// # Safety
/// `out` is null or names room for a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_create(
    out: *mut *mut xffi_rt_stream,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { hand_over(out, xffi_rt_stream(CpuStream::new()?)) })
}

/// `xffi_rt_stream_destroy`.
///
/// # Safety
/// The stream is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_destroy(stream: *mut xffi_rt_stream) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(stream) };
}

/// `xffi_rt_stream_handle`.
///
/// # Safety
/// The stream is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_handle(
    stream: *const xffi_rt_stream,
) -> *mut c_void {
    // SAFETY: as promised by the caller.
    let stream = unsafe { stream.as_ref() };
    stream.map_or(std::ptr::null_mut(), |stream| stream.0.handle())
}

/// `xffi_rt_stream_synchronize`.
///
/// # Safety
/// The stream is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_stream_synchronize(
    stream: *const xffi_rt_stream,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        unsafe { object(stream, "stream") }?.0.synchronize()
    })
}

/// `xffi_rt_stream_enqueue`.
///
/// # Safety
/// The task may be called once with the data, by another thread.
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
        // SAFETY: as promised by the caller.
        stream.try_enqueue(Box::new(unsafe { crate::task(task, data) }?))
    })
}
