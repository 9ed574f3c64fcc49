//! Element types: names, widths, packing.

use std::fmt;
use xla_ffi_sys::{Revision, XLA_FFI_DataType};

/// The element type of a buffer, a scalar or an array.
///
/// ```
/// use xla_ffi_runtime::{DType, Revision};
///
/// assert_eq!(DType::from_name("i32"), Some(DType::S32));
/// assert_eq!((DType::BF16.name(), DType::BF16.bits()), ("bf16", 16));
/// assert!(DType::S4.is_packed() && DType::S4.since() == Revision::R3);
/// assert_eq!(DType::S4.bytes_for(3), Some(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "the names are those of the ABI, documented in xla-ffi-sys"
)]
pub enum DType {
    Pred,
    S1,
    S2,
    S4,
    S8,
    S16,
    S32,
    S64,
    U1,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    F8E5M2,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3B11FNUZ,
    F8E5M2FNUZ,
    F8E4M3FNUZ,
    F4E2M1FN,
    F8E8M0FNU,
    Token,
}

/// What kind of number an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
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

use Class::{Bool, Complex, Float, Signed, Token, Unsigned};

/// One line an element type: number in the ABI, C name, text name, bits, class, first revision.
const TABLE: [(DType, XLA_FFI_DataType, &str, &str, usize, Class, Revision); 31] = [
    (
        DType::Pred,
        XLA_FFI_DataType::PRED,
        "PRED",
        "pred",
        8,
        Bool,
        Revision::R0,
    ),
    (
        DType::S1,
        XLA_FFI_DataType::S1,
        "S1",
        "s1",
        1,
        Signed,
        Revision::R5,
    ),
    (
        DType::S2,
        XLA_FFI_DataType::S2,
        "S2",
        "s2",
        2,
        Signed,
        Revision::R3,
    ),
    (
        DType::S4,
        XLA_FFI_DataType::S4,
        "S4",
        "s4",
        4,
        Signed,
        Revision::R3,
    ),
    (
        DType::S8,
        XLA_FFI_DataType::S8,
        "S8",
        "s8",
        8,
        Signed,
        Revision::R0,
    ),
    (
        DType::S16,
        XLA_FFI_DataType::S16,
        "S16",
        "s16",
        16,
        Signed,
        Revision::R0,
    ),
    (
        DType::S32,
        XLA_FFI_DataType::S32,
        "S32",
        "s32",
        32,
        Signed,
        Revision::R0,
    ),
    (
        DType::S64,
        XLA_FFI_DataType::S64,
        "S64",
        "s64",
        64,
        Signed,
        Revision::R0,
    ),
    (
        DType::U1,
        XLA_FFI_DataType::U1,
        "U1",
        "u1",
        1,
        Unsigned,
        Revision::R5,
    ),
    (
        DType::U2,
        XLA_FFI_DataType::U2,
        "U2",
        "u2",
        2,
        Unsigned,
        Revision::R3,
    ),
    (
        DType::U4,
        XLA_FFI_DataType::U4,
        "U4",
        "u4",
        4,
        Unsigned,
        Revision::R3,
    ),
    (
        DType::U8,
        XLA_FFI_DataType::U8,
        "U8",
        "u8",
        8,
        Unsigned,
        Revision::R0,
    ),
    (
        DType::U16,
        XLA_FFI_DataType::U16,
        "U16",
        "u16",
        16,
        Unsigned,
        Revision::R0,
    ),
    (
        DType::U32,
        XLA_FFI_DataType::U32,
        "U32",
        "u32",
        32,
        Unsigned,
        Revision::R0,
    ),
    (
        DType::U64,
        XLA_FFI_DataType::U64,
        "U64",
        "u64",
        64,
        Unsigned,
        Revision::R0,
    ),
    (
        DType::F16,
        XLA_FFI_DataType::F16,
        "F16",
        "f16",
        16,
        Float,
        Revision::R0,
    ),
    (
        DType::BF16,
        XLA_FFI_DataType::BF16,
        "BF16",
        "bf16",
        16,
        Float,
        Revision::R0,
    ),
    (
        DType::F32,
        XLA_FFI_DataType::F32,
        "F32",
        "f32",
        32,
        Float,
        Revision::R0,
    ),
    (
        DType::F64,
        XLA_FFI_DataType::F64,
        "F64",
        "f64",
        64,
        Float,
        Revision::R0,
    ),
    (
        DType::C64,
        XLA_FFI_DataType::C64,
        "C64",
        "c64",
        64,
        Complex,
        Revision::R0,
    ),
    (
        DType::C128,
        XLA_FFI_DataType::C128,
        "C128",
        "c128",
        128,
        Complex,
        Revision::R0,
    ),
    (
        DType::F8E5M2,
        XLA_FFI_DataType::F8E5M2,
        "F8E5M2",
        "f8e5m2",
        8,
        Float,
        Revision::R0,
    ),
    (
        DType::F8E3M4,
        XLA_FFI_DataType::F8E3M4,
        "F8E3M4",
        "f8e3m4",
        8,
        Float,
        Revision::R2,
    ),
    (
        DType::F8E4M3,
        XLA_FFI_DataType::F8E4M3,
        "F8E4M3",
        "f8e4m3",
        8,
        Float,
        Revision::R2,
    ),
    (
        DType::F8E4M3FN,
        XLA_FFI_DataType::F8E4M3FN,
        "F8E4M3FN",
        "f8e4m3fn",
        8,
        Float,
        Revision::R0,
    ),
    (
        DType::F8E4M3B11FNUZ,
        XLA_FFI_DataType::F8E4M3B11FNUZ,
        "F8E4M3B11FNUZ",
        "f8e4m3b11fnuz",
        8,
        Float,
        Revision::R0,
    ),
    (
        DType::F8E5M2FNUZ,
        XLA_FFI_DataType::F8E5M2FNUZ,
        "F8E5M2FNUZ",
        "f8e5m2fnuz",
        8,
        Float,
        Revision::R0,
    ),
    (
        DType::F8E4M3FNUZ,
        XLA_FFI_DataType::F8E4M3FNUZ,
        "F8E4M3FNUZ",
        "f8e4m3fnuz",
        8,
        Float,
        Revision::R0,
    ),
    (
        DType::F4E2M1FN,
        XLA_FFI_DataType::F4E2M1FN,
        "F4E2M1FN",
        "f4e2m1fn",
        4,
        Float,
        Revision::R3,
    ),
    (
        DType::F8E8M0FNU,
        XLA_FFI_DataType::F8E8M0FNU,
        "F8E8M0FNU",
        "f8e8m0fnu",
        8,
        Float,
        Revision::R3,
    ),
    (
        DType::Token,
        XLA_FFI_DataType::TOKEN,
        "TOKEN",
        "token",
        0,
        Token,
        Revision::R0,
    ),
];

impl DType {
    fn row(
        self,
    ) -> &'static (
        DType,
        XLA_FFI_DataType,
        &'static str,
        &'static str,
        usize,
        Class,
        Revision,
    ) {
        &TABLE[self as usize]
    }

    /// All element types.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The number in the ABI.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_DataType {
        self.row().1
    }

    /// The type with this number; `None` for numbers that no known host sends.
    #[must_use]
    pub fn from_raw(raw: XLA_FFI_DataType) -> Option<Self> {
        Self::all().find(|dtype| dtype.raw() == raw)
    }

    /// The C name without prefix, `"F8E4M3FN"` for instance.
    #[must_use]
    pub fn c_name(self) -> &'static str {
        self.row().2
    }

    /// The name in texts, `"f8e4m3fn"` for instance.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().3
    }

    /// The type called `name`, in any case; `i32`, `bool`, `int4` and the like are understood too.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let alias = match name.as_str() {
            "bool" | "i1" => "pred",
            "i2" | "int2" => "s2",
            "i4" | "int4" => "s4",
            "i8" | "int8" => "s8",
            "i16" | "int16" => "s16",
            "i32" | "int32" => "s32",
            "i64" | "int64" => "s64",
            "uint2" => "u2",
            "uint4" => "u4",
            "uint8" => "u8",
            "uint16" => "u16",
            "uint32" => "u32",
            "uint64" => "u64",
            "float16" => "f16",
            "bfloat16" => "bf16",
            "float32" => "f32",
            "float64" => "f64",
            "complex64" => "c64",
            "complex128" => "c128",
            other => other,
        };
        Self::all().find(|dtype| dtype.name() == alias)
    }

    /// Bits of one element; 0 for a token.
    #[must_use]
    pub fn bits(self) -> usize {
        self.row().4
    }

    /// What kind of number it is.
    #[must_use]
    pub fn class(self) -> Class {
        self.row().5
    }

    /// Whether several elements share a byte, the first in the low bits.
    #[must_use]
    pub fn is_packed(self) -> bool {
        (1..8).contains(&self.bits())
    }

    /// The oldest revision whose hosts hand such buffers to handlers.
    #[must_use]
    pub fn since(self) -> Revision {
        self.row().6
    }

    /// What a host of `revision` writes into `dtype`: r3 and r4 send 0 for packed types.
    #[must_use]
    pub fn raw_on(self, revision: Revision) -> XLA_FFI_DataType {
        if self.is_packed() && matches!(revision, Revision::R3 | Revision::R4) {
            XLA_FFI_DataType::INVALID
        } else {
            self.raw()
        }
    }

    /// Bytes that `elements` take when packed densely; `None` when that overflows.
    #[must_use]
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        if self.is_packed() {
            Some(elements.div_ceil(8 / self.bits()))
        } else {
            elements.checked_mul(self.bits() / 8)
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_order_and_numbers_round_trip() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{:?}", row.0);
            assert_eq!(DType::from_raw(row.1), Some(row.0));
            assert_eq!(DType::from_name(row.3), Some(row.0));
            assert_eq!(DType::from_name(row.2), Some(row.0));
        }
        assert_eq!(DType::from_raw(XLA_FFI_DataType(99)), None);
    }

    #[test]
    fn every_enumerator_of_the_abi_has_a_row() {
        for value in XLA_FFI_DataType::ENUM.values {
            let known = DType::from_raw(XLA_FFI_DataType(value.value)).is_some();
            assert_eq!(known, value.value != 0, "{}", value.name);
        }
    }

    #[test]
    fn packed_sizes() {
        assert_eq!(DType::S4.bytes_for(3), Some(2));
        assert_eq!(DType::U2.bytes_for(5), Some(2));
        assert_eq!(DType::S1.bytes_for(9), Some(2));
        assert_eq!(DType::C128.bytes_for(2), Some(32));
        assert_eq!(DType::F64.bytes_for(usize::MAX / 4), None);
        assert_eq!(DType::Token.bytes_for(1), Some(0));
    }
}
