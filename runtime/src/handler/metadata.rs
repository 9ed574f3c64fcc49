//! The metadata call: what a handler says it needs, and what hosts of each revision accept.

use crate::handler::{Bundle, Stage};
use crate::host::{Entered, errors};
use crate::runtime::Shared;
use crate::{Code, Error, Hazard, Result, guard};
use std::fmt;
use std::ptr;
use xla_ffi_sys::{
    Revision, XLA_FFI_Api_Version, XLA_FFI_Args, XLA_FFI_Attrs, XLA_FFI_CallFrame, XLA_FFI_Handler,
    XLA_FFI_InternalExtension, XLA_FFI_InternalExtension_Type, XLA_FFI_Metadata,
    XLA_FFI_Metadata_Extension, XLA_FFI_Rets, XLA_FFI_TypeId,
};

const PATTERN: i64 = 0x5A5A_A5A5_3C3C_C3C3;
/// No version that a handler answers.
const SILENT: i32 = i32::MIN;

/// What a handler says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Major and minor version of the ABI.
    pub version: (i32, i32),
    /// Bits of `XLA_FFI_Handler_TraitsBits`.
    pub traits: u32,
    /// The type of its state, 0 where it has none or the revision does not ask.
    pub state_type_id: i64,
}

impl Metadata {
    /// Whether calls may be captured into a command buffer.
    #[must_use]
    pub fn is_command_buffer_compatible(&self) -> bool {
        self.traits & xla_ffi_sys::XLA_FFI_Handler_TraitsBits::COMMAND_BUFFER_COMPATIBLE.0 != 0
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "version {}.{}, traits {:#x}",
            self.version.0, self.version.1, self.traits
        )
    }
}

/// Asks a bundle as a registration on the revision does, and judges the answers.
pub(crate) fn negotiate(shared: &Shared, name: &str, bundle: &Bundle) -> Result<Option<Metadata>> {
    let execute = bundle.get(Stage::Execute).ok_or_else(|| {
        Error::invalid(format!(
            "handler '{name}' has no execute stage; every handler needs one"
        ))
    })?;
    if bundle.get(Stage::Record).is_some() && shared.revision < Revision::R9 {
        return Err(Error::new(
            Code::Unimplemented,
            format!(
                "handler '{name}' has a record stage: {} knows none, r9 (jaxlib 0.11.1) is the \
                     first that does",
                shared.revision
            ),
        ));
    }
    if shared.revision == Revision::R0 {
        return Ok(None);
    }
    let metadata = ask(shared, name, Stage::Execute, execute)?;
    // From 0.2 on the instantiate stage is asked, too; its state type is the one that counts.
    let mut answer = metadata;
    if let (Some(instantiate), true) = (
        bundle.get(Stage::Instantiate),
        shared.revision >= Revision::R7,
    ) {
        let other = ask(shared, name, Stage::Instantiate, instantiate)?;
        answer.state_type_id = other.state_type_id;
        answer.traits |= other.traits;
    }
    Ok(Some(answer))
}

fn ask(shared: &Shared, name: &str, stage: Stage, handler: XLA_FFI_Handler) -> Result<Metadata> {
    let metadata = call(shared, handler)
        .map_err(|error| error.within(format_args!("metadata of '{name}' ({stage})")))?;
    accept(shared.revision, &metadata)
        .map_err(|error| error.within(format_args!("handler '{name}' ({stage})")))?;
    Ok(metadata)
}

/// Whether a host of `revision` takes a handler that answers this.
///
/// # Errors
/// `INVALID_ARGUMENT` with the reason.
pub fn accept(revision: Revision, metadata: &Metadata) -> Result<()> {
    let (major, minor) = metadata.version;
    let own = revision.minor_version();
    let refuse = |why: String| {
        Err(Error::invalid(format!(
            "it answers version {major}.{minor}, {revision} {why}"
        )))
    };
    if own == 0 {
        return Ok(());
    }
    if own == 1 && (major, minor) != (0, 1) {
        return refuse("(version 0.1) takes exactly 0.1".into());
    }
    if major != 0 || minor < 1 || minor > own {
        let newer = major > 0 || minor > own;
        let first = Revision::ALL
            .into_iter()
            .find(|r| major == 0 && r.minor_version() >= minor);
        let remedy = match (newer, first) {
            (false, _) => "; 0.1 is the oldest version that is taken".into(),
            (true, Some(first)) => format!(
                ": the handler wants a newer ABI; the first jaxlib with it is {}",
                first.first_jaxlib()
            ),
            (true, None) => ": the handler wants a newer ABI than any known jaxlib has".into(),
        };
        return refuse(format!("takes 0.1 to 0.{own}{remedy}"));
    }
    Ok(())
}

/// The first jaxlib that takes a handler with this answer, `None` if no known one does.
#[must_use]
pub fn first_jaxlib(metadata: &Metadata) -> Option<&'static str> {
    // r0 takes whatever comes without asking, so it says nothing about a handler.
    let mut later = Revision::ALL.into_iter().skip(1);
    later
        .find(|revision| accept(*revision, metadata).is_ok())
        .map(Revision::first_jaxlib)
}

/// What the handler may write, and a guard behind it.
#[repr(C)]
struct Answer {
    metadata: XLA_FFI_Metadata,
    guard: [i64; 4],
}

fn call(shared: &Shared, handler: XLA_FFI_Handler) -> Result<Metadata> {
    let with_state = shared.revision >= Revision::R6;
    let mut answer = Answer {
        metadata: XLA_FFI_Metadata {
            struct_size: 36,
            api_version: XLA_FFI_Api_Version {
                struct_size: 24,
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
            struct_size: size_of::<XLA_FFI_Metadata_Extension>(),
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
    let mut frame = crate::call::frame::RawFrame::new(
        shared.revision,
        XLA_FFI_CallFrame {
            struct_size: 168,
            extension_start: (&raw mut extension).cast(),
            api,
            ctx: ptr::null_mut(),
            stage: Stage::Execute.raw(),
            args: XLA_FFI_Args {
                struct_size: size_of::<XLA_FFI_Args>(),
                extension_start: ptr::null_mut(),
                size: 0,
                types: ptr::null_mut(),
                args: ptr::null_mut(),
            },
            rets: XLA_FFI_Rets {
                struct_size: size_of::<XLA_FFI_Rets>(),
                extension_start: ptr::null_mut(),
                size: 0,
                types: ptr::null_mut(),
                rets: ptr::null_mut(),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: size_of::<XLA_FFI_Attrs>(),
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
    // SAFETY: the frame is whole and lives for the call; whoever loaded the handler vouches for it.
    let outcome = unsafe { guard::call_handler(handler, frame.as_mut_ptr()) };
    drop(entered);
    let error = outcome.map_err(|unwound| {
        Error::hazard(Hazard::Unwound, format!("{unwound} left the metadata call"))
    })?;
    if !error.is_null()
        && let Some(error) = errors::take(error)
    {
        return Err(error.handlers());
    }
    if !frame.is_whole(shared.revision) {
        return Err(Error::hazard(
            Hazard::FrameOverrun,
            "bytes behind the call frame were written in the metadata call",
        ));
    }
    // SAFETY: `answer` is alive; the handler wrote through the same pointer.
    let answer = unsafe { start.read() };
    let state = answer.metadata.state_type_id.type_id;
    if answer.guard != [PATTERN; 4] || (!with_state && state != PATTERN) {
        return Err(Error::hazard(
            Hazard::MetadataOverrun,
            format!(
                "bytes behind the metadata were written: {} has no state_type_id, the write hits \
                 the host's stack",
                shared.revision
            ),
        ));
    }
    let version = answer.metadata.api_version;
    if version.major_version == SILENT || version.minor_version == SILENT {
        return Err(Error::invalid(
            "the metadata call was not answered: this is no XLA FFI handler, or one built before \
             metadata existed (jaxlib 0.4.31)",
        ));
    }
    Ok(Metadata {
        version: (version.major_version, version.minor_version),
        traits: answer.metadata.traits,
        state_type_id: if with_state { state } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(revision: Revision, major: i32, minor: i32) -> bool {
        accept(
            revision,
            &Metadata {
                version: (major, minor),
                traits: 0,
                state_type_id: 0,
            },
        )
        .is_ok()
    }

    #[test]
    fn acceptance_by_revision() {
        assert!(taken(Revision::R0, 7, 7));
        for revision in [Revision::R1, Revision::R6] {
            assert!(taken(revision, 0, 1));
            assert!(!taken(revision, 0, 0) && !taken(revision, 0, 2) && !taken(revision, 1, 1));
        }
        assert!(taken(Revision::R10, 0, 1) && taken(Revision::R10, 0, 5));
        assert!(!taken(Revision::R10, 0, 6) && !taken(Revision::R10, 0, 0));
        assert!(!taken(Revision::R10, 1, 0) && !taken(Revision::R7, 0, 3));
    }

    #[test]
    fn first_jaxlibs() {
        let first = |minor| {
            first_jaxlib(&Metadata {
                version: (0, minor),
                traits: 0,
                state_type_id: 0,
            })
        };
        assert_eq!(first(1), Some("0.4.33"));
        assert_eq!(first(3), Some("0.9.1"));
        assert_eq!(first(5), Some("0.12.0"));
        assert_eq!(first(6), None);
    }
}
