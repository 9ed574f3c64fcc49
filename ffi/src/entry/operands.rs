//! Whether a call has the operands and attributes that its handler declares: their numbers, and
//! that no result shares memory with another operand. For the macros.

use crate::declare::handler_info::{AttrNames, HandlerInfo};
use crate::declare::stage_params::{Counts, counts_matter, operands};
use crate::entry::Stage;
use crate::error::problems::{Problems, put};
use crate::error::wording;
use crate::frame::Frame;
use crate::frame::raw_buffer::RawBuffer;
use crate::param::{Param, Presence};

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

/// Up to so many operands are compared in pairs.
const MOST_PAIRED: usize = 16;

/// For the macros: whether no result that has elements starts where another operand starts. `N` is the number of parameters
/// that take arguments or results.
///
/// Hosts promise the rest: an operand has memory of its own, except where the program asks for an exact alias
/// (`input_output_aliases`), which handlers declare as `InOut`.
#[inline(always)]
pub fn has_no_overlap<H: Stage<S>, const S: u32, const N: usize>(frame: &Frame<'_>) -> bool {
    if const { operands(H::PARAMS, false) == 0 } {
        return true;
    }
    if const { N > MOST_PAIRED || has_variadic(H::PARAMS) } {
        return !has_overlap_of_many(*frame, H::PARAMS);
    }
    let args = const { operands(H::PARAMS, true) };
    let compared = const { compared::<N>(H::PARAMS) };
    let mut starts = [0; N];
    let start = |index: usize, raw: Option<RawBuffer<'_>>| match raw {
        Some(raw) if compared[index] => raw.data().addr(),
        // Absent, or not compared: a number that no other operand has.
        _ => index,
    };
    let (of_args, of_rets) = starts.split_at_mut(args);
    for (index, place) in of_args.iter_mut().enumerate() {
        *place = start(index, frame.arg(index));
    }
    for (index, place) in of_rets.iter_mut().enumerate() {
        *place = start(args + index, frame.ret(index));
    }
    !can_overlap(&starts, args) || !has_overlap(*frame, H::PARAMS)
}

/// Whether a number from `args` on may be equal to one before it. May be wrong where it says yes.
#[inline(always)]
fn can_overlap<const N: usize>(starts: &[usize; N], args: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if N > 4 {
        return can_overlap_by_fours(starts, args);
    }
    (args..N).any(|ret| starts[..ret].contains(&starts[ret]))
}

/// The same by the low halves of addresses, four by four: 8 arguments beside 8 results take half the time. Two arguments
/// among the four that the first result is in are compared, too.
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one reason for all: SSE2"
)]
#[inline(always)]
fn can_overlap_by_fours<const N: usize>(starts: &[usize; N], args: usize) -> bool {
    use std::arch::x86_64::{
        _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_epi8,
    };
    use std::arch::x86_64::{
        _mm_or_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi32, _mm_shuffle_ps,
    };
    // A start that is not there is one that no other operand has.
    let start = |index: usize| {
        starts
            .get(index)
            .map_or(index as i64, |start| *start as i64)
    };
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        let four = |group: usize| {
            let [a, b, c, d] = std::array::from_fn(|index| start(4 * group + index));
            let two = |low, high| _mm_castsi128_ps(_mm_set_epi64x(high, low));
            _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(two(a, b), two(c, d)))
        };
        let mut equal = _mm_setzero_si128();
        for group in args / 4..N.div_ceil(4) {
            let own = four(group);
            let turned = [
                own,
                _mm_shuffle_epi32::<0b00_11_10_01>(own),
                _mm_shuffle_epi32::<0b01_00_11_10>(own),
                _mm_shuffle_epi32::<0b10_01_00_11>(own),
            ];
            for turned in &turned[1..3] {
                equal = _mm_or_si128(equal, _mm_cmpeq_epi32(own, *turned));
            }
            for other in (0..group).map(four) {
                for turned in turned {
                    equal = _mm_or_si128(equal, _mm_cmpeq_epi32(other, turned));
                }
            }
        }
        _mm_movemask_epi8(equal) != 0
    }
}

const fn has_variadic(params: &[Param]) -> bool {
    let mut i = 0;
    while i < params.len() {
        if matches!(params[i].presence, Presence::Variadic) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether each operand is compared with others, arguments before results: if it is in host memory, and is not the argument
/// of an in-out parameter, which is where the result is.
const fn compared<const N: usize>(params: &[Param]) -> [bool; N] {
    let mut compared = [false; N];
    let (mut arg, mut ret, mut i) = (0, operands(params, true), 0);
    while i < params.len() {
        if params[i].takes_arg() {
            compared[arg] = !params[i].device && !params[i].takes_ret();
            arg += 1;
        }
        if params[i].takes_ret() {
            compared[ret] = !params[i].device;
            ret += 1;
        }
        i += 1;
    }
    compared
}

/// An operand in host memory that has elements.
pub(crate) struct Placed {
    pub(crate) start: usize,
    pub(crate) is_ret: bool,
    pub(crate) name: &'static str,
}

/// The operands in host memory that have elements. The argument of an in-out parameter is not among them.
pub(crate) fn placed(frame: &Frame<'_>, params: &[Param]) -> Vec<Placed> {
    let mut all = Vec::new();
    let (mut args, mut rets) = (0, 0);
    for param in params {
        let indices = |first: usize, count: usize| match param.presence {
            Presence::Variadic => first..count.max(first),
            _ => first..first + 1,
        };
        let mut add = |raw: Option<RawBuffer<'_>>, is_ret: bool| {
            let place = raw.and_then(RawBuffer::place).filter(|_| !param.device);
            all.extend(place.map(|(start, _)| Placed {
                start,
                is_ret,
                name: param.name,
            }));
        };
        if param.takes_arg() {
            for index in indices(args, frame.arg_count()) {
                if !param.takes_ret() {
                    add(frame.arg(index), false);
                }
                args += 1;
            }
        }
        if param.takes_ret() {
            for index in indices(rets, frame.ret_count()) {
                add(frame.ret(index), true);
                rets += 1;
            }
        }
    }
    all
}

/// Returns true if a result starts where another operand starts.
#[cold]
#[inline(never)]
fn has_overlap(frame: Frame<'_>, params: &[Param]) -> bool {
    let mut text = String::new();
    let mut problems = Problems::new(&mut text, "");
    overlaps(&frame, params, &mut problems);
    !problems.is_empty()
}

/// The same for many operands: sorts them.
#[inline(never)]
fn has_overlap_of_many(frame: Frame<'_>, params: &[Param]) -> bool {
    let mut all = placed(&frame, params);
    all.sort_unstable_by_key(|operand| operand.start);
    all.windows(2)
        .any(|pair| pair[0].start == pair[1].start && (pair[0].is_ret || pair[1].is_ret))
}

/// The results that start where other operands start, by name.
pub(crate) fn overlaps(frame: &Frame<'_>, params: &[Param], problems: &mut Problems<'_>) {
    let all = placed(frame, params);
    for (index, ret) in all.iter().enumerate().filter(|(_, operand)| operand.is_ret) {
        let same = |other: &&Placed| other.start == ret.start;
        let result = ["result `", ret.name, "`", wording::OVERLAPS];
        for arg in all.iter().filter(|other| !other.is_ret).filter(same) {
            let line = problems.line();
            put(line, &result);
            put(line, &["argument `", arg.name, "`", wording::ALIASED]);
        }
        for other in all[..index]
            .iter()
            .filter(|other| other.is_ret)
            .filter(same)
        {
            let line = problems.line();
            put(line, &result);
            put(line, &["result `", other.name, "`"]);
        }
    }
}
