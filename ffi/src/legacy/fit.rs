//! Whether what `legacy!` says of a target is what its handler takes, told when the target is compiled: in a call, a
//! convention without a status tells nobody but standard error.

use crate::declare::counts::Counts;
use crate::declare::handler_info::HandlerInfo;
use crate::declare::param::{Param, Presence};
use crate::declare::text::same;
use xla_ffi_sys::XLA_FFI_DataType;

/// Whether a handler takes so many arguments, or results.
#[must_use]
pub const fn count_fits(params: &[Param], args: bool, count: usize) -> bool {
    if args {
        Counts::args(params).contains(count)
    } else {
        Counts::rets(params).contains(count)
    }
}

/// Whether a handler takes such an array for argument or result `index`; one that it has not is counted elsewhere.
#[must_use]
pub const fn operand_fits(
    params: &[Param],
    args: bool,
    index: usize,
    dtype: XLA_FFI_DataType,
    rank: usize,
) -> bool {
    let (mut seen, mut i) = (0, 0);
    while i < params.len() {
        let param = &params[i];
        i += 1;
        if !param.takes(args) {
            continue;
        }
        if seen == index || matches!(param.presence, Presence::Variadic) {
            let is_ranked = match param.rank {
                Some(wanted) => wanted == rank,
                None => true,
            };
            return is_ranked && param.dtypes.contains(dtype);
        }
        seen += 1;
    }
    true
}

/// Whether a handler needs no attribute but the one that the opaque bytes are.
#[must_use]
pub const fn has_attributes(params: &'static [Param], opaque: &str) -> bool {
    let mut i = 0;
    while i < params.len() {
        let mut m = 0;
        while let Some(attr) = params[i].attribute_at(m) {
            if matches!(attr.presence, Presence::Required) && !same(attr.name, opaque) {
                return false;
            }
            m += 1;
        }
        i += 1;
    }
    true
}

/// Whether a handler declares the attribute that the opaque bytes are.
#[must_use]
pub const fn declares(info: &HandlerInfo, opaque: &str) -> bool {
    info.attr_called(opaque).is_some()
}
