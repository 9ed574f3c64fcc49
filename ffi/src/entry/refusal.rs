//! The errors by which an entry point refuses a call, or passes on how it failed.

use crate::frame::{FRAME_SIZE, Frame};
use crate::frame::host::Host;
use crate::declare::handler_info::HandlerInfo;
use crate::param::Param;
use crate::entry::diagnose;
use crate::error::problems::Problems;
use crate::error::{Error, ErrorCode};
use crate::error::wording::SHORT_FRAME;
use xla_ffi_sys::*;

// The frame goes by value to what follows: it is one pointer, and stays in a register that way.

/// # Safety
/// `raw` is a call frame whose `struct_size`, or that of a list in it, is too small.
#[cold]
pub(crate) unsafe fn refuse_short_frame(
    raw: *mut XLA_FFI_CallFrame,
    info: &HandlerInfo,
) -> *mut XLA_FFI_Error {
    // SAFETY: the first field of every frame.
    let size = unsafe { (*raw).struct_size };
    if size < 32 {
        crate::error::panics::tell(format_args!(
            "{}: the call frame has {size} bytes, too few to name its host",
            info.name
        ));
        return std::ptr::null_mut();
    }
    // SAFETY: `api` lies within the first 24 bytes.
    let api = unsafe { (*raw).api };
    // SAFETY: a frame names its host's table.
    let host = unsafe { Host::new(api) };
    host.make_error(
        ErrorCode::InvalidArgument,
        &format!(
            "{}{SHORT_FRAME} ({size} bytes, expected {FRAME_SIZE})",
            info.name
        ),
    )
}

#[cold]
pub(crate) fn wrong_stage(frame: Frame<'_>, info: &HandlerInfo, stage: u32) -> *mut XLA_FFI_Error {
    // The stages had other numbers before r0, so that every call from there ends here.
    if frame.host().is_before_r0() {
        return frame.host().refuse_before_r0(info.name);
    }
    let why = format!(
        "called at stage {}; register the bundle's functions each for its own stage",
        crate::error::problems::stage_name(frame.stage())
    );
    let (message, _) =
        crate::error::problems::message(info, stage, &mut |problems| problems.push(&why));
    frame
        .host()
        .make_error(ErrorCode::InvalidArgument, &message)
}

/// Goes over a call again that did not decode, and says all that is wrong with it.
#[cold]
#[inline(never)]
pub(crate) fn mismatch(
    frame: Frame<'_>,
    info: &HandlerInfo,
    params: &'static [Param],
    stage: u32,
    explain: for<'f> fn(&Frame<'f>, &mut Problems<'_>),
) -> *mut XLA_FFI_Error {
    let (message, code) = crate::error::problems::message(info, stage, &mut |problems| {
        diagnose::frame(&frame, info, params, problems);
        explain(&frame, problems);
        if problems.is_empty() {
            diagnose::overlaps(&frame, params, problems);
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
    let message = crate::error::panics::describe(info.name, panic);
    frame.host().make_error(ErrorCode::Internal, &message)
}

/// Hands a handler's error to the host.
#[cold]
#[inline(never)]
pub(crate) fn failed(frame: Frame<'_>, error: Error) -> *mut XLA_FFI_Error {
    frame.host().make_error(error.code(), error.message())
}
