//! Extensions of a context (from r9): a chain that handlers search by number.

use std::any::Any;
use std::sync::Arc;
use xla_ffi_sys::XLA_FFI_Extension;

/// The extensions of a context.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    /// Addresses of extensions; whoever added them keeps them alive.
    links: Vec<usize>,
    /// What keeps some of them alive.
    owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Adds an extension, which the caller keeps alive.
    pub(crate) fn push(&mut self, extension: *const XLA_FFI_Extension) {
        self.links.push(extension as usize);
    }

    /// Adds an extension that `owner` keeps alive.
    pub(crate) fn push_owned(
        &mut self,
        extension: *const XLA_FFI_Extension,
        owner: Arc<dyn Any + Send + Sync>,
    ) {
        self.push(extension);
        self.owners.push(owner);
    }

    /// The extension with this number.
    pub(crate) fn find(&self, number: i64) -> Option<*const XLA_FFI_Extension> {
        self.links
            .iter()
            .map(|link| *link as *const XLA_FFI_Extension)
            .find(|link| {
                // SAFETY: `Call::extension` demands extensions that outlive the call.
                let id = unsafe { (**link).id };
                id.extension_type == number
            })
    }
}
