//! The functions of `runtime.h` for cancellers of calls.

use crate::call::xffi_rt_call;
use crate::context::change;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, take_back};
use host::{Canceller, Settings};

/// `xffi_rt_canceller` in C: a canceller of calls.
#[derive(Debug)]
pub(crate) struct xffi_rt_canceller(pub(crate) Canceller);
const _: () = crate::any_thread::<xffi_rt_canceller>();

/// Implements `xffi_rt_canceller_create`.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_canceller_create(
    out: *mut *mut xffi_rt_canceller,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { hand_over(out, xffi_rt_canceller(Canceller::new())) })
}

/// Implements `xffi_rt_canceller_cancel`.
///
/// # Safety
/// The canceller must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_canceller_cancel(
    canceller: *const xffi_rt_canceller,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { object(canceller, "canceller") }?.0.cancel();
        Ok(())
    })
}

/// Implements `xffi_rt_canceller_destroy`.
///
/// # Safety
/// The canceller must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_canceller_destroy(canceller: *mut xffi_rt_canceller) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(canceller) };
}

/// Implements `xffi_rt_call_set_canceller`.
///
/// # Safety
/// The call and the canceller must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_canceller(
    call: *mut xffi_rt_call,
    canceller: *const xffi_rt_canceller,
) -> *mut xffi_rt_status {
    let set = |to: &mut Settings<'_>| {
        // SAFETY: guaranteed by the caller.
        let canceller = unsafe { canceller.as_ref() };
        to.canceller(canceller.map(|canceller| &canceller.0));
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, set) }
}
