//! The functions of the function table for contexts: stream, scratch memory, user data, run id, device ordinal,
//! extensions, custom options.

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

/// Returns the number in a handler's type id; an error for null.
///
/// # Safety
/// `id` must be null or point to a type id.
pub(super) unsafe fn type_id(id: *const XLA_FFI_TypeId) -> Result<i64> {
    if id.is_null() {
        return Err(Error::invalid_argument("type_id is a null pointer"));
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { id.read() }.type_id)
}

pub(super) unsafe extern "C" fn stream_get<const R: u8>(
    args: *mut XLA_FFI_Stream_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("Stream_Get", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(ctx) }?;
        let stream = context
            .parts()
            .stream
            .as_ref()
            .ok_or_else(|| absent("stream (no device)"))?;
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).stream = stream.handle() };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_memory_allocate<const R: u8>(
    args: *mut XLA_FFI_DeviceMemory_Allocate_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceMemory_Allocate", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        // XLA rejects larger alignments on every platform, although its GPU memory is aligned to 256 bytes.
        if !asked.alignment.is_power_of_two() || asked.alignment > 16 {
            return Err(Error::invalid_argument(format!(
                "the alignment is {}; it must be a power of two up to 16",
                asked.alignment
            )));
        }
        let data = context.allocate(asked.size, asked.alignment)?;
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).data = data };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_memory_free<const R: u8>(
    args: *mut XLA_FFI_DeviceMemory_Free_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceMemory_Free", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        context.free(asked.data, asked.size)
    })
}

pub(super) unsafe extern "C" fn invoke_context_get<const R: u8>(
    args: *mut XLA_FFI_InvokeContext_Get_Args,
) -> *mut XLA_FFI_Error {
    let mut absent = ptr::null_mut();
    let error = error_or_null("InvokeContext_Get", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        // SAFETY: the handler's type id is valid at least until this call returns.
        let id = unsafe { type_id(asked.type_id) }?;
        let data = context.parts().user_data.as_ref();
        match data.and_then(|data| data.find(id)) {
            // SAFETY: `check` verified the pointer `args` and its size.
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
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let run_id = unsafe { Context::from_raw(ctx) }?.parts().run_id;
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).run_id = run_id };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn device_ordinal_get<const R: u8>(
    args: *mut XLA_FFI_DeviceOrdinal_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("DeviceOrdinal_Get", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let ctx = unsafe { (*args).ctx };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let ordinal = unsafe { Context::from_raw(ctx) }?.parts().device_ordinal;
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).device_ordinal = ordinal };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn invoke_context_find_extension<const R: u8>(
    args: *mut XLA_FFI_InvokeContext_FindExtension_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("InvokeContext_FindExtension", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let context = unsafe { Context::from_raw(asked.ctx) }?;
        let found = context.find_extension(asked.extension_type);
        // If the context lacks the extension, the handler receives a null pointer and no error.
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).extension = found.unwrap_or(ptr::null()) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn custom_options_get<const R: u8>(
    args: *mut XLA_FFI_CustomOptions_Get_Args,
) -> *mut XLA_FFI_Error {
    error_or_null("CustomOptions_Get", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check(args) }?;
        // SAFETY: `check` verified the pointer `args` and its size.
        let ctx = unsafe { args.read() }.ctx;
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let options = unsafe { Context::from_raw(ctx) }?.custom_options().raw();
        // SAFETY: `check` verified the pointer `args` and its size.
        unsafe { (*args).attrs = options };
        Ok(())
    })
}
