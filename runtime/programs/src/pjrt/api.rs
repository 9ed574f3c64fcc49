//! A plugin's function table, and the errors that its functions return.

use super::raw::{
    Args, ErrorDestroy, ErrorGetCode, ErrorMessage, RawApi, RawError, RawExtension, SizedStruct,
};
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use xla_ffi_runtime::__programs::call_pointer;
use xla_ffi_runtime::{Error, ErrorCode, Hazard, Result};
use xla_ffi_sys::XLA_FFI_Error_Code;

/// The oldest version of PJRT that is supported. Its function table has the same order as newer versions.
pub(super) const OLDEST: (c_int, c_int) = (0, 57);

/// A plugin's function table.
///
/// Invariant: the pointer refers to a table of at least version [`OLDEST`]. The table has the size in its first
/// field, and is never unloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    table: NonNull<RawApi>,
}

// SAFETY: the table is constant.
unsafe impl Send for Api {}
// SAFETY: the table is constant.
unsafe impl Sync for Api {}

impl Api {
    /// Checks and wraps the result of `GetPjrtApi`.
    ///
    /// # Safety
    /// `table` must be null or a plugin's table that is never unloaded.
    pub(super) unsafe fn new(table: *const RawApi) -> Result<Self> {
        let refuse = |why: String| Err(Error::new(ErrorCode::FailedPrecondition, why));
        let Some(table) = NonNull::new(table.cast_mut()) else {
            return refuse("GetPjrtApi gave a null pointer".into());
        };
        let api = Self { table };
        let (major, minor) = api.version();
        if (major, minor) < OLDEST || major != OLDEST.0 {
            return refuse(format!(
                "its PJRT version is {major}.{minor}; 0.57 or a later 0.x is required, because earlier ones have a different function table"
            ));
        }
        Ok(api)
    }

    /// Returns the size of the function table in bytes.
    fn size(self) -> usize {
        // SAFETY: the invariant of `Api` guarantees the table. The size is the first field in every version.
        unsafe { (*self.table.as_ptr()).struct_size }
    }

    /// Returns the major and minor version of the table.
    pub(super) fn version(self) -> (c_int, c_int) {
        // SAFETY: the invariant of `Api` guarantees the table. The field has the same offset in every version.
        let major = unsafe { (*self.table.as_ptr()).major };
        // SAFETY: the invariant of `Api` guarantees the table. The field has the same offset in every version.
        let minor = unsafe { (*self.table.as_ptr()).minor };
        (major, minor)
    }

    /// Returns the first extension of a type, or `None` if the plugin has no such extension.
    pub(super) fn extension(self, kind: c_int) -> Option<NonNull<RawExtension>> {
        // SAFETY: the invariant of `Api` guarantees the table.
        let mut next = unsafe { (*self.table.as_ptr()).extension_start };
        loop {
            let extension = NonNull::new(next.cast_mut())?;
            // SAFETY: extensions are valid as long as the table, and start with a `RawExtension`.
            if unsafe { (*extension.as_ptr()).kind } == kind {
                return Some(extension);
            }
            // SAFETY: extensions are valid as long as the table, and start with a `RawExtension`.
            next = unsafe { (*extension.as_ptr()).next };
        }
    }

    /// Returns the address of the function in a slot of the table.
    fn slot(self, slot: usize, name: &str) -> Result<*const c_void> {
        let place = size_of::<RawApi>() + slot * size_of::<usize>();
        let found = (place + size_of::<usize>() <= self.size())
            .then(|| {
                let address = self.table.as_ptr().wrapping_byte_add(place);
                // SAFETY: the slot is inside the table, whose size was checked.
                unsafe { address.cast::<*const c_void>().read() }
            })
            .filter(|function| !function.is_null());
        let (major, minor) = self.version();
        found.ok_or_else(|| {
            Error::new(
                ErrorCode::Unimplemented,
                format!("the plugin (PJRT {major}.{minor}) has no function {name}"),
            )
        })
    }

    /// Calls a function of the table that returns an error.
    ///
    /// # Errors
    /// The plugin's errors, and `UNIMPLEMENTED` if its table lacks the function.
    ///
    /// # Safety
    /// The arguments must be valid for the function as long as it uses them.
    pub(super) unsafe fn call<A: Args>(self, args: &mut A) -> Result<()> {
        let function = self.slot(A::SLOT, A::NAME)?;
        // SAFETY: the slot contains the function with this name, which accepts these arguments.
        unsafe { self.invoke(function, (&raw mut *args).cast(), A::NAME) }
    }

    /// Calls a function that returns an error, and converts C++ exceptions to errors.
    ///
    /// # Safety
    /// The function must accept a pointer to these arguments and return a pointer to an error. The arguments must be
    /// valid for the function as long as it uses them.
    pub(super) unsafe fn invoke(
        self,
        function: *const c_void,
        args: *mut c_void,
        name: &str,
    ) -> Result<()> {
        // SAFETY: the caller upholds this function's safety contract.
        let function = unsafe {
            std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(
                function,
            )
        };
        // SAFETY: the caller upholds this function's safety contract.
        let error = unsafe { call_pointer(function, args) }.map_err(|unwound| {
            Error::hazard(
                Hazard::Unwound,
                format!("{unwound} left the plugin's {name}"),
            )
        })?;
        // SAFETY: the function has just returned this error.
        unsafe { self.into_result(error.cast(), name) }
    }

    /// Calls a function without a result.
    ///
    /// # Safety
    /// The requirements of [`Self::call`] apply.
    unsafe fn call_void<A: Args>(self, args: &mut A) -> Result<()> {
        let function = self.slot(A::SLOT, A::NAME)?;
        // SAFETY: the slot contains the function with this name, which has this type.
        let function =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut A)>(function) };
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { function(args) };
        Ok(())
    }

    /// Converts a plugin's error to an [`Error`] with the same code and message, and frees the plugin's error.
    ///
    /// # Safety
    /// `error` must be null, or an error that this plugin has just returned.
    pub(super) unsafe fn into_result(self, error: *mut RawError, name: &str) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let mut asked = ErrorGetCode::new();
        asked.error = error;
        // Errors in reading an error are ignored, because handling them would be an endless recursion.
        let code = self
            .slot(ErrorGetCode::SLOT, ErrorGetCode::NAME)
            .map(|function| {
                // SAFETY: the slot contains the function with this name, which has this type.
                let function = unsafe {
                    std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn(*mut ErrorGetCode) -> *mut RawError,
                    >(function)
                };
                // SAFETY: the error is not freed yet.
                let failed = unsafe { function(&raw mut asked) };
                if failed.is_null() { asked.code } else { 0 }
            });
        let code = code
            .ok()
            .and_then(|code| u32::try_from(code).ok())
            .and_then(|code| ErrorCode::from_raw(XLA_FFI_Error_Code(code)))
            .unwrap_or(ErrorCode::Unknown);
        let mut told = ErrorMessage::new();
        told.error = error;
        // SAFETY: the error is not freed yet.
        let message = match unsafe { self.call_void(&mut told) } {
            Ok(()) if told.message.is_null() || told.message_size == 0 => String::new(),
            Ok(()) => {
                // SAFETY: the plugin's text is valid as long as the error.
                let bytes = unsafe {
                    std::slice::from_raw_parts(told.message.cast::<u8>(), told.message_size)
                };
                String::from_utf8_lossy(bytes).into_owned()
            }
            Err(_) => format!("{name} failed; the plugin has no function that reports the reason"),
        };
        let mut freed = ErrorDestroy::new();
        freed.error = error;
        // SAFETY: the caller passed ownership of the error, which is freed once.
        let _leaked_if_absent = unsafe { self.call_void(&mut freed) };
        Err(Error::new(code, message))
    }
}

/// The initialised tables with the files of their plugins. Each plugin must be initialised once per process.
pub(super) static INITIALISED: Mutex<Vec<(Api, PathBuf)>> = Mutex::new(Vec::new());

/// Adds the name of the plugin to the message of an error.
pub(super) fn named(api: Api, error: Error) -> Error {
    let initialised = INITIALISED.lock().unwrap_or_else(PoisonError::into_inner);
    match initialised.iter().find(|(known, _)| *known == api) {
        Some((_, path)) => error.within(format_args!("PJRT plugin {}", path.display())),
        None => error,
    }
}
