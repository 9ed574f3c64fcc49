//! What a handler answers when the host asks for its metadata.

use crate::declare::handler_info::HandlerInfo;
use crate::frame::host::Host;
use xla_ffi_sys::*;

/// Answers a metadata call, with an error where the handler is of no use to this host; `None` when it
/// is no metadata call.
///
/// # Safety
/// `raw` is a host's call frame that reaches to its host's table, with an extension chain.
#[cold]
pub(crate) unsafe fn answer_metadata(
    raw: *mut XLA_FFI_CallFrame,
    info: &HandlerInfo,
) -> Option<*mut XLA_FFI_Error> {
    // SAFETY: the caller's promise.
    let mut link = unsafe { (*raw).extension_start };
    while !link.is_null() {
        // SAFETY: a link of the host's chain.
        let kind = unsafe { (*link).r#type };
        if kind == XLA_FFI_InternalExtension_Type::Metadata {
            break;
        }
        // SAFETY: as above.
        link = unsafe { (*link).next };
    }
    if link.is_null() {
        return None;
    }
    // SAFETY: the link's type says that it begins a metadata extension.
    let metadata = unsafe { (*link.cast::<XLA_FFI_Metadata_Extension>()).metadata };
    // The constant counts up to the traits, which every host has.
    // SAFETY: not null here means that the host asks; the first field of every struct is its size.
    if metadata.is_null() || unsafe { (*metadata).struct_size } < XLA_FFI_Metadata::STRUCT_SIZE {
        crate::error::panics::warn(format_args!(
            "{}: the host's metadata struct is too short",
            info.name
        ));
        return Some(std::ptr::null_mut());
    }
    // SAFETY: the caller's promise.
    let api = unsafe { (*raw).api };
    #[cfg(feature = "internal")]
    if info.takes(crate::param::INTERNAL) {
        // SAFETY: a frame names its host's table.
        match unsafe { crate::entry::metadata::refuse_registration(api, info.name) } {
            Some(error) if error.is_null() => {}
            Some(error) => return Some(error),
            None => return Some(std::ptr::null_mut()),
        }
    }
    // SAFETY: a frame names its host's table.
    let host = unsafe { Host::new(api) };
    let (major, minor) = host.version();
    let newest = (XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
    let wanted = (0, info.floor().minor_version());
    let (major, minor) = (major, minor).max(wanted).min(newest);
    // SAFETY: hosts that ask prepare at least the fields up to `traits`.
    let version = unsafe { &raw mut (*metadata).api_version };
    // SAFETY: as above.
    unsafe { (*version).major_version = major };
    // SAFETY: as above.
    unsafe { (*version).minor_version = minor };
    // SAFETY: as above.
    unsafe { (*metadata).traits = info.traits };
    // User data has to be known before the program can hand any out.
    if !api.is_null() {
        info.register_types(host);
    }
    // Only hosts from version 0.2 have room for the type of the state (ABI: r7).
    if !api.is_null() && host.version() >= (0, Revision::R7.minor_version()) {
        if let Some(state) = info.state {
            match (state.host_type)().id(host) {
                // SAFETY: the host's version proves that the field is there.
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

/// What a handler that takes an `Invocation` answers a host that is no runtime of this image, when
/// it is registered: an error, or null where nothing stands against it. `None` where the host gave no
/// table to make an error with; then the question stays unanswered, which hosts refuse, too.
///
/// # Safety
/// `api` is null or names a host's table.
#[cfg(feature = "internal")]
pub(crate) unsafe fn refuse_registration(
    api: *const XLA_FFI_Api,
    name: &str,
) -> Option<*mut XLA_FFI_Error> {
    // SAFETY: the caller's promise.
    let Err(error) = (unsafe { xla_ffi_runtime::internal::accept_registration(api) }) else {
        return Some(std::ptr::null_mut());
    };
    if api.is_null() {
        crate::error::panics::warn(format_args!("{name}: {}", error.message()));
        return None;
    }
    // SAFETY: the caller's promise.
    let host = unsafe { Host::new(api) };
    Some(host.make_error(error.code(), error.message()))
}
