//! Futures as handlers make and complete them.

use super::{check, error_or_null};
use crate::context::current::current_context;
use crate::host::{errors, futures};
use crate::{Code, Error};
use xla_ffi_sys::{
    XLA_FFI_Error, XLA_FFI_Future, XLA_FFI_Future_Create_Args, XLA_FFI_Future_SetAvailable_Args,
    XLA_FFI_Future_SetError_Args,
};

/// `Future_Create`.
pub(super) unsafe extern "C" fn future_create<const R: u8>(
    args: *mut XLA_FFI_Future_Create_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_Create", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        let handle = futures::create();
        if let Some(context) = current_context() {
            context.made_future(handle);
        }
        // SAFETY: every handler gives storage for the field, whatever the size says.
        unsafe { (*args).future = handle as *mut XLA_FFI_Future };
        Ok(())
    })
}

/// `Future_SetAvailable`.
pub(super) unsafe extern "C" fn future_set_available<const R: u8>(
    args: *mut XLA_FFI_Future_SetAvailable_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetAvailable", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let args = unsafe { args.read() };
        futures::find(args.future)?.complete(Ok(()))
    })
}

/// `Future_SetError`: the error is neither null nor OK.
pub(super) unsafe extern "C" fn future_set_error<const R: u8>(
    args: *mut XLA_FFI_Future_SetError_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Future_SetError", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let args = unsafe { args.read() };
        if args.error.is_null() {
            return Err(Error::new(
                Code::InvalidArgument,
                "the error is null: to complete without an error call Future_SetAvailable",
            ));
        }
        let error = errors::take_error(args.error).ok_or_else(|| {
            Error::invalid(
                "the error says OK: to complete without an error call Future_SetAvailable",
            )
        })?;
        futures::find(args.future)?.complete(Err(error))
    })
}
