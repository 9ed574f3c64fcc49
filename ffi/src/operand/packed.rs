//! Operands with elements smaller than a byte.
//!
//! XLA packs elements smaller than a byte, starting with the low bits of the first byte. A byte holds two elements of
//! a 4-bit type, four of a 2-bit type or eight of a 1-bit type. A buffer consists of the packed bytes only.
//!
//! Hosts have numbers for packed element types since r5 (jaxlib 0.6.0). Hosts of r3 and r4 send dtype 0 and order the
//! elements differently, so a handler with packed operands requires r5.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::error::problems::Problems;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::element::{ANY_RANK, DataTypes, rank};
use crate::frame::raw_buffer::RawBuffer;
use crate::operand::untyped::{AnyBuffer, AnyOut};
use crate::param::bind::{At, Bind};
use crate::param::{Kind, Param};
use xla_ffi_sys::{Feature, XLA_FFI_DataType};

/// An element type smaller than a byte. Available since r5 (jaxlib 0.6.0).
///
/// ```
/// use xla_ffi::element::{PackedElement, S4, U2};
///
/// assert_eq!((S4::BITS, U2::BITS), (4, 2));
/// assert_eq!(S4::from_bits(0b1111), -1);
/// assert_eq!(S4::to_bits(-1) & 0b1111, 0b1111);
/// ```
pub trait PackedElement: 'static {
    /// The element type in the ABI.
    const DTYPE: XLA_FFI_DataType;
    /// The size of one element in bits: 1, 2 or 4.
    const BITS: usize;
    /// The Rust type of an unpacked element.
    type Value: Copy;

    /// Converts the low [`PackedElement::BITS`] bits to an element. The other bits are 0.
    fn from_bits(bits: u8) -> Self::Value;

    /// Converts an element to bits. Only the low [`PackedElement::BITS`] bits are stored.
    fn to_bits(value: Self::Value) -> u8;
}

macro_rules! packed_elements {
    ($($(#[$meta:meta])* $name:ident $bits:literal $value:ty, $from:expr;)*) => {
        $(
            $(#[$meta])*
            /// A marker type without values that represents the element type.
            ///
            /// ```
            #[doc = concat!("use xla_ffi::{Packed, element::{PackedElement, ", stringify!($name), "}};")]
            ///
            #[doc = concat!("fn first(x: Packed<", stringify!($name), ">) -> Option<", stringify!($value), "> {")]
            ///     x.get(0)
            /// }
            #[doc = concat!("assert_eq!(", stringify!($name), "::BITS, ", stringify!($bits), ");")]
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(1) as u8 & 1, 1);")]
            /// ```
            #[derive(Debug)]
            pub enum $name {}

            impl PackedElement for $name {
                const DTYPE: XLA_FFI_DataType = XLA_FFI_DataType::$name;
                const BITS: usize = $bits;
                type Value = $value;

                #[inline]
                fn from_bits(bits: u8) -> $value {
                    let from: fn(u8) -> $value = $from;
                    from(bits)
                }

                #[inline]
                fn to_bits(value: $value) -> u8 {
                    value as u8
                }
            }
        )*
    };
}

packed_elements! {
    /// 1-bit signed integer: 0 or -1.
    S1 1 i8, |bits| ((bits << 7) as i8) >> 7;
    /// 2-bit signed integer: -2 to 1.
    S2 2 i8, |bits| ((bits << 6) as i8) >> 6;
    /// 4-bit signed integer: -8 to 7.
    S4 4 i8, |bits| ((bits << 4) as i8) >> 4;
    /// 1-bit unsigned integer.
    U1 1 u8, |bits| bits;
    /// 2-bit unsigned integer.
    U2 2 u8, |bits| bits;
    /// 4-bit unsigned integer.
    U4 4 u8, |bits| bits;
    /// 4-bit float with 2 exponent bits and 1 mantissa bit. Elements are returned as raw bits.
    F4E2M1FN 4 u8, |bits| bits;
}

const fn mask(bits: usize) -> u8 {
    ((1u16 << bits) - 1) as u8
}

/// An argument with packed elements of type `P`. Available since r5 (jaxlib 0.6.0).
///
/// ```
/// use xla_ffi::{Packed, prelude::*, element::S4};
///
/// #[xla_ffi::handler(shape = "n -> n")]
/// fn widen(x: Packed<S4, 1>, mut y: Out<i8, 1>) -> Result<()> {
///     assert_eq!(x.dims(), [x.len()]);
///     assert_eq!(x.bytes().len(), x.len().div_ceil(2)); // two to a byte
///     assert_eq!(x.get(x.len()), None);
///     y.write_iter(x.iter())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// // 1, -1, 7: the first in the low bits of the first byte.
/// let packed = Tensor::from_bytes(Shape::new(DType::S4, [3])?, &[0xf1, 0x07])?;
/// let call = embed::call::<widen>("{}")?.arg(packed).ret(Shape::new(DType::S8, [3])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_i8, -1, 7]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Packed<'f, P, const RANK: usize = ANY_RANK> {
    buffer: AnyBuffer<'f>,
    _element: PhantomData<fn() -> P>,
}

impl<P, const RANK: usize> Clone for Packed<'_, P, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, const RANK: usize> Copy for Packed<'_, P, RANK> {}

fn fits<P: PackedElement>(raw: RawBuffer<'_>, rank: Option<usize>) -> bool {
    raw.dtype() == P::DTYPE && rank.is_none_or(|rank| raw.rank() == rank as i64)
}

impl<'f, P: PackedElement, const RANK: usize> Packed<'f, P, RANK> {
    fn decode(raw: RawBuffer<'f>) -> Option<Self> {
        if !fits::<P>(raw, rank(RANK)) {
            return None;
        }
        Some(Self {
            buffer: AnyBuffer::decode(raw)?,
            _element: PhantomData,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.element_count()
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.element_count() == 0
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    pub fn dims(&self) -> &'f [usize] {
        self.buffer.dims()
    }

    /// Returns the packed bytes. The first element is in the low bits of the first byte. Unused bits of
    /// the last byte are undefined.
    #[must_use]
    pub fn bytes(&self) -> &'f [u8] {
        self.buffer.bytes()
    }

    /// Returns element `index` in row-major order, or `None` if the index is out of bounds.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<P::Value> {
        if index >= self.len() {
            return None;
        }
        let per_byte = 8 / P::BITS;
        let byte = self.bytes()[index / per_byte];
        let shift = P::BITS * (index % per_byte);
        Some(P::from_bits((byte >> shift) & mask(P::BITS)))
    }

    /// Iterates over the elements in row-major order.
    pub fn iter(&self) -> impl Iterator<Item = P::Value> + use<'f, P, RANK> {
        let this = *self;
        (0..this.len()).map_while(move |index| this.get(index))
    }
}

impl<'f> AnyBuffer<'f> {
    /// Returns the argument with packed elements of type `P` and, if fixed, rank `RANK`.
    ///
    /// ```
    /// use xla_ffi::{prelude::*, element::S4};
    ///
    /// #[xla_ffi::handler]
    /// fn sum(x: AnyBuffer, mut y: Out<i64, 0>) -> Result<()> {
    ///     y.fill(x.packed::<S4, ANY_RANK>()?.iter().map(i64::from).sum());
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let packed = Tensor::from_bytes(Shape::new(DType::S4, [2])?, &[0x52])?;
    /// let call = embed::call::<sum>("{}")?.arg(packed).ret(Shape::new(DType::S64, [])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![7_i64]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the buffer has a different type or rank.
    pub fn packed<P: PackedElement, const RANK: usize>(&self) -> Result<Packed<'f, P, RANK>> {
        Packed::decode(self.raw()).ok_or_else(|| wrong::<P>(self.raw(), rank(RANK)))
    }
}

impl<'f> AnyOut<'f> {
    /// Converts the result to a [`PackedOut`] with elements of type `P` and, if fixed, rank `RANK`.
    ///
    /// ```
    /// use xla_ffi::{prelude::*, element::U4};
    ///
    /// #[xla_ffi::handler]
    /// fn count(y: AnyOut) -> Result<()> {
    ///     y.packed::<U4, 1>()?.write_with(|i| i as u8);
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<count>("{}")?.ret(Shape::new(DType::U4, [4])?);
    /// assert_eq!(call.run()?.rets[0].bytes(), [0x10, 0x32]);
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the result has a different type or rank.
    pub fn packed<P: PackedElement, const RANK: usize>(self) -> Result<PackedOut<'f, P, RANK>> {
        PackedOut::decode(self.raw()).ok_or_else(|| wrong::<P>(self.raw(), rank(RANK)))
    }
}

#[cold]
fn wrong<P: PackedElement>(raw: RawBuffer<'_>, rank: Option<usize>) -> Error {
    let param = Param::operand(Kind::Arg, DataTypes::only(P::DTYPE), rank);
    Error::invalid_argument(
        crate::param::mismatch::operand(raw, &param, 1)
            .unwrap_or_else(|| "the operand cannot be viewed so".to_owned()),
    )
}

const fn param<P: PackedElement>(kind: Kind, rank: Option<usize>) -> Param {
    let mut param = Param::operand(kind, DataTypes::only(P::DTYPE), rank);
    param.since = Feature::PackedElementTypes.since();
    param
}

// SAFETY: the value accesses only the operand at its place.

unsafe impl<'f, P: PackedElement, const RANK: usize> Bind<'f> for Packed<'f, P, RANK> {
    const PARAM: Param = param::<P>(Kind::Arg, rank(RANK));

    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.arg(at.arg)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.arg(frame, at, 1);
    }
}

/// A result with packed elements of type `P`. Available since r5 (jaxlib 0.6.0).
///
/// ```
/// use xla_ffi::{PackedOut, prelude::*, element::U4};
///
/// /// The low four bits of each byte.
/// #[xla_ffi::handler(shape = "n -> n")]
/// fn low_bits(x: Buffer<u8, 1>, mut y: PackedOut<U4, 1>) -> Result<()> {
///     assert_eq!(y.dims(), [y.len()]);
///     assert_eq!(y.bytes_uninit().len(), x.len().div_ceil(2));
///     y.write_with(|i| x[i] & 0xf);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<low_bits>("{}")?
///     .arg(Tensor::from_slice([3], &[0x11_u8, 0x22, 0x33])?)
///     .ret(Shape::new(DType::U4, [3])?);
/// assert_eq!(call.run()?.rets[0].bytes(), [0x21, 0x03]);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct PackedOut<'f, P, const RANK: usize = ANY_RANK> {
    out: AnyOut<'f>,
    _element: PhantomData<fn() -> P>,
}

impl<'f, P: PackedElement, const RANK: usize> PackedOut<'f, P, RANK> {
    fn decode(raw: RawBuffer<'f>) -> Option<Self> {
        if !fits::<P>(raw, rank(RANK)) {
            return None;
        }
        Some(Self {
            out: AnyOut::decode(raw)?,
            _element: PhantomData,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.element_count()
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.element_count() == 0
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    pub fn dims(&self) -> &'f [usize] {
        self.out.dims()
    }

    /// Returns the packed, uninitialized bytes.
    #[must_use]
    pub fn bytes_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        self.out.bytes_uninit()
    }

    /// Leaves this result unwritten on purpose; see
    /// [`Out::leave_unwritten`](crate::Out::leave_unwritten).
    ///
    /// ```
    /// use xla_ffi::{PackedOut, prelude::*, element::U4};
    ///
    /// #[xla_ffi::handler]
    /// fn untouched(y: PackedOut<U4>) -> Result<()> {
    ///     y.leave_unwritten();
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<untouched>("{}")?.ret(Shape::new(DType::U4, [2])?);
    /// assert!(call.run().is_ok());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    #[inline]
    pub fn leave_unwritten(self) {
        self.out.leave_unwritten();
    }

    /// Writes `element(i)` to element `i`, in row-major order, and returns the packed bytes. Unused bits
    /// of the last byte are set to 0.
    pub fn write_with(&mut self, mut element: impl FnMut(usize) -> P::Value) -> &mut [u8] {
        let len = self.len();
        let per_byte = 8 / P::BITS;
        let bytes = self.out.fill_bytes(0);
        for index in 0..len {
            let bits = P::to_bits(element(index)) & mask(P::BITS);
            bytes[index / per_byte] |= bits << (P::BITS * (index % per_byte));
        }
        bytes
    }
}

// SAFETY: the value accesses only the operand at its place.

unsafe impl<'f, P: PackedElement, const RANK: usize> Bind<'f> for PackedOut<'f, P, RANK> {
    const PARAM: Param = param::<P>(Kind::Ret, rank(RANK));

    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Self::decode(frame.ret(at.ret)?)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        problems.ret(frame, at, 1);
    }
}
