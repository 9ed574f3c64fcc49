//! Bundles: the functions of one custom call.

use crate::Stage;
use xla_ffi_sys::{XLA_FFI_Handler, XLA_FFI_Handler_Bundle};

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
