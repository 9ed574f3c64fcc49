//! Handlers: stages, bundles, and what becomes of them on a runtime.

use crate::call::encoded::Encoded;
use crate::call::state::StateSlot;
use crate::call::{Call, Parts};
use crate::metadata::{self, Metadata};
use crate::runtime::Shared;
use crate::{Attributes, Error, Result};
use std::fmt;
use std::sync::Arc;
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage, XLA_FFI_Handler, XLA_FFI_Handler_Bundle};

/// A stage of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Once when the executable is made: all attributes, no operands.
    Instantiate = 0,
    /// Before an execution, to request resources.
    Prepare = 1,
    /// Before an execution, when the resources are there.
    Initialize = 2,
    /// The call itself.
    Execute = 3,
    /// Recording into a command buffer; from r9.
    Record = 4,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 5] = [
        Self::Instantiate,
        Self::Prepare,
        Self::Initialize,
        Self::Execute,
        Self::Record,
    ];

    /// The stage with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.get(raw as usize).copied()
    }

    /// The number as the ABI has it.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_ExecutionStage {
        XLA_FFI_ExecutionStage(self as u32)
    }

    /// The lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instantiate => "instantiate",
            Self::Prepare => "prepare",
            Self::Initialize => "initialize",
            Self::Execute => "execute",
            Self::Record => "record",
        }
    }

    /// The stage called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The functions of one custom call, one a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bundle {
    stages: [Option<XLA_FFI_Handler>; 5],
}

impl Bundle {
    /// A bundle of an execute stage alone.
    ///
    /// # Safety
    /// The function is a handler of the ABI and stays loaded.
    #[must_use]
    pub unsafe fn execute(handler: XLA_FFI_Handler) -> Self {
        Self::default().stage(Stage::Execute, Some(handler))
    }

    /// The same bundle with one more stage.
    ///
    /// # Safety
    /// The function is a handler of the ABI and stays loaded.
    #[must_use]
    pub unsafe fn with(self, stage: Stage, handler: XLA_FFI_Handler) -> Self {
        self.stage(stage, Some(handler))
    }

    pub(crate) fn stage(mut self, stage: Stage, handler: Option<XLA_FFI_Handler>) -> Self {
        self.stages[stage as usize] = handler;
        self
    }

    pub(crate) fn from_raw(raw: &XLA_FFI_Handler_Bundle) -> Self {
        Self {
            stages: [
                raw.instantiate,
                raw.prepare,
                raw.initialize,
                raw.execute,
                raw.record,
            ],
        }
    }

    /// The function of a stage.
    #[must_use]
    pub fn get(&self, stage: Stage) -> Option<XLA_FFI_Handler> {
        self.stages[stage as usize]
    }

    /// Whether both name the same functions.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let addresses = |bundle: &Self| {
            bundle
                .stages
                .map(|stage| stage.map_or(0, |f| f as *const () as usize))
        };
        addresses(self) == addresses(other)
    }
}

/// A custom call's functions, accepted by a runtime.
#[derive(Clone)]
pub struct Handler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Arc<str>,
    pub(crate) bundle: Bundle,
    pub(crate) metadata: Option<Metadata>,
}

impl Handler {
    /// Asks the functions what they need, as a registration does, and refuses what a real host of
    /// this revision refuses.
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, bundle: Bundle) -> Result<Self> {
        let metadata = metadata::negotiate(shared, name, &bundle)?;
        Ok(Self {
            shared: shared.clone(),
            name: name.into(),
            bundle,
            metadata,
        })
    }

    /// The name it is known by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the handler said about itself; `None` on r0, which does not ask.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The functions.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Makes an executable with these attributes: runs the instantiate stage where the handler has
    /// one (r0 has no stage but execute). Its state lives as long as the executable.
    ///
    /// # Errors
    /// What the handler answers.
    pub fn instantiate(&self, attributes: &Attributes) -> Result<Executable> {
        let executable = Executable {
            handler: self.clone(),
            attributes: Encoded::new(attributes, self.shared.revision),
            state: Arc::default(),
        };
        if self.bundle.get(Stage::Instantiate).is_some() && self.shared.revision != Revision::R0 {
            crate::call::instantiate(&executable)?;
        }
        Ok(executable)
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

/// A handler with its attributes and the state of its instantiate stage.
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
pub struct Executable {
    pub(crate) handler: Handler,
    pub(crate) attributes: Arc<Encoded>,
    pub(crate) state: Arc<StateSlot>,
}

impl Executable {
    /// A call to be filled with operands.
    #[must_use]
    pub fn call(&self) -> Call {
        Call::new(self.clone(), Parts::new(&self.handler.shared))
    }

    /// The handler.
    #[must_use]
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    pub(crate) fn function(&self, stage: Stage) -> Result<XLA_FFI_Handler> {
        self.handler.bundle.get(stage).ok_or_else(|| {
            Error::invalid(format!(
                "handler '{}' has no {stage} stage",
                self.handler.name
            ))
        })
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("handler", &self.handler)
            .finish_non_exhaustive()
    }
}
