//! The FFI extension of plugins, which registers types, user data and handlers with the XLA copy in a plugin.
//!
//! The functions were added in different versions; the extension's size shows which of them exist. The arguments of
//! two functions became smaller. Those for user data lost a deleter (48 → 40 bytes), and those for handlers lost an
//! `api_version` in the middle (60 → 52 bytes). A plugin that expects more bytes refuses the call without side
//! effects, so the smaller arguments are tried first.

use super::api::{Api, named};
use super::raw::{FFI_EXTENSION, RawContext, RawExtension};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use xla_ffi_runtime::{Error, ErrorCode, Result, TypeInfo};
use xla_ffi_sys::XLA_FFI_Handler;

/// The extension's type information: how objects of a type are destroyed and serialised.
#[repr(C)]
struct RawTypeInfo {
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    serialize: *const c_void,
    deserialize: *const c_void,
}

#[repr(C)]
struct TypeRegister {
    struct_size: usize,
    extension_start: *const RawExtension,
    name: *const c_char,
    name_size: usize,
    type_id: i64,
    /// The first version of the extension ignores this field and does not read it.
    type_info: *const RawTypeInfo,
}

#[repr(C)]
struct UserDataAdd {
    struct_size: usize,
    extension_start: *const RawExtension,
    context: *mut RawContext,
    type_id: i64,
    data: *mut c_void,
    /// Later versions of the extension do not read this field. If it is null, the caller keeps ownership of the
    /// object.
    deleter: *const c_void,
}

#[repr(C)]
struct RegisterHandler {
    struct_size: usize,
    name: *const c_char,
    name_size: usize,
    handler: XLA_FFI_Handler,
    platform: *const c_char,
    platform_size: usize,
    traits: u32,
}

/// The arguments of `PJRT_FFI_Register_Handler` in the first plugins that have this function.
#[repr(C)]
struct RegisterHandlerOld {
    struct_size: usize,
    name: *const c_char,
    name_size: usize,
    api_version: c_int,
    handler: XLA_FFI_Handler,
    platform: *const c_char,
    platform_size: usize,
    traits: u32,
}

const _: () = assert!(
    size_of::<TypeRegister>() == 48
        && size_of::<UserDataAdd>() == 48
        && std::mem::offset_of!(RegisterHandler, traits) + 4 == RegisterHandler::STRUCT_SIZE
        && std::mem::offset_of!(RegisterHandlerOld, traits) + 4 == RegisterHandlerOld::STRUCT_SIZE
);

impl RegisterHandler {
    /// The size of the struct in bytes, without the padding after the last field.
    const STRUCT_SIZE: usize = 52;
}

impl RegisterHandlerOld {
    /// The size of the struct in bytes, without the padding after the last field.
    const STRUCT_SIZE: usize = 60;
    /// The value of `api_version` for handlers of XLA FFI, as opposed to original custom calls.
    const TYPED: c_int = 1;
}

const TYPE_REGISTER: usize = 0;
const USER_DATA_ADD: usize = 1;
const REGISTER_HANDLER: usize = 2;

/// The FFI extension of a plugin.
///
/// Invariant: the pointer refers to the extension, which is valid as long as the plugin's table.
#[derive(Clone, Copy)]
pub(super) struct Extension {
    api: Api,
    extension: NonNull<RawExtension>,
}

// SAFETY: the extension is constant, and its functions may be called from any thread.
unsafe impl Send for Extension {}
// SAFETY: the extension is constant, and its functions may be called from any thread.
unsafe impl Sync for Extension {}

impl Extension {
    /// Returns the FFI extension of a plugin.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if the plugin lacks the extension.
    pub(super) fn find(api: Api) -> Result<Self> {
        let extension = api.extension(FFI_EXTENSION).ok_or_else(|| {
            let error = Error::new(
                ErrorCode::Unimplemented,
                "it has no FFI extension (PJRT extension type 5): it cannot call handlers",
            );
            named(api, error)
        })?;
        Ok(Self { api, extension })
    }

    /// Calls a function of the extension.
    ///
    /// # Safety
    /// `A` must be the function's argument type, and all objects to which the arguments refer must be valid during
    /// the call.
    unsafe fn call<A>(self, slot: usize, name: &str, args: &mut A) -> Result<()> {
        // SAFETY: the invariant of `Extension` guarantees the extension.
        let size = unsafe { (*self.extension.as_ptr()).struct_size };
        let place = size_of::<RawExtension>() + slot * size_of::<usize>();
        let function = (place + size_of::<usize>() <= size)
            .then(|| {
                let address = self.extension.as_ptr().wrapping_byte_add(place);
                // SAFETY: the slot is inside the extension, whose size was checked.
                unsafe { address.cast::<*const c_void>().read() }
            })
            .filter(|function| !function.is_null())
            .ok_or_else(|| {
                let error = Error::new(
                    ErrorCode::Unimplemented,
                    format!("its FFI extension is too old: its {size} bytes hold no {name}"),
                );
                named(self.api, error)
            })?;
        // SAFETY: the caller guarantees that the slot's function takes these arguments.
        unsafe { self.api.invoke(function, (&raw mut *args).cast(), name) }
    }

    /// Registers a type and returns its number. If `wanted` is 0, XLA chooses a new number.
    pub(super) fn register_type(self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        let info = RawTypeInfo {
            deleter: info.deleter(),
            serialize: std::ptr::null(),
            deserialize: std::ptr::null(),
        };
        let mut args = TypeRegister {
            struct_size: size_of::<TypeRegister>(),
            extension_start: std::ptr::null(),
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_id: wanted,
            type_info: &raw const info,
        };
        // SAFETY: the name and the type information outlive the call.
        unsafe { self.call(TYPE_REGISTER, "PJRT_FFI_Type_Register", &mut args) }?;
        Ok(args.type_id)
    }

    /// Adds an object to a context. The caller keeps ownership of the object.
    ///
    /// # Safety
    /// The context must belong to this plugin. The object must have the type `type_id`, and outlive all executions
    /// with the context.
    pub(super) unsafe fn add_user_data(
        self,
        context: *mut RawContext,
        type_id: i64,
        data: *mut c_void,
    ) -> Result<()> {
        let mut args = UserDataAdd {
            struct_size: size_of::<UserDataAdd>(),
            extension_start: std::ptr::null(),
            context,
            type_id,
            data,
            deleter: std::ptr::null(),
        };
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.call(USER_DATA_ADD, "PJRT_FFI_UserData_Add", &mut args) }
    }

    /// Registers a handler's execute stage under a name.
    ///
    /// # Safety
    /// The function must be a handler and stay loaded.
    pub(super) unsafe fn register_handler(
        self,
        name: &str,
        platform: &str,
        handler: XLA_FFI_Handler,
    ) -> Result<()> {
        const FUNCTION: &str = "PJRT_FFI_Register_Handler";
        let mut args = RegisterHandler {
            struct_size: RegisterHandler::STRUCT_SIZE,
            name: name.as_ptr().cast(),
            name_size: name.len(),
            handler,
            platform: platform.as_ptr().cast(),
            platform_size: platform.len(),
            traits: 0,
        };
        // SAFETY: the names outlive the call, and the caller guarantees that the function is a handler.
        let answer = unsafe { self.call(REGISTER_HANDLER, FUNCTION, &mut args) };
        let wants_more = |error: &Error| {
            error.code() == ErrorCode::InvalidArgument
                && error
                    .message()
                    .contains(&format!("expected {}", RegisterHandlerOld::STRUCT_SIZE))
        };
        match answer {
            Err(error) if wants_more(&error) => {
                let mut args = RegisterHandlerOld {
                    struct_size: RegisterHandlerOld::STRUCT_SIZE,
                    name: name.as_ptr().cast(),
                    name_size: name.len(),
                    api_version: RegisterHandlerOld::TYPED,
                    handler,
                    platform: platform.as_ptr().cast(),
                    platform_size: platform.len(),
                    traits: 0,
                };
                // SAFETY: the names outlive the call, and the caller guarantees that the function is a handler. The
                // plugin reported that it expects these arguments.
                unsafe { self.call(REGISTER_HANDLER, FUNCTION, &mut args) }
            }
            answer => answer,
        }
    }
}
