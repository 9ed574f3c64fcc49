//! Handlers of host memory refuse calls whose operands lie in a device's.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::frame::Frame;
use crate::declare::handler_info::HandlerInfo;
use crate::param::Param;
use crate::error::ErrorCode;
use crate::error::wording::DEVICE;
use xla_ffi_sys::*;

/// The first host that was found to have contexts without a stream, that is, whose operands lie in host
/// memory: in most processes it is the only one.
static FIRST: AtomicPtr<XLA_FFI_Api> = AtomicPtr::new(std::ptr::null_mut());

/// The others, each at the hash of its address, where a later one replaces it.
static OTHERS: [AtomicPtr<XLA_FFI_Api>; 256] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 256];

/// Returns true if operands are in host memory. Each host is asked once, unless its place in `OTHERS` is taken.
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
    // SAFETY: the frame's own context.
    let stream = unsafe { frame.host().stream(frame.ctx()) };
    if stream.is_ok_and(|stream| !stream.is_null()) {
        return false;
    }
    // GPU hosts have no stream in their early stages: those prove nothing.
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

/// Whether a parameter reads or writes host memory.
pub(crate) const fn uses_host_memory(params: &[Param]) -> bool {
    let mut i = 0;
    while i < params.len() {
        if (params[i].takes_arg() || params[i].takes_ret()) && !params[i].device {
            return true;
        }
        i += 1;
    }
    false
}

#[cold]
pub(crate) fn refuse_device(frame: Frame<'_>, info: &HandlerInfo) -> *mut XLA_FFI_Error {
    frame.host().make_error(
        ErrorCode::FailedPrecondition,
        &format!(
            "{}{DEVICE}, or take `DeviceBuffer` and `DeviceOut` in place of `Buffer` and `Out`",
            info.name
        ),
    )
}
