//! The type of an attribute, as declared.

use xla_ffi_sys::XLA_FFI_DataType;

/// The type of an attribute.
///
/// ```
/// use xla_ffi::{AttrType, Attribute, DataType};
///
/// assert_eq!(<&[f32] as Attribute>::TYPE, AttrType::Array(DataType::F32));
/// assert_eq!(<&[f32] as Attribute>::TYPE.name(), "[f32]");
/// assert_eq!(AttrType::String.name(), "str");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrType {
    /// One value of an element type.
    Scalar(XLA_FFI_DataType),
    /// An array of an element type.
    Array(XLA_FFI_DataType),
    /// A string.
    String,
    /// A dictionary.
    Dictionary,
    /// Whatever comes.
    Any,
}

impl AttrType {
    /// The name in the manifest: `f32`, `[i64]`, `str`, `dict`, `any`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        macro_rules! of {
            ($dtype:expr, $($name:ident $scalar:literal $array:literal)*) => {
                match (self, $dtype) {
                    $((Self::Scalar(_), XLA_FFI_DataType::$name) => $scalar,
                    (_, XLA_FFI_DataType::$name) => $array,)*
                    _ => "any",
                }
            };
        }
        let dtype = match self {
            Self::Scalar(dtype) | Self::Array(dtype) => dtype,
            Self::String => return "str",
            Self::Dictionary => return "dict",
            Self::Any => return "any",
        };
        of!(dtype,
            PRED "bool" "[bool]" S8 "i8" "[i8]" S16 "i16" "[i16]" S32 "i32" "[i32]"
            S64 "i64" "[i64]" U8 "u8" "[u8]" U16 "u16" "[u16]" U32 "u32" "[u32]" U64 "u64" "[u64]"
            F32 "f32" "[f32]" F64 "f64" "[f64]" C64 "c64" "[c64]" C128 "c128" "[c128]")
    }
}
