//! Arguments: arrays in host memory that a handler may read.

use std::ops::Deref;

use crate::bind::Bind;
use crate::bind::region::Region;
use crate::call::frame::Frame;
use crate::call::raw_buffer::{RawBuffer, Typed};
use crate::declare::at::At;
use crate::declare::kind::Kind;
use crate::declare::param::Param;
use crate::entry::problems::Problems;
use crate::error::{Error, Result};
use crate::operand::element::{DataTypes, Element};
use crate::operand::rank::{ANY_RANK, rank};
use xla_ffi_sys::XLA_FFI_DataType;

/// An argument with elements of type `T`, in row-major order whatever layout the caller asked for.
///
/// It is a slice of its elements. `RANK` fixes the number of dimensions; without it any rank is
/// accepted. Decoding checks element type, rank, alignment and the number of elements. Since r0.
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
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<trace>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5.0_f32]));
/// # Ok::<(), internal::Error>(())
/// ```
pub struct Buffer<'f, T, const RANK: usize = ANY_RANK> {
    // Invariant: initialised, and not written while this lives.
    view: Typed<'f, T>,
}

// SAFETY: it is a shared slice and a slice of numbers.
unsafe impl<T: Sync, const RANK: usize> Send for Buffer<'_, T, RANK> {}
// SAFETY: as above.
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

    /// The elements.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &'f [T] {
        // SAFETY: `Typed` guarantees `len` aligned elements behind a pointer that is not null; the
        // host keeps them until the call completes, and no result overlaps them (checked before
        // the handler runs).
        unsafe { std::slice::from_raw_parts(self.view.data, self.view.len) }
    }

    /// Number of elements along each dimension.
    #[must_use]
    #[inline]
    pub fn dims(&self) -> &'f [usize] {
        self.view.dims
    }

    /// The elements in rows along the last dimension; a scalar is one row of one element. Nothing
    /// comes where the last dimension is 0.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler(shape = "... n -> ...")]
    /// fn largest(x: Buffer<i32>, mut y: Out<i32>) -> Result<()> {
    ///     y.write_iter(x.rows().map(|row| row.iter().copied().max().unwrap_or(i32::MIN)))?;
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::internal::{self, DType, Shape, Tensor};
    /// let call = internal::call::<largest>("{}")?
    ///     .arg(Tensor::from_slice([2, 3], &[1, 5, 2, 9, 0, 3])?)
    ///     .ret(Shape::new(DType::S32, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5, 9]));
    /// # Ok::<(), internal::Error>(())
    /// ```
    pub fn rows(&self) -> std::slice::ChunksExact<'f, T> {
        self.as_slice().chunks_exact(row(self.view.dims))
    }
}

/// Length of a row, at least 1 so that it can be a chunk size.
pub(crate) fn row(dims: &[usize]) -> usize {
    dims.last().copied().unwrap_or(1).max(1)
}

impl<T: Element, const RANK: usize> Buffer<'_, T, RANK> {
    /// The dimensions as an array; for buffers of fixed rank.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> [usize; RANK] {
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

    /// # Safety
    /// The view of such an operand, whose data lives as long as `'f`.
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

// SAFETY: takes the argument at its place, and `region` covers it.

unsafe impl<'f, T: Element, const RANK: usize> Bind<'f> for Buffer<'f, T, RANK> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::only(T::DTYPE), rank(RANK));

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.arg(at.arg)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, align_of::<T>());
    }

    #[inline(always)]
    fn region(&self) -> Region {
        self.view.region()
    }
}

/// An argument of any rank and any element type whose size is known. Since r0.
///
/// ```
/// use xla_ffi::{DataType, prelude::*};
///
/// /// The sum of floats of either size; of anything else the number of bytes that are not 0.
/// #[xla_ffi::handler]
/// fn weigh(x: AnyBuffer, mut y: Out<f64, 0>) -> Result<()> {
///     y.fill(match x.dtype() {
///         DataType::F64 => x.typed::<f64, ANY_RANK>()?.iter().sum(),
///         DataType::F32 => x.typed::<f32, ANY_RANK>()?.iter().map(|x| f64::from(*x)).sum(),
///         _ => x.bytes().iter().filter(|byte| **byte != 0).count() as f64,
///     });
///     assert_eq!(x.dims().iter().product::<usize>(), x.element_count());
///     assert_eq!(x.byte_size(), x.bytes().len());
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let on = |x| internal::call::<weigh>("{}")?.arg(x).ret(Shape::new(DType::F64, [])?).run();
/// let floats = on(Tensor::from_slice([2], &[0.5_f32, 1.0])?)?;
/// assert_eq!(floats.rets[0].to_vec(), Some(vec![1.5]));
/// let numbers = on(Tensor::from_slice([2, 1], &[256_i32, 0])?)?;
/// assert_eq!(numbers.rets[0].to_vec(), Some(vec![1.0]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct AnyBuffer<'f> {
    raw: RawBuffer<'f>,
    dims: &'f [usize],
    len: usize,
    bytes: usize,
}

// SAFETY: a view of memory that no one writes while it lives.
unsafe impl Send for AnyBuffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for AnyBuffer<'_> {}

/// What untyped arguments and results have in common.
macro_rules! untyped {
    ($name:ident) => {
        impl<'f> $name<'f> {
            pub(crate) fn raw(&self) -> RawBuffer<'f> {
                self.raw
            }

            #[inline(always)]
            pub(crate) fn decode(raw: RawBuffer<'f>) -> Option<Self> {
                let (dims, len) = raw.shape()?;
                let bytes = $crate::operand::element::byte_size(raw.dtype(), len)?;
                (bytes == 0 || !raw.data().is_null()).then_some(Self {
                    raw,
                    dims,
                    len,
                    bytes,
                })
            }

            /// The element type.
            #[must_use]
            pub fn dtype(&self) -> XLA_FFI_DataType {
                self.raw.dtype()
            }

            /// Number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.dims
            }

            /// Number of elements.
            #[must_use]
            pub fn element_count(&self) -> usize {
                self.len
            }

            /// Bytes of all elements. Sub-byte types are packed: `S4` takes half a byte an element.
            #[must_use]
            pub fn byte_size(&self) -> usize {
                self.bytes
            }
        }
    };
}
pub(crate) use untyped;

untyped!(AnyBuffer);

impl<'f> AnyBuffer<'f> {
    /// The bytes of all elements.
    #[must_use]
    pub fn bytes(&self) -> &'f [u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: not null (checked in `decode`), `bytes` long by element type and shape, alive
        // until the call completes and not overlapped by a result.
        unsafe { std::slice::from_raw_parts(self.raw.data().cast(), self.bytes) }
    }

    /// The buffer with elements of type `T` and, where it is fixed, rank `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) when it has another type,
    /// rank or alignment.
    pub fn typed<T: Element, const RANK: usize>(&self) -> Result<Buffer<'f, T, RANK>> {
        Buffer::decode(self.raw).ok_or_else(|| mismatch::<T>(self.raw, rank(RANK)))
    }
}

#[cold]
pub(crate) fn mismatch<T: Element>(raw: RawBuffer<'_>, rank: Option<usize>) -> Error {
    unlike::<T>(raw, rank)
        .unwrap_or_else(|| Error::invalid_argument("the operand cannot be viewed so"))
}

/// What keeps an operand from being viewed with elements of type `T`.
pub(crate) fn unlike<T: Element>(raw: RawBuffer<'_>, rank: Option<usize>) -> Option<Error> {
    let param = Param::operand(Kind::Arg, DataTypes::only(T::DTYPE), rank);
    crate::entry::diagnose::operand(raw, &param, align_of::<T>()).map(Error::invalid_argument)
}

impl std::fmt::Debug for AnyBuffer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyBuffer")
            .field("dtype", &crate::operand::element::name(self.dtype()))
            .field("dims", &self.dims)
            .finish()
    }
}

// SAFETY: takes the argument at its place, and `region` covers it.

unsafe impl<'f> Bind<'f> for AnyBuffer<'f> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::ANY, None);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.arg(at.arg)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, 1);
    }

    #[inline(always)]
    fn region(&self) -> Region {
        Region::new(self.raw.data().cast(), self.bytes)
    }
}
