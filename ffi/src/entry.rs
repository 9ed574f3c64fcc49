//! The one entry point behind every exported handler: guard, decode, run, answer.

pub(crate) mod command_buffer;
pub(crate) mod device_check;
pub(crate) mod diagnose;
pub(crate) mod flow;
pub(crate) mod handler;
pub(crate) mod metadata;
pub(crate) mod operands;
pub(crate) mod outcome;
pub(crate) mod panics;
pub(crate) mod pin;
pub(crate) mod problems;
pub(crate) mod refusal;
#[cfg(debug_assertions)]
pub(crate) mod unwritten;

use std::panic::AssertUnwindSafe;

use crate::call::frame::{FRAME_SIZE, Frame};
use crate::declare::handler_info::HandlerInfo;
use crate::declare::param::Param;
use crate::entry::command_buffer::Replayed;
use crate::entry::device_check::{operands_on_host, refuse_device, uses_host_memory};
use crate::entry::flow::Flow;
use crate::entry::handler::Stage;
use crate::entry::metadata::answer_metadata;
use crate::entry::refusal::{failed, mismatch, panicked, refuse_short_frame, wrong_stage};
use crate::error::Error;
use crate::future::pending::{Pending, Return};
use xla_ffi_sys::*;

/// How a call went, in debug builds unless it left results unwritten.
#[cfg(debug_assertions)]
macro_rules! judged {
    ($flow:expr) => {
        crate::entry::unwritten::judge($flow)
    };
}
#[cfg(not(debug_assertions))]
macro_rules! judged {
    ($flow:expr) => {
        $flow
    };
}

/// The entry point of stage `S` of handler `H`, as hosts call it.
///
/// # Safety
/// `raw` is the call frame that a host passes to a handler.
#[inline(never)]
pub unsafe extern "C" fn entry<H: Stage<S>, const S: u32>(
    raw: *mut XLA_FFI_CallFrame,
) -> *mut XLA_FFI_Error {
    // SAFETY: the caller's promise.
    unsafe { enter::<H, S>(raw) }
}

/// # Safety
/// As for [`entry`].
#[inline(always)]
unsafe fn enter<H: Stage<S>, const S: u32>(raw: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the first field in all revisions.
    let size = unsafe { (*raw).struct_size };
    if size < FRAME_SIZE {
        // SAFETY: the caller's frame.
        return unsafe { enter_short(raw, &H::INFO) };
    }
    // SAFETY: within the frame's size.
    let extensions = unsafe { (*raw).extension_start };
    if !extensions.is_null() {
        // SAFETY: the caller's frame, which has an extension chain.
        if let Some(answer) = unsafe { answer_metadata(raw, &H::INFO) } {
            return answer;
        }
    }
    // SAFETY: the caller's frame, used during the call only.
    let Some(frame) = (unsafe { Frame::new(raw) }) else {
        // SAFETY: as above.
        return unsafe { refuse_short_frame(raw, &H::INFO) };
    };
    if frame.stage() != S {
        return wrong_stage(frame, &H::INFO, S);
    }
    if const { uses_host_memory(H::PARAMS) } {
        if !operands_on_host(&frame) {
            return refuse_device(frame, &H::INFO);
        }
    } else {
        crate::entry::panics::install();
    }
    let _replayed = Replayed::enter(&H::INFO, S);
    #[cfg(debug_assertions)]
    let _results = crate::entry::unwritten::Scope::enter(&frame, &H::INFO, H::PARAMS, S);
    if const { takes_later(H::PARAMS) } {
        // SAFETY: the caller's frame.
        return unsafe { enter_pending::<H, S>(raw, frame) };
    }
    // The answer is made inside: it fits in a register, and what explains a mismatch may panic too.
    let answer =
        std::panic::catch_unwind(AssertUnwindSafe(move || match judged!(H::call(&frame)) {
            Flow::Done => std::ptr::null_mut(),
            Flow::Pending(future) => {
                // SAFETY: futures come only from hosts that have them, whose frames end in `future`.
                unsafe { (*raw).future = future.cast() };
                std::ptr::null_mut()
            }
            Flow::Mismatch => mismatch(frame, &H::INFO, H::PARAMS, S, H::explain),
            Flow::Failed(error) => failed(frame, error),
            #[cfg(feature = "internal")]
            Flow::Status(error) => crate::internal::make_error(&frame, *error),
        }));
    answer.unwrap_or_else(|panic| panicked(frame, &H::INFO, panic))
}

/// A frame shorter than those that make calls; one that asks for metadata may be.
///
/// # Safety
/// As for [`entry`].
#[cold]
#[inline(never)]
unsafe fn enter_short(raw: *mut XLA_FFI_CallFrame, info: &HandlerInfo) -> *mut XLA_FFI_Error {
    // SAFETY: the first field in all revisions.
    let size = unsafe { (*raw).struct_size };
    if size >= std::mem::offset_of!(XLA_FFI_CallFrame, ctx) {
        // SAFETY: within the frame's size.
        let extensions = unsafe { (*raw).extension_start };
        if !extensions.is_null() {
            // SAFETY: the caller's frame, which names its host and has an extension chain.
            if let Some(answer) = unsafe { answer_metadata(raw, info) } {
                return answer;
            }
        }
    }
    // SAFETY: the caller's frame.
    unsafe { refuse_short_frame(raw, info) }
}

/// The rest of [`enter`] for handlers that may leave the call pending.
///
/// # Safety
/// `raw` is the host's call frame.
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
        // SAFETY: the caller's frame.
        return unsafe { settle(raw, frame, &H::INFO, call, flow) };
    }
    #[cfg(debug_assertions)]
    let flow = flow.map(crate::entry::unwritten::judge);
    match flow {
        // Users' attributes explain themselves, in code that may panic.
        Ok(Flow::Mismatch) => std::panic::catch_unwind(AssertUnwindSafe(|| {
            mismatch(frame, &H::INFO, H::PARAMS, S, H::explain)
        }))
        .unwrap_or_else(|panic| panicked(frame, &H::INFO, panic)),
        Ok(Flow::Failed(error)) => failed(frame, error),
        #[cfg(feature = "internal")]
        Ok(Flow::Status(error)) => crate::internal::make_error(&frame, *error),
        Ok(Flow::Done | Flow::Pending(_)) => std::ptr::null_mut(),
        Err(panic) => panicked(frame, &H::INFO, panic),
    }
}

/// Whether a parameter may leave the call pending.
const fn takes_later(params: &[Param]) -> bool {
    let (mut count, mut i) = (0, 0);
    while i < params.len() {
        let context = params[i].context;
        if crate::declare::text::same(context, crate::future::CONTEXT) {
            count += 1;
        }
        i += 1;
    }
    assert!(
        count < 2,
        "a call completes once: one parameter `Later` is enough"
    );
    count == 1
}

/// The end of a call whose handler has made a promise: it is pending whatever the handler returned.
///
/// # Safety
/// `raw` is the host's call frame.
#[inline(never)]
unsafe fn settle(
    raw: *mut XLA_FFI_CallFrame,
    frame: Frame<'_>,
    info: &HandlerInfo,
    call: Return,
    flow: std::thread::Result<Flow>,
) -> *mut XLA_FFI_Error {
    let flow = match flow {
        Ok(Flow::Failed(error)) => call.settle(frame.host(), Some(error)),
        #[cfg(feature = "internal")]
        Ok(Flow::Status(error)) => {
            let plain = crate::internal::plain(&error);
            crate::internal::destroy(*error);
            call.settle(frame.host(), Some(plain))
        }
        Ok(_) => call.settle(frame.host(), None),
        Err(panic) => {
            let error = Error::internal(crate::entry::panics::describe(info.name, panic));
            call.settle(frame.host(), Some(error))
        }
    };
    match flow {
        Flow::Failed(error) => failed(frame, error),
        Flow::Pending(future) => {
            // SAFETY: futures come only from hosts that have them, whose frames end in `future`.
            unsafe { (*raw).future = future.cast() };
            std::ptr::null_mut()
        }
        _ => std::ptr::null_mut(),
    }
}
