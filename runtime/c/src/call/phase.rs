//! Whether a call runs: a handler may have the call that runs it at hand, and what it does with it is refused or put off.

use super::xffi_rt_call;
use crate::{object_mut, take_back};
use host::{Code, Error, Result};
use std::sync::atomic::Ordering;

/// Nobody is at work on the call.
const IDLE: u8 = 0;
/// It runs, or is waited for: what the caller's code does meanwhile, on this thread, finds it so.
const RUNNING: u8 = 1;
/// It was destroyed while it ran, and goes when that is over.
const GIVEN_UP: u8 = 2;

/// A call that does not run.
///
/// # Safety
/// The call is null or the caller's.
pub(crate) unsafe fn idle<'c>(call: *mut xffi_rt_call) -> Result<&'c mut xffi_rt_call> {
    // SAFETY: as promised by the caller.
    if unsafe { phase(call) } != IDLE {
        return Err(Error::new(
            Code::FailedPrecondition,
            "the call is running: from within it, it can be asked whether it is open, cloned and destroyed, nothing more",
        ));
    }
    // SAFETY: as promised by the caller, and nobody else is at work on it.
    unsafe { object_mut(call, "call") }
}

/// Whether a call runs just now, or is waited for.
///
/// # Safety
/// As [`idle`].
pub(super) unsafe fn is_running(call: *const xffi_rt_call) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { phase(call) != IDLE }
}

/// What is done with a call just now; [`IDLE`] for null.
///
/// # Safety
/// As [`idle`].
unsafe fn phase(call: *const xffi_rt_call) -> u8 {
    if call.is_null() {
        return IDLE;
    }
    // SAFETY: as promised by the caller; this field alone is borrowed.
    unsafe { &(*call).phase }.load(Ordering::Relaxed)
}

/// Marks a call that is idle as running.
///
/// # Safety
/// As [`idle`].
pub(super) unsafe fn begin(call: *mut xffi_rt_call) -> Result<()> {
    // SAFETY: as promised by the caller.
    let call = unsafe { idle(call) }?;
    call.phase.store(RUNNING, Ordering::Relaxed);
    Ok(())
}

/// Marks it as idle again, or frees it where it was destroyed meanwhile.
///
/// # Safety
/// The call was marked, and nothing of it is borrowed.
pub(super) unsafe fn end(call: *mut xffi_rt_call) {
    // SAFETY: nobody frees a call that is marked.
    if unsafe { phase(call) } == GIVEN_UP {
        // SAFETY: it was the caller's to destroy.
        unsafe { take_back(call) };
    } else {
        // SAFETY: as above; this field alone is borrowed.
        unsafe { &(*call).phase }.store(IDLE, Ordering::Relaxed);
    }
}

/// Destroys a call, at the end of its run where it runs.
///
/// # Safety
/// The call is null or the caller's, and not used afterwards.
pub(super) unsafe fn destroy(call: *mut xffi_rt_call) {
    // SAFETY: as promised by the caller.
    if unsafe { phase(call) } == IDLE {
        // SAFETY: as promised by the caller.
        unsafe { take_back(call) };
    } else {
        // SAFETY: it is there until it has run; this field alone is borrowed.
        unsafe { &(*call).phase }.store(GIVEN_UP, Ordering::Relaxed);
    }
}
