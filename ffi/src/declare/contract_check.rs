//! Whether a shape contract and a handler's parameters agree, told when the handler is compiled.

use crate::param::{Param, Presence};
use xla_ffi_contract::{Declared, Form};

/// Whether an entry fits operand `index` among the arguments or the results.
#[must_use]
pub const fn entry_fits(entry: Form, params: &[Param], args: bool, index: usize) -> bool {
    let (mut seen, mut i) = (0, 0);
    while i < params.len() {
        let param = &params[i];
        if param.takes(args) {
            if seen == index {
                return entry.clash(declared(param)).is_none();
            }
            seen += 1;
        }
        i += 1;
    }
    true
}

const fn declared(param: &Param) -> Declared {
    Declared {
        rank: param.rank,
        repeats: matches!(param.presence, Presence::Variadic),
        optional: matches!(param.presence, Presence::Optional),
        token: if param.dtypes.is_any() {
            None
        } else {
            Some(param.dtypes.is_only_token())
        },
    }
}
