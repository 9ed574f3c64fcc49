//! The parameters of a stage: the number of operands that they accept, and their order.

use crate::context::{Context, Recorder};
use crate::param::text::Text;
use crate::param::{Kind, Param, Presence};
use xla_ffi_sys::XLA_FFI_ExecutionStage;

/// Returns true if the number of a stage's arguments or results must be as declared. In the execute stage, this is
/// always required. In other stages, it is required only if the stage has parameters for operands, because hosts may
/// pass no operands or all.
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

/// The range of operand counts that a stage accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The smallest accepted number of operands.
    pub(crate) min: usize,
    /// The largest accepted number of operands; `usize::MAX` if a parameter accepts all remaining
    /// operands.
    pub(crate) max: usize,
}

impl Counts {
    /// Returns the range for the arguments of a stage.
    #[must_use]
    pub(crate) const fn args(params: &[Param]) -> Self {
        Self::count(params, true)
    }

    /// Returns the range for the results of a stage.
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
                        "a required operand is after an optional or variadic one"
                    );
                    counts.min += 1;
                    counts.max += 1;
                }
                Presence::Optional => {
                    assert!(
                        !matches!(last, Presence::Variadic),
                        "an optional operand is after a variadic one"
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

    /// Returns true if `count` is within the range.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn contains(self, count: usize) -> bool {
        self.min <= count && count <= self.max
    }
}

/// Returns the number of parameters that accept arguments or results. Used by the macros.
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

/// Returns true if the parameter is the context part called `name`.
const fn is_part(param: &Param, name: &str) -> bool {
    crate::param::text::same(param.context, name)
}

/// Panics if parameter `index` of a stage is not allowed or has invalid options. `attr` is true if the parameter has
/// `#[attr(…)]`. Used by the macros.
#[track_caller]
pub const fn check_param(params: &[Param], index: usize, stage: u32, attr: bool) {
    const RECORDER: &str = <Recorder<'static> as Context<'static>>::NAME;
    let param = &params[index];
    assert!(
        !attr || matches!(param.kind, Kind::Attr),
        "`#[attr(…)]` is for attributes: remove it here"
    );
    param.check_options();
    assert!(
        stage == XLA_FFI_ExecutionStage::EXECUTE.0 || !is_part(param, crate::future::CONTEXT),
        "only the `execute` stage can complete later: remove `Later` from this stage"
    );
    let mut i = 0;
    while i < index {
        let before = &params[i];
        i += 1;
        assert!(
            !(is_part(param, crate::future::CONTEXT) && is_part(before, crate::future::CONTEXT)),
            "a call completes once: remove the second `Later`"
        );
        assert!(
            !(is_part(param, RECORDER) && is_part(before, RECORDER)),
            "remove the second `Recorder`: one records all commands of the call"
        );
        if !(param.takes_arg() && before.takes_arg() || param.takes_ret() && before.takes_ret()) {
            continue;
        }
        let why = match (before.presence, param.presence) {
            (Presence::Variadic, Presence::Variadic) => "takes all remaining operands: remove `",
            (Presence::Variadic, _) => "takes all remaining operands: put it after `",
            (Presence::Optional, Presence::Required) => "is optional: put it after `",
            _ => continue,
        };
        let message = Text::new().raw("`").raw(before.name).raw("` ").raw(why);
        message.raw(param.name).raw("`").fail();
    }
}

/// Returns true if a parameter reads or writes host memory.
pub(crate) const fn uses_host_memory(params: &[Param]) -> bool {
    let mut i = 0;
    while i < params.len() {
        if (params[i].takes_arg() || params[i].takes_ret()) && !params[i].device {
            return true;
        }
        i += 1;
    }
    false
}
