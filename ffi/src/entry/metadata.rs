//! A handler's answer to a host's metadata query.

use crate::declare::handler_info::HandlerInfo;
use crate::frame::host::Host;
use xla_ffi_sys::*;

/// Answers a metadata query. The answer is an error if the handler cannot work with this host.
/// Returns `None` if the call is not a metadata query.
///
/// # Safety
/// `raw` is a host's call frame that includes the pointer to the function table and has an extension
/// chain.
#[cold]
pub(crate) unsafe fn answer_metadata(
    raw: *mut XLA_FFI_CallFrame,
    info: &HandlerInfo,
) -> Option<*mut XLA_FFI_Error> {
    // SAFETY: the caller guarantees that the frame includes the field `extension_start`.
    let mut link = unsafe { (*raw).extension_start };
    while !link.is_null() {
        // SAFETY: the pointer refers to an entry of the host's chain.
        let kind = unsafe { (*link).r#type };
        if kind == XLA_FFI_InternalExtension_Type::Metadata {
            break;
        }
        // SAFETY: the pointer refers to an entry of the host's chain.
        link = unsafe { (*link).next };
    }
    if link.is_null() {
        return None;
    }
    // SAFETY: the entry's type identifies a metadata extension.
    let metadata = unsafe { (*link.cast::<XLA_FFI_Metadata_Extension>()).metadata };
    // `STRUCT_SIZE` covers the fields up to `traits`, which every host has.
    // SAFETY: the pointer is not null, and the first field of every struct is its size.
    if metadata.is_null() || unsafe { (*metadata).struct_size } < XLA_FFI_Metadata::STRUCT_SIZE {
        crate::error::panics::warn(format_args!(
            "{}: the host's metadata struct is too short",
            info.name
        ));
        return Some(std::ptr::null_mut());
    }
    // SAFETY: the caller guarantees that the frame includes the field `api`.
    let api = unsafe { (*raw).api };
    #[cfg(feature = "internal")]
    if info.takes(crate::param::INTERNAL) {
        // SAFETY: a call frame points to its host's function table.
        match unsafe { crate::entry::metadata::refuse_registration(api, info.name) } {
            Some(error) if error.is_null() => {}
            Some(error) => return Some(error),
            None => return Some(std::ptr::null_mut()),
        }
    }
    // SAFETY: a call frame points to its host's function table.
    let host = unsafe { Host::new(api) };
    let (major, minor) = host.common_version(info.floor());
    // SAFETY: hosts that request metadata provide at least the fields up to `traits`.
    let version = unsafe { &raw mut (*metadata).api_version };
    // SAFETY: hosts that request metadata provide at least the fields up to `traits`.
    unsafe { (*version).major_version = major };
    // SAFETY: hosts that request metadata provide at least the fields up to `traits`.
    unsafe { (*version).minor_version = minor };
    // SAFETY: hosts that request metadata provide at least the fields up to `traits`.
    unsafe { (*metadata).traits = info.traits };
    // The user data's type must be registered before the program can pass an object.
    if !api.is_null() {
        info.register_types(host);
    }
    // Hosts before version 0.2 (r7) do not read the type of the state, and may lack the field.
    if !api.is_null() && host.at_least(Revision::R7) {
        if let Some(state) = info.state {
            match (state.host_type)().id(host) {
                // SAFETY: hosts of this version have the field.
                Ok(id) => unsafe { (*metadata).state_type_id = XLA_FFI_TypeId { type_id: id } },
                Err(error) => crate::error::panics::warn(format_args!(
                    "{}: type of the state: {}",
                    info.name,
                    error.message()
                )),
            }
        }
    }
    Some(std::ptr::null_mut())
}

/// Checks during registration whether the host is the runtime that is linked into this image. A
/// handler with an `Invocation` requires that runtime.
///
/// Returns an error of the host, or null if registration is allowed. Returns `None` if the host
/// passed no table, without which no error can be created. Hosts reject a handler that does not
/// answer.
///
/// # Safety
/// `api` is null or points to a host's table.
#[cfg(feature = "internal")]
pub(crate) unsafe fn refuse_registration(
    api: *const XLA_FFI_Api,
    name: &str,
) -> Option<*mut XLA_FFI_Error> {
    // SAFETY: the caller guarantees that `api` is null or points to a host's table.
    let Err(error) = (unsafe { xla_ffi_runtime::internal::accept_registration(api) }) else {
        return Some(std::ptr::null_mut());
    };
    if api.is_null() {
        crate::error::panics::warn(format_args!("{name}: {}", error.message()));
        return None;
    }
    // SAFETY: the caller guarantees that `api` is null or points to a host's table.
    let host = unsafe { Host::new(api) };
    Some(host.make_error(error.code(), error.message()))
}
