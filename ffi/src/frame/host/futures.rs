//! Futures of the host.

use crate::frame::host::Host;
use crate::error::Result;
use xla_ffi_sys::*;

impl Host {
    /// Makes a future.
    pub(crate) fn make_future(self) -> Result<*mut XLA_FFI_Future> {
        // The size is 16: hosts check for that many bytes but write `future`, up to 24.
        let mut args = XLA_FFI_Future_Create_Args {
            struct_size: XLA_FFI_Future_Create_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            future: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::FutureCreate, Feature::Futures, &mut args) }?;
        Ok(args.future)
    }

    /// Completes a future, with an error or without.
    ///
    /// # Safety
    /// `future` came from [`Host::make_future`] and has not been completed.
    pub(crate) unsafe fn complete(self, future: *mut XLA_FFI_Future, outcome: &Result<()>) {
        let error = match outcome {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => self.make_error(error.code(), error.message()),
        };
        let told = if error.is_null() {
            let mut args = XLA_FFI_Future_SetAvailable_Args {
                struct_size: XLA_FFI_Future_SetAvailable_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
            };
            // SAFETY: the struct is the same in every revision that has the slot.
            unsafe { self.call(Slot::FutureSetAvailable, Feature::Futures, &mut args) }
        } else {
            let mut args = XLA_FFI_Future_SetError_Args {
                struct_size: XLA_FFI_Future_SetError_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
                error,
            };
            // SAFETY: as above; the error is the host's from here.
            unsafe { self.call(Slot::FutureSetError, Feature::Futures, &mut args) }
        };
        if let Err(error) = told {
            crate::error::panics::tell(format_args!(
                "the host refused the completion of a future: {error}"
            ));
        }
    }

    /// Whether asynchronous completion is possible.
    pub(crate) fn has_futures(self) -> bool {
        self.has(Slot::FutureCreate)
            && self.has(Slot::FutureSetAvailable)
            && self.has(Slot::FutureSetError)
    }
}
