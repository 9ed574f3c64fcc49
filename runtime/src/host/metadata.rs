//! A handler's metadata, and the metadata that hosts of each revision accept.

use super::Traits;
use std::fmt;
use xla_ffi_sys::Revision;
use xla_ffi_sys::{Error, Result};

/// A handler's metadata: its version, traits and state type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The major and minor version of the ABI.
    pub version: (i32, i32),
    /// The handler's traits.
    pub traits: Traits,
    /// The type number of the handler's state; 0 if the handler has no state, or if hosts of the revision do not
    /// request the number.
    pub state_type_id: i64,
}

impl Metadata {
    /// Returns true if calls may be captured into a command buffer.
    #[must_use]
    pub fn is_command_buffer_compatible(&self) -> bool {
        self.traits.contains(Traits::COMMAND_BUFFER_COMPATIBLE)
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "version {}.{}, traits {:#x}",
            self.version.0,
            self.version.1,
            self.traits.bits()
        )
    }
}

/// Checks that a host of `revision` accepts a handler with this metadata.
///
/// # Errors
/// `INVALID_ARGUMENT` with the reason.
pub fn accept(revision: Revision, metadata: &Metadata) -> Result<()> {
    accept_version(revision, metadata.version)
}

/// Checks that a host of `revision` accepts a handler with this version, like [`accept`].
///
/// # Errors
/// The errors of [`accept`].
#[doc(hidden)]
pub fn accept_version(revision: Revision, (major, minor): (i32, i32)) -> Result<()> {
    let own = revision.minor_version();
    let refuse = |why: String| {
        Err(Error::invalid_argument(format!(
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

/// Returns the first jaxlib that accepts a handler with this metadata; `None` if all known versions refuse it.
#[must_use]
pub fn first_jaxlib(metadata: &Metadata) -> Option<&'static str> {
    // r0 is skipped, because its hosts accept every handler without a metadata query.
    let mut later = Revision::ALL.into_iter().skip(1);
    later
        .find(|revision| accept(*revision, metadata).is_ok())
        .map(Revision::first_jaxlib)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(revision: Revision, major: i32, minor: i32) -> bool {
        accept(
            revision,
            &Metadata {
                version: (major, minor),
                traits: Traits::NONE,
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
}
