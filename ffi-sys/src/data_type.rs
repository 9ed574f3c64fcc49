//! Element types: their numbers, sizes and classes.

use crate::Revision;

enumeration! {
    /// The element type of a buffer, scalar or array. Hosts may also send other numbers. Hosts of
    /// r3 and r4 send 0 for types smaller than a byte.
    XLA_FFI_DataType, "XLA_FFI_DataType_" {
        /// No type, or a type for which the host has no number.
        INVALID = 0,
        /// A boolean: one byte, which is 0 or 1.
        PRED = 1,
        /// A 1-bit signed integer, eight per byte, the first in the low bits.
        S1 = 30 since "0.6.0",
        /// 2-bit signed integer, four per byte, the first in the low bits.
        S2 = 26 since "0.6.0",
        /// 4-bit signed integer, two per byte, the first in the low bits.
        S4 = 21 since "0.6.0",
        /// 8-bit signed integer.
        S8 = 2,
        /// 16-bit signed integer.
        S16 = 3,
        /// 32-bit signed integer.
        S32 = 4,
        /// 64-bit signed integer.
        S64 = 5,
        /// A 1-bit unsigned integer, eight per byte, the first in the low bits.
        U1 = 31 since "0.6.0",
        /// 2-bit unsigned integer, four per byte, the first in the low bits.
        U2 = 27 since "0.6.0",
        /// 4-bit unsigned integer, two per byte, the first in the low bits.
        U4 = 22 since "0.6.0",
        /// 8-bit unsigned integer.
        U8 = 6,
        /// 16-bit unsigned integer.
        U16 = 7,
        /// 32-bit unsigned integer.
        U32 = 8,
        /// 64-bit unsigned integer.
        U64 = 9,
        /// A half-precision float (IEEE 754, 16 bits).
        F16 = 10,
        /// A single-precision float (IEEE 754, 32 bits).
        F32 = 11,
        /// A double-precision float (IEEE 754, 64 bits).
        F64 = 12,
        /// A 16-bit float: the upper half of a single-precision float.
        BF16 = 16,
        /// A complex number of two single-precision floats: the real part, then the imaginary part.
        C64 = 15,
        /// A complex number of two double-precision floats: the real part, then the imaginary part.
        C128 = 18,
        /// An ordering token, which has rank 0 and no elements.
        TOKEN = 17,
        /// 8-bit float with 5 exponent bits and 2 mantissa bits.
        F8E5M2 = 19,
        /// 8-bit float with 3 exponent bits and 4 mantissa bits.
        F8E3M4 = 29 since "0.4.35",
        /// 8-bit float with 4 exponent bits, 3 mantissa bits and infinities.
        F8E4M3 = 28 since "0.4.35",
        /// 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities.
        F8E4M3FN = 20,
        /// 8-bit float with 4 exponent bits (bias 11) and 3 mantissa bits, without infinities and
        /// negative zero.
        F8E4M3B11FNUZ = 23,
        /// 8-bit float with 5 exponent bits and 2 mantissa bits, without infinities and negative
        /// zero.
        F8E5M2FNUZ = 24,
        /// 8-bit float with 4 exponent bits and 3 mantissa bits, without infinities and negative
        /// zero.
        F8E4M3FNUZ = 25,
        /// 4-bit float with 2 exponent bits and 1 mantissa bit, two per byte, the first in the low
        /// bits.
        F4E2M1FN = 32 since "0.5.0",
        /// An 8-bit power of two, which consists of an exponent only.
        F8E8M0FNU = 33 since "0.5.0",
    }
}

/// The kind of number that an element type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementClass {
    /// A byte that is 0 or 1.
    Bool,
    /// A signed integer in two's complement.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A floating-point number.
    Float,
    /// A complex number.
    Complex,
    /// A token, which has no value.
    Token,
}

/// The properties of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType {
    /// The number of the element type. [`XLA_FFI_DataType::name`] returns the type's name.
    pub dtype: XLA_FFI_DataType,
    /// The size of one element in a buffer in bits; 0 for tokens. Elements smaller than 8 bits are
    /// packed, the first element in the low bits.
    pub bits: usize,
    /// The kind of number that the element type has.
    pub class: ElementClass,
    /// The oldest revision whose hosts pass buffers of this type to handlers.
    pub since: Revision,
}

macro_rules! element_types {
    ($($name:ident $bits:literal $class:ident $since:ident;)*) => {
        /// All element types except `INVALID`, in the order of the C header.
        pub const ELEMENT_TYPES: &[ElementType] = &[$(ElementType {
            dtype: XLA_FFI_DataType::$name,
            bits: $bits,
            class: ElementClass::$class,
            since: Revision::$since,
        }),*];
    };
}

element_types! {
    PRED 8 Bool R0;
    S1 1 Signed R5;
    S2 2 Signed R3;
    S4 4 Signed R3;
    S8 8 Signed R0;
    S16 16 Signed R0;
    S32 32 Signed R0;
    S64 64 Signed R0;
    U1 1 Unsigned R5;
    U2 2 Unsigned R3;
    U4 4 Unsigned R3;
    U8 8 Unsigned R0;
    U16 16 Unsigned R0;
    U32 32 Unsigned R0;
    U64 64 Unsigned R0;
    F16 16 Float R0;
    F32 32 Float R0;
    F64 64 Float R0;
    BF16 16 Float R0;
    C64 64 Complex R0;
    C128 128 Complex R0;
    TOKEN 0 Token R0;
    F8E5M2 8 Float R0;
    F8E3M4 8 Float R2;
    F8E4M3 8 Float R2;
    F8E4M3FN 8 Float R0;
    F8E4M3B11FNUZ 8 Float R0;
    F8E5M2FNUZ 8 Float R0;
    F8E4M3FNUZ 8 Float R0;
    F4E2M1FN 4 Float R3;
    F8E8M0FNU 8 Float R3;
}

/// The sizes of elements in bits, indexed by type number, so that a lookup needs one load. Unknown
/// types have the size `UNKNOWN`.
const BITS: [u8; 34] = {
    let mut bits = [UNKNOWN; 34];
    let mut i = 0;
    while i < ELEMENT_TYPES.len() {
        bits[ELEMENT_TYPES[i].dtype.0 as usize] = ELEMENT_TYPES[i].bits as u8;
        i += 1;
    }
    bits
};

const UNKNOWN: u8 = u8::MAX;

// Every enumerator except INVALID must be listed, so that no size is missing.
const _: () = assert!(ELEMENT_TYPES.len() + 1 == XLA_FFI_DataType::ENUM.values.len());

impl XLA_FFI_DataType {
    /// Returns the size of one element in a buffer in bits, which is 0 for tokens. Returns `None`
    /// for unknown types.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> Option<usize> {
        if self.0 as usize >= BITS.len() || BITS[self.0 as usize] == UNKNOWN {
            return None;
        }
        Some(BITS[self.0 as usize] as usize)
    }

    /// Returns the size of `len` elements in bytes, with elements smaller than a byte packed.
    /// Returns `None` for unknown types and if the size exceeds the address space.
    #[must_use]
    pub const fn bytes_for(self, len: usize) -> Option<usize> {
        let bytes = match self.bits() {
            None => return None,
            Some(bits @ 0..8) => match len.checked_mul(bits) {
                None => return None,
                Some(bits) => bits.div_ceil(8),
            },
            Some(bits) => match len.checked_mul(bits / 8) {
                None => return None,
                Some(bytes) => bytes,
            },
        };
        if bytes > isize::MAX as usize {
            return None;
        }
        Some(bytes)
    }

    /// Returns the properties of the element type, or `None` if the element type is unknown.
    #[must_use]
    pub fn element_type(self) -> Option<&'static ElementType> {
        ELEMENT_TYPES.iter().find(|known| known.dtype == self)
    }
}
