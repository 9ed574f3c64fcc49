//! The name of an instruction while a program is built.

/// An instruction of a program that is being built. It belongs to the builder that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub(super) builder: u64,
    pub(super) index: usize,
}

impl Op {
    /// The instruction's place in its program.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// Two numbers that stand for it, for other languages.
    #[must_use]
    pub fn to_raw(self) -> (u64, usize) {
        (self.builder, self.index)
    }

    /// What the two numbers stand for. Any are fine: what is not an instruction of a builder is told
    /// when its program is built.
    #[must_use]
    pub fn from_raw(builder: u64, index: usize) -> Self {
        Self { builder, index }
    }
}
