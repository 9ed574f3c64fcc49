//! Objects of the program's own that the runtime carries from one part of the program to another, with what says
//! what they are: an address that stands for one type.

use crate::status::{causes, xffi_rt_status};
use host::{Code, Error};
use std::ffi::{CStr, c_char, c_void};
use xla_ffi_sys::{XLA_FFI_Error, XLA_FFI_Error_Code};

pub(crate) type Deleter = unsafe extern "C" fn(object: *mut c_void);

/// An object and its type.
#[derive(Debug)]
pub(crate) struct Carried {
    kind: *const c_void,
    object: *mut c_void,
    deleter: Option<Deleter>,
    /// Of the error that carries it.
    cause: Option<Box<Cause>>,
}

/// A cause of an error, by its text alone.
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

// SAFETY: the contract of the functions that take objects: any thread may use them.
unsafe impl Send for Carried {}
// SAFETY: as above, several at once.
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

    /// The object, if it is one of the type.
    pub(crate) fn object(&self, kind: *const c_void) -> Option<*mut c_void> {
        (self.kind == kind).then_some(self.object)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter.take() {
            let what = format_args!("the deleter of an object that a call or an error carried");
            // SAFETY: as promised where it was given; called once.
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

/// `xffi_rt_raise`.
///
/// # Safety
/// The pointers are as `invocation.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_raise(
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
        // SAFETY: as promised by the caller.
        false => unsafe { std::slice::from_raw_parts(message.cast::<u8>(), size) },
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    // What is no error code is what XLA makes of it: OK is none, others are not known.
    let code = match code {
        XLA_FFI_Error_Code::OK => Code::Internal,
        code => Code::from_raw(code).unwrap_or(Code::Unknown),
    };
    let mut cause = None;
    if !causes.is_null() {
        for index in (0..cause_count).rev() {
            // SAFETY: as promised by the caller: as many texts.
            let text = unsafe { causes.wrapping_add(index).read() };
            if !text.is_null() {
                // SAFETY: as above.
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

/// `xffi_rt_status_object`.
///
/// # Safety
/// The status is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_status_object(
    status: *const xffi_rt_status,
    r#type: *const c_void,
) -> *const c_void {
    // SAFETY: as promised by the caller.
    let Some(status) = (unsafe { status.as_ref() }) else {
        return std::ptr::null();
    };
    let mut carried = causes(status.error()).filter_map(|cause| cause.downcast_ref::<Carried>());
    let found = carried.find_map(|carried| carried.object(r#type));
    found.unwrap_or(std::ptr::null_mut()).cast_const()
}
