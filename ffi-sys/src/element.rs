//! Element types as Rust types, and exact conversions between numbers.
#![expect(unsafe_code, reason = "the trait promises what unsafe code relies on")]

use crate::XLA_FFI_DataType;
use core::fmt;

/// A type whose values are the elements of buffers.
///
/// The trait is implemented for numbers. `xla_ffi` also implements it for booleans (`Pred`) and 8-bit floats. The
/// feature `half` adds the 16-bit floats of `half`, and `complex` adds the complex numbers of `num_complex`.
///
/// ```
/// use xla_ffi_sys::{Element, XLA_FFI_DataType as DataType};
///
/// assert_eq!(f32::DTYPE, DataType::F32);
///
/// /// A number of your own, with the layout of one that XLA has.
/// #[derive(Clone, Copy, Debug)]
/// #[repr(transparent)]
/// struct Metres(f64);
///
/// // SAFETY: an f64, and every bit pattern of one is a value.
/// unsafe impl Element for Metres {
///     const DTYPE: DataType = DataType::F64;
/// }
/// ```
///
/// # Safety
/// The type has no padding, and every bit pattern of `size_of::<Self>()` bytes is a valid value. `DTYPE` is the element
/// type with exactly this size and meaning.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of XLA",
    note = "write `xla_ffi::Pred` for `bool`, and `i64` or `u64` for `usize`; 16-bit floats need the feature `half`, \
            complex numbers the feature `complex`"
)]
pub unsafe trait Element: Copy + Send + Sync + fmt::Debug + 'static {
    /// The element type's number in the ABI.
    const DTYPE: XLA_FFI_DataType;

    /// Converts a number to this type, for narrowed attributes. Returns `None` if the number does
    /// not fit.
    #[doc(hidden)]
    fn narrowed(_: Wide) -> Option<Self> {
        None
    }
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident $(with $narrowed:item)?;)*) => {
        $(
            // SAFETY: the type is a plain number or byte of the named element type, and every bit pattern is valid.
            unsafe impl Element for $ty {
                const DTYPE: XLA_FFI_DataType = XLA_FFI_DataType::$dtype;
                $($narrowed)?
            }
        )*
    };
}

macro_rules! numbers {
    ($($ty:ty => $dtype:ident;)*) => {
        elements! {
            $($ty => $dtype with fn narrowed(wide: Wide) -> Option<Self> {
                match wide {
                    Wide::Int(value) => Narrow::from_int(value),
                    Wide::Float(value) => Narrow::from_float(value),
                }
            };)*
        }
    };
}

numbers! {
    i8 => S8;
    i16 => S16;
    i32 => S32;
    i64 => S64;
    u8 => U8;
    u16 => U16;
    u32 => U32;
    u64 => U64;
    f32 => F32;
    f64 => F64;
}

#[cfg(feature = "half")]
elements! {
    half::f16 => F16;
    half::bf16 => BF16;
}

#[cfg(feature = "complex")]
elements! {
    num_complex::Complex<f32> => C64;
    num_complex::Complex<f64> => C128;
}

/// Conversion from a number of a different type. Integers must fit exactly; floats are rounded to the nearest value.
trait Narrow: Sized {
    fn from_int(value: i128) -> Option<Self>;
    fn from_float(value: f64) -> Option<Self>;
}

macro_rules! narrow_int {
    ($($ty:ty)*) => {
        $(impl Narrow for $ty {
            fn from_int(value: i128) -> Option<Self> {
                value.try_into().ok()
            }

            fn from_float(_: f64) -> Option<Self> {
                None
            }
        })*
    };
}

narrow_int!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Narrow for f64 {
    fn from_int(value: i128) -> Option<Self> {
        let float = value as Self;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Narrow for f32 {
    fn from_int(value: i128) -> Option<Self> {
        let float = value as Self;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        let float = value as Self;
        (float.is_finite() || !value.is_finite()).then_some(float)
    }
}

/// A number, widened to the largest integer or float type.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    /// An integer of up to 128 bits.
    Int(i128),
    /// A float of up to 64 bits.
    Float(f64),
}

macro_rules! wide {
    ($kind:ident $($ty:ty)*) => {
        $(impl From<$ty> for Wide {
            fn from(value: $ty) -> Self {
                Self::$kind(value.into())
            }
        })*
    };
}

wide!(Int i8 i16 i32 i64 u8 u16 u32 u64);
wide!(Float f32 f64);
