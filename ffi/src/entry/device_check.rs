//! Handlers of host memory refuse calls whose operands lie in a device's.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::call::frame::Frame;
use crate::declare::handler_info::HandlerInfo;
use crate::declare::param::Param;
use crate::error::ErrorCode;
use crate::wording::DEVICE;
use xla_ffi_sys::*;

/// Function tables of hosts whose contexts have no stream, that is, whose operands lie in host
/// memory.
static HOSTS_WITHOUT_STREAM: [AtomicPtr<XLA_FFI_Api>; 4] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

/// Whether operands lie in host memory. Asked once for each function table.
#[inline(always)]
pub(crate) fn operands_on_host(frame: &Frame<'_>) -> bool {
    let api = frame.host().api().cast_mut();
    HOSTS_WITHOUT_STREAM[0].load(Ordering::Relaxed) == api || ask_for_stream(*frame)
}

#[cold]
#[inline(never)]
pub(crate) fn ask_for_stream(frame: Frame<'_>) -> bool {
    crate::entry::panics::install();
    let api = frame.host().api().cast_mut();
    if HOSTS_WITHOUT_STREAM
        .iter()
        .any(|known| known.load(Ordering::Relaxed) == api)
    {
        return true;
    }
    // SAFETY: the frame's own context.
    let stream = unsafe { frame.host().stream(frame.ctx()) };
    if stream.is_ok_and(|stream| !stream.is_null()) {
        return false;
    }
    // GPU hosts have no stream in their early stages: those prove nothing.
    if frame.stage() != XLA_FFI_ExecutionStage::EXECUTE.0 {
        return true;
    }
    for known in &HOSTS_WITHOUT_STREAM {
        let free = known.compare_exchange(
            std::ptr::null_mut(),
            api,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if free.is_ok() || free == Err(api) {
            break;
        }
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
