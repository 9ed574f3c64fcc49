//! The errors with which an entry point rejects a call or reports its failure. Handlers for host memory reject calls
//! whose operands are on a device.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::declare::handler_info::HandlerInfo;
use crate::entry::diagnose;
use crate::error::problems::{Problems, message, named, put, stage_name};
use crate::error::wording::{CALLED_AT, DEVICE, OWN_STAGE, SHORT_FRAME};
use crate::error::{Error, ErrorCode};
use crate::frame::host::Host;
use crate::frame::{FRAME_SIZE, Frame};
use crate::param::Param;
use xla_ffi_sys::*;

// Frames are passed by value. A frame is one pointer, which then stays in a register.

/// Returns an error for a frame that is too short.
///
/// # Safety
/// `raw` is a call frame. Its `struct_size`, or the `struct_size` of a list in the frame, is too
/// small.
#[cold]
pub(crate) unsafe fn refuse_short_frame(
    raw: *mut XLA_FFI_CallFrame,
    info: &HandlerInfo,
    stage: u32,
) -> *mut XLA_FFI_Error {
    // SAFETY: `struct_size` is the first field of every call frame.
    let size = unsafe { (*raw).struct_size };
    if size < 32 {
        crate::error::panics::warn(format_args!(
            "{}: the call frame has {size} bytes, too few to name its host",
            info.name
        ));
        return std::ptr::null_mut();
    }
    // SAFETY: `api` is within the first 24 bytes of every frame.
    let api = unsafe { (*raw).api };
    // SAFETY: a call frame points to its host's function table.
    let host = unsafe { Host::new(api) };
    let why = format!("{SHORT_FRAME} ({size} bytes, expected {FRAME_SIZE})");
    refuse(host, info, stage, ErrorCode::InvalidArgument, &[&why])
}

/// Returns an error for a call that is rejected for a single reason.
fn refuse(
    host: Host,
    info: &HandlerInfo,
    stage: u32,
    code: ErrorCode,
    why: &[&str],
) -> *mut XLA_FFI_Error {
    let (text, _) = message(info.name, stage, &mut |problems| put(problems.line(), why));
    host.make_error(code, &text)
}

#[cold]
pub(crate) fn wrong_stage(frame: Frame<'_>, info: &HandlerInfo, stage: u32) -> *mut XLA_FFI_Error {
    // Hosts before r0 number the stages differently, so all calls from these hosts are rejected.
    if frame.host().is_before_r0() {
        return frame.host().refuse_before_r0(info.name);
    }
    let why = [CALLED_AT, &*stage_name(frame.stage()), OWN_STAGE];
    refuse(frame.host(), info, stage, ErrorCode::InvalidArgument, &why)
}

/// Decodes a rejected call again and reports all its problems.
#[cold]
#[inline(never)]
pub(crate) fn mismatch(
    frame: Frame<'_>,
    info: &HandlerInfo,
    params: &'static [Param],
    stage: u32,
    explain: for<'f> fn(&Frame<'f>, &mut Problems<'_>),
) -> *mut XLA_FFI_Error {
    let (message, code) = message(info.name, stage, &mut |problems| {
        explain(&frame, problems);
        diagnose::frame(&frame, info, params, problems);
        if problems.is_empty() {
            crate::entry::operands::overlaps(&frame, params, problems);
        }
    });
    frame.host().make_error(code, &message)
}

#[cold]
pub(crate) fn panicked(
    frame: Frame<'_>,
    info: &HandlerInfo,
    panic: Box<dyn std::any::Any + Send>,
) -> *mut XLA_FFI_Error {
    let why = crate::error::panics::describe("", panic);
    refuse(
        frame.host(),
        info,
        frame.stage(),
        ErrorCode::Internal,
        &[&why],
    )
}

/// Returns a handler's error to the host, with the handler's name.
#[cold]
#[inline(never)]
pub(crate) fn failed(frame: Frame<'_>, info: &HandlerInfo, error: Error) -> *mut XLA_FFI_Error {
    let error = named(error, info.name, frame.stage());
    // Only the embedded runtime of this image receives an error with its source as a Rust object. No other host can
    // read or free such an object.
    #[cfg(feature = "internal")]
    if std::error::Error::source(&error).is_some() && super::outcome::invocation(&frame).is_ok() {
        return xla_ffi_runtime::internal::raise(error);
    }
    frame.host().make_error(error.code(), error.message())
}

/// The first host whose contexts have no stream, and whose operands are therefore in host memory. Most processes have
/// only one host.
static FIRST: AtomicPtr<XLA_FFI_Api> = AtomicPtr::new(std::ptr::null_mut());

/// Further hosts whose operands are in host memory, indexed by a hash of the host's address. If two hashes collide, the
/// newer host replaces the older one.
static OTHERS: [AtomicPtr<XLA_FFI_Api>; 256] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 256];

/// Returns true if operands are in host memory. The result is cached per host, except for hash collisions in `OTHERS`.
#[inline(always)]
pub(crate) fn operands_on_host(frame: &Frame<'_>) -> bool {
    let api = frame.host().api().cast_mut();
    FIRST.load(Ordering::Relaxed) == api || ask_for_stream(*frame)
}

#[cold]
#[inline(never)]
pub(crate) fn ask_for_stream(frame: Frame<'_>) -> bool {
    let api = frame.host().api().cast_mut();
    let hash = (api.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    let known = &OTHERS[hash as usize];
    if known.load(Ordering::Relaxed) == api {
        return true;
    }
    crate::error::panics::install();
    // SAFETY: the context belongs to the call frame.
    let stream = unsafe { frame.host().stream(frame.ctx()) };
    if stream.is_ok_and(|stream| !stream.is_null()) {
        return false;
    }
    // GPU hosts have no stream in the stages before execute, so only the execute stage is
    // conclusive.
    if frame.stage() != XLA_FFI_ExecutionStage::EXECUTE.0 {
        return true;
    }
    let null = std::ptr::null_mut();
    let first = FIRST.compare_exchange(null, api, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err() {
        known.store(api, Ordering::Relaxed);
    }
    true
}

#[cold]
pub(crate) fn refuse_device(frame: Frame<'_>, info: &HandlerInfo) -> *mut XLA_FFI_Error {
    refuse(
        frame.host(),
        info,
        frame.stage(),
        ErrorCode::FailedPrecondition,
        &[DEVICE],
    )
}
