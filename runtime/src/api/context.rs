//! What a context gives: stream, scratch memory, user data, run id, device ordinal, extensions,
//! custom options.

use super::{check, error_or_null};
use crate::context::Context;
use crate::host::errors::NO_USER_DATA;
use std::ptr;
use xla_ffi_sys::{Error, ErrorCode, Result};
use xla_ffi_sys::{
    XLA_FFI_CustomOptions_Get_Args, XLA_FFI_DeviceMemory_Allocate_Args,
    XLA_FFI_DeviceMemory_Free_Args, XLA_FFI_DeviceOrdinal_Get_Args, XLA_FFI_Error,
    XLA_FFI_InvokeContext_FindExtension_Args, XLA_FFI_InvokeContext_Get_Args,
    XLA_FFI_RunId_Get_Args, XLA_FFI_Stream_Get_Args, XLA_FFI_TypeId,
};

fn absent(what: &str) -> Error {
    Error::new(
        ErrorCode::Unimplemented,
        format!("this call's context has no {what}"),
    )
}

/// The number behind a type id.
///
/// # Safety
/// `id` is null or points to a type id.
pub(super) unsafe fn type_id(id: *const XLA_FFI_TypeId) -> Result<i64> {
    if id.is_null() {
        return Err(Error::invalid_argument("type_id is a null pointer"));
    }
    // SAFETY: as promised by the caller.
    Ok(unsafe { id.read() }.type_id)
}

pub(super) unsafe extern "C" fn stream_get<const R: u8>(
    args: *mut XLA_FFI_Stream_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Stream_Get", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(ctx) }?;
        let stream = context
            .parts()
            .stream
            .as_ref()
            .ok_or_else(|| absent("stream (no device)"))?;
        // SAFETY: the struct is there.
        unsafe { (*args).stream = stream.handle() };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_memory_allocate<const R: u8>(
    args: *mut XLA_FFI_DeviceMemory_Allocate_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceMemory_Allocate", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        // XLA's rule on every platform, though the memory that it gives on GPUs lies at multiples of 256.
        if !asked.alignment.is_power_of_two() || asked.alignment > 16 {
            return Err(Error::invalid_argument(format!(
                "the alignment is {}; it must be a power of two up to 16",
                asked.alignment
            )));
        }
        let data = context.allocate(asked.size, asked.alignment)?;
        // SAFETY: the struct is there.
        unsafe { (*args).data = data };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_memory_free<const R: u8>(
    args: *mut XLA_FFI_DeviceMemory_Free_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceMemory_Free", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        context.free(asked.data, asked.size)
    })
}

pub(super) unsafe extern "C" fn invoke_context_get<const R: u8>(
    args: *mut XLA_FFI_InvokeContext_Get_Args,
) -> *mut XLA_FFI_Error {
    let mut absent = ptr::null_mut();
    let error = error_or_null("InvokeContext_Get", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        // SAFETY: the handler's type id lives at least as long as this call.
        let id = unsafe { type_id(asked.type_id) }?;
        let data = context.parts().user_data.as_ref();
        match data.and_then(|data| data.find(id)) {
            // SAFETY: the struct is there.
            Some(data) => unsafe { (*args).data = data },
            None => {
                context.note_missing_user_data(id);
                absent = NO_USER_DATA as *mut XLA_FFI_Error;
            }
        }
        Ok(())
    });
    if error.is_null() { absent } else { error }
}

pub(super) unsafe extern "C" fn run_id_get<const R: u8>(
    args: *mut XLA_FFI_RunId_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("RunId_Get", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context that they were given.
        let run_id = unsafe { Context::from_raw(ctx) }?.parts().run_id;
        // SAFETY: the struct is there.
        unsafe { (*args).run_id = run_id };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_ordinal_get<const R: u8>(
    args: *mut XLA_FFI_DeviceOrdinal_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceOrdinal_Get", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let ctx = unsafe { (*args).ctx };
        // SAFETY: handlers pass the context that they were given.
        let ordinal = unsafe { Context::from_raw(ctx) }?.parts().device_ordinal;
        // SAFETY: the struct is there.
        unsafe { (*args).device_ordinal = ordinal };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn invoke_context_find_extension<const R: u8>(
    args: *mut XLA_FFI_InvokeContext_FindExtension_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("InvokeContext_FindExtension", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context that they were given.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        let found = context.find_extension(asked.extension_type);
        // An extension that is not there is no error: the pointer is null.
        // SAFETY: the struct is there.
        unsafe { (*args).extension = found.unwrap_or(ptr::null()) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn custom_options_get<const R: u8>(
    args: *mut XLA_FFI_CustomOptions_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("CustomOptions_Get", || {
        // SAFETY: handlers pass their args struct.
        unsafe { check(args) }?;
        // SAFETY: `check` proved that the struct is there.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context that they were given.
        let options = unsafe { Context::from_raw(ctx) }?.custom_options().raw();
        // SAFETY: the struct is there.
        unsafe { (*args).attrs = options };
        Ok(())
    })
}
