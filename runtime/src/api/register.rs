//! The functions of the function table with which libraries register types and handlers.

use super::{check_size, error_or_null, revision};
use crate::context::{note, with_shared};
use crate::frame::Stage;
use crate::handler::registry::register;
use crate::host::{Bundle, TypeInfo};
use crate::process::{is_function, read_memory};
use std::ffi::c_void;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};
use xla_ffi_sys::{
    Revision, XLA_FFI_ByteSpan, XLA_FFI_Error, XLA_FFI_Handler_Register_Args,
    XLA_FFI_Handler_Register_Args_R0, XLA_FFI_TypeId_Register_Args_R0, XLA_FFI_TypeInfo,
};

/// Returns the text of a span.
///
/// # Safety
/// The span must be empty or point to bytes that are valid until this function returns.
unsafe fn text(span: XLA_FFI_ByteSpan, what: &str) -> Result<String> {
    if span.ptr.is_null() || span.len == 0 {
        return Err(Error::invalid_argument(format!("{what} is empty")));
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(span.ptr.cast::<u8>(), span.len) };
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        Error::invalid_argument(format!("{what} is not UTF-8: {:?}", bytes.escape_ascii()))
    })
}

/// `Type_Register`, called `TypeId_Register` before r7. In XLA's headers, the structs of both functions have the size
/// 40, so the size does not show whether `type_info` exists. Hosts of r7 and later read `type_info` anyway.
pub(super) unsafe extern "C" fn type_register<const R: u8>(
    args: *mut XLA_FFI_TypeId_Register_Args_R0,
) -> *mut XLA_FFI_Error {
    error_or_null("Type_Register", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        unsafe { check_size(args, 40) }?;
        // SAFETY: the size covers the struct of revisions before r7, which is a prefix of the newer struct.
        let asked = unsafe { args.read() };
        // SAFETY: handlers pass a valid span, as the ABI requires.
        let name = unsafe { text(asked.name, "the name of the type") }?;
        if asked.type_id.is_null() {
            return Err(Error::invalid_argument("type_id is a null pointer"));
        }
        let info = if revision::<R>() >= Revision::R7 {
            type_info(args.wrapping_add(1).cast_const().cast(), &name)?
        } else {
            TypeInfo::default()
        };
        // SAFETY: the pointer is not null, and handlers pass a pointer to a valid id, as the ABI requires.
        let wanted = unsafe { asked.type_id.read() }.type_id;
        // Up to r4, hosts ignore the id in the struct, and only write the new id.
        let old = revision::<R>() <= Revision::R4;
        let wanted = if old { 0 } else { wanted };
        let id = with_shared(revision::<R>(), |shared| {
            let registered = shared.types.register(&name, wanted, info);
            match shared.types.id(&name) {
                Ok(id) if old && registered.is_err() => Err(Error::new(
                    ErrorCode::Internal,
                    format!("Type id {id} already registered for type name {name}"),
                )),
                _ => registered,
            }
        })?;
        // SAFETY: the pointer is not null, and handlers pass a pointer to a writable id, as the ABI requires.
        unsafe { (*asked.type_id).type_id = id };
        Ok(())
    })
}

/// Reads the `TypeInfo` whose address is in the word after the struct of revisions before r7, if it is a valid
/// `TypeInfo`. For a library built for such a revision, this word contains arbitrary stack contents.
fn type_info(word: *const c_void, name: &str) -> Result<TypeInfo> {
    let told = |what: &str| {
        Error::hazard(
            Hazard::TypeInfo,
            format!(
                "type '{name}' is registered without the type_info that hosts read from version 0.2 \
                 ({what}): a real host would follow a stray pointer"
            ),
        )
    };
    let pointer: [u8; 8] = read_memory(word as usize).ok_or_else(|| told("no such memory"))?;
    let pointer = usize::from_ne_bytes(pointer);
    if pointer == 0 {
        return Err(told("a null pointer"));
    }
    let bytes: [u8; size_of::<XLA_FFI_TypeInfo>()] =
        read_memory(pointer).ok_or_else(|| told("a pointer to no memory"))?;
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..][..8]);
        usize::from_ne_bytes(word)
    };
    let (size, deleter) = (word(0), word(2));
    if size != size_of::<XLA_FFI_TypeInfo>() || (deleter != 0 && !is_function(deleter)) {
        return Err(told("a pointer to something else"));
    }
    // SAFETY: `word` is null or the address of executable memory, which the library passes as the deleter.
    let deleter =
        unsafe { std::mem::transmute::<usize, Option<unsafe extern "C" fn(*mut c_void)>>(deleter) };
    Ok(TypeInfo::new(deleter))
}

/// `Handler_Register`: all hosts accept the struct of 84 bytes; hosts since r9 also accept the longer struct.
pub(super) unsafe extern "C" fn handler_register<const R: u8>(
    args: *mut XLA_FFI_Handler_Register_Args_R0,
) -> *mut XLA_FFI_Error {
    error_or_null("Handler_Register", || {
        // SAFETY: handlers pass a complete args struct, as the ABI requires.
        let size = unsafe { check_size(args, 84) }?;
        // SAFETY: the size of the struct includes the name in both layouts.
        let name = unsafe { (*args).name };
        // SAFETY: libraries pass a valid span, as the ABI requires.
        let name = unsafe { text(name, "the name of the handler") }?;
        // SAFETY: the size of the struct includes the platform in both layouts.
        let platform = unsafe { (*args).platform };
        // SAFETY: libraries pass a valid span, as the ABI requires.
        let platform = unsafe { text(platform, "the platform") }?;
        let longer = size >= 92;
        let (bundle, traits) = if longer && revision::<R>() >= Revision::R9 {
            // SAFETY: the size of the struct includes the longer layout.
            let args = unsafe { args.cast::<XLA_FFI_Handler_Register_Args>().read() };
            (Bundle::from_raw(&args.bundle), args.traits)
        } else {
            if longer {
                note(Finding::new(
                    Hazard::RegisterLayout,
                    format!(
                        "'{name}' is registered in the layout of 0.4: older hosts lose its traits"
                    ),
                ));
            }
            // SAFETY: the size of the struct includes the shorter layout.
            let args = unsafe { args.read() };
            let old = args.bundle;
            let bundle = Bundle::default()
                .stage(Stage::Instantiate, old.instantiate)
                .stage(Stage::Prepare, old.prepare)
                .stage(Stage::Initialize, old.initialize)
                .stage(Stage::Execute, old.execute);
            (bundle, if longer { 0 } else { args.traits })
        };
        with_shared(revision::<R>(), |shared| {
            register(shared, &name, &platform, bundle.with_traits(traits.into()))
        })
    })
}
