//! Operands that accept one of several element types.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::error::Result;
use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, Element, rank};
use crate::frame::raw_buffer::RawBuffer;
use crate::operand::buffer::Buffer;
use crate::operand::out::Out;
use crate::operand::untyped::{AnyBuffer, AnyOut};
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};

/// A tuple of up to eight element types, for example `(f32, f64)`.
///
/// ```
/// use xla_ffi::{DataType, bind::Elements};
///
/// type Floats = (f32, f64);
/// assert!(Floats::DTYPES.contains(DataType::F64));
/// assert_eq!(Floats::DTYPES.to_string(), "F32 or F64");
/// ```
pub trait Elements {
    /// The element types as a set.
    const DTYPES: DataTypes;
}

macro_rules! elements {
    ($($name:ident)*) => {
        impl<$($name: Element),*> Elements for ($($name,)*) {
            const DTYPES: DataTypes = DataTypes::of(&[$($name::DTYPE),*]);
        }
    };
}

elements!(A);
elements!(A B);
elements!(A B C);
elements!(A B C D);
elements!(A B C D E);
elements!(A B C D E F);
elements!(A B C D E F G);
elements!(A B C D E F G H);

fn fits<S: Elements>(raw: RawBuffer<'_>, rank: Option<usize>) -> bool {
    S::DTYPES.contains(raw.dtype()) && rank.is_none_or(|rank| raw.rank() == rank as i64)
}

/// An argument whose element type is one of the tuple `S`. Dereferences to an [`AnyBuffer`]. Available since r0
/// (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::{DataType, OneOf, prelude::*};
///
/// #[xla_ffi::handler]
/// fn total(x: OneOf<(f32, f64)>, mut sum: Out<f64, 0>) -> Result<()> {
///     sum.fill(match x.dtype() {
///         DataType::F32 => x.typed::<f32, ANY_RANK>()?.iter().map(|x| f64::from(*x)).sum(),
///         _ => x.get::<f64>().into_iter().flat_map(|x| x.as_slice()).sum(),
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |x| embed::call::<total>("{}")?.arg(x).ret(Shape::new(DType::F64, [])?).run();
/// let sum = on(Tensor::from_slice([2], &[1.0_f64, 2.0])?)?;
/// assert_eq!(sum.rets[0].to_vec(), Some(vec![3.0]));
/// let error = on(Tensor::from_slice([1], &[1_i32])?).unwrap_err();
/// assert!(error.message().contains("argument `x`: expected F32 or F64, got S32[1]"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct OneOf<'f, S, const RANK: usize = ANY_RANK> {
    buffer: AnyBuffer<'f>,
    _types: PhantomData<fn() -> S>,
}

impl<S, const RANK: usize> Clone for OneOf<'_, S, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, const RANK: usize> Copy for OneOf<'_, S, RANK> {}

impl<'f, S, const RANK: usize> OneOf<'f, S, RANK> {
    /// Returns the buffer with elements of type `T`, or `None` if the buffer has a different type.
    #[must_use]
    pub fn get<T: Element>(&self) -> Option<Buffer<'f, T, RANK>> {
        Buffer::decode(self.buffer.raw())
    }
}

impl<'f, S, const RANK: usize> Deref for OneOf<'f, S, RANK> {
    type Target = AnyBuffer<'f>;

    fn deref(&self) -> &AnyBuffer<'f> {
        &self.buffer
    }
}

impl<S, const RANK: usize> std::fmt::Debug for OneOf<'_, S, RANK> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.buffer.fmt(f)
    }
}

// SAFETY: the value accesses only the argument at its place, and only reads it.
unsafe impl<'f, S: Elements, const RANK: usize> Bind<'f> for OneOf<'f, S, RANK> {
    const PARAM: Param = Param::operand(Kind::Arg, S::DTYPES, rank(RANK));

    #[inline]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let raw = frame.arg(at.arg)?;
        Some(Self {
            buffer: fits::<S>(raw, rank(RANK)).then(|| AnyBuffer::decode(raw))??,
            _types: PhantomData,
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, 1);
    }
}

/// A result whose element type is one of the tuple `S`. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::{DataType, OneOfOut, prelude::*};
///
/// #[xla_ffi::handler]
/// fn ones(y: OneOfOut<(f32, f64, i32)>) -> Result<()> {
///     let written = match y.dtype() {
///         DataType::F32 => y.typed::<f32>()?.fill(1.0).len(),
///         DataType::F64 => y.typed::<f64>()?.fill(1.0).len(),
///         _ => y.into_any().typed::<i32, ANY_RANK>()?.fill(1).len(),
///     };
///     assert_eq!(written, 2);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<ones>("{}")?.ret(Shape::new(DType::S32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1, 1]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct OneOfOut<'f, S, const RANK: usize = ANY_RANK> {
    out: AnyOut<'f>,
    _types: PhantomData<fn() -> S>,
}

impl<'f, S, const RANK: usize> OneOfOut<'f, S, RANK> {
    /// Converts the result to an [`Out`] with elements of type `T`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the result has a different type or
    /// alignment.
    pub fn typed<T: Element>(self) -> Result<Out<'f, T, RANK>> {
        self.out.typed()
    }

    /// Leaves this result unwritten on purpose; see
    /// [`Out::leave_unwritten`](crate::Out::leave_unwritten).
    ///
    /// ```
    /// use xla_ffi::{OneOfOut, prelude::*};
    ///
    /// #[xla_ffi::handler]
    /// fn untouched(y: OneOfOut<(f32, f64)>) -> Result<()> {
    ///     y.leave_unwritten();
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<untouched>("{}")?.ret(Shape::new(DType::F64, [2])?);
    /// assert!(call.run().is_ok());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[inline]
    pub fn leave_unwritten(self) {
        self.out.leave_unwritten();
    }

    /// Converts the result to an [`AnyOut`], which has no static element type.
    #[must_use]
    pub fn into_any(self) -> AnyOut<'f> {
        self.out
    }
}

impl<'f, S, const RANK: usize> Deref for OneOfOut<'f, S, RANK> {
    type Target = AnyOut<'f>;

    fn deref(&self) -> &AnyOut<'f> {
        &self.out
    }
}

impl<S, const RANK: usize> std::fmt::Debug for OneOfOut<'_, S, RANK> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.out.fmt(f)
    }
}

// SAFETY: the value accesses only the result at its place.
unsafe impl<'f, S: Elements, const RANK: usize> Bind<'f> for OneOfOut<'f, S, RANK> {
    const PARAM: Param = Param::operand(Kind::Ret, S::DTYPES, rank(RANK));

    #[inline]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let raw = frame.ret(at.ret)?;
        Some(Self {
            out: fits::<S>(raw, rank(RANK))
                .then(|| AnyOut::decode(raw))??
                .named(at.param.name),
            _types: PhantomData,
        })
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.ret(frame, at, 1);
    }
}
