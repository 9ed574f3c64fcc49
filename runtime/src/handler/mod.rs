//! Handlers that a runtime has accepted, and executables, which are handlers with attributes and state.

#[cfg(feature = "libraries")]
pub(crate) mod library;
#[cfg(feature = "libraries")]
mod manifest;
pub(crate) mod negotiate;
pub(crate) mod registry;
pub mod statics;

#[cfg(feature = "libraries")]
pub use library::Library;

use crate::frame::Stage;
use crate::frame::encoded::Encoded;
use crate::host::calls::Tally;
use crate::host::state_object::StateSlot;
use crate::host::{Bundle, Metadata, Shared};
use std::fmt;
use std::sync::Arc;
use xla_ffi_sys::XLA_FFI_Handler;
use xla_ffi_sys::{Error, Result};

/// A handler that a runtime has accepted: a name and one function per stage.
#[derive(Clone)]
pub struct Handler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Arc<str>,
    pub(crate) bundle: Bundle,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) tally: Arc<Tally>,
}

impl Handler {
    /// Makes the metadata queries of a registration. Returns an error for bundles that XLA refuses on this revision.
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, bundle: Bundle) -> Result<Self> {
        let metadata = negotiate::negotiate(shared, name, &bundle)?;
        Ok(Self {
            shared: shared.clone(),
            name: name.into(),
            bundle,
            metadata,
            tally: shared.calls.tally(name),
        })
    }

    /// Returns the handler's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the handler's metadata; `None` on r0, whose hosts make no metadata query.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Returns the handler's functions.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("name", &self.name)
            .field("metadata", &self.metadata)
            .finish()
    }
}

/// A handler with its attributes and the state of its instantiate stage, ready to be called.
///
/// ```
/// use xla_ffi_runtime::{Attributes, Bundle, Revision, Runtime, Stage};
/// use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};
///
/// unsafe extern "C" fn nothing(_: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
///     std::ptr::null_mut()
/// }
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// // SAFETY: the function is a handler.
/// let bundle = unsafe { Bundle::execute(nothing) };
/// let handler = Runtime::new(Revision::R0).handler("nothing", bundle)?;
/// assert!(handler.bundle().get(Stage::Execute).is_some());
/// let executable = handler.instantiate(&Attributes::parse("{n = 3}")?)?;
/// assert_eq!(executable.handler().name(), "nothing");
/// assert!(executable.call().run()?.rets.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executable(Arc<Parts>);

/// The data that the clones of an executable share.
struct Parts {
    handler: Handler,
    attributes: Arc<Encoded>,
    state: Arc<StateSlot>,
}

impl Executable {
    /// Returns an executable whose instantiate stage has not run.
    pub(crate) fn new(handler: Handler, attributes: Arc<Encoded>) -> Self {
        Self(Arc::new(Parts {
            handler,
            attributes,
            state: Arc::default(),
        }))
    }

    /// Returns the executable's handler.
    #[must_use]
    pub fn handler(&self) -> &Handler {
        &self.0.handler
    }

    pub(crate) fn attributes(&self) -> &Arc<Encoded> {
        &self.0.attributes
    }

    pub(crate) fn state(&self) -> &Arc<StateSlot> {
        &self.0.state
    }

    pub(crate) fn function(&self, stage: Stage) -> Result<XLA_FFI_Handler> {
        let handler = self.handler();
        handler.bundle.get(stage).ok_or_else(|| {
            Error::invalid_argument(format!("handler '{}' has no {stage} stage", handler.name))
        })
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("handler", self.handler())
            .finish_non_exhaustive()
    }
}
