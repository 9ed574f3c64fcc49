//! Parameters for any number of operands.

use crate::error::problems::Problems;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::{DataTypes, Element};
use crate::frame::raw_buffer::RawBuffer;
use crate::operand::buffer::Buffer;
use crate::operand::out::Out;
use crate::operand::untyped::{AnyBuffer, AnyOut};
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};
use xla_ffi_sys::XLA_FFI_DataType;

/// All arguments that follow the arguments of the other parameters. Available since r0 (jaxlib
/// 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn sum_all(terms: RemainingArgs, mut y: Out<f32>) -> Result<()> {
///     let y = y.fill(0.0);
///     for term in terms {
///         let term = term.typed::<f32, ANY_RANK>()?;
///         y.iter_mut().zip(term.iter()).for_each(|(y, x)| *y += x);
///     }
///     Ok(())
/// }
///
/// /// The first of them as bytes, times the second, a scalar.
/// #[xla_ffi::handler]
/// fn by_position(terms: RemainingArgs, mut y: Out<u8>) -> Result<()> {
///     let factor = terms.get::<u8, 0>(1)?; // an error when it is not there
///     y.write_iter(terms.any(0)?.bytes().iter().map(|x| x * factor[0]))
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<sum_all>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .arg(Tensor::from_slice([2], &[10.0_f32, 20.0])?)
///     .ret(Shape::new(DType::F32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![11.0_f32, 22.0]));
///
/// let call = embed::call::<by_position>("{}")?
///     .arg(Tensor::from_slice([1], &[7_u8])?)
///     .ret(Shape::new(DType::U8, [1])?);
/// assert_eq!(call.run().unwrap_err().message(), "by_position (execute): remaining argument 1 of 1");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RemainingArgs<'f> {
    frame: Frame<'f>,
    first: usize,
}

// SAFETY: arguments are only read, and their call frame is valid for 'f.
unsafe impl Send for RemainingArgs<'_> {}
// SAFETY: arguments are only read, and their call frame is valid for 'f.
unsafe impl Sync for RemainingArgs<'_> {}

fn missing(what: &str, index: usize, len: usize) -> Error {
    Error::out_of_range(format!("remaining {what} {index} of {len}"))
}

impl<'f> RemainingArgs<'f> {
    /// Returns the number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.arg_count() - self.first
    }

    /// Returns true if there are no arguments.
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

    /// Returns argument `index` with elements of type `T` and, if fixed, rank `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such argument, and
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the argument has a different type or
    /// rank.
    pub fn get<T: Element, const RANK: usize>(&self, index: usize) -> Result<Buffer<'f, T, RANK>> {
        self.any(index)?
            .typed()
            .map_err(|error| named("argument", index, &error))
    }

    /// Returns argument `index`, whatever its type.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such argument.
    pub fn any(&self, index: usize) -> Result<AnyBuffer<'f>> {
        AnyBuffer::decode(self.raw(index)?).ok_or_else(|| missing("argument", index, self.len()))
    }

    /// Iterates over the arguments.
    #[must_use]
    pub fn iter(&self) -> IntoArgs<'f> {
        IntoArgs {
            args: *self,
            next: 0,
        }
    }
}

impl<'f> IntoIterator for RemainingArgs<'f> {
    type Item = AnyBuffer<'f>;
    type IntoIter = IntoArgs<'f>;

    fn into_iter(self) -> IntoArgs<'f> {
        self.iter()
    }
}

impl<'f> IntoIterator for &RemainingArgs<'f> {
    type Item = AnyBuffer<'f>;
    type IntoIter = IntoArgs<'f>;

    fn into_iter(self) -> IntoArgs<'f> {
        self.iter()
    }
}

/// Iterator over the arguments of [`RemainingArgs`].
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn longest(terms: RemainingArgs, mut y: Out<u64, 0>) -> Result<()> {
///     let all: xla_ffi::bind::IntoArgs = terms.iter();
///     assert_eq!(all.len(), terms.len());
///     let mut longest = 0;
///     for term in terms {
///         longest = longest.max(term.element_count());
///     }
///     y.fill(longest as u64);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<longest>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .arg(Tensor::from_slice([3], &[1_u8, 2, 3])?)
///     .ret(Shape::new(DType::U64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3_u64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct IntoArgs<'f> {
    args: RemainingArgs<'f>,
    next: usize,
}

impl<'f> Iterator for IntoArgs<'f> {
    type Item = AnyBuffer<'f>;

    fn next(&mut self) -> Option<AnyBuffer<'f>> {
        let arg = self.args.any(self.next).ok()?;
        self.next += 1;
        Some(arg)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.args.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for IntoArgs<'_> {}

fn named(what: &str, index: usize, error: &Error) -> Error {
    Error::new(
        error.code(),
        format!("remaining {what} {index}: {}", error.message()),
    )
}

impl std::fmt::Debug for RemainingArgs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// SAFETY: the value only reads, and only the arguments from its place on.

unsafe impl<'f> Bind<'f> for RemainingArgs<'f> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::ANY, None).variadic();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let whole = |index| {
            frame
                .arg(index)
                .is_some_and(|raw| AnyBuffer::decode(raw).is_some())
        };
        (at.arg..frame.arg_count()).all(whole).then_some(Self {
            frame: *frame,
            // Optional arguments may be absent, so the call may have fewer arguments than the
            // preceding parameters declare.
            first: at.arg.min(frame.arg_count()),
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        for index in at.arg..frame.arg_count() {
            let at = At { arg: index, ..*at };
            problems.arg(frame, &at, 1);
        }
    }
}

/// All results that follow the results of the other parameters. Each result can be taken once. Available since r0
/// (jaxlib 0.4.31).
///
/// In each call, the results are checked for shared memory with other operands. For `n` operands, the check needs
/// `O(n log n)` steps and an allocation.
///
/// ```
/// use xla_ffi::{DataType, prelude::*};
///
/// #[xla_ffi::handler]
/// fn ones(ys: RemainingRets) -> Result<()> {
///     for y in ys {
///         y.typed::<f32, ANY_RANK>()?.fill(1.0);
///     }
///     Ok(())
/// }
///
/// #[xla_ffi::handler]
/// fn sine_and_cosine(x: Buffer<f32>, mut ys: RemainingRets) -> Result<()> {
///     assert_eq!(ys.dims(1)?, x.dims()); // before it is taken
///     ys.take::<f32, ANY_RANK>(0)?.write_iter(x.iter().map(|x| x.sin()))?;
///     if ys.dtype(1)? == DataType::F32 {
///         ys.take::<f32, ANY_RANK>(1)?.write_iter(x.iter().map(|x| x.cos()))?;
///     } else {
///         ys.take_any(1)?.fill_bytes(0);
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<sine_and_cosine>("{}")?
///     .arg(Tensor::from_slice([1], &[0.0_f32])?)
///     .ret(Shape::new(DType::F32, [1])?)
///     .ret(Shape::new(DType::F32, [1])?);
/// let outcome = call.run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![0.0_f32]));
/// assert_eq!(outcome.rets[1].to_vec(), Some(vec![1.0_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct RemainingRets<'f> {
    frame: Frame<'f>,
    first: usize,
    taken: Taken,
}

/// The set of results that have been taken. More than 64 results require an allocation.
#[derive(Default)]
struct Taken {
    low: u64,
    high: Vec<bool>,
}

impl Taken {
    /// Marks `index`, which is less than `len`. Returns `false` if `index` is already marked.
    fn mark(&mut self, index: usize, len: usize) -> bool {
        if index < 64 {
            let bit = 1 << index;
            let free = self.low & bit == 0;
            self.low |= bit;
            return free;
        }
        self.high.resize(len - 64, false);
        !std::mem::replace(&mut self.high[index - 64], true)
    }
}

// SAFETY: each result is returned once, and the call frame is valid for 'f.
unsafe impl Send for RemainingRets<'_> {}
// SAFETY: a shared reference gives no access to the elements.
unsafe impl Sync for RemainingRets<'_> {}

impl<'f> RemainingRets<'f> {
    /// Returns the number of results, including those that have been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.ret_count() - self.first
    }

    /// Returns true if there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element type of result `index`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such result.
    pub fn dtype(&self, index: usize) -> Result<XLA_FFI_DataType> {
        self.raw(index).map(RawBuffer::dtype)
    }

    /// Returns the number of elements along each dimension of result `index`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such result.
    pub fn dims(&self, index: usize) -> Result<&'f [usize]> {
        let shape = self.raw(index)?.shape();
        shape
            .map(|(dims, _)| dims)
            .ok_or_else(|| missing("result", index, self.len()))
    }

    fn raw(&self, index: usize) -> Result<RawBuffer<'f>> {
        self.first
            .checked_add(index)
            .and_then(|position| self.frame.ret(position))
            .ok_or_else(|| missing("result", index, self.len()))
    }

    /// Takes result `index` with elements of type `T` and, if fixed, rank `RANK`. If this fails, the result can still
    /// be taken.
    ///
    /// # Errors
    /// - [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such result.
    /// - [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the result has a different type or
    ///   rank.
    /// - [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) if the result has already been
    ///   taken.
    pub fn take<T: Element, const RANK: usize>(
        &mut self,
        index: usize,
    ) -> Result<Out<'f, T, RANK>> {
        let raw = self.raw(index)?;
        if let Some(wrong) =
            crate::operand::untyped::view_mismatch::<T>(raw, crate::frame::element::rank(RANK))
        {
            return Err(named("result", index, &wrong));
        }
        self.take_any(index)?
            .typed()
            .map_err(|error| named("result", index, &error))
    }

    /// Leaves the results that have not been taken unwritten on purpose; see [`Out::leave_unwritten`].
    ///
    /// ```
    /// use xla_ffi::{prelude::*};
    ///
    /// #[xla_ffi::handler]
    /// fn untouched(y: RemainingRets) -> Result<()> {
    ///     y.leave_unwritten();
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<untouched>("{}")?.ret(Shape::new(DType::F32, [2])?);
    /// assert!(call.run().is_ok());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[inline]
    pub fn leave_unwritten(self) {
        self.into_iter().for_each(AnyOut::leave_unwritten);
    }

    /// Takes result `index`, whatever its type.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if there is no such result, and
    /// [`ErrorCode::FailedPrecondition`](crate::ErrorCode::FailedPrecondition) if the result has already been taken.
    pub fn take_any(&mut self, index: usize) -> Result<AnyOut<'f>> {
        let len = self.len();
        let out = AnyOut::decode(self.raw(index)?).ok_or_else(|| missing("result", index, len))?;
        if !self.taken.mark(index, len) {
            return Err(Error::failed_precondition(format!(
                "remaining result {index} has been taken already"
            )));
        }
        Ok(out)
    }
}

impl<'f> IntoIterator for RemainingRets<'f> {
    type Item = AnyOut<'f>;
    type IntoIter = IntoRets<'f>;

    /// Iterates over the results that have not been taken.
    fn into_iter(self) -> IntoRets<'f> {
        IntoRets {
            rets: self,
            next: 0,
        }
    }
}

/// Iterator over the results of [`RemainingRets`].
///
/// ```
/// use xla_ffi::prelude::*;
///
/// /// Result `i` is full of `i`.
/// #[xla_ffi::handler]
/// fn numbered(ys: RemainingRets) -> Result<()> {
///     let ys: xla_ffi::bind::IntoRets = ys.into_iter();
///     for (i, y) in ys.enumerate() {
///         y.typed::<u64, ANY_RANK>()?.fill(i as u64);
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<numbered>("{}")?
///     .ret(Shape::new(DType::U64, [])?)
///     .ret(Shape::new(DType::U64, [2])?);
/// assert_eq!(call.run()?.rets[1].to_vec(), Some(vec![1_u64, 1]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct IntoRets<'f> {
    rets: RemainingRets<'f>,
    next: usize,
}

impl<'f> Iterator for IntoRets<'f> {
    type Item = AnyOut<'f>;

    fn next(&mut self) -> Option<AnyOut<'f>> {
        while self.next < self.rets.len() {
            self.next += 1;
            if let Ok(out) = self.rets.take_any(self.next - 1) {
                return Some(out);
            }
        }
        None
    }
}

impl std::fmt::Debug for RemainingRets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemainingRets")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

// SAFETY: the value accesses only the results from its place on.

unsafe impl<'f> Bind<'f> for RemainingRets<'f> {
    const PARAM: Param = Param::operand(Kind::Ret, DataTypes::ANY, None).variadic();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let whole = |index| {
            frame
                .ret(index)
                .is_some_and(|raw| AnyOut::decode(raw).is_some())
        };
        (at.ret..frame.ret_count()).all(whole).then(|| Self {
            frame: *frame,
            // Optional results may be absent, so the call may have fewer results than the preceding
            // parameters declare.
            first: at.ret.min(frame.ret_count()),
            taken: Taken::default(),
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        for index in at.ret..frame.ret_count() {
            let at = At { ret: index, ..*at };
            problems.ret(frame, &at, 1);
        }
    }
}
