//! What a handler promises its host.

use std::ops::BitOr;
use xla_ffi_sys::XLA_FFI_Handler_TraitsBits;

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
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Calls may be captured into a command buffer.
    pub const COMMAND_BUFFER_COMPATIBLE: Self =
        Self(XLA_FFI_Handler_TraitsBits::COMMAND_BUFFER_COMPATIBLE.0);

    /// As the ABI has them.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of the others are among these.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl From<u32> for Traits {
    /// Of the ABI's bits, also of such that are not known yet.
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
