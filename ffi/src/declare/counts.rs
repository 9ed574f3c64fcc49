//! How many operands a stage takes.

use crate::param::{Param, Presence};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// Whether a stage's arguments, or its results, have to be as many as declared: always at execute;
/// elsewhere only if the stage takes any, since hosts may give none, or give them all.
pub(crate) const fn counts_matter(stage: u32, params: &[Param], args: bool) -> bool {
    if stage == XLA_FFI_ExecutionStage::EXECUTE.0 {
        return true;
    }
    let mut i = 0;
    while i < params.len() {
        if params[i].takes(args) {
            return true;
        }
        i += 1;
    }
    false
}

/// How many operands a stage takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// At least.
    pub(crate) min: usize,
    /// At most; `usize::MAX` with variadic operands.
    pub(crate) max: usize,
}

impl Counts {
    /// The arguments of a stage.
    #[must_use]
    pub(crate) const fn args(params: &[Param]) -> Self {
        Self::count(params, true)
    }

    /// The results of a stage.
    #[must_use]
    pub(crate) const fn rets(params: &[Param]) -> Self {
        Self::count(params, false)
    }

    const fn count(params: &[Param], args: bool) -> Self {
        let mut counts = Self { min: 0, max: 0 };
        let mut i = 0;
        let mut last = Presence::Required;
        while i < params.len() {
            let param = &params[i];
            i += 1;
            if !param.takes(args) {
                continue;
            }
            match param.presence {
                Presence::Required => {
                    assert!(
                        matches!(last, Presence::Required),
                        "a required operand stands behind an optional or variadic one"
                    );
                    counts.min += 1;
                    counts.max += 1;
                }
                Presence::Optional => {
                    assert!(
                        !matches!(last, Presence::Variadic),
                        "an optional operand stands behind a variadic one"
                    );
                    counts.max += 1;
                }
                Presence::Variadic => {
                    assert!(
                        !matches!(last, Presence::Variadic),
                        "two variadic operands of one kind"
                    );
                    counts.max = usize::MAX;
                }
            }
            last = param.presence;
        }
        counts
    }

    /// Whether `count` operands are right.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn contains(self, count: usize) -> bool {
        self.min <= count && count <= self.max
    }
}

/// For the macros: number of parameters that take arguments or results.
#[must_use]
pub const fn operands(params: &[Param], args: bool) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < params.len() {
        if params[i].takes(args) {
            count += 1;
        }
        i += 1;
    }
    count
}
