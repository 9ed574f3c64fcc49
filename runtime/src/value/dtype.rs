//! Element types: their names, sizes and packing.

use std::fmt;
pub use xla_ffi_sys::ElementClass as Class;
use xla_ffi_sys::{ELEMENT_TYPES, Element, ElementType, Revision, XLA_FFI_DataType};

macro_rules! dtypes {
    ($(#[$meta:meta])* $name:ident { $($dtype:ident = $raw:ident,)* }) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub enum $name {
            $($dtype,)*
        }

        /// The ABI's descriptions of the element types, in the order of the variants.
        const TABLE: &[($name, &ElementType)] = &[$(($name::$dtype, row(XLA_FFI_DataType::$raw))),*];
    };
}

dtypes! {
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
    DType {
        Pred = PRED,
        S1 = S1,
        S2 = S2,
        S4 = S4,
        S8 = S8,
        S16 = S16,
        S32 = S32,
        S64 = S64,
        U1 = U1,
        U2 = U2,
        U4 = U4,
        U8 = U8,
        U16 = U16,
        U32 = U32,
        U64 = U64,
        F16 = F16,
        BF16 = BF16,
        F32 = F32,
        F64 = F64,
        C64 = C64,
        C128 = C128,
        F8E5M2 = F8E5M2,
        F8E3M4 = F8E3M4,
        F8E4M3 = F8E4M3,
        F8E4M3FN = F8E4M3FN,
        F8E4M3B11FNUZ = F8E4M3B11FNUZ,
        F8E5M2FNUZ = F8E5M2FNUZ,
        F8E4M3FNUZ = F8E4M3FNUZ,
        F4E2M1FN = F4E2M1FN,
        F8E8M0FNU = F8E8M0FNU,
        Token = TOKEN,
    }
}

const fn row(dtype: XLA_FFI_DataType) -> &'static ElementType {
    let mut i = 0;
    while ELEMENT_TYPES[i].dtype.0 != dtype.0 {
        i += 1;
    }
    &ELEMENT_TYPES[i]
}

impl DType {
    fn row(self) -> &'static ElementType {
        TABLE[self as usize].1
    }

    /// Returns an iterator over all element types.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the number of the element type in the ABI.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_DataType {
        self.row().dtype
    }

    /// Returns the type with this number in the ABI, or `None` for unknown numbers.
    #[must_use]
    pub const fn from_raw(raw: XLA_FFI_DataType) -> Option<Self> {
        let mut i = 0;
        while i < TABLE.len() {
            if TABLE[i].1.dtype.0 == raw.0 {
                return Some(TABLE[i].0);
            }
            i += 1;
        }
        None
    }

    /// Returns the element type that corresponds to the Rust type `T`.
    #[must_use]
    pub fn of<T: Element>() -> Self {
        const { Self::from_raw(T::DTYPE).expect("an element has one of the listed types") }
    }

    /// Returns the type's name in C without the prefix, for example `"F8E4M3FN"`.
    #[must_use]
    pub fn c_name(self) -> &'static str {
        self.raw().name().unwrap_or_default()
    }

    /// Returns the type's name in HLO text, for example `"f8e4m3fn"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.raw().lower_name().unwrap_or_default()
    }

    /// Returns the type called `name`. Upper and lower case are equivalent; aliases such as `i32`, `bool` and `int4`
    /// are accepted.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let alias = match name.as_str() {
            "bool" | "bool_" | "i1" => "pred",
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
            "float16" | "half" => "f16",
            "bfloat16" => "bf16",
            "float32" | "single" => "f32",
            "float64" | "double" => "f64",
            "complex64" | "csingle" => "c64",
            "complex128" | "cdouble" => "c128",
            other => other,
        };
        // The names of ml_dtypes, for example `float8_e4m3fn`.
        let small = ["float8_", "float4_"].into_iter().find_map(|prefix| {
            let rest = alias.strip_prefix(prefix)?;
            Some(format!("f{}{rest}", &prefix[5..6]))
        });
        let name = small.as_deref().unwrap_or(alias);
        Self::all().find(|dtype| dtype.name() == name)
    }

    /// Returns the number of bits per element; 0 for a token.
    #[must_use]
    pub fn bits(self) -> usize {
        self.row().bits
    }

    /// Returns the type of the real and imaginary parts of a complex type. Returns any other type unchanged.
    pub(crate) fn part(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            other => other,
        }
    }

    /// Returns the class of this type, for example signed integers.
    #[must_use]
    pub fn class(self) -> Class {
        self.row().class
    }

    /// Returns true if several elements share a byte. The first element is in the low bits.
    #[must_use]
    pub fn is_packed(self) -> bool {
        (1..8).contains(&self.bits())
    }

    /// Returns the oldest revision whose hosts pass buffers of this type to handlers.
    #[must_use]
    pub fn since(self) -> Revision {
        self.row().since
    }

    /// Returns the number that a host of `revision` writes to `dtype` of a buffer. Hosts of r3 and r4 write 0 for
    /// packed types.
    #[must_use]
    pub fn raw_on(self, revision: Revision) -> XLA_FFI_DataType {
        if self.is_packed() && matches!(revision, Revision::R3 | Revision::R4) {
            XLA_FFI_DataType::INVALID
        } else {
            self.raw()
        }
    }

    /// Returns the size in bytes of `elements` densely packed elements, or `None` on overflow.
    #[must_use]
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        self.raw().bytes_for(elements)
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
        for (index, (dtype, known)) in TABLE.iter().enumerate() {
            assert_eq!(*dtype as usize, index, "{dtype:?}");
            assert_eq!(DType::from_raw(known.dtype), Some(*dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(*dtype));
            assert_eq!(DType::from_name(dtype.c_name()), Some(*dtype));
            assert_eq!(dtype.name(), dtype.c_name().to_ascii_lowercase());
        }
        assert_eq!(DType::from_raw(XLA_FFI_DataType(99)), None);
    }
}
