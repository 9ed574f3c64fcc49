//! Registers handlers with a runtime, and finds registered handlers.

use super::Handler;
use super::negotiate::negotiate;
use crate::host::registrations::Registration;
use crate::host::{Bundle, Runtime, Shared, canonical_platform};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Registers a bundle after its metadata queries. A repeated registration of the same bundle succeeds; a different
/// bundle for the same name and platform is an error.
pub(crate) fn register(shared: &Shared, name: &str, platform: &str, bundle: Bundle) -> Result<()> {
    let mut metadata = negotiate(shared, name, &bundle)?;
    if let Some(metadata) = &mut metadata {
        metadata.traits = metadata.traits | bundle.traits;
    }
    let new = Registration { bundle, metadata };
    shared
        .handlers
        .insert(name, canonical_platform(platform), new)
}

impl Runtime {
    /// Creates a handler from functions of this program.
    ///
    /// # Errors
    /// `NOT_FOUND` for a bundle without an execute stage, and an error for metadata that hosts of this revision
    /// refuse.
    pub fn handler(&self, name: &str, bundle: Bundle) -> Result<Handler> {
        Handler::new(self.shared(), name, bundle)
    }

    /// Registers a bundle under a name and a platform, like the table function `Handler_Register`.
    ///
    /// # Errors
    /// The errors of [`Runtime::handler`], and `INVALID_ARGUMENT` if a different handler is registered under the
    /// name.
    pub fn register(&self, name: &str, platform: &str, bundle: Bundle) -> Result<()> {
        register(self.shared(), name, platform, bundle)
    }

    /// Returns the handler that is registered under a name for a platform.
    ///
    /// # Errors
    /// `NOT_FOUND`, with a list of the registered names.
    pub fn find(&self, name: &str, platform: &str) -> Result<Handler> {
        let shared = self.shared();
        let platform = canonical_platform(platform);
        if let Some(known) = shared.handlers.find(name, &platform) {
            return Ok(Handler {
                shared: shared.clone(),
                name: name.into(),
                bundle: known.bundle,
                metadata: known.metadata,
                tally: shared.calls.tally(name),
            });
        }
        let known = shared.handlers.describe();
        let hint = match shared.legacy.versions(name, &platform).first() {
            Some(version) => format!("; a legacy target has this name: call it as {version}"),
            None => self
                .linked_elsewhere(name, &platform)
                .map_or_else(String::new, |hint| format!("; {hint}")),
        };
        Err(Error::new(
            ErrorCode::NotFound,
            format!(
                "no handler is registered as '{name}' for platform '{platform}'; there are: \
                 {known}{hint}"
            ),
        ))
    }
}
