//! Whether a shape contract and a handler's parameters agree, told when the handler is compiled.

use crate::declare::kind::Presence;
use crate::declare::param::Param;

/// One entry of a contract, as its text says it.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Number of dimensions, `...` not counted.
    pub dims: usize,
    /// Whether `...` is among them.
    pub ellipsis: bool,
    /// Whether it ends in `*`.
    pub repeats: bool,
    /// Whether it ends in `?`.
    pub optional: bool,
    /// Whether it is `token`.
    pub token: bool,
}

impl Written {
    /// Whether the entry fits operand `index` among the arguments or the results.
    #[must_use]
    pub const fn fits(self, params: &[Param], args: bool, index: usize) -> bool {
        let (mut seen, mut i) = (0, 0);
        while i < params.len() {
            let param = &params[i];
            if param.takes(args) {
                if seen == index {
                    return self.fits_param(param);
                }
                seen += 1;
            }
            i += 1;
        }
        true
    }

    const fn fits_param(self, param: &Param) -> bool {
        let rank = match param.rank {
            Some(rank) if self.ellipsis => self.dims <= rank,
            Some(rank) => self.dims == rank,
            None => true,
        };
        rank && self.repeats == matches!(param.presence, Presence::Variadic)
            && self.optional == matches!(param.presence, Presence::Optional)
            && (param.dtypes.is_any() || self.token == param.dtypes.is_only_token())
    }
}
