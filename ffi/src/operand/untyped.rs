//! Operands whose element type and rank the handler checks itself.

use std::mem::MaybeUninit;

use crate::error::problems::Problems;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::{DataTypes, Element, rank};
use crate::frame::raw_buffer::{RawBuffer, uninit};
#[cfg(debug_assertions)]
use crate::frame::result_ledger::mark_accessed;
use crate::operand::buffer::Buffer;
use crate::operand::out::{Out, miscounted};
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};
use xla_ffi_sys::XLA_FFI_DataType;

/// Methods that untyped arguments and results share.
macro_rules! untyped {
    ($name:ident $(, $label:ident)?) => {
        impl<'f> $name<'f> {
            pub(crate) fn raw(&self) -> RawBuffer<'f> {
                self.raw
            }

            #[inline(always)]
            pub(crate) fn decode(raw: RawBuffer<'f>) -> Option<Self> {
                let (dims, len) = raw.shape()?;
                let bytes = raw.dtype().bytes_for(len)?;
                (bytes == 0 || !raw.data().is_null()).then_some(Self {
                    raw,
                    dims,
                    len,
                    bytes,
                    $($label: "",)?
                })
            }

            /// Returns the element type.
            #[must_use]
            pub fn dtype(&self) -> XLA_FFI_DataType {
                self.raw.dtype()
            }

            /// Returns the number of elements along each dimension.
            #[must_use]
            pub fn dims(&self) -> &'f [usize] {
                self.dims
            }

            /// Returns the number of elements.
            #[must_use]
            pub fn element_count(&self) -> usize {
                self.len
            }

            /// Returns the size of all elements in bytes. Elements smaller than a byte are packed: an `S4` element
            /// occupies half a byte.
            #[must_use]
            pub fn byte_size(&self) -> usize {
                self.bytes
            }
        }
    };
}

/// An argument of any rank and of any element type whose size is known. Available since r0 (jaxlib
/// 0.4.31).
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
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |x| embed::call::<weigh>("{}")?.arg(x).ret(Shape::new(DType::F64, [])?).run();
/// let floats = on(Tensor::from_slice([2], &[0.5_f32, 1.0])?)?;
/// assert_eq!(floats.rets[0].to_vec(), Some(vec![1.5]));
/// let numbers = on(Tensor::from_slice([2, 1], &[256_i32, 0])?)?;
/// assert_eq!(numbers.rets[0].to_vec(), Some(vec![1.0]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct AnyBuffer<'f> {
    raw: RawBuffer<'f>,
    dims: &'f [usize],
    len: usize,
    bytes: usize,
}

// SAFETY: the memory is not written until the view is dropped.
unsafe impl Send for AnyBuffer<'_> {}
// SAFETY: the memory is not written until the view is dropped.
unsafe impl Sync for AnyBuffer<'_> {}

untyped!(AnyBuffer);

impl<'f> AnyBuffer<'f> {
    /// Returns the bytes of all elements.
    #[must_use]
    pub fn bytes(&self) -> &'f [u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the pointer is not null (checked in `decode`), and `bytes` follows from element type
        // and shape. The host keeps the memory alive until the call completes. Operands have separate
        // memory, except for exact aliases, which are rejected before the handler runs.
        unsafe { std::slice::from_raw_parts(self.raw.data().cast(), self.bytes) }
    }

    /// Returns the buffer with elements of type `T` and, if fixed, rank `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the buffer has a different type, rank or
    /// alignment.
    pub fn typed<T: Element, const RANK: usize>(&self) -> Result<Buffer<'f, T, RANK>> {
        Buffer::decode(self.raw).ok_or_else(|| mismatch::<T>(self.raw, rank(RANK)))
    }
}

impl std::fmt::Debug for AnyBuffer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyBuffer")
            .field("dtype", &crate::frame::element::name(self.dtype()))
            .field("dims", &self.dims)
            .finish()
    }
}

// SAFETY: the value reads only the argument at its place.

unsafe impl<'f> Bind<'f> for AnyBuffer<'f> {
    const PARAM: Param = Param::operand(Kind::Arg, DataTypes::ANY, None);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.arg(at.arg)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, 1);
    }
}

/// A result of any rank and of any element type whose size is known. Available since r0 (jaxlib
/// 0.4.31).
///
/// ```
/// use xla_ffi::{DataType, prelude::*};
///
/// /// Copies whatever it is given.
/// #[xla_ffi::handler]
/// fn copy(x: AnyBuffer, mut y: AnyOut) -> Result<()> {
///     y.copy_from_bytes(x.bytes())?; // an error when the sizes differ
///     Ok(())
/// }
///
/// /// One, in the float that the caller wants; else zero.
/// #[xla_ffi::handler]
/// fn one(mut y: AnyOut) -> Result<()> {
///     assert_eq!(y.bytes_uninit().len(), y.byte_size());
///     if y.dims().is_empty() && y.element_count() != 1 {
///         return Err(Error::internal("a scalar has one element"));
///     }
///     match y.dtype() {
///         DataType::F32 => {
///             y.typed::<f32, ANY_RANK>()?.fill(1.0);
///         }
///         DataType::F64 => {
///             y.typed::<f64, ANY_RANK>()?.fill(1.0);
///         }
///         _ => {
///             y.fill_bytes(0);
///         }
///     }
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<copy>("{}")?
///     .arg(Tensor::from_slice([2], &[1_i16, -2])?)
///     .ret(Shape::new(DType::S16, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_i16, -2]));
///
/// let call = embed::call::<one>("{}")?.ret(Shape::new(DType::F64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1.0_f64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct AnyOut<'f> {
    raw: RawBuffer<'f>,
    dims: &'f [usize],
    len: usize,
    bytes: usize,
    /// The parameter's name for error messages; empty if unknown.
    name: &'static str,
}

// SAFETY: the value is a unique view of memory.
unsafe impl Send for AnyOut<'_> {}
// SAFETY: a shared reference gives no access to the elements.
unsafe impl Sync for AnyOut<'_> {}

untyped!(AnyOut, name);

impl<'f> AnyOut<'f> {
    /// Returns the same result with a name for error messages.
    #[inline(always)]
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Returns the uninitialized bytes of all elements.
    #[must_use]
    pub fn bytes_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.bytes == 0 {
            return &mut [];
        }
        #[cfg(debug_assertions)]
        mark_accessed(self.raw.data().cast_const().cast());
        // SAFETY: the pointer is not null (checked in `decode`), and `bytes` follows from element type
        // and shape. Operands have separate memory, except for exact aliases, which are rejected before
        // the handler runs. `&mut self` keeps the view unique.
        unsafe { std::slice::from_raw_parts_mut(self.raw.data().cast(), self.bytes) }
    }

    /// Leaves this result unwritten on purpose. Without this call, debug builds report a handler that
    /// succeeds without writing every nonempty result.
    ///
    /// The caller then receives the previous contents of the memory: possibly parts of other arrays, and for `bool`
    /// elements bytes other than 0 and 1. Call this method only if the caller does not read the result. `xla-ffi run`
    /// still reports unwritten results, unless it is called with `--allow-unwritten`.
    ///
    /// ```
    /// use xla_ffi::{prelude::*};
    ///
    /// #[xla_ffi::handler]
    /// fn untouched(y: AnyOut) -> Result<()> {
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
        #[cfg(debug_assertions)]
        mark_accessed(self.raw.data().cast_const().cast());
    }

    /// Writes `byte` to every byte and returns the bytes.
    pub fn fill_bytes(&mut self, byte: u8) -> &mut [u8] {
        let bytes = self.bytes_uninit();
        for slot in &mut *bytes {
            slot.write(byte);
        }
        // SAFETY: the loop wrote every byte.
        unsafe { uninit::written(bytes) }
    }

    /// Copies all bytes from `source`.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`](crate::ErrorCode::Internal) if the numbers of bytes differ.
    pub fn copy_from_bytes(&mut self, source: &[u8]) -> Result<()> {
        if source.len() != self.bytes {
            return Err(miscounted(self.name, self.bytes, "bytes", source.len()));
        }
        uninit::copy(self.bytes_uninit(), source);
        Ok(())
    }

    /// Converts the result to an [`Out`] with elements of type `T` and, if fixed, rank
    /// `RANK`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the result has a different type, rank or
    /// alignment.
    pub fn typed<T: Element, const RANK: usize>(self) -> Result<Out<'f, T, RANK>> {
        Out::decode(self.raw, self.name).ok_or_else(|| mismatch::<T>(self.raw, rank(RANK)))
    }
}

impl std::fmt::Debug for AnyOut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyOut")
            .field("dtype", &crate::frame::element::name(self.dtype()))
            .field("dims", &self.dims)
            .finish_non_exhaustive()
    }
}

// SAFETY: the value accesses only the result at its place.

unsafe impl<'f> Bind<'f> for AnyOut<'f> {
    const PARAM: Param = Param::operand(Kind::Ret, DataTypes::ANY, None);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Some(Self::decode(frame.ret(at.ret)?)?.named(at.param.name))
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.ret(frame, at, 1);
    }
}

#[cold]
fn mismatch<T: Element>(raw: RawBuffer<'_>, rank: Option<usize>) -> Error {
    view_mismatch::<T>(raw, rank)
        .unwrap_or_else(|| Error::invalid_argument("the operand cannot be viewed so"))
}

/// Returns the error if an operand cannot be viewed with elements of type `T`, and `None`
/// otherwise.
pub(crate) fn view_mismatch<T: Element>(raw: RawBuffer<'_>, rank: Option<usize>) -> Option<Error> {
    let param = Param::operand(Kind::Arg, DataTypes::only(T::DTYPE), rank);
    crate::param::mismatch::operand(raw, &param, align_of::<T>()).map(Error::invalid_argument)
}
