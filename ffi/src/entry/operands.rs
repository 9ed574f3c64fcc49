//! Whether a call has the operands and attributes that its handler declares: their numbers, and
//! that results share no memory. For the macros.

use crate::bind::region::{Order, Region, Regions};
use crate::call::frame::Frame;
use crate::declare::at::At;
use crate::declare::counts::{Counts, counts_matter};
use crate::declare::handler_info::{AttrNames, HandlerInfo};
use crate::declare::kind::Presence;
use crate::declare::param::Param;
use crate::entry::handler::Stage;

/// For the macros: whether the numbers of operands and attributes are as declared.
#[doc(hidden)]
#[inline(always)]
pub fn counts<H: Stage<S>, const S: u32>(frame: &Frame<'_>) -> bool {
    let args = if const { counts_matter(S, H::PARAMS, true) } {
        const { Counts::args(H::PARAMS) }.contains(frame.arg_count())
    } else {
        true
    };
    let rets = if const { counts_matter(S, H::PARAMS, false) } {
        const { Counts::rets(H::PARAMS) }.contains(frame.ret_count())
    } else {
        true
    };
    let attrs = if const { H::INFO.open_attrs } {
        true
    } else if const { H::INFO.has_optional_attrs() } {
        frame.attrs().len() <= const { H::INFO.attr_count() }
            && all_known(*frame, &H::INFO, const { &H::INFO.attr_names() })
    } else {
        frame.attrs().len() == const { H::INFO.attr_count() }
    };
    args & rets & attrs
}

#[inline(never)]
fn all_known(frame: Frame<'_>, info: &HandlerInfo, names: &Option<AttrNames>) -> bool {
    let attrs = frame.attrs();
    // Both are sorted: one walk along the two finds each name behind the one before it.
    if let Some(names) = names {
        let mut names = names.as_slice().iter();
        if (0..attrs.len()).all(|index| {
            let name = attrs.name(index);
            names.any(|known| known.as_bytes() == name)
        }) {
            return true;
        }
    }
    // Unless one is not known, or the host does not sort.
    (0..attrs.len()).all(|index| {
        let name = attrs.name(index);
        info.attrs().any(|param| param.name.as_bytes() == name)
    })
}

/// For the macros: whether results overlap nothing. `regions` are those of the operands that parameters took one by
/// one, `ARGS` arguments before the results.
#[doc(hidden)]
#[inline(always)]
pub fn overlap_free<const ARGS: usize, const N: usize>(
    frame: &Frame<'_>,
    params: &[Param],
    regions: &Regions<N>,
    order: &Order,
) -> bool {
    let variadic = params
        .iter()
        .any(|param| matches!(param.presence, Presence::Variadic));
    crate::bind::region::apart::<ARGS, N>(regions, order)
        && !(variadic && crate::bind::remaining::overlap(frame, ARGS, N - ARGS))
}

/// For the macros: the numbers of operands that parameters take one by one.
#[doc(hidden)]
#[must_use]
pub const fn fixed(params: &[Param], args: bool) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < params.len() {
        let param = &params[i];
        if param.takes(args) && !matches!(param.presence, Presence::Variadic) {
            count += 1;
        }
        i += 1;
    }
    count
}

/// For the macros: files a parameter's region behind those of `args` arguments, or among them.
#[doc(hidden)]
#[inline(always)]
pub fn file_region<const N: usize>(at: &At, region: Region, args: usize, regions: &mut Regions<N>) {
    if matches!(at.param.presence, Presence::Variadic) {
        return;
    }
    if at.param.takes_ret() {
        regions.set(args + at.ret, region);
    } else if at.param.takes_arg() {
        regions.set(at.arg, region);
    }
}
