//! Bundles, with which handlers are registered: one function per stage, and traits.

use crate::frame::Stage;
use std::ops::BitOr;
use xla_ffi_sys::{XLA_FFI_Handler, XLA_FFI_Handler_Bundle, XLA_FFI_Handler_TraitsBits};

/// The functions of a handler, one per stage, and the handler's traits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bundle {
    stages: [Option<XLA_FFI_Handler>; 5],
    pub(crate) traits: Traits,
}

impl Bundle {
    /// Returns a bundle with only an execute stage.
    ///
    /// # Safety
    /// The function must be a handler of the ABI and stay loaded.
    #[must_use]
    pub unsafe fn execute(handler: XLA_FFI_Handler) -> Self {
        Self::default().stage(Stage::Execute, Some(handler))
    }

    /// Returns this bundle with the given function for a stage.
    ///
    /// # Safety
    /// The function must be a handler of the ABI and stay loaded.
    #[must_use]
    pub unsafe fn with(self, stage: Stage, handler: XLA_FFI_Handler) -> Self {
        self.stage(stage, Some(handler))
    }

    /// Adds traits to those that the functions report in the metadata query.
    #[must_use]
    pub fn with_traits(mut self, traits: Traits) -> Self {
        self.traits = self.traits | traits;
        self
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
            traits: Traits::NONE,
        }
    }

    /// Returns the function of a stage; `None` if the bundle has no function for the stage.
    #[must_use]
    pub fn get(&self, stage: Stage) -> Option<XLA_FFI_Handler> {
        self.stages[stage as usize]
    }

    /// Returns true if both bundles have the same functions and traits.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let addresses = |bundle: &Self| {
            bundle
                .stages
                .map(|stage| stage.map_or(0, |f| f as *const () as usize))
        };
        addresses(self) == addresses(other) && self.traits == other.traits
    }
}

/// Traits of a handler, a set of flags.
///
/// ```
/// use xla_ffi_runtime::Traits;
///
/// let traits = Traits::NONE | Traits::COMMAND_BUFFER_COMPATIBLE;
/// assert!(traits.contains(Traits::COMMAND_BUFFER_COMPATIBLE));
/// assert_eq!(Traits::from(traits.bits()), traits);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traits(u32);

impl Traits {
    /// The empty set of traits.
    pub const NONE: Self = Self(0);
    /// The trait of handlers whose calls may be captured into a command buffer.
    pub const COMMAND_BUFFER_COMPATIBLE: Self =
        Self(XLA_FFI_Handler_TraitsBits::COMMAND_BUFFER_COMPATIBLE.0);

    /// Returns the traits as bits of the ABI.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if these traits include all traits of `others`.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl From<u32> for Traits {
    /// Converts bits of the ABI to traits, including bits without a known meaning.
    fn from(bits: u32) -> Self {
        Self(bits)
    }
}

impl BitOr for Traits {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}
