//! Attributes as typed values, before they are encoded for a handler's frame.

use super::{DType, Element};
use crate::value::attribute_array::{AttributeArray, Spelling};
use crate::value::dtype::Class;
use crate::value::scalar_codec::{self, Number};
use std::fmt;
use xla_ffi_sys::{Error, Result};

/// The maximum nesting depth of dictionaries, including the dictionary of the call. The limit bounds the stack size
/// of recursive functions.
pub(crate) const MAX_DEPTH: usize = 64;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// A scalar, as an element type and bits.
    Scalar(DType, u128),
    /// A dense, one-dimensional array of scalars.
    Array(AttributeArray),
    /// A string of arbitrary bytes.
    Str(Vec<u8>),
    /// A nested dictionary.
    Dict(Attributes),
}

impl Attribute {
    /// Returns an array attribute with the given elements.
    #[must_use]
    pub fn array<T: Element>(elements: &[T]) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        // SAFETY: `Element` types are plain numbers without padding, so all their bytes are initialised.
        let raw = unsafe {
            std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
        };
        bytes.extend_from_slice(raw);
        Self::Array(AttributeArray::of(DType::of::<T>(), elements.len(), bytes))
    }

    /// Returns an attribute with the address as a 64-bit integer, the form in which handlers receive pointers.
    #[must_use]
    pub fn pointer<T>(pointer: *const T) -> Self {
        Self::from(pointer as i64)
    }

    /// Returns the value of an integer, or `None` for any other attribute, including booleans.
    ///
    /// ```
    /// use xla_ffi_runtime::Attribute;
    ///
    /// assert_eq!(Attribute::from(-3_i8).integer(), Some(-3));
    /// assert_eq!(Attribute::from(u64::MAX).integer(), Some(u64::MAX.into()));
    /// assert_eq!(Attribute::from(1.0_f32).integer(), None);
    /// assert_eq!(Attribute::from(true).integer(), None);
    /// ```
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        let Self::Scalar(dtype, bits) = self else {
            return None;
        };
        match scalar_codec::decode(*dtype, *bits)? {
            Number::Signed(value) => Some(value.into()),
            Number::Unsigned(value) => Some(value.into()),
            _ => None,
        }
    }

    /// Returns the nesting depth of dictionaries in this attribute; 0 if it is not a dictionary.
    fn depth(&self) -> usize {
        let Self::Dict(nested) = self else { return 0 };
        let inner = nested.entries.iter().map(|(_, value)| value.depth());
        1 + inner.max().unwrap_or(0)
    }
}

fn too_deep(name: &str) -> String {
    format!("attribute '{name}': dictionaries are nested deeper than {MAX_DEPTH}")
}

macro_rules! scalars {
    ($($ty:ty => $dtype:ident, $bits:expr);* $(;)?) => {$(
        impl From<$ty> for Attribute {
            fn from(value: $ty) -> Self {
                let bits: fn($ty) -> u128 = $bits;
                Self::Scalar(DType::$dtype, bits(value))
            }
        }
    )*};
}

scalars! {
    bool => Pred, |value| value.into();
    i8 => S8, |value| (value as u8).into();
    i16 => S16, |value| (value as u16).into();
    i32 => S32, |value| (value as u32).into();
    i64 => S64, |value| (value as u64).into();
    u8 => U8, |value| value.into();
    u16 => U16, |value| value.into();
    u32 => U32, |value| value.into();
    u64 => U64, |value| value.into();
    f32 => F32, |value| value.to_bits().into();
    f64 => F64, |value| value.to_bits().into();
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Str(text.as_bytes().to_vec())
    }
}

impl From<AttributeArray> for Attribute {
    fn from(array: AttributeArray) -> Self {
        Self::Array(array)
    }
}

impl From<Attributes> for Attribute {
    fn from(attributes: Attributes) -> Self {
        Self::Dict(attributes)
    }
}

/// A dictionary of attributes, sorted by the bytes of their names.
///
/// ```
/// use xla_ffi_runtime::{Attribute, Attributes};
///
/// let mut attributes = Attributes::parse("{eps = 1.0e-5 : f32, name = \"x\"}")?;
/// attributes.insert("axes", Attribute::array(&[0_i64, 1]))?;
/// let same = Attributes::new()
///     .with("name", "x")
///     .with("axes", Attribute::array(&[0_i64, 1]))
///     .with("eps", 1e-5_f32);
/// assert_eq!(attributes, same);
/// assert_eq!(attributes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["axes", "eps", "name"]);
/// assert!(attributes.insert("eps", 1.0_f64).is_err());
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    entries: Vec<(String, Attribute)>,
}

impl Attributes {
    /// Returns an empty dictionary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the dictionary with the given attribute, which replaces an attribute of the same name.
    ///
    /// # Panics
    /// Panics if dictionaries are nested deeper than 64 levels; [`Attributes::insert`] returns an error instead.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Attribute>) -> Self {
        let (name, value) = (name.into(), value.into());
        assert!(value.depth() < MAX_DEPTH, "{}", too_deep(&name));
        match self.position(&name) {
            Ok(index) => self.entries[index].1 = value,
            Err(index) => self.entries.insert(index, (name, value)),
        }
        self
    }

    /// Adds an attribute to the dictionary.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` if the dictionary contains an attribute of this name; `INVALID_ARGUMENT` if dictionaries are
    /// nested deeper than 64 levels.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Attribute>) -> Result<()> {
        let (name, value) = (name.into(), value.into());
        if value.depth() >= MAX_DEPTH {
            return Err(Error::invalid_argument(too_deep(&name)));
        }
        match self.position(&name) {
            Ok(_) => Err(Error::new(
                xla_ffi_sys::ErrorCode::AlreadyExists,
                format!("attribute '{name}' is given twice"),
            )),
            Err(index) => {
                self.entries.insert(index, (name, value));
                Ok(())
            }
        }
    }

    fn position(&self, name: &str) -> std::result::Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| entry.0.as_bytes().cmp(name.as_bytes()))
    }

    /// Returns the attribute called `name`; `None` if the dictionary has no such attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.position(name).ok().map(|index| &self.entries[index].1)
    }

    /// Returns the number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the dictionary is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns an iterator over the names and values, sorted by the bytes of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Attribute)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(DType::Pred, bits) => write!(f, "{}", *bits != 0),
            Self::Scalar(dtype, bits) => {
                write_number(f, *dtype, *bits)?;
                write!(f, " : {}", mlir_name(*dtype))
            }
            Self::Array(array) => write_array(f, array),
            Self::Str(bytes) => write_string(f, bytes),
            Self::Dict(attributes) => attributes.fmt(f),
        }
    }
}

impl fmt::Display for Attributes {
    /// Formats the attributes as an MLIR dictionary. [`Attributes::parse`] parses this text to the same attributes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            if is_bare(name) {
                f.write_str(name)?;
            } else {
                write_string(f, name.as_bytes())?;
            }
            write!(f, " = {value}")?;
        }
        f.write_str("}")
    }
}

/// Returns true if MLIR accepts `name` as a key without quotes.
pub fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte))
        && !matches!(name, "true" | "false" | "array" | "unit" | "dense")
}

/// Returns the MLIR name of an element type. As in XLA, signed integers have MLIR's signless names.
pub(crate) fn mlir_name(dtype: DType) -> String {
    let name = dtype.c_name();
    match (name, name.split_at(1)) {
        ("PRED", _) => "i1".into(),
        // `i1` is MLIR's boolean type, so the one-bit integer has MLIR's explicitly signed name.
        ("S1", _) => "si1".into(),
        ("C64", _) => "complex<f32>".into(),
        ("C128", _) => "complex<f64>".into(),
        (_, ("S", bits)) => format!("i{bits}"),
        (_, ("U", bits)) => format!("ui{bits}"),
        // Only the type's first letter is lower case in MLIR: `f8E4M3FN`.
        (_, ("F", rest)) => format!("f{rest}"),
        _ => dtype.name().into(),
    }
}

/// Writes an array in MLIR syntax. XLA accepts unsigned arrays only in the form `dense<…>`.
fn write_array(f: &mut fmt::Formatter<'_>, array: &AttributeArray) -> fmt::Result {
    let dtype = array.dtype();
    let name = mlir_name(dtype);
    let dense = match array.spelling() {
        Spelling::Either => dtype.class() == Class::Unsigned,
        spelling => spelling == Spelling::Dense,
    };
    let begin = if array.is_empty() { "" } else { "[" };
    if dense {
        write!(f, "dense<{begin}")?;
    } else {
        write!(f, "array<{name}")?;
    }
    for index in 0..array.len() {
        match (index, dense) {
            (0, true) => {}
            (0, false) => f.write_str(": ")?,
            _ => f.write_str(", ")?,
        }
        let bits = scalar_codec::load(array.bytes(), dtype, index);
        if dtype == DType::Pred {
            write!(f, "{}", bits != 0)?;
        } else {
            write_number(f, dtype, bits)?;
        }
    }
    if !dense {
        return f.write_str(">");
    }
    let end = if array.is_empty() { "" } else { "]" };
    write!(f, "{end}> : tensor<{}x{name}>", array.len())
}

fn write_number(f: &mut fmt::Formatter<'_>, dtype: DType, bits: u128) -> fmt::Result {
    match scalar_codec::decode(dtype, bits) {
        Some(Number::Float(value)) if value.is_finite() => write_float(f, dtype, value),
        Some(Number::Float(_)) => {
            write!(f, "0x{bits:0width$X}", width = dtype.bits().div_ceil(4))
        }
        Some(Number::Complex(..)) => {
            let part = dtype.part();
            f.write_str("(")?;
            write_number(f, part, bits & ((1 << part.bits()) - 1))?;
            f.write_str(", ")?;
            write_number(f, part, bits >> part.bits())?;
            f.write_str(")")
        }
        Some(value) => write!(f, "{value}"),
        None => f.write_str("token"),
    }
}

/// Writes the shortest decimal number that is parsed to the same value, with the decimal point that MLIR requires.
fn write_float(f: &mut fmt::Formatter<'_>, dtype: DType, value: f64) -> fmt::Result {
    let text = if dtype == DType::F32 {
        format!("{:e}", value as f32)
    } else {
        format!("{value:e}")
    };
    match text.split_once('e') {
        Some((mantissa, power)) if !mantissa.contains('.') => write!(f, "{mantissa}.0e{power}"),
        _ => f.write_str(&text),
    }
}

fn write_string(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("\"")?;
    for &byte in bytes {
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            b'\n' => f.write_str("\\n")?,
            b'\t' => f.write_str("\\t")?,
            0x20..=0x7E => write!(f, "{}", char::from(byte))?,
            other => write!(f, "\\{other:02X}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_as_deep_as_stacks_take() {
        let mut attributes = Attributes::new();
        for _ in 1..MAX_DEPTH {
            attributes = Attributes::new().with("a", attributes);
        }
        let same = Attributes::parse(&attributes.to_string()).unwrap();
        assert_eq!(attributes, same);
        let mut deeper = Attributes::new();
        let error = deeper.insert("b", attributes.clone()).unwrap_err();
        assert!(error.message().contains("nested deeper than 64"), "{error}");
        assert!(deeper.is_empty());
        let with = std::panic::catch_unwind(|| Attributes::new().with("b", attributes));
        assert!(with.is_err());
    }
}
