//! Arguments: arrays in host memory that a handler may read.

use std::ops::Deref;

use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, Element, rank};
use crate::frame::raw_buffer::{RawBuffer, Typed};
use crate::operand::rows::Rows;
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};

/// An argument with elements of type `T` in row-major order, whatever layout the caller's array has.
///
/// A `Buffer` dereferences to a slice of its elements. `RANK` fixes the number of dimensions; by default, any rank is
/// accepted. A call whose argument has a different element type, rank, alignment or number of elements is rejected.
/// Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn total(x: Buffer<f64>, mut sum: Out<f64, 0>) -> Result<()> {
///     sum.fill(x.iter().sum()); // any rank: x.dims() tells which
///     Ok(())
/// }
///
/// #[xla_ffi::handler]
/// fn trace(matrix: Buffer<f32, 2>, mut y: Out<f32, 0>) -> Result<()> {
///     let [rows, cols] = matrix.shape();
///     assert_eq!(matrix.dims(), [rows, cols]);
///     let elements = matrix.as_slice(); // lives as long as the call
///     y.fill((0..rows.min(cols)).map(|i| elements[i * cols + i]).sum());
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<trace>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5.0_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Buffer<'f, T, const RANK: usize = ANY_RANK> {
    // Invariant: the elements are initialized, and they are not written until this value is
    // dropped.
    view: Typed<'f, T>,
}

// SAFETY: the value consists of two shared slices, of elements and of dimensions.
unsafe impl<T: Sync, const RANK: usize> Send for Buffer<'_, T, RANK> {}
// SAFETY: the value consists of two shared slices, of elements and of dimensions.
unsafe impl<T: Sync, const RANK: usize> Sync for Buffer<'_, T, RANK> {}

impl<T, const RANK: usize> Clone for Buffer<'_, T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for Buffer<'_, T, RANK> {}

impl<'f, T: Element, const RANK: usize> Buffer<'f, T, RANK> {
    #[inline(always)]
    pub(crate) fn decode(raw: RawBuffer<'f>) -> Option<Self> {
        Some(Self {
            view: raw.typed(rank(RANK))?,
        })
    }

    /// Returns the elements in row-major order.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &'f [T] {
        // SAFETY: `Typed` guarantees a non-null pointer to `len` aligned elements. The host keeps the elements alive
        // until the call completes. Operands have separate memory, except for exact aliases, which are rejected
        // before the handler runs.
        unsafe { std::slice::from_raw_parts(self.view.data, self.view.len) }
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    #[inline]
    pub fn dims(&self) -> &'f [usize] {
        self.view.dims
    }

    /// Returns the elements in rows along the last dimension; a scalar is one row of one element. The number of rows
    /// is the product of the other dimensions, even if the last dimension is 0 and the rows are empty.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler(shape = "... n -> ...")]
    /// fn largest(x: Buffer<i32>, mut y: Out<i32>) -> Result<()> {
    ///     y.write_iter(x.rows().map(|row| row.iter().copied().max().unwrap_or(i32::MIN)))
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<largest>("{}")?
    ///     .arg(Tensor::from_slice([2, 3], &[1, 5, 2, 9, 0, 3])?)
    ///     .ret(Shape::new(DType::S32, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5, 9]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[inline]
    pub fn rows(&self) -> Rows<'f, T> {
        Rows::new(self.as_slice(), self.view.dims)
    }
}

impl<T: Element, const RANK: usize> Buffer<'_, T, RANK> {
    /// Returns the dimensions as an array. Requires a fixed rank.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> [usize; RANK] {
        const {
            assert!(
                RANK != ANY_RANK,
                "`shape` needs a fixed rank: `Buffer<T, 2>`"
            )
        };
        self.view.shape()
    }
}

impl<T: Element, const RANK: usize> Deref for Buffer<'_, T, RANK> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<'f, T: Element, const RANK: usize> Buffer<'f, T, RANK> {
    pub(crate) fn into_view(self) -> Typed<'f, T> {
        self.view
    }

    /// Creates an argument from a view of its elements.
    ///
    /// # Safety
    /// `view` describes an operand of this type, and its data is valid for `'f`.
    pub(crate) unsafe fn from_view(view: Typed<'f, T>) -> Self {
        Self { view }
    }
}

impl<T: Element, const RANK: usize> std::fmt::Debug for Buffer<'_, T, RANK> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("dims", &self.view.dims)
            .field("elements", &self.as_slice())
            .finish()
    }
}

// SAFETY: the value reads only the argument at its place.

unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for Buffer<'f, T, RANK> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::only(T::DTYPE), rank(RANK));

    #[inline]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.arg(at.arg)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, align_of::<T>());
    }
}
