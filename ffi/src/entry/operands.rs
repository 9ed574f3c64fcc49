//! Checks that a call has the operands and attributes that the handler declares, and that no result shares memory
//! with another operand. Used by the macros.

use crate::declare::handler_info::{AttrNames, HandlerInfo};
use crate::declare::stage_params::{Counts, counts_matter, operands};
use crate::entry::Stage;
use crate::error::problems::{Problems, put};
use crate::error::wording;
use crate::frame::Frame;
use crate::frame::raw_buffer::RawBuffer;
use crate::param::{Param, Presence};

/// Returns true if the numbers of operands and attributes are as declared. Used by the macros.
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
    // Both lists are sorted, so one pass over both lists finds every name.
    if let Some(names) = names {
        let mut names = names.as_slice().iter();
        if (0..attrs.len()).all(|index| {
            let name = attrs.name(index);
            names.any(|known| known.as_bytes() == name)
        }) {
            return true;
        }
    }
    // The single pass also fails if the host does not sort the names, so check each name
    // separately.
    (0..attrs.len()).all(|index| {
        let name = attrs.name(index);
        info.attrs().any(|param| param.name.as_bytes() == name)
    })
}

/// The largest number of operands for which each pair of operands is compared.
const MOST_PAIRED: usize = 16;

/// Returns true if no nonempty result has the same address as another operand. `N` is the number of parameters that
/// accept arguments or results. Used by the macros.
///
/// Hosts guarantee that operands do not overlap partially. Operands share memory only if the program requests an exact
/// alias (`input_output_aliases`), which handlers declare as `InOut`.
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
        // Absent operands and operands that are not compared get a unique number.
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

/// Returns true if a result may have the same address as a preceding operand. The results start at index `args`.
/// False positives are possible.
#[inline(always)]
fn can_overlap<const N: usize>(starts: &[usize; N], args: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if N > 4 {
        return can_overlap_by_fours(starts, args);
    }
    (args..N).any(|ret| starts[..ret].contains(&starts[ret]))
}

/// Compares the low halves of addresses, four at a time. For 8 arguments and 8 results, this is twice as fast as the
/// portable version. Arguments in the same group of four as the first result are also compared with each other.
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
    // Missing entries get a unique number.
    let start = |index: usize| {
        starts
            .get(index)
            .map_or(index as i64, |start| *start as i64)
    };
    // SAFETY: every x86-64 processor has SSE2.
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

/// Returns for each operand, arguments first, whether it is compared with other operands. Operands in device memory
/// are not compared. Neither are the arguments of in-out parameters, because they have the same address as their
/// results.
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

/// A nonempty operand in host memory.
pub(crate) struct Placed {
    pub(crate) start: usize,
    pub(crate) is_ret: bool,
    pub(crate) name: &'static str,
}

/// Returns the nonempty operands in host memory, without the arguments of in-out parameters.
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

/// Returns true if a result has the same address as another operand.
#[cold]
#[inline(never)]
fn has_overlap(frame: Frame<'_>, params: &[Param]) -> bool {
    let mut text = String::new();
    let mut problems = Problems::new(&mut text, "");
    overlaps(&frame, params, &mut problems);
    !problems.is_empty()
}

/// Returns true if a result has the same address as another operand. Sorts the operands, for calls with many
/// operands.
#[inline(never)]
fn has_overlap_of_many(frame: Frame<'_>, params: &[Param]) -> bool {
    let mut all = placed(&frame, params);
    all.sort_unstable_by_key(|operand| operand.start);
    all.windows(2)
        .any(|pair| pair[0].start == pair[1].start && (pair[0].is_ret || pair[1].is_ret))
}

/// Reports by name the results that have the same address as another operand.
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
