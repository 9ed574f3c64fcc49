//! Shape contracts: relations between the dimensions of operands.
//!
//! A contract is text such as `"b n k, b k m -> b n m"`. It has one entry per argument, an arrow, and one entry per
//! result, in the order of the parameters. The entries have the following grammar:
//!
//! | entry | meaning |
//! |---|---|
//! | `n m` | rank 2; the same name is the same size everywhere in the contract |
//! | `3 n` | the first dimension is 3 |
//! | `_ n` | the first dimension may have any size |
//! | `... n` | any number of dimensions, then `n`; `...` is the same dimensions everywhere |
//! | `()` | a scalar |
//! | `token` | a token |
//! | `n?` at the end of an entry, as in `n m?` | the operand may be absent |
//! | `*` at the end of an entry, as in `n m*` | any number of operands, each of this shape |
//! | `n+1`, `n-1`, `2*n`, `n/2` | in results: computed from `n`; can be combined in this order, `3*n/2-1` |
//!
//! A name can also refer to an integer attribute of any stage of the handler, including in arguments. The attribute
//! must be required or have a literal default.
//!
//! A call is rejected if an attribute that provides a size is negative. It is also rejected if a division leaves a
//! remainder, or a computed size is negative or exceeds an `i64`. Use `_` for the size of a result that cannot be
//! determined. A name that belongs to neither an argument nor an attribute does not compile.
//!
//! The macros parse the contract at compile time and generate comparisons, which run after the operands are
//! decoded. The manifest contains the contract, so that callers can infer result shapes. For constraints
//! that a contract cannot express, use the functions of [`matching`](crate::matching).
//!
//! ```
//! use xla_ffi::prelude::*;
//!
//! #[xla_ffi::handler(shape = "n k, k m -> n m")]
//! fn product(a: Buffer<f32, 2>, b: Buffer<f32, 2>, mut y: Out<f32, 2>) -> Result<()> {
//!     let ([_, k], [_, m]) = (a.shape(), b.shape());
//!     y.write_with(|i| (0..k).map(|j| a[i / m * k + j] * b[j * m + i % m]).sum());
//!     Ok(())
//! }
//!
//! # use xla_ffi::embed::{self, DType, Shape, Tensor};
//! let error = embed::call::<product>("{}")?
//!     .arg(Tensor::from_slice([1, 2], &[1.0_f32, 2.0])?)
//!     .arg(Tensor::from_slice([3, 1], &[1.0_f32, 2.0, 3.0])?)
//!     .ret(Shape::new(DType::F32, [1, 1])?)
//!     .run()
//!     .unwrap_err();
//! assert!(error.message().contains(
//!     "argument `b`: expected F32[k, m] with k = 2 from argument `a`, got F32[3, 1]"
//! ));
//! # Ok::<(), xla_ffi::Error>(())
//! ```
//!
//! The contract of the following handler has a size from an attribute, and computed sizes:
//!
//! ```
//! use xla_ffi::prelude::*;
//!
//! #[xla_ffi::handler(shape = "n -> n/2 width")]
//! fn pairs(x: Buffer<f32, 1>, mut y: Out<f32, 2>, width: i32) -> Result<()> {
//!     y.write_with(|i| x[2 * (i / width as usize)]);
//!     Ok(())
//! }
//!
//! # use xla_ffi::embed::{self, DType, Shape, Tensor};
//! let call = |dims: [i64; 2]| {
//!     embed::call::<pairs>("{width = 3 : i32}")?
//!         .arg(Tensor::from_slice([4], &[1.0_f32, 2.0, 3.0, 4.0])?)
//!         .ret(Shape::new(DType::F32, dims)?)
//!         .run()
//! };
//! let rows = call([2, 3])?.rets[0].to_vec();
//! assert_eq!(rows, Some(vec![1.0_f32, 1.0, 1.0, 3.0, 3.0, 3.0]));
//! assert!(call([4, 3]).unwrap_err().message().contains(
//!     "result `y`: expected F32[n/2, width] with n = 4 from argument `x`, n/2 = 2, width = 3 from \
//!      attribute `width`, got F32[4, 3]"
//! ));
//! # Ok::<(), xla_ffi::Error>(())
//! ```

use crate::declare::contract::{Given, NotGiven};
use crate::declare::stage_params::Counts;
use crate::error::Result;
use crate::error::problems::{Problems, dims as write_dims, number, put};
use crate::frame::Frame;
use crate::frame::element::name as dtype_name;
use crate::frame::raw_buffer::RawBuffer;
use crate::param::Param;
use crate::param::mismatch::show;

/// One dimension of an entry.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A named size, by its index in [`Contract::names`].
    Name(usize),
    /// A fixed size.
    Size(usize),
    /// Any size.
    Any,
    /// Any number of dimensions, the same in all entries.
    Ellipsis,
    /// A size that is computed from a named size.
    Computed(Computed),
}

/// A computed size of a result: `times * name / over + plus`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed {
    /// The computed size as written in the contract.
    pub text: &'static str,
    /// The index of the named size in [`Contract::names`].
    pub name: usize,
    /// The factor of the named size.
    pub times: i64,
    /// The divisor of the product.
    pub over: i64,
    /// The number that is added to the quotient.
    pub plus: i64,
}

impl Computed {
    /// Returns the computed size if the named size is `size`, or the reason why there is none. Must match
    /// `Computed::of` of `xla-ffi-contract`; a test compares both functions.
    #[inline(always)]
    fn of(self, size: i64) -> Result<i64, &'static str> {
        let product = size.checked_mul(self.times).ok_or("is too large")?;
        if product % self.over != 0 {
            return Err("leaves a remainder");
        }
        match (product / self.over).checked_add(self.plus) {
            None => Err("is too large"),
            Some(sum) if sum < 0 => Err("is negative"),
            Some(sum) => Ok(sum),
        }
    }
}

/// One operand of a contract.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operand's dimensions.
    pub dims: &'static [Dim],
    /// Whether the entry describes all remaining operands.
    pub repeats: bool,
}

/// The number of sizes that a contract may name. Must equal the grammar's `MAX_NAMES`, which a test checks.
#[doc(hidden)]
pub const MAX_NAMES: usize = 26;

/// A parsed contract.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// The contract's text.
    pub text: &'static str,
    /// The names of sizes, in the order in which they occur.
    pub names: &'static [&'static str],
    /// For each name, the attribute that provides the size, if there is one.
    pub given: &'static [Option<Given>],
    /// The entries of the arguments, in order.
    pub args: &'static [Entry],
    /// The entries of the results, in order.
    pub rets: &'static [Entry],
}

/// The values of a contract's names in one call. Used to explain a violated contract. The code that the macros
/// generate detects the violation; see `Contract::comparisons` in `xla-ffi-macros`.
#[derive(Clone, Copy)]
struct Sizes<'f> {
    named: [i64; MAX_NAMES],
    ellipsis: Option<&'f [i64]>,
}

const UNKNOWN: i64 = -1;

impl<'f> Sizes<'f> {
    fn new() -> Self {
        Self {
            named: [UNKNOWN; MAX_NAMES],
            ellipsis: None,
        }
    }

    fn takes_one(&mut self, dim: Dim, size: i64) -> bool {
        match dim {
            Dim::Any => true,
            Dim::Size(expected) => expected as i64 == size,
            Dim::Name(name) => {
                let known = &mut self.named[name];
                if *known == UNKNOWN {
                    *known = size;
                }
                *known == size
            }
            // If an attribute fails to provide a size, `explain_attribute` reports the problem.
            Dim::Computed(computed) => {
                let known = self.named[computed.name];
                known == UNKNOWN || computed.of(known) == Ok(size)
            }
            Dim::Ellipsis => false,
        }
    }

    fn takes(&mut self, dims: &[Dim], sizes: &'f [i64]) -> bool {
        let mut ellipsis = dims.len();
        let mut i = 0;
        while i < dims.len() {
            if matches!(dims[i], Dim::Ellipsis) {
                ellipsis = i;
            }
            i += 1;
        }
        if ellipsis == dims.len() {
            if sizes.len() != dims.len() {
                return false;
            }
        } else if sizes.len() + 1 < dims.len() {
            return false;
        }
        let mut good = true;
        let mut i = 0;
        while i < ellipsis {
            good &= self.takes_one(dims[i], sizes[i]);
            i += 1;
        }
        if ellipsis < dims.len() {
            let skip = sizes.len() + 1 - dims.len();
            let middle = &sizes[ellipsis..ellipsis + skip];
            good &= match self.ellipsis {
                None => {
                    self.ellipsis = Some(middle);
                    true
                }
                Some(known) => known == middle,
            };
            let mut i = ellipsis + 1;
            while i < dims.len() {
                good &= self.takes_one(dims[i], sizes[i + skip - 1]);
                i += 1;
            }
        }
        good
    }
}

/// Returns the dimensions of an argument, or `None` if the argument is absent. Used by the macros.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn arg_dims<'f>(frame: &Frame<'f>, index: usize) -> Option<&'f [i64]> {
    frame.arg(index).map(RawBuffer::raw_dims)
}

/// Returns the dimensions of a result, or `None` if the result is absent. Used by the macros.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn ret_dims<'f>(frame: &Frame<'f>, index: usize) -> Option<&'f [i64]> {
    frame.ret(index).map(RawBuffer::raw_dims)
}

/// Returns true if `size` equals the known value of a named size. An unknown value becomes `size`.
/// Used by the macros.
#[doc(hidden)]
#[inline(always)]
pub fn same_size(known: &mut Option<i64>, size: i64) -> bool {
    *known.get_or_insert(size) == size
}

/// Returns true if `dims` equal the known dimensions of `...`. Unknown dimensions become `dims`.
/// Used by the macros.
#[doc(hidden)]
#[inline(always)]
pub fn same_dims<'f>(known: &mut Option<&'f [i64]>, dims: &'f [i64]) -> bool {
    *known.get_or_insert(dims) == dims
}

/// Returns true if `size` matches the value that is computed from a named size. Used by the macros.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn computes(computed: Computed, known: Option<i64>, size: i64) -> bool {
    known.is_some_and(|known| computed.of(known) == Ok(size))
}

impl Contract {
    /// Reports the operands that violate the contract, and how, if there are no other problems.
    #[cold]
    pub fn explain<'f>(
        &self,
        frame: &Frame<'f>,
        params: &'static [Param],
        problems: &mut Problems<'_>,
    ) {
        if !problems.is_empty()
            || !Counts::args(params).contains(frame.arg_count())
            || !Counts::rets(params).contains(frame.ret_count())
        {
            return;
        }
        let mut sizes = Sizes::new();
        // For each name, the operand or attribute that determined its size.
        let mut origins = [None; MAX_NAMES];
        for (index, given) in self.given.iter().enumerate() {
            let Some(given) = given else { continue };
            match given.size(frame) {
                Ok(size) => {
                    sizes.named[index] = size;
                    origins[index] = Some(("attribute", given.name));
                }
                Err(why) => self.explain_attribute(given, why, params, problems),
            }
        }
        let args = sides(self.args, frame.arg_count(), "argument");
        let rets = sides(self.rets, frame.ret_count(), "result");
        for place in args.chain(rets) {
            let is_arg = place.side == "argument";
            let raw = if is_arg {
                frame.arg(place.index)
            } else {
                frame.ret(place.index)
            };
            let Some(raw) = raw else { continue };
            let takes = if is_arg {
                Param::takes_arg
            } else {
                Param::takes_ret
            };
            let mut operands = params.iter().filter(|param| takes(param));
            let Some(param) = operands.nth(place.entry) else {
                continue;
            };
            if crate::param::mismatch::is_misshapen(raw, param) {
                continue;
            }
            let name = param.name;
            let entry = place.shape;
            let known = sizes;
            if sizes.takes(entry.dims, raw.raw_dims()) {
                for (index, origin) in origins.iter_mut().enumerate() {
                    if known.named[index] != sizes.named[index] {
                        *origin = Some((place.side, name));
                    }
                }
                continue;
            }
            sizes = known;
            let text = problems.line();
            put(text, &[place.side, " `", name, "`"]);
            if place.shape.repeats {
                text.push_str(" (");
                number(text, place.index as i64);
                text.push(')');
            }
            put(text, &[": expected ", &*dtype_name(raw.dtype()), "["]);
            self.spell(text, entry);
            text.push(']');
            let mut joint = " with ";
            let mut told = 0_u32;
            for dim in entry.dims {
                let index = match dim {
                    Dim::Name(index) => *index,
                    Dim::Computed(computed) => computed.name,
                    _ => continue,
                };
                let size = known.named[index];
                if size == UNKNOWN {
                    continue;
                }
                if told & 1 << index == 0 {
                    told |= 1 << index;
                    put(text, &[joint, self.names[index], " = "]);
                    number(text, size);
                    if let Some((side, name)) = origins[index] {
                        put(text, &[" from ", side, " `", name, "`"]);
                    }
                    joint = ", ";
                }
                if let Dim::Computed(computed) = dim {
                    match computed.of(size) {
                        Ok(size) => {
                            put(text, &[joint, computed.text, " = "]);
                            number(text, size);
                        }
                        Err(why) => put(text, &[joint, computed.text, ", which ", why]),
                    }
                }
            }
            if let Some(dims) = known.ellipsis {
                if entry.dims.contains(&Dim::Ellipsis) {
                    put(text, &[joint, "... = "]);
                    write_dims(text, dims);
                }
            }
            text.push_str(", got ");
            show(text, raw);
            put(text, &["; the contract is `", self.text, "`"]);
        }
    }

    /// Reports why an attribute does not provide a size, unless the attribute's parameter reports
    /// the same problem.
    fn explain_attribute(
        &self,
        given: &Given,
        why: NotGiven,
        params: &'static [Param],
        problems: &mut Problems<'_>,
    ) {
        let taken = (params.iter())
            .flat_map(|param| (0..).map_while(|index| param.attribute_at(index)))
            .any(|attr| attr.name == given.name);
        if taken && matches!(why, NotGiven::Missing | NotGiven::NoInteger) {
            return;
        }
        let text = problems.line();
        let before = if why == NotGiven::Missing {
            "missing "
        } else {
            ""
        };
        put(text, &[before, "attribute `", given.name, "`"]);
        match why {
            NotGiven::Missing => {}
            NotGiven::NoInteger => text.push_str(": expected an integer"),
            NotGiven::TooLarge => text.push_str(": too large for a size"),
            NotGiven::Negative(value) => {
                text.push_str(": expected a size, got ");
                number(text, value);
            }
        }
        put(text, &["; the contract is `", self.text, "`"]);
    }

    fn spell(&self, text: &mut String, entry: &Entry) {
        for (index, dim) in entry.dims.iter().enumerate() {
            text.push_str(if index > 0 { ", " } else { "" });
            match dim {
                Dim::Name(name) => text.push_str(self.names[*name]),
                Dim::Size(size) => number(text, *size as i64),
                Dim::Any => text.push('?'),
                Dim::Ellipsis => text.push_str("..."),
                Dim::Computed(computed) => text.push_str(computed.text),
            }
        }
    }
}

/// An operand that a shape contract describes.
struct Place {
    side: &'static str,
    entry: usize,
    shape: &'static Entry,
    index: usize,
}

/// Iterates over the operands that `entries` describe. An entry for all remaining operands extends
/// to operand `count`.
fn sides(
    entries: &'static [Entry],
    count: usize,
    side: &'static str,
) -> impl Iterator<Item = Place> {
    entries.iter().enumerate().flat_map(move |(entry, shape)| {
        let last = if shape.repeats { count } else { entry + 1 };
        (entry..last).map(move |index| Place {
            side,
            entry,
            shape,
            index,
        })
    })
}
