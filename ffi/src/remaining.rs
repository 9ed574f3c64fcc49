//! Operands in any number.

use crate::bind::Bind;
use crate::buffer::{AnyBuffer, Buffer};
use crate::diagnose::Problems;
use crate::element::{DataTypes, Element};
use crate::error::{Error, Result};
use crate::frame::{Frame, RawBuffer};
use crate::out::{AnyOut, Out};
use crate::param::{At, Kind, Param};

/// All arguments behind those that other parameters take. Since r0.
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn sum_all(terms: RemainingArgs, mut y: Out<f32>) -> Result<()> {
///     let y = y.fill(0.0);
///     for term in terms.iter() {
///         let term = term.typed::<f32, ANY_RANK>()?;
///         y.iter_mut().zip(term.iter()).for_each(|(y, x)| *y += x);
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy)]
pub struct RemainingArgs<'f> {
    frame: Frame<'f>,
    first: usize,
}

// SAFETY: arguments are read only, and their frame lives for 'f.
unsafe impl Send for RemainingArgs<'_> {}
// SAFETY: as above.
unsafe impl Sync for RemainingArgs<'_> {}

fn missing(what: &str, index: usize, len: usize) -> Error {
    Error::out_of_range(format!("remaining {what} {index} of {len}"))
}

impl<'f> RemainingArgs<'f> {
    /// Number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.arg_count() - self.first
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn raw(&self, index: usize) -> Result<RawBuffer<'f>> {
        self.first
            .checked_add(index)
            .and_then(|position| self.frame.arg(position))
            .ok_or_else(|| missing("argument", index, self.len()))
    }

    /// Argument `index` with elements of type `T` and, where it is fixed, rank `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when there is no such argument,
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when it has another type
    /// or rank.
    pub fn get<T: Element, const RANK: usize>(&self, index: usize) -> Result<Buffer<'f, T, RANK>> {
        self.any(index)?
            .typed()
            .map_err(|error| named("argument", index, &error))
    }

    /// Argument `index`, whatever its type.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when there is no such argument.
    pub fn any(&self, index: usize) -> Result<AnyBuffer<'f>> {
        AnyBuffer::decode(self.raw(index)?).ok_or_else(|| missing("argument", index, self.len()))
    }

    /// The arguments one after the other.
    pub fn iter(&self) -> impl Iterator<Item = AnyBuffer<'f>> + use<'f> {
        let this = *self;
        (0..this.len()).map_while(move |index| this.any(index).ok())
    }
}

fn named(what: &str, index: usize, error: &Error) -> Error {
    Error::new(error.code(), format!("remaining {what} {index}: {error}"))
}

impl std::fmt::Debug for RemainingArgs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'f> Bind<'f> for RemainingArgs<'f> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::ANY, None).variadic();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let whole = |index| {
            frame
                .arg(index)
                .is_some_and(|raw| AnyBuffer::decode(raw).is_some())
        };
        (at.arg <= frame.arg_count() && (at.arg..frame.arg_count()).all(whole)).then_some(Self {
            frame: *frame,
            first: at.arg,
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        for index in at.arg..frame.arg_count() {
            let at = At { arg: index, ..*at };
            problems.arg(frame, &at, 1);
        }
    }
}

/// All results behind those that other parameters take. Since r0.
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn ones(mut ys: RemainingRets) -> Result<()> {
///     for index in 0..ys.len() {
///         ys.get::<f32, ANY_RANK>(index)?.fill(1.0);
///     }
///     Ok(())
/// }
/// ```
pub struct RemainingRets<'f> {
    frame: Frame<'f>,
    first: usize,
}

// SAFETY: results are reached through `&mut self` alone, and their frame lives for 'f.
unsafe impl Send for RemainingRets<'_> {}
// SAFETY: a shared reference gives no access to the elements.
unsafe impl Sync for RemainingRets<'_> {}

impl<'f> RemainingRets<'f> {
    /// Number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.ret_count() - self.first
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn raw(&self, index: usize) -> Result<RawBuffer<'f>> {
        self.first
            .checked_add(index)
            .and_then(|position| self.frame.ret(position))
            .ok_or_else(|| missing("result", index, self.len()))
    }

    /// Result `index` with elements of type `T` and, where it is fixed, rank `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when there is no such result,
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when it has another type
    /// or rank.
    pub fn get<T: Element, const RANK: usize>(&mut self, index: usize) -> Result<Out<'_, T, RANK>> {
        let raw = self.raw(index)?;
        Out::decode(raw).ok_or_else(|| {
            let error = crate::buffer::mismatch::<T>(raw, crate::buffer::rank(RANK));
            named("result", index, &error)
        })
    }

    /// Result `index`, whatever its type.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) when there is no such result.
    pub fn any(&mut self, index: usize) -> Result<AnyOut<'_>> {
        AnyOut::decode(self.raw(index)?).ok_or_else(|| missing("result", index, self.len()))
    }
}

impl std::fmt::Debug for RemainingRets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemainingRets")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<'f> Bind<'f> for RemainingRets<'f> {
    const PARAM: Param = Param::operand(Kind::Ret, DataTypes::ANY, None).variadic();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let whole = |index| {
            frame
                .ret(index)
                .is_some_and(|raw| AnyOut::decode(raw).is_some())
        };
        (at.ret <= frame.ret_count() && (at.ret..frame.ret_count()).all(whole)).then_some(Self {
            frame: *frame,
            first: at.ret,
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        for index in at.ret..frame.ret_count() {
            let at = At { ret: index, ..*at };
            problems.ret(frame, &at, 1);
        }
    }
}

/// Whether a result among the variadic operands, or any result beside variadic arguments, overlaps
/// another operand. `args` and `rets` count the operands that parameters took one by one; those
/// pairs have been checked already.
#[cold]
#[inline(never)]
pub(crate) fn overlap(frame: &Frame<'_>, args: usize, rets: usize) -> bool {
    use crate::bind::Region;
    let region =
        |raw: RawBuffer<'_>| AnyBuffer::decode(raw).map_or(Region::EMPTY, |buffer| buffer.region());
    let ret_at = |index| frame.ret(index).map_or(Region::EMPTY, region);
    (0..frame.ret_count()).any(|r| {
        let ret = ret_at(r);
        let with_args = (0..frame.arg_count())
            .filter(|&a| r >= rets || a >= args)
            .any(|a| frame.arg(a).map_or(Region::EMPTY, region).overlaps(ret));
        let with_rets = (0..r)
            .filter(|&other| r >= rets || other >= rets)
            .any(|other| ret_at(other).overlaps(ret));
        with_args || with_rets
    })
}
