//! Element types: their numbers, and what is known of each.

use crate::Revision;

enumeration! {
    /// The element type of a buffer, scalar or array. Hosts may send numbers that are not listed;
    /// r3 and r4 send 0 for the sub-byte types.
    XLA_FFI_DataType, "XLA_FFI_DataType_" {
        /// No type, or one that the host cannot name.
        INVALID = 0,
        /// Boolean, one byte, 0 or 1.
        PRED = 1,
        /// 1-bit signed integer.
        S1 = 30 since "0.6.0",
        /// 2-bit signed integer, four to a byte, first in the low bits.
        S2 = 26 since "0.6.0",
        /// 4-bit signed integer, two to a byte, first in the low bits.
        S4 = 21 since "0.6.0",
        /// 8-bit signed integer.
        S8 = 2,
        /// 16-bit signed integer.
        S16 = 3,
        /// 32-bit signed integer.
        S32 = 4,
        /// 64-bit signed integer.
        S64 = 5,
        /// 1-bit unsigned integer.
        U1 = 31 since "0.6.0",
        /// 2-bit unsigned integer, four to a byte, first in the low bits.
        U2 = 27 since "0.6.0",
        /// 4-bit unsigned integer, two to a byte, first in the low bits.
        U4 = 22 since "0.6.0",
        /// 8-bit unsigned integer.
        U8 = 6,
        /// 16-bit unsigned integer.
        U16 = 7,
        /// 32-bit unsigned integer.
        U32 = 8,
        /// 64-bit unsigned integer.
        U64 = 9,
        /// IEEE half precision.
        F16 = 10,
        /// IEEE single precision.
        F32 = 11,
        /// IEEE double precision.
        F64 = 12,
        /// The upper half of a single.
        BF16 = 16,
        /// Two singles: real, imaginary.
        C64 = 15,
        /// Two doubles: real, imaginary.
        C128 = 18,
        /// An ordering token; rank 0, no elements.
        TOKEN = 17,
        /// 8-bit float, 5 exponent and 2 mantissa bits.
        F8E5M2 = 19,
        /// 8-bit float, 3 exponent and 4 mantissa bits.
        F8E3M4 = 29 since "0.4.35",
        /// 8-bit float, 4 exponent and 3 mantissa bits, with infinities.
        F8E4M3 = 28 since "0.4.35",
        /// 8-bit float, 4 exponent and 3 mantissa bits, finite.
        F8E4M3FN = 20,
        /// 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, no negative zero.
        F8E4M3B11FNUZ = 23,
        /// 8-bit float, 5 exponent and 2 mantissa bits, finite, no negative zero.
        F8E5M2FNUZ = 24,
        /// 8-bit float, 4 exponent and 3 mantissa bits, finite, no negative zero.
        F8E4M3FNUZ = 25,
        /// 4-bit float, 2 exponent bits and 1 mantissa bit, two to a byte, first in the low bits.
        F4E2M1FN = 32 since "0.5.0",
        /// 8-bit power of two: exponent only.
        F8E8M0FNU = 33 since "0.5.0",
    }
}

/// What kind of number an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementClass {
    /// One byte, 0 or 1.
    Bool,
    /// Two's complement.
    Signed,
    /// Natural numbers.
    Unsigned,
    /// A floating-point number.
    Float,
    /// Two floating-point numbers.
    Complex,
    /// No value at all.
    Token,
}

/// An element type with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType {
    /// Its number; [`XLA_FFI_DataType::name`] gives its names.
    pub dtype: XLA_FFI_DataType,
    /// Bits that one element takes in a buffer: 0 for tokens; less than 8 share a byte, the first in the
    /// low bits.
    pub bits: usize,
    /// What kind of number it is.
    pub class: ElementClass,
    /// The oldest revision whose hosts hand such buffers to handlers.
    pub since: Revision,
}

macro_rules! element_types {
    ($($name:ident $bits:literal $class:ident $since:ident;)*) => {
        /// All element types, in the order of the C header; `INVALID` is none.
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

/// Bits by number, so that a size costs one load; `UNKNOWN` where there is no such type.
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

// Each enumerator but INVALID has its line, so that nothing is sized by guessing.
const _: () = assert!(ELEMENT_TYPES.len() + 1 == XLA_FFI_DataType::ENUM.values.len());

impl XLA_FFI_DataType {
    /// Bits that one element takes in a buffer, 0 for tokens; `None` for numbers that are not listed.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> Option<usize> {
        if self.0 as usize >= BITS.len() || BITS[self.0 as usize] == UNKNOWN {
            return None;
        }
        Some(BITS[self.0 as usize] as usize)
    }

    /// Bytes of `len` elements, packed if one takes less than a byte; `None` for numbers that are not listed, and for
    /// more bytes than memory can have.
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

    /// What is known of the element type; `None` for numbers that are not listed.
    #[must_use]
    pub fn element_type(self) -> Option<&'static ElementType> {
        ELEMENT_TYPES.iter().find(|known| known.dtype == self)
    }
}
