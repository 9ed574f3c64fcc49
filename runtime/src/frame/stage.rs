//! The stages of an execution.

use std::fmt;
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// A stage of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// Once when the executable is made: all attributes, no operands.
    Instantiate = XLA_FFI_ExecutionStage::INSTANTIATE.0 as u8,
    /// Before an execution, to request resources.
    Prepare = XLA_FFI_ExecutionStage::PREPARE.0 as u8,
    /// Before an execution, when the resources are there.
    Initialize = XLA_FFI_ExecutionStage::INITIALIZE.0 as u8,
    /// The call itself.
    Execute = XLA_FFI_ExecutionStage::EXECUTE.0 as u8,
    /// Recording into a command buffer; from r9.
    Record = XLA_FFI_ExecutionStage::RECORD.0 as u8,
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
        Self::ALL.into_iter().find(|stage| stage.raw().0 == raw)
    }

    /// The number as the ABI has it.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_ExecutionStage {
        XLA_FFI_ExecutionStage(self as u32)
    }

    /// The lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.raw().lower_name().unwrap_or_default()
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
