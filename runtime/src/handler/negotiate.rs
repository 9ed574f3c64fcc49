//! The metadata queries of a registration, which request the version, traits and state type of a bundle's functions.

use crate::context::Entered;
use crate::frame::{RawFrame, Stage};
use crate::host::metadata::accept;
use crate::host::{Bundle, Metadata, Shared, errors};
use crate::process::guard;
use std::ptr;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_Api_Version, XLA_FFI_Args, XLA_FFI_Attrs, XLA_FFI_CallFrame,
    XLA_FFI_Handler, XLA_FFI_InternalExtension, XLA_FFI_InternalExtension_Type, XLA_FFI_Metadata,
    XLA_FFI_Metadata_Extension, XLA_FFI_Rets, XLA_FFI_TypeId,
};

const PATTERN: i64 = 0x5A5A_A5A5_3C3C_C3C3;
/// A version that no handler returns. It shows that the handler did not write its metadata.
const SILENT: i32 = i32::MIN;

/// Makes the metadata queries of a registration and checks the handler's metadata for the runtime's revision.
pub(crate) fn negotiate(shared: &Shared, name: &str, bundle: &Bundle) -> Result<Option<Metadata>> {
    let execute = bundle.get(Stage::Execute).ok_or_else(|| {
        Error::invalid_argument(format!(
            "handler '{name}' has no execute stage; every handler needs one"
        ))
    })?;
    let since = Feature::RecordStage.since();
    if bundle.get(Stage::Record).is_some() && shared.revision < since {
        return Err(Error::new(
            ErrorCode::Unimplemented,
            format!(
                "handler '{name}' has a record stage, which requires {since} (jaxlib {}) or \
                 later: this is {}",
                since.first_jaxlib(),
                shared.revision
            ),
        ));
    }
    if shared.revision == Revision::R0 {
        return Ok(None);
    }
    let metadata = ask(shared, name, Stage::Execute, execute)?;
    // From version 0.2, hosts also query the instantiate stage, and use the state type that it returns.
    let mut answer = metadata;
    if let (Some(instantiate), true) = (
        bundle.get(Stage::Instantiate),
        shared.revision >= Revision::R7,
    ) {
        let other = ask(shared, name, Stage::Instantiate, instantiate)?;
        answer.state_type_id = other.state_type_id;
        answer.traits = answer.traits | other.traits;
    }
    Ok(Some(answer))
}

fn ask(shared: &Shared, name: &str, stage: Stage, handler: XLA_FFI_Handler) -> Result<Metadata> {
    let metadata = call(shared, handler)
        .map_err(|error| error.within(format_args!("metadata of '{name}' ({stage})")))?;
    accept(shared.revision, &metadata)
        .map_err(|error| error.within(format_args!("{name} ({stage})")))?;
    Ok(metadata)
}

/// The memory to which a handler writes its metadata, followed by a guard.
#[repr(C)]
struct Answer {
    metadata: XLA_FFI_Metadata,
    guard: [i64; 4],
}

fn call(shared: &Shared, handler: XLA_FFI_Handler) -> Result<Metadata> {
    let with_state = shared.revision >= Revision::R6;
    let mut answer = Answer {
        metadata: XLA_FFI_Metadata {
            struct_size: XLA_FFI_Metadata::STRUCT_SIZE,
            api_version: XLA_FFI_Api_Version {
                struct_size: XLA_FFI_Api_Version::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                major_version: SILENT,
                minor_version: SILENT,
            },
            traits: 0,
            state_type_id: XLA_FFI_TypeId {
                type_id: if with_state { 0 } else { PATTERN },
            },
        },
        guard: [PATTERN; 4],
    };
    let start: *mut Answer = &raw mut answer;
    let mut extension = XLA_FFI_Metadata_Extension {
        extension_base: XLA_FFI_InternalExtension {
            struct_size: XLA_FFI_Metadata_Extension::STRUCT_SIZE,
            r#type: XLA_FFI_InternalExtension_Type::Metadata,
            next: ptr::null_mut(),
        },
        metadata: start.cast(),
    };
    let api = if shared.revision.minor_version() == 1 {
        ptr::null()
    } else {
        shared.api()
    };
    let mut frame = RawFrame::new(
        shared.revision,
        XLA_FFI_CallFrame {
            struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
            extension_start: (&raw mut extension).cast(),
            api,
            ctx: ptr::null_mut(),
            stage: Stage::Execute.raw(),
            args: XLA_FFI_Args {
                struct_size: XLA_FFI_Args::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: 0,
                types: ptr::null_mut(),
                args: ptr::null_mut(),
            },
            rets: XLA_FFI_Rets {
                struct_size: XLA_FFI_Rets::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: 0,
                types: ptr::null_mut(),
                rets: ptr::null_mut(),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: 0,
                types: ptr::null_mut(),
                names: ptr::null_mut(),
                attrs: ptr::null_mut(),
            },
            future: ptr::null_mut(),
        },
    );
    let entered = Entered::new(shared, None);
    // SAFETY: the frame is complete and outlives the call; the loader of the library guarantees that the function is
    // a handler.
    let outcome = unsafe { guard::call_handler(handler, frame.as_mut_ptr()) };
    drop(entered);
    let error = outcome.map_err(|unwound| {
        Error::hazard(Hazard::Unwound, format!("{unwound} left the metadata call"))
    })?;
    if !error.is_null() {
        if let Some(error) = errors::take_error(error) {
            return Err(error.into_handlers());
        }
    }
    if !frame.is_whole(shared.revision) {
        return Err(Error::hazard(
            Hazard::FrameOverrun,
            "bytes after the call frame were written in the metadata call",
        ));
    }
    // SAFETY: `answer` still exists, and the handler wrote it through a pointer derived from `start`.
    let answer = unsafe { start.read() };
    let state = answer.metadata.state_type_id.type_id;
    if answer.guard != [PATTERN; 4] || (!with_state && state != PATTERN) {
        return Err(Error::hazard(
            Hazard::MetadataOverrun,
            format!(
                "bytes after the metadata were written: {} has no state_type_id, so the write hits the host's stack",
                shared.revision
            ),
        ));
    }
    let version = answer.metadata.api_version;
    if version.major_version == SILENT || version.minor_version == SILENT {
        return Err(Error::invalid_argument(
            "the metadata call was not answered: this is not an XLA FFI handler, or one built before \
             metadata existed (jaxlib 0.4.31)",
        ));
    }
    Ok(Metadata {
        version: (version.major_version, version.minor_version),
        traits: answer.metadata.traits.into(),
        state_type_id: if with_state { state } else { 0 },
    })
}
