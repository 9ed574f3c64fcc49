//! Shape contracts: how the dimensions of operands hang together.
//!
//! A contract is text, `"b n k, b k m -> b n m"`: one entry an argument, an arrow, one entry a
//! result, in the order of the parameters. Its grammar:
//!
//! | entry | meaning |
//! |---|---|
//! | `n m` | rank 2; the same name stands for the same size everywhere in the contract |
//! | `3 n` | the first dimension is 3 |
//! | `_ n` | the first dimension may be anything |
//! | `... n` | any number of dimensions, then `n`; `...` stands for the same dimensions everywhere |
//! | `()` | a scalar |
//! | `token` | a token |
//! | `n?` at the end of an entry, as in `n m?` | the operand may be absent |
//! | `*` at the end of an entry, as in `n m*` | any number of operands, each of this shape |
//!
//! The macros parse it when the handler is compiled and turn it into comparisons. It is checked after the operands have been
//! decoded, and the manifest keeps it, so that callers can infer result shapes.

use crate::diagnose::Problems;
use crate::frame::{Frame, RawBuffer};
use crate::param::Param;

/// One dimension of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// The size with this number, named in [`Contract::names`].
    Name(usize),
    /// A fixed size.
    Size(usize),
    /// Any size.
    Any,
    /// Any number of dimensions, the same in all entries.
    Ellipsis,
}

/// One operand of a contract.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its dimensions.
    pub dims: &'static [Dim],
    /// Whether it stands for all operands that are left.
    pub repeats: bool,
}

/// Sizes that a contract may name.
pub const MAX_NAMES: usize = 26;

/// A parsed contract.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// The text.
    pub text: &'static str,
    /// The names of sizes.
    pub names: &'static [&'static str],
    /// The arguments.
    pub args: &'static [Entry],
    /// The results.
    pub rets: &'static [Entry],
}

/// What the names stand for in one call, while a contract that is broken is explained. Whether it is
/// broken at all is found by the macros' code, which knows the contract: see `Contract::comparisons` there.
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

/// For the macros: the dimensions of an argument, if it came.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn arg_dims<'f>(frame: &Frame<'f>, index: usize) -> Option<&'f [i64]> {
    frame.arg(index).map(RawBuffer::raw_dims)
}

/// For the macros: the dimensions of a result, if it came.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn ret_dims<'f>(frame: &Frame<'f>, index: usize) -> Option<&'f [i64]> {
    frame.ret(index).map(RawBuffer::raw_dims)
}

/// For the macros: whether a named size is what it was before.
#[doc(hidden)]
#[inline(always)]
pub fn same_size(known: &mut Option<i64>, size: i64) -> bool {
    *known.get_or_insert(size) == size
}

/// For the macros: whether `...` stands for what it stood for before.
#[doc(hidden)]
#[inline(always)]
pub fn same_dims<'f>(known: &mut Option<&'f [i64]>, dims: &'f [i64]) -> bool {
    *known.get_or_insert(dims) == dims
}

impl Contract {
    /// Says which operands break the contract and how.
    #[cold]
    pub fn explain<'f>(&self, frame: &Frame<'f>, params: &[Param], problems: &mut Problems<'_>) {
        let mut sizes = Sizes::new();
        let mut origins: Vec<(usize, String)> = Vec::new();
        for (name, entry, raw) in self.operands(frame, params) {
            let known = sizes.named;
            if sizes.takes(entry.dims, raw.raw_dims()) {
                let new = (0..MAX_NAMES).filter(|&i| known[i] != sizes.named[i]);
                origins.extend(new.map(|i| (i, name.clone())));
                continue;
            }
            sizes.named = known;
            let mut why = Vec::new();
            for dim in entry.dims {
                if let Dim::Name(index) = dim
                    && known[*index] != UNKNOWN
                {
                    let from = origins.iter().find(|(i, _)| i == index);
                    let from = from.map_or_else(String::new, |(_, name)| format!(" from {name}"));
                    why.push(format!("{} = {}{from}", self.names[*index], known[*index]));
                }
            }
            if let Some(dims) = sizes.ellipsis
                && entry.dims.contains(&Dim::Ellipsis)
            {
                why.push(format!("... = {dims:?}"));
            }
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" with {}", why.join(", "))
            };
            problems.push(format!(
                "{name}: expected shape [{}]{why}, got {}; the contract is `{}`",
                self.spelled(entry),
                crate::diagnose::shown(raw),
                self.text
            ));
        }
    }

    /// The operands that the contract speaks of, each with its name and entry.
    fn operands<'f>(
        &self,
        frame: &Frame<'f>,
        params: &[Param],
    ) -> Vec<(String, &'static Entry, RawBuffer<'f>)> {
        let name = |takes: fn(&Param) -> bool, index: usize| {
            let mut operands = params.iter().filter(|param| takes(param));
            operands.nth(index).map_or("?", |param| param.name)
        };
        let mut operands = Vec::new();
        for (i, entry) in self.args.iter().enumerate() {
            let last = if entry.repeats {
                frame.arg_count()
            } else {
                i + 1
            };
            for index in i..last {
                if let Some(raw) = frame.arg(index) {
                    operands.push((
                        format!("argument `{}`", name(Param::takes_arg, i)),
                        entry,
                        raw,
                    ));
                }
            }
        }
        for (i, entry) in self.rets.iter().enumerate() {
            let last = if entry.repeats {
                frame.ret_count()
            } else {
                i + 1
            };
            for index in i..last {
                if let Some(raw) = frame.ret(index) {
                    operands.push((
                        format!("result `{}`", name(Param::takes_ret, i)),
                        entry,
                        raw,
                    ));
                }
            }
        }
        operands
    }

    fn spelled(&self, entry: &Entry) -> String {
        let dims: Vec<String> = entry
            .dims
            .iter()
            .map(|dim| match dim {
                Dim::Name(name) => self.names[*name].to_owned(),
                Dim::Size(size) => size.to_string(),
                Dim::Any => "_".to_owned(),
                Dim::Ellipsis => "...".to_owned(),
            })
            .collect();
        dims.join(", ")
    }
}

/// The same checks as plain functions, for handlers that compute what a contract cannot say.
///
/// ```
/// use xla_ffi::{prelude::*, shape};
///
/// #[xla_ffi::handler]
/// fn halves(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
///     shape::equal("y", y.dims(), &[x.len() / 2])?;
///     y.copy_from(&x[..x.len() / 2])?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when the dimensions differ.
pub fn equal(name: &str, dims: &[usize], expected: &[usize]) -> crate::Result<()> {
    if dims == expected {
        return Ok(());
    }
    Err(crate::Error::invalid_argument(format!(
        "`{name}`: expected shape {expected:?}, got {dims:?}"
    )))
}

/// The number of elements of a shape.
///
/// # Errors
/// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when it cannot be counted.
pub fn element_count(dims: &[usize]) -> crate::Result<usize> {
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter()
        .try_fold(1usize, |count, dim| count.checked_mul(*dim))
        .ok_or_else(|| {
            crate::Error::out_of_range(format!("a shape of {dims:?} has too many elements"))
        })
}
