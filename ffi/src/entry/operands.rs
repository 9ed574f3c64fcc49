//! Whether a call has the operands and attributes that its handler declares: their numbers, and
//! that results share no memory. For the macros.

use crate::bind::region::{Order, Region, Regions, Starts};
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

/// For the macros: whether no operand among those that parameters take in any number shares memory with a result.
/// Parameters take `args` arguments and `rets` results one by one.
#[doc(hidden)]
#[inline(always)]
pub fn remaining_apart(frame: &Frame<'_>, params: &[Param], args: usize, rets: usize) -> bool {
    let variadic = params
        .iter()
        .any(|param| matches!(param.presence, Presence::Variadic));
    !(variadic && crate::bind::remaining::overlap(frame, args, rets))
}

/// For the macros: whether results overlap nothing, of operands that parameters took one by one, `args` arguments before
/// the results.
#[doc(hidden)]
#[inline(always)]
pub fn is_disjoint<const N: usize>(regions: &Regions<N>, args: usize) -> bool {
    regions.is_disjoint(args)
}

/// For the macros: whether tags of operands are compared all at once: where there are several, and each call has them.
#[doc(hidden)]
#[must_use]
pub const fn are_tagged(params: &[Param]) -> bool {
    let mut i = 0;
    while i < params.len() {
        let param = &params[i];
        let takes = param.takes(true) || param.takes(false);
        if takes && !matches!(param.presence, Presence::Required) {
            return false;
        }
        i += 1;
    }
    fixed(params, true) + fixed(params, false) > 4
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

/// Where the region of a parameter's operand stands, if it takes one by itself: those of `args` arguments come first.
#[inline(always)]
fn place(at: &At, args: usize) -> Option<usize> {
    if matches!(at.param.presence, Presence::Variadic) {
        None
    } else if at.param.takes_ret() {
        Some(args + at.ret)
    } else if at.param.takes_arg() {
        Some(at.arg)
    } else {
        None
    }
}

/// For the macros: files a parameter's region behind those of `args` arguments, or among them.
#[doc(hidden)]
#[inline(always)]
pub fn file_region<const N: usize>(at: &At, region: Region, args: usize, regions: &mut Regions<N>) {
    if let Some(index) = place(at, args) {
        regions.set(index, region);
    }
}

/// Where the argument of an in-out parameter stands. It lies where the result does, and counts as nowhere.
#[inline(always)]
fn twin(at: &At) -> Option<usize> {
    (place(at, 0).is_some() && at.param.takes_ret() && at.param.takes_arg()).then_some(at.arg)
}

/// For the macros: the same for where it starts.
#[doc(hidden)]
#[inline(always)]
pub fn file_start<const N: usize>(at: &At, region: Region, args: usize, starts: &mut Starts<N>) {
    if let Some(index) = place(at, args) {
        starts.set(index, region);
    }
    if let Some(index) = twin(at) {
        starts.set(index, Region::EMPTY);
    }
}

/// For the macros: whether a parameter's region ends before the one starts that an order has behind it.
#[doc(hidden)]
#[inline(always)]
pub fn leads<const N: usize>(
    at: &At,
    region: Region,
    args: usize,
    order: &Order<N>,
    starts: &Starts<N>,
) -> bool {
    place(at, args).is_none_or(|index| order.leads(index, region, starts))
        && twin(at).is_none_or(|index| order.leads(index, Region::EMPTY, starts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::kind::Kind;
    use crate::{DataType, DataTypes};

    #[test]
    fn in_out_operands_have_an_order() {
        let param = Param::operand(Kind::InOut, DataTypes::only(DataType::F32), None);
        let at = [0, 1].map(|index| At {
            param,
            arg: index,
            ret: index,
            attr: 0,
        });
        let region = |start| Region::new(std::ptr::without_provenance(start), 8);
        let regions = [region(64), region(32)];
        // Two arguments and two results.
        let order = Order::<5>::declared();
        let is_proof = || {
            let mut starts = Starts::none();
            for (at, region) in at.iter().zip(regions) {
                file_start(at, region, 2, &mut starts);
            }
            let version = order.version();
            order.has_address(&starts)
                && at
                    .iter()
                    .zip(regions)
                    .all(|(at, region)| leads(at, region, 2, &order, &starts))
                && order.held(version)
        };
        assert!(!is_proof());
        let mut all = Regions::<4>::empty();
        for (at, region) in at.iter().zip(regions) {
            file_region(at, region, 2, &mut all);
        }
        assert!(order.sort(2, &all));
        assert!(is_proof());
    }
}
