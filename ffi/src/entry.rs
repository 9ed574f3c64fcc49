//! The entry point that all exported handlers share. It checks the call frame, decodes the call,
//! runs the handler and returns the outcome.

pub(crate) mod diagnose;
pub(crate) mod metadata;
pub(crate) mod operands;
pub(crate) mod outcome;
pub(crate) mod refusal;
#[cfg(debug_assertions)]
pub(crate) mod unwritten;

use std::panic::AssertUnwindSafe;

use crate::context::stream::Replayed;
use crate::declare::handler_info::{About, HandlerInfo};
use crate::declare::register::Entries;
use crate::declare::stage_params::uses_host_memory;
use crate::entry::metadata::answer_metadata;
use crate::entry::refusal::{
    failed, mismatch, operands_on_host, panicked, refuse_device, refuse_short_frame, wrong_stage,
};
use crate::error::Error;
use crate::error::problems::Problems;
use crate::frame::pending::{Flow, Pending, Return};
use crate::frame::{FRAME_SIZE, Frame};
use crate::param::Param;
use xla_ffi_sys::*;

/// A handler that `library!` can export.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "write `#[xla_ffi::handler]` on the function, or `#[xla_ffi::stateful]` on the `impl` block"
)]
pub trait Handler {
    /// The handler's declaration.
    const INFO: HandlerInfo;
    /// The handler's description for callers.
    const ABOUT: About;
    /// The entry points of the handler's stages, indexed by stage number.
    const ENTRIES: Entries;
}

/// The stage with number `STAGE` of a handler; implemented by the macros.
pub trait Stage<const STAGE: u32>: Handler {
    /// The stage's parameters.
    const PARAMS: &'static [Param];

    /// Decodes the parameters and runs the stage.
    fn call<'f>(frame: &Frame<'f>) -> Flow;

    /// Reports the problems of each parameter.
    fn explain<'f>(frame: &Frame<'f>, problems: &mut Problems<'_>);
}

/// Returns the outcome of a call. In debug builds, unwritten results turn success into an error.
#[cfg(debug_assertions)]
macro_rules! checked {
    ($flow:expr) => {
        crate::entry::unwritten::check_results($flow)
    };
}
#[cfg(not(debug_assertions))]
macro_rules! checked {
    ($flow:expr) => {
        $flow
    };
}

/// The entry point of stage `S` of handler `H`. Hosts call this function.
///
/// # Safety
/// `raw` is a call frame that a host passes to a handler.
#[inline(never)]
pub unsafe extern "C" fn entry<H: Stage<S>, const S: u32>(
    raw: *mut XLA_FFI_CallFrame,
) -> *mut XLA_FFI_Error {
    // SAFETY: the caller guarantees a valid call frame.
    unsafe { enter::<H, S>(raw) }
}

/// Runs the stage for a frame; inlined into [`entry`].
///
/// # Safety
/// The requirements of [`entry`] apply.
#[inline(always)]
unsafe fn enter<H: Stage<S>, const S: u32>(raw: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `struct_size` is the first field of a call frame in all revisions.
    let size = unsafe { (*raw).struct_size };
    if size < FRAME_SIZE {
        // SAFETY: the caller guarantees a valid call frame.
        return unsafe { enter_short(raw, &H::INFO, S) };
    }
    // SAFETY: the field is within the frame's `struct_size`.
    let extensions = unsafe { (*raw).extension_start };
    if !extensions.is_null() {
        // SAFETY: the caller guarantees a valid frame, which has an extension chain.
        if let Some(answer) = unsafe { answer_metadata(raw, &H::INFO) } {
            return answer;
        }
    }
    // SAFETY: the caller guarantees a valid frame, which is used during the call only.
    let Some(frame) = (unsafe { Frame::new(raw) }) else {
        // SAFETY: the caller guarantees a valid frame, which is used during the call only.
        return unsafe { refuse_short_frame(raw, &H::INFO, S) };
    };
    if frame.stage() != S {
        return wrong_stage(frame, &H::INFO, S);
    }
    if const { uses_host_memory(H::PARAMS) } {
        if !operands_on_host(&frame) {
            return refuse_device(frame, &H::INFO);
        }
    } else {
        crate::error::panics::install();
    }
    let _replayed = Replayed::enter(H::INFO.name, H::INFO.traits, S);
    #[cfg(debug_assertions)]
    let _results = crate::entry::unwritten::Scope::enter(&frame, &H::INFO, H::PARAMS, S);
    if const { takes_later(H::PARAMS) } {
        // SAFETY: the caller guarantees a valid call frame.
        return unsafe { enter_pending::<H, S>(raw, frame) };
    }
    // The result is created inside the closure. It fits in a register, and explaining a mismatch may panic.
    let answer =
        std::panic::catch_unwind(AssertUnwindSafe(move || match checked!(H::call(&frame)) {
            Flow::Done => std::ptr::null_mut(),
            Flow::Pending(future) => {
                // SAFETY: only hosts with futures create futures, and the call frames of those hosts have the field
                // `future`.
                unsafe { (*raw).future = future.cast() };
                std::ptr::null_mut()
            }
            Flow::Mismatch => mismatch(frame, &H::INFO, H::PARAMS, S, H::explain),
            Flow::Failed(error) => failed(frame, &H::INFO, error),
        }));
    answer.unwrap_or_else(|panic| panicked(frame, &H::INFO, panic))
}

/// Handles a frame that is too short for a call but may be a metadata query.
///
/// # Safety
/// The requirements of [`entry`] apply.
#[cold]
#[inline(never)]
unsafe fn enter_short(
    raw: *mut XLA_FFI_CallFrame,
    info: &HandlerInfo,
    stage: u32,
) -> *mut XLA_FFI_Error {
    // SAFETY: the frame's size is its first field in all revisions.
    let size = unsafe { (*raw).struct_size };
    if size >= std::mem::offset_of!(XLA_FFI_CallFrame, ctx) {
        // SAFETY: the field is within the frame's `struct_size`.
        let extensions = unsafe { (*raw).extension_start };
        if !extensions.is_null() {
            // SAFETY: the caller guarantees a valid frame, which refers to its host and has an
            // extension chain.
            if let Some(answer) = unsafe { answer_metadata(raw, info) } {
                return answer;
            }
        }
    }
    // SAFETY: the caller guarantees a valid call frame.
    unsafe { refuse_short_frame(raw, info, stage) }
}

/// Handles the rest of [`enter`] for handlers that may leave the call pending.
///
/// # Safety
/// `raw` is a valid call frame from the host, and `frame` is the checked form of the same frame.
#[inline(always)]
unsafe fn enter_pending<H: Stage<S>, const S: u32>(
    raw: *mut XLA_FFI_CallFrame,
    frame: Frame<'_>,
) -> *mut XLA_FFI_Error {
    let pending = Pending::default();
    let frame = frame.with_pending(&pending);
    let flow = std::panic::catch_unwind(AssertUnwindSafe(|| H::call(&frame)));
    if let Some(call) = pending.take() {
        let call = match (call, &flow) {
            (call, Ok(Flow::Done)) => match call.try_end() {
                Ok(()) => return std::ptr::null_mut(),
                Err(call) => call,
            },
            (call, _) => call,
        };
        // SAFETY: the caller guarantees a valid call frame.
        return unsafe { settle(raw, frame, &H::INFO, call, flow) };
    }
    #[cfg(debug_assertions)]
    let flow = flow.map(crate::entry::unwritten::check_results);
    match flow {
        // Explaining a mismatch runs users' code (of attribute types), which may panic.
        Ok(Flow::Mismatch) => std::panic::catch_unwind(AssertUnwindSafe(|| {
            mismatch(frame, &H::INFO, H::PARAMS, S, H::explain)
        }))
        .unwrap_or_else(|panic| panicked(frame, &H::INFO, panic)),
        Ok(Flow::Failed(error)) => failed(frame, &H::INFO, error),
        Ok(Flow::Done | Flow::Pending(_)) => std::ptr::null_mut(),
        Err(panic) => panicked(frame, &H::INFO, panic),
    }
}

/// Returns true if the call may be pending after the handler returns, because a parameter is a
/// [`Later`](crate::Later).
const fn takes_later(params: &[Param]) -> bool {
    let (mut count, mut i) = (0, 0);
    while i < params.len() {
        let context = params[i].context;
        if crate::param::text::same(context, crate::future::CONTEXT) {
            count += 1;
        }
        i += 1;
    }
    assert!(
        count < 2,
        "a call completes once: remove the second `Later`"
    );
    count == 1
}

/// Ends a call whose handler has created a promise. The call is pending, whatever the handler
/// returned.
///
/// # Safety
/// `raw` is a valid call frame from the host.
#[inline(never)]
unsafe fn settle(
    raw: *mut XLA_FFI_CallFrame,
    frame: Frame<'_>,
    info: &HandlerInfo,
    call: Return,
    flow: std::thread::Result<Flow>,
) -> *mut XLA_FFI_Error {
    let error = match flow {
        Ok(Flow::Failed(error)) => Some(error),
        Ok(_) => None,
        Err(panic) => Some(Error::internal(crate::error::panics::describe("", panic))),
    };
    match call.settle(frame.host(), (info.name, frame.stage()), error) {
        Flow::Failed(error) => failed(frame, info, error),
        Flow::Pending(future) => {
            // SAFETY: only hosts with futures create futures, and the frames of those hosts have the
            // field `future`.
            unsafe { (*raw).future = future.cast() };
            std::ptr::null_mut()
        }
        _ => std::ptr::null_mut(),
    }
}
