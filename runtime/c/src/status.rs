//! Statuses: errors in the hands of C.

use crate::carried::Carried;
use host::{Code, Error, Result};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use xla_ffi_sys::XLA_FFI_Error_Code;

/// `xffi_rt_status`.
#[derive(Debug)]
pub(crate) struct xffi_rt_status {
    error: Error,
    text: CString,
    /// What was seen besides, in the words of each.
    findings: Vec<CString>,
    /// The texts of its causes, the nearest first.
    causes: Vec<CString>,
}

impl xffi_rt_status {
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }
}

/// The causes of an error, the nearest first.
pub(crate) fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

/// The status of an outcome; a panic is one, too.
pub(crate) fn status_or_null(body: impl FnOnce() -> Result<()>) -> *mut xffi_rt_status {
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Error::new(Code::Internal, "the runtime panicked")));
    match outcome {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => {
            let findings = error.findings().iter();
            let status = xffi_rt_status {
                text: c_text(error.message()),
                causes: causes(&error)
                    .filter(|cause| !cause.is::<Carried>())
                    .map(|cause| c_text(&cause.to_string()))
                    .collect(),
                findings: findings
                    .map(|finding| c_text(&finding.to_string()))
                    .collect(),
                error,
            };
            Box::into_raw(Box::new(status))
        }
    }
}

/// A text as C reads it.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// `xffi_rt_status_code`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_code(
    status: *const xffi_rt_status,
) -> XLA_FFI_Error_Code {
    // SAFETY: as promised by the caller.
    let status = unsafe { status.as_ref() };
    status.map_or(XLA_FFI_Error_Code::OK, |status| status.error.code().raw())
}

/// `xffi_rt_status_message`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_message(
    status: *const xffi_rt_status,
) -> *const c_char {
    // SAFETY: as promised by the caller.
    let status = unsafe { status.as_ref() };
    status.map_or(c"", |status| &status.text).as_ptr()
}

/// `xffi_rt_status_is_hazard`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_is_hazard(status: *const xffi_rt_status) -> c_int {
    // SAFETY: as promised by the caller.
    let status = unsafe { status.as_ref() };
    status
        .is_some_and(|status| !status.error.findings().is_empty())
        .into()
}

/// `xffi_rt_status_finding`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_finding(
    status: *const xffi_rt_status,
    index: usize,
) -> *const c_char {
    // SAFETY: as promised by the caller.
    let status = unsafe { status.as_ref() };
    let finding = status.and_then(|status| status.findings.get(index));
    finding.map_or(std::ptr::null(), |finding| finding.as_ptr())
}

/// `xffi_rt_status_cause`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_cause(
    status: *const xffi_rt_status,
    index: usize,
) -> *const c_char {
    // SAFETY: as promised by the caller.
    let status = unsafe { status.as_ref() };
    let cause = status.and_then(|status| status.causes.get(index));
    cause.map_or(std::ptr::null(), |cause| cause.as_ptr())
}

/// `xffi_rt_status_destroy`.
///
/// # Safety
/// The status is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_destroy(status: *mut xffi_rt_status) {
    // SAFETY: as promised by the caller.
    unsafe { crate::take_back(status) };
}
