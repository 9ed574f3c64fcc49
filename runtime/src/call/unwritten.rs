//! Detects results that a handler did not write: fills the results with random bytes before the call, and searches
//! for these bytes after the call.
//!
//! The bytes depend on their position and differ between calls. The probability that a handler writes eight
//! consecutive bytes of this pattern by chance is 1 in 2^64 per position. Shorter unchanged ranges are accepted, for
//! example single omitted elements. Results of less than eight bytes are only refused if they have four bytes or more
//! and none was written (1 in 2^32).

use crate::frame::CallFrame;
use crate::value::{Shape, Tensor};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};

/// The number of consecutive unchanged bytes that count as proof that the handler did not write them.
const PROOF: usize = 8;
/// The maximum number of element ranges in the error message.
const NAMED: usize = 4;

/// A result that the handler must write, because no argument or other result starts at the same address.
pub(crate) struct Place {
    index: usize,
    shape: Shape,
    data: *mut u8,
}

/// Returns the results that the handler must write: those that do not start at the address of a different operand.
fn places(args: &[(Shape, *mut c_void)], rets: Vec<(Shape, *mut c_void)>) -> Vec<Place> {
    // Counting addresses is linear in the number of operands; comparing them in pairs is quadratic.
    let mut starts = HashMap::new();
    for (_, data) in args.iter().chain(&rets) {
        *starts.entry(*data).or_insert(0) += 1;
    }
    let place = |(index, (shape, data)): (usize, (Shape, *mut c_void))| {
        let is_alone = !data.is_null() && shape.bytes() > 0 && starts[&data] == 1;
        is_alone.then_some(Place {
            index,
            shape,
            data: data.cast(),
        })
    };
    rets.into_iter().enumerate().filter_map(place).collect()
}

/// The random bytes with which the results of a call were filled.
pub struct Poison {
    seed: u64,
    places: Vec<Place>,
}

// SAFETY: the pointers in `places` are only used while the call that owns their memory exists.
unsafe impl Send for Poison {}
// SAFETY: the memory cannot be accessed through a shared reference.
unsafe impl Sync for Poison {}

impl Poison {
    /// Fills the results of a frame with random bytes, except results that start at the address of a different
    /// operand.
    ///
    /// # Safety
    /// The frame's data must be host memory of the shapes' sizes. No other code may use it during the call.
    pub(crate) unsafe fn frame(frame: &CallFrame) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::fill(places(&frame.args(), frame.rets())) }
    }

    /// Fills the results of a call on tensors with random bytes, except results that start at the address of a
    /// different operand.
    ///
    /// # Safety
    /// No other code may use the tensors during the call.
    pub unsafe fn tensors(args: &[Tensor], rets: &[Tensor]) -> Self {
        let list = |tensors: &[Tensor]| -> Vec<_> {
            let operand = |tensor: &Tensor| (tensor.shape().clone(), tensor.data());
            tensors.iter().map(operand).collect()
        };
        // SAFETY: guaranteed by the caller; tensors are host memory of their shapes' sizes.
        unsafe { Self::fill(places(&list(args), list(rets))) }
    }

    /// Fills the memory of the results with random bytes.
    ///
    /// # Safety
    /// The memory must be writable.
    unsafe fn fill(places: Vec<Place>) -> Self {
        // Each `RandomState` has new random keys, so its hash is random enough for a seed.
        let seed = RandomState::new().hash_one(places.len());
        for place in &places {
            let bytes = place.shape.bytes();
            for start in (0..bytes).step_by(PROOF) {
                let count = PROOF.min(bytes - start);
                let word = word(seed, place.index, start);
                // SAFETY: `start` is less than the size of the result.
                let at = unsafe { place.data.add(start) };
                // SAFETY: `count` bytes remain from `at` to the end of the result, whose memory is writable.
                unsafe { at.copy_from_nonoverlapping(word.as_ptr(), count) };
            }
        }
        Self { seed, places }
    }

    /// Returns an error if an execution left results unwritten.
    ///
    /// # Errors
    /// `INTERNAL` with a hazard for each result that was not written.
    ///
    /// # Safety
    /// The results must still exist, and no code may write them during this function.
    pub unsafe fn check(self) -> Result<()> {
        let mut findings = vec![];
        for place in &self.places {
            // SAFETY: the slice has the size of the result, and `fill` has initialised all bytes.
            let bytes = unsafe { std::slice::from_raw_parts(place.data, place.shape.bytes()) };
            let runs = left(self.seed, place.index, bytes);
            if !runs.is_empty() {
                let message = describe(place, &runs);
                findings.push(Finding::new(Hazard::UnwrittenResult, message));
            }
        }
        if findings.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        Err(Error::new(ErrorCode::Internal, lines.join("\n")).with_findings(findings))
    }
}

/// Returns the eight random bytes of result `index` that start at byte `start`.
fn word(seed: u64, index: usize, start: usize) -> [u8; PROOF] {
    // The generator SplitMix64, with a separate sequence for each result.
    let step = (start / PROOF) as u64 + 1;
    let mut word = seed
        .wrapping_add((index as u64) << 32)
        .wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

/// Returns the ranges of unchanged bytes that are long enough as proof.
fn left(seed: u64, index: usize, bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs = vec![];
    let mut begin = 0;
    let mut close = |begin: usize, end: usize| {
        let all = end - begin == bytes.len() && bytes.len() >= 4;
        if end - begin >= PROOF || all {
            runs.push(begin..end);
        }
    };
    for (chunk, at) in bytes.chunks(PROOF).zip((0..).step_by(PROOF)) {
        let poison = word(seed, index, at);
        if chunk == poison {
            continue;
        }
        for (place, (byte, poison)) in chunk.iter().zip(poison).enumerate() {
            if *byte != poison {
                close(begin, at + place);
                begin = at + place + 1;
            }
        }
    }
    close(begin, bytes.len());
    runs
}

/// Returns the elements that are completely within the byte range. If the range contains no complete element, returns
/// the elements that it partly covers.
fn elements(shape: &Shape, bytes: &Range<usize>) -> Range<usize> {
    let bits = shape.dtype().bits().max(1);
    // If a byte is unwritten, so are all elements that are packed into it.
    let (start, end) = (bytes.start * 8, bytes.end * 8);
    let whole = start.div_ceil(bits)..(end / bits).min(shape.elements());
    if whole.is_empty() {
        return start / bits..end.div_ceil(bits).min(shape.elements());
    }
    whole
}

fn describe(place: &Place, runs: &[Range<usize>]) -> String {
    let Place { index, shape, .. } = place;
    let mut text = format!("result {index} ({shape}): ");
    if matches!(runs, [run] if run.len() == shape.bytes()) {
        text.push_str("the handler never wrote it");
    } else {
        text.push_str("the handler never wrote element");
        let ranges: Vec<_> = runs.iter().map(|run| elements(shape, run)).collect();
        let one = ranges.len() == 1 && ranges[0].len() == 1;
        text.push_str(if one { " " } else { "s " });
        for (number, range) in ranges.iter().take(NAMED).enumerate() {
            text.push_str(if number > 0 { ", " } else { "" });
            // Writing to a `String` does not fail.
            let _ = match range.len() {
                1 => write!(text, "{}", range.start),
                _ => write!(text, "{} to {}", range.start, range.end.saturating_sub(1)),
            };
        }
        if ranges.len() > NAMED {
            let _ = write!(text, " and {} ranges more", ranges.len() - NAMED);
        }
    }
    text + ": on a real XLA whatever lay in that memory is the result"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DType;

    /// Returns the error message for a result of which only the bytes that `writes` accepts are written.
    fn told(dtype: DType, elements: i64, writes: impl Fn(usize) -> bool) -> Option<String> {
        let mut ret = Tensor::zeros(Shape::new(dtype, [elements]).unwrap()).unwrap();
        // SAFETY: no other code uses the tensor.
        let poison = unsafe { Poison::tensors(&[], std::slice::from_ref(&ret)) };
        for (at, byte) in ret.bytes_mut().unwrap().iter_mut().enumerate() {
            *byte = if writes(at) { !*byte } else { *byte };
        }
        // SAFETY: the tensor still exists.
        let error = unsafe { poison.check() }.err()?;
        assert!(error.has(Hazard::UnwrittenResult));
        let (_, told) = error.message().split_once("never wrote ")?;
        Some(told.split(':').next()?.to_owned())
    }

    #[test]
    fn eight_bytes_in_a_row_are_told_by_element() {
        let says = |said: Option<String>, what: &str| assert_eq!(said.as_deref(), Some(what));
        says(told(DType::F32, 4, |_| false), "it");
        says(told(DType::F32, 4, |at| at < 8), "elements 2 to 3");
        // The unwritten bytes start and end within eight-byte words.
        says(
            told(DType::U8, 40, |at| !(3..11).contains(&at)),
            "elements 3 to 10",
        );
        says(
            told(DType::U8, 160, |at| at % 16 == 0),
            "elements 1 to 15, 17 to 31, 33 to 47, 49 to 63 and 6 ranges more",
        );
        says(told(DType::S4, 33, |at| at < 8), "elements 16 to 32");
        // Only half of the last element is unwritten.
        says(told(DType::C128, 2, |at| at < 24), "element 1");
        says(told(DType::F32, 1, |_| false), "it");
        for (elements, every) in [(100, 1), (40, 8), (3, 9), (0, 1)] {
            assert_eq!(
                told(DType::U8, elements, |at| at % every == every - 1),
                None
            );
        }
    }

    #[test]
    fn memory_of_others_is_let_alone() {
        let arg = Tensor::from_slice([4], &[1_i32, 2, 3, 4]).unwrap();
        let own = Tensor::zeros(arg.shape().clone()).unwrap();
        let rets = [arg.clone(), own.clone(), own];
        // SAFETY: no other code uses the tensors.
        let poison = unsafe { Poison::tensors(std::slice::from_ref(&arg), &rets) };
        assert_eq!(arg.to_vec::<i32>().unwrap(), [1, 2, 3, 4]);
        // SAFETY: the tensors still exist.
        assert!(unsafe { poison.check() }.is_ok());
    }
}
