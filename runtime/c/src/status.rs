//! The functions of `runtime.h` for statuses, which are errors in C, and for objects that errors and calls contain.

use host::{Error, ErrorCode, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use xla_ffi_sys::{XLA_FFI_Error, XLA_FFI_Error_Code};

/// `xffi_rt_status` in C: an error.
#[derive(Debug)]
pub(crate) struct xffi_rt_status {
    error: Error,
    text: CString,
    /// The findings of the error, as texts.
    findings: Vec<CString>,
    /// The causes of the error as texts, the nearest cause first.
    causes: Vec<CString>,
}
const _: () = crate::any_thread::<xffi_rt_status>();

impl xffi_rt_status {
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }
}

/// Returns the causes of an error, the nearest cause first.
pub(crate) fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |cause| cause.source())
}

/// Runs `body` and converts its error or panic to a status. Returns null on success.
pub(crate) fn status_or_null(body: impl FnOnce() -> Result<()>) -> *mut xffi_rt_status {
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, "the runtime panicked")));
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

/// Converts a text to a C string.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// Implements `xffi_rt_status_code`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_code(
    status: *const xffi_rt_status,
) -> XLA_FFI_Error_Code {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { status.as_ref() };
    status.map_or(XLA_FFI_Error_Code::OK, |status| {
        status.error.code().to_raw()
    })
}

/// Implements `xffi_rt_status_message`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_message(
    status: *const xffi_rt_status,
) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { status.as_ref() };
    status.map_or(c"", |status| &status.text).as_ptr()
}

/// Implements `xffi_rt_status_is_hazard`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_is_hazard(status: *const xffi_rt_status) -> c_int {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { status.as_ref() };
    status
        .is_some_and(|status| !status.error.findings().is_empty())
        .into()
}

/// Implements `xffi_rt_status_finding`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_finding(
    status: *const xffi_rt_status,
    index: usize,
) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { status.as_ref() };
    let finding = status.and_then(|status| status.findings.get(index));
    finding.map_or(std::ptr::null(), |finding| finding.as_ptr())
}

/// Implements `xffi_rt_status_cause`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_cause(
    status: *const xffi_rt_status,
    index: usize,
) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    let status = unsafe { status.as_ref() };
    let cause = status.and_then(|status| status.causes.get(index));
    cause.map_or(std::ptr::null(), |cause| cause.as_ptr())
}

/// Implements `xffi_rt_status_destroy`.
///
/// # Safety
/// The status must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_destroy(status: *mut xffi_rt_status) {
    // SAFETY: guaranteed by the caller.
    unsafe { crate::take_back(status) };
}

pub(crate) type Deleter = unsafe extern "C" fn(object: *mut c_void);

/// An object of the program that an error or a call contains, with the object's type.
#[derive(Debug)]
pub(crate) struct Carried {
    kind: *const c_void,
    object: *mut c_void,
    deleter: Option<Deleter>,
    /// The cause of the error that contains the object.
    cause: Option<Box<Cause>>,
}

/// A cause of an error, as a text with its cause.
#[derive(Debug)]
struct Cause {
    text: String,
    cause: Option<Box<Self>>,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn source(cause: Option<&Cause>) -> Option<&(dyn std::error::Error + 'static)> {
    cause.map(|cause| cause as _)
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        source(self.cause.as_deref())
    }
}

// SAFETY: the contracts of the functions that accept objects allow any thread to use them.
unsafe impl Send for Carried {}
// SAFETY: the contracts of the functions that accept objects allow several threads at once to use them.
unsafe impl Sync for Carried {}

impl Carried {
    pub(crate) fn new(kind: *const c_void, object: *mut c_void, deleter: Option<Deleter>) -> Self {
        Self {
            kind,
            object,
            deleter,
            cause: None,
        }
    }

    /// Returns the object if its type is `kind`.
    pub(crate) fn object(&self, kind: *const c_void) -> Option<*mut c_void> {
        (self.kind == kind).then_some(self.object)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter.take() {
            let what = format_args!("the deleter of an object that a call or an error carried");
            // SAFETY: the code that passed the object guarantees the deleter, which is called once.
            unsafe { crate::contained(deleter, self.object, what) };
        }
    }
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of the program's own")
    }
}

impl std::error::Error for Carried {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        source(self.cause.as_deref())
    }
}

/// Implements `xffi_rt_raise`.
///
/// # Safety
/// The pointers must meet the requirements in `invocation.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_raise(
    code: XLA_FFI_Error_Code,
    message: *const c_char,
    size: usize,
    causes: *const *const c_char,
    cause_count: usize,
    r#type: *const c_void,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(object: *mut c_void)>,
) -> *mut XLA_FFI_Error {
    let bytes = match message.is_null() {
        true => &[],
        // SAFETY: guaranteed by the caller.
        false => unsafe { std::slice::from_raw_parts(message.cast::<u8>(), size) },
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    // Like XLA, accept the code OK as no error, and convert unknown codes to UNKNOWN.
    let code = match code {
        XLA_FFI_Error_Code::OK => ErrorCode::Internal,
        code => ErrorCode::from_raw(code).unwrap_or(ErrorCode::Unknown),
    };
    let mut cause = None;
    if !causes.is_null() {
        for index in (0..cause_count).rev() {
            // SAFETY: the caller guarantees `cause_count` strings.
            let text = unsafe { causes.wrapping_add(index).read() };
            if !text.is_null() {
                // SAFETY: the caller guarantees NUL-terminated strings.
                let text = unsafe { CStr::from_ptr(text) }
                    .to_string_lossy()
                    .into_owned();
                cause = Some(Box::new(Cause { text, cause }));
            }
        }
    }
    let error = Error::new(code, text);
    host::internal::raise(if object.is_null() {
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    } else {
        let mut carried = Carried::new(r#type, object, deleter);
        carried.cause = cause;
        error.with_source(carried)
    })
}

/// Implements `xffi_rt_status_object`.
///
/// # Safety
/// The status must be null or owned by the caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_status_object(
    status: *const xffi_rt_status,
    r#type: *const c_void,
) -> *const c_void {
    // SAFETY: guaranteed by the caller.
    let Some(status) = (unsafe { status.as_ref() }) else {
        return std::ptr::null();
    };
    let mut carried = causes(status.error()).filter_map(|cause| cause.downcast_ref::<Carried>());
    let found = carried.find_map(|carried| carried.object(r#type));
    found.unwrap_or(std::ptr::null_mut()).cast_const()
}
