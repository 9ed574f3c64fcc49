//! User data.

use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, object_mut, take_back, text};
use host::{Code, Error, UserData};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// `xffi_rt_user_data`.
#[derive(Debug)]
pub(crate) struct xffi_rt_user_data(Arc<UserData>);

impl xffi_rt_user_data {
    /// The same objects, for a call.
    pub(crate) fn shared(&self) -> Arc<UserData> {
        self.0.clone()
    }
}

/// `xffi_rt_user_data_create`.
///
/// # Safety
/// The runtime is null or the caller's, `out` null or room for a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_user_data_create(
    runtime: *const xffi_rt,
    out: *mut *mut xffi_rt_user_data,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let runtime = &unsafe { object(runtime, "runtime") }?.0;
        let data = xffi_rt_user_data(Arc::new(UserData::new(runtime)));
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, data) }
    })
}

/// `xffi_rt_user_data_add`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_user_data_add(
    data: *mut xffi_rt_user_data,
    name: *const c_char,
    size: usize,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let data = unsafe { object_mut(data, "data") }?;
        // SAFETY: as promised by the caller.
        let name = unsafe { text(name, "name") }?;
        let objects = Arc::get_mut(&mut data.0).ok_or_else(|| {
            Error::new(
                Code::FailedPrecondition,
                "calls have this user data already: add every object before",
            )
        })?;
        // SAFETY: as promised by the caller.
        unsafe { objects.insert_raw(name, size, object, deleter) }
    })
}

/// `xffi_rt_user_data_destroy`.
///
/// # Safety
/// The data is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_user_data_destroy(data: *mut xffi_rt_user_data) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(data) };
}
