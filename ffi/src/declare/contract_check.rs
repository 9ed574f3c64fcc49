//! Whether a shape contract and a handler's parameters agree, told when the handler is compiled.

use crate::declare::param::{Param, Presence};
use crate::declare::text::same;
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

/// Whether the operands that have one more dimension in a batch of calls may be of any rank: the arguments that `leads`
/// says so of, by their index, or all of them without it, and beside such an argument all results. Tokens have none.
#[must_use]
pub const fn takes_batch(params: &[Param], leads: Option<&[bool]>) -> bool {
    let (mut fits, mut any, mut fixed_result, mut index, mut i) = (true, false, false, 0, 0);
    while i < params.len() {
        let param = &params[i];
        let is_token = param.dtypes.is_only_token();
        if param.takes(true) {
            let leads = match leads {
                None => true,
                Some(words) => index < words.len() && words[index],
            };
            any |= leads && !is_token;
            fits &= !leads || is_token || param.rank.is_none();
            index += 1;
        }
        fixed_result |= param.takes(false) && !is_token && param.rank.is_some();
        i += 1;
    }
    fits && !(any && fixed_result)
}

/// Whether an operand has that name.
#[must_use]
pub const fn is_operand(params: &[Param], name: &str) -> bool {
    let mut i = 0;
    while i < params.len() {
        let is_one = params[i].takes(true) || params[i].takes(false);
        if is_one && same(params[i].name, name) {
            return true;
        }
        i += 1;
    }
    false
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
