//! Element types of buffers and arrays that have no equivalent in Rust.

use std::borrow::Cow;
use std::fmt;

use crate::error::problems::{number, put};
use xla_ffi_sys::{ELEMENT_TYPES, XLA_FFI_DataType};
pub use xla_ffi_sys::{Element, Wide};

macro_rules! elements {
    ($($ty:ident => $dtype:ident;)*) => {
        $(
            // SAFETY: the type is one byte of the named element type, and every bit pattern is valid.
            unsafe impl Element for $ty {
                const DTYPE: XLA_FFI_DataType = XLA_FFI_DataType::$dtype;
            }
        )*
    };
}

elements! {
    Pred => PRED;
    F8E5M2 => F8E5M2;
    F8E3M4 => F8E3M4;
    F8E4M3 => F8E4M3;
    F8E4M3FN => F8E4M3FN;
    F8E4M3B11FNUZ => F8E4M3B11FNUZ;
    F8E5M2FNUZ => F8E5M2FNUZ;
    F8E4M3FNUZ => F8E4M3FNUZ;
    F8E8M0FNU => F8E8M0FNU;
}

/// A boolean as XLA stores it: a byte that is 0 or 1.
///
/// This type replaces Rust's `bool`, because bytes from other code may have any value. Every nonzero byte counts as
/// true.
///
/// ```
/// use xla_ffi::Pred;
/// assert_eq!(Pred::from(true), Pred::TRUE);
/// assert!(Pred::TRUE.get() && !Pred::FALSE.get());
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pred(u8);

impl Pred {
    /// The value that is true: a byte that is 1.
    pub const TRUE: Self = Self(1);
    /// The value that is false: a byte that is 0.
    pub const FALSE: Self = Self(0);

    /// Returns the value as a Rust `bool`.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Pred {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl From<Pred> for bool {
    fn from(value: Pred) -> Self {
        value.get()
    }
}

// To pass 8-bit floats to other crates, handlers need only the bits and a name. A crate for 8-bit floats (microfloat:
// 3,200 lines and libm) would replace only these forty lines and tie users to its versions.
macro_rules! eight_bit_floats {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        $(
            $(#[$meta])*
            ///
            /// The value holds the bits as XLA stores them. Use a separate crate for arithmetic.
            ///
            /// ```
            #[doc = concat!("use xla_ffi::{element::", stringify!($name), ", prelude::*};")]
            ///
            /// /// How many elements have their highest bit set.
            /// #[xla_ffi::handler]
            #[doc = concat!("fn high(x: Buffer<", stringify!($name), ">, mut y: Out<u64, 0>) -> Result<()> {")]
            ///     y.fill(x.iter().filter(|x| x.to_bits() >= 0x80).count() as u64);
            ///     Ok(())
            /// }
            ///
            /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
            #[doc = concat!("let shape = Shape::new(DType::", stringify!($name), ", [2])?;")]
            /// let call = embed::call::<high>("{}")?
            ///     .arg(Tensor::from_bytes(shape, &[0x40, 0xc0])?)
            ///     .ret(Shape::new(DType::U64, [])?);
            /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1_u64]));
            #[doc = concat!("assert_eq!(", stringify!($name), "::from_bits(0x40).to_bits(), 0x40);")]
            /// # Ok::<(), xla_ffi::Error>(())
            /// ```
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name(u8);

            impl $name {
                /// Creates a value from its bits.
                #[must_use]
                pub const fn from_bits(bits: u8) -> Self {
                    Self(bits)
                }

                /// Returns the bits of the value.
                #[must_use]
                pub const fn to_bits(self) -> u8 {
                    self.0
                }
            }
        )*
    };
}

eight_bit_floats! {
    /// 8-bit float with 5 exponent bits and 2 mantissa bits.
    F8E5M2;
    /// 8-bit float with 3 exponent bits and 4 mantissa bits. Available since jaxlib 0.4.35.
    F8E3M4;
    /// 8-bit float with 4 exponent bits, 3 mantissa bits and infinities. Available since jaxlib 0.4.35.
    F8E4M3;
    /// 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities.
    F8E4M3FN;
    /// 8-bit float with 4 exponent bits (bias 11) and 3 mantissa bits, without infinities and negative zero.
    F8E4M3B11FNUZ;
    /// 8-bit float with 5 exponent bits and 2 mantissa bits, without infinities and negative zero.
    F8E5M2FNUZ;
    /// 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities and negative zero.
    F8E4M3FNUZ;
    /// 8-bit power of two, which has only an exponent. Available since jaxlib 0.5.0.
    F8E8M0FNU;
}

/// A set of element types.
///
/// ```
/// use xla_ffi::{DataType, bind::DataTypes};
///
/// let either = DataTypes::only(DataType::F32).or(DataTypes::only(DataType::F64));
/// assert_eq!(either, DataTypes::of(&[DataType::F32, DataType::F64]));
/// assert!(either.contains(DataType::F64) && !either.is_any());
/// assert!(DataTypes::ANY.is_any() && DataTypes::ANY.contains(DataType::S8));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataTypes(u64);

impl DataTypes {
    /// All element types except tokens, including unknown types.
    pub const ANY: Self = Self(u64::MAX);

    /// Returns the set that contains only `dtype`.
    #[must_use]
    pub const fn only(dtype: XLA_FFI_DataType) -> Self {
        Self(1 << (dtype.0 & 63))
    }

    /// Returns true if the set contains `dtype`.
    #[must_use]
    #[inline(always)]
    pub const fn contains(self, dtype: XLA_FFI_DataType) -> bool {
        self.0 == u64::MAX || (dtype.0 < 64 && self.0 & (1 << dtype.0) != 0)
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set that contains exactly the types `dtypes`.
    ///
    /// ```
    /// use xla_ffi::{DataType, bind::DataTypes};
    ///
    /// const FLOATS: DataTypes = DataTypes::of(&[DataType::F32, DataType::F64]);
    /// assert!(FLOATS.contains(DataType::F64) && !FLOATS.contains(DataType::S32));
    /// assert_eq!(FLOATS.to_string(), "F32 or F64");
    /// ```
    #[must_use]
    pub const fn of(dtypes: &[XLA_FFI_DataType]) -> Self {
        let (mut set, mut i) = (Self(0), 0);
        while i < dtypes.len() {
            set = set.or(Self::only(dtypes[i]));
            i += 1;
        }
        set
    }

    /// Returns true if the set contains a type smaller than a byte.
    pub(crate) const fn has_packed(self) -> bool {
        let (mut i, mut found) = (0, false);
        while i < ELEMENT_TYPES.len() {
            let known = &ELEMENT_TYPES[i];
            found |= known.bits > 0 && known.bits < 8 && self.0 & Self::only(known.dtype).0 != 0;
            i += 1;
        }
        found
    }

    /// Returns true if the set contains only tokens.
    pub(crate) const fn is_only_token(self) -> bool {
        self.0 == 1 << XLA_FFI_DataType::TOKEN.0
    }

    /// Returns the names of the members, for messages.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let any = self.is_any().then_some("any type");
        let members = ELEMENT_TYPES
            .iter()
            .filter(move |known| !self.is_any() && self.contains(known.dtype));
        any.into_iter()
            .chain(members.filter_map(|known| own_name(known.dtype)))
    }

    /// Returns true if the set is [`DataTypes::ANY`].
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0 == u64::MAX
    }
}

impl fmt::Debug for DataTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DataTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut joint = "";
        for name in self.names() {
            f.write_str(joint)?;
            f.write_str(name)?;
            joint = " or ";
        }
        Ok(())
    }
}

/// Returns the name of an element type. The function is not inlined, so that a library has one table of names instead
/// of one per caller.
#[inline(never)]
fn own_name(dtype: XLA_FFI_DataType) -> Option<&'static str> {
    dtype.name()
}

/// Returns the C name of an element type without its prefix. Returns the number of an unknown type.
pub fn name(dtype: XLA_FFI_DataType) -> Cow<'static, str> {
    match own_name(dtype) {
        Some(name) if dtype != XLA_FFI_DataType::INVALID => Cow::Borrowed(name),
        _ => Cow::Owned(format!("element type {}", dtype.0)),
    }
}

/// Returns the order of an element type's class (bool, unsigned, signed, float, complex) and its size in bits. For
/// complex types, this is the size of the real part.
fn kind(dtype: XLA_FFI_DataType) -> Option<(usize, usize)> {
    use xla_ffi_sys::ElementClass as Class;
    let known = ELEMENT_TYPES.iter().find(|known| known.dtype == dtype)?;
    Some(match known.class {
        Class::Bool => (0, known.bits),
        Class::Unsigned => (1, known.bits),
        Class::Signed => (2, known.bits),
        Class::Float => (3, known.bits),
        Class::Complex => (4, known.bits / 2),
        _ => return None,
    })
}

/// Returns true if a cast from the element type `from` to `to` preserves every value.
pub(crate) fn widens(from: XLA_FFI_DataType, to: XLA_FFI_DataType) -> bool {
    match (kind(from), kind(to)) {
        (Some((a, has)), Some((b, gets))) if a == b || (a, b) == (1, 2) => gets > has,
        (Some((a, has)), Some((b, gets))) => a < b && (a == 0 || gets >= has),
        _ => false,
    }
}

/// Writes `before` and the NumPy name of an element type, for example `np.float32`. Writes nothing if NumPy lacks the
/// type.
pub(crate) fn put_numpy(text: &mut String, before: &str, dtype: XLA_FFI_DataType) -> bool {
    let (name, bits) = match kind(dtype) {
        Some((1, bits)) if bits >= 8 => ("np.uint", bits),
        Some((2, bits)) if bits >= 8 => ("np.int", bits),
        Some((3, bits)) if bits >= 16 && dtype != XLA_FFI_DataType::BF16 => ("np.float", bits),
        Some((4, bits)) => ("np.complex", 2 * bits),
        _ => return false,
    };
    put(text, &[before, name]);
    number(text, bits as i64);
    true
}

/// A placeholder for the rank of operands that accept any rank.
///
/// ```
/// use xla_ffi::{ANY_RANK, Buffer};
///
/// fn mean(x: Buffer<'_, f32, ANY_RANK>) -> f32 { // the same as Buffer<'_, f32>
///     x.iter().sum::<f32>() / x.len() as f32
/// }
///
/// // `typed` wants the rank named, or this.
/// #[xla_ffi::handler]
/// fn average(x: xla_ffi::AnyBuffer, mut y: xla_ffi::Out<f32, 0>) -> xla_ffi::Result<()> {
///     y.fill(mean(x.typed::<f32, ANY_RANK>()?));
///     Ok(())
/// }
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<average>("{}")?
///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
///     .ret(Shape::new(DType::F32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.5_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub const ANY_RANK: usize = usize::MAX;

/// Converts a rank parameter to an optional rank; [`ANY_RANK`] becomes `None`.
#[inline(always)]
#[track_caller]
pub(crate) const fn rank(rank: usize) -> Option<usize> {
    if rank == ANY_RANK {
        return None;
    }
    // The limit ensures that the rank fits in the signed number of the call frame, and that the dimensions fit in
    // memory.
    assert!(rank <= u32::MAX as usize, "this rank is too large");
    Some(rank)
}

#[cfg(test)]
mod tests {
    use super::widens;
    use xla_ffi_sys::XLA_FFI_DataType as DataType;

    #[test]
    fn casts_that_preserve_every_value() {
        assert!(widens(DataType::F16, DataType::F32) && widens(DataType::U8, DataType::S16));
        assert!(!widens(DataType::F16, DataType::BF16) && !widens(DataType::U8, DataType::S8));
        assert!(!widens(DataType::F32, DataType::S64) && !widens(DataType::TOKEN, DataType::F32));
    }
}
