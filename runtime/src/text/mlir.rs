//! Parses attributes from an MLIR dictionary: `{eps = 1.0e-5 : f32, v = array<i32: 1, 2>}`.

mod dense;
mod literal;

use self::dense::dense;
use self::literal::{Literal, literal};
use crate::value::attribute::{MAX_DEPTH, mlir_name};
use crate::value::attribute_array::Spelling;
use crate::value::parse::{Cursor, ParseError};
use crate::value::{Attribute, AttributeArray, Attributes, DType, scalar_codec};
use std::ops::Range;

/// The maximum number of elements of an array attribute.
const MAX_ELEMENTS: usize = 1 << 24;

type Parsed<T> = Result<T, ParseError>;

impl Attributes {
    /// Parses attributes from an MLIR dictionary.
    ///
    /// The following values are supported:
    /// - integers: `3`, `-1 : i8`, `0xFF : ui32`; without a type, they are `i64`
    /// - floats: `1.0e-5 : f32`, or their bits as in `0x7FC00000 : f32`; without a type, they are `f64`
    /// - `true` and `false`
    /// - strings with MLIR's escapes
    /// - arrays: `array<i32: 1, 2>` and `dense<[1, 2]> : tensor<2xi32>` or `vector<…>`; the latter are
    ///   flattened
    /// - dictionaries, for example `{a = 1}`
    /// - complex numbers `(1.0, 2.0) : complex<f32>`, whose parts may also be bits; MLIR does not support this form
    ///
    /// The outermost braces are optional.
    ///
    /// This function also accepts attributes that hosts reject. [`Handler::instantiate`](crate::Handler::instantiate)
    /// returns an error for element types that no host or no host of its revision supports.
    ///
    /// # Errors
    /// Syntax errors, for example floats without a decimal point. Errors for lists and unit attributes, which XLA
    /// rejects on all revisions. Errors for values that are out of range for their type, duplicate names, and
    /// dictionaries that are nested deeper than 64 levels.
    pub fn parse(text: &str) -> Parsed<Self> {
        let mut cursor = Cursor::new(text);
        let attributes = if cursor.eat("{") {
            dictionary(&mut cursor, true, 1)?
        } else {
            dictionary(&mut cursor, false, 1)?
        };
        cursor.skip_space();
        if cursor.peek().is_some() {
            return Err(cursor.unexpected("the end"));
        }
        Ok(attributes)
    }
}

/// Parses the entries of a dictionary after `{`, and the `}` if the dictionary has braces.
fn dictionary(cursor: &mut Cursor<'_>, braced: bool, depth: usize) -> Parsed<Attributes> {
    if depth > MAX_DEPTH {
        let at = cursor.at;
        let message = format!("dictionaries nest deeper than {MAX_DEPTH}");
        return Err(cursor.error(at..at + 1, message));
    }
    let mut attributes = Attributes::new();
    let end = |cursor: &mut Cursor<'_>| {
        cursor.skip_space();
        if braced {
            cursor.eat("}")
        } else {
            cursor.peek().is_none()
        }
    };
    if end(cursor) {
        return Ok(attributes);
    }
    loop {
        cursor.skip_space();
        let start = cursor.at;
        let name = key(cursor)?;
        let span = start..cursor.at;
        cursor.skip_space();
        if !cursor.eat("=") {
            let message = format!(
                "'{name}' has no value; unit attributes do not reach a handler: write '{name} = true'"
            );
            return match cursor.peek() {
                None | Some(',' | '}') => Err(cursor.error(span, message)),
                _ => Err(cursor.unexpected(&format!("'=' after '{name}'"))),
            };
        }
        let value = value(cursor, depth)?;
        let inserted = attributes.insert(name, value);
        inserted.map_err(|error| cursor.error(span, error.message()))?;
        if end(cursor) {
            return Ok(attributes);
        }
        cursor.expect(",", "or the end of the dictionary")?;
    }
}

fn key(cursor: &mut Cursor<'_>) -> Parsed<String> {
    if cursor.peek() == Some('"') {
        let start = cursor.at;
        let bytes = string(cursor)?;
        return String::from_utf8(bytes)
            .map_err(|_| cursor.error(start..cursor.at, "the name is not UTF-8"));
    }
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || "_$.".contains(c));
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        cursor.at -= name.len();
        return Err(cursor.unexpected("the name of an attribute"));
    }
    Ok(name.to_owned())
}

/// Parses a quoted string with the escapes `\n`, `\t`, `\"`, `\\`, and `\XX` for any byte.
fn string(cursor: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    let start = cursor.at;
    cursor.expect("\"", "before a string")?;
    let mut bytes = vec![];
    loop {
        let at = cursor.at;
        match cursor.next() {
            None => return Err(cursor.error(start..at, "the string has no end")),
            Some('"') => return Ok(bytes),
            Some('\n') => return Err(cursor.error(at..at + 1, "a string ends on its line")),
            Some('\\') => match cursor.next() {
                Some('n') => bytes.push(b'\n'),
                Some('t') => bytes.push(b'\t'),
                Some(c @ ('"' | '\\')) => bytes.push(c as u8),
                Some(high) if high.is_ascii_hexdigit() => {
                    let low = cursor.next().and_then(|c| c.to_digit(16));
                    let (Some(high), Some(low)) = (high.to_digit(16), low) else {
                        return Err(cursor.error(at..cursor.at, "an escape has two hex digits"));
                    };
                    bytes.push((high * 16 + low) as u8);
                }
                _ => {
                    let message = "unknown escape; there are \\n \\t \\\" \\\\ and two hex digits";
                    return Err(cursor.error(at..cursor.at, message));
                }
            },
            Some(other) => {
                let mut utf8 = [0; 4];
                bytes.extend_from_slice(other.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
}

fn value(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Attribute> {
    cursor.skip_space();
    match cursor.peek() {
        Some('"') => return string(cursor).map(Attribute::Str),
        Some('{') => {
            cursor.eat("{");
            return dictionary(cursor, true, depth + 1).map(Attribute::Dict);
        }
        Some('[') => {
            let message = "XLA refuses lists; write array<TYPE: …>, array<i64: 1, 2> for instance";
            return Err(cursor.error(cursor.at..cursor.at + 1, message));
        }
        _ => {}
    }
    if cursor.eat("array<") {
        return array(cursor);
    }
    if cursor.eat("dense<") {
        return dense(cursor);
    }
    let start = cursor.at;
    let literal = literal(cursor)?;
    let span = start..cursor.at;
    let Some((dtype, signed)) = typed(cursor, literal)? else {
        let dtype = match literal {
            Literal::Bool(_) => DType::Pred,
            Literal::Integer(..) => DType::S64,
            Literal::Float(_) => DType::F64,
            Literal::Complex(..) => DType::C128,
        };
        return scalar(cursor, literal, dtype, span);
    };
    if signed && !literal.is_signed(dtype) {
        return Err(cursor.error(
            span,
            format!("the number is out of range for si{}", dtype.bits()),
        ));
    }
    scalar(cursor, literal, dtype, span)
}

fn scalar(
    cursor: &Cursor<'_>,
    literal: Literal,
    dtype: DType,
    span: Range<usize>,
) -> Parsed<Attribute> {
    let bits = literal.bits(dtype);
    let bits = bits.map_err(|message| cursor.error(span, message))?;
    Ok(Attribute::Scalar(dtype, bits))
}

/// Parses the type after a `:`. The flag is true if the type is explicitly signed.
fn typed(cursor: &mut Cursor<'_>, literal: Literal) -> Parsed<Option<(DType, bool)>> {
    let start = cursor.at;
    if !cursor.eat(":") {
        return Ok(None);
    }
    if matches!(literal, Literal::Bool(_)) {
        let message = "a boolean takes no type; as a number it is 1 : i1";
        return Err(cursor.error(start..cursor.at, message));
    }
    cursor.skip_space();
    let signed = cursor.text[cursor.at..].starts_with("si");
    Ok(Some((dtype(cursor)?, signed)))
}

fn dtype(cursor: &mut Cursor<'_>) -> Parsed<DType> {
    cursor.skip_space();
    let start = cursor.at;
    let word = cursor.take_while(|c| c.is_ascii_alphanumeric());
    if word == "complex" && cursor.eat("<") {
        let part = cursor.take_while(|c| c.is_ascii_alphanumeric());
        cursor.expect(">", "after complex<TYPE")?;
        return match part {
            "f32" => Ok(DType::C64),
            "f64" => Ok(DType::C128),
            _ => Err(cursor.error(start..cursor.at, "complex numbers are of f32 or f64")),
        };
    }
    element_type(word).ok_or_else(|| {
        let message =
            format!("'{word}' is not an element type: i1, i8 … i64, ui8 … ui64, f32, f64, …");
        cursor.error(start..cursor.at.max(start + 1), message)
    })
}

fn element_type(word: &str) -> Option<DType> {
    let signed = |bits: &str| DType::from_name(&format!("s{bits}"));
    if let Some(bits) = word.strip_prefix("ui") {
        return DType::from_name(&format!("u{bits}"));
    }
    if let Some(bits) = word.strip_prefix("si") {
        return signed(bits);
    }
    // Type names of other languages, such as `u32` or `float32`, are not MLIR.
    DType::from_name(word).filter(|dtype| *dtype != DType::Token && mlir_name(*dtype) == word)
}

/// Parses the rest of `array<TYPE: a, b>`, after `array`.
fn array(cursor: &mut Cursor<'_>) -> Parsed<Attribute> {
    cursor.skip_space();
    let start = cursor.at;
    let dtype = dtype(cursor)?;
    let word = &cursor.text[start..cursor.at];
    if let Some(bits) = word.strip_prefix("si").filter(|bits| *bits != "1") {
        let message = format!("XLA passes no array<{word}>; write array<i{bits}: …>");
        return Err(cursor.error(start..cursor.at, message));
    }
    let mut elements = vec![];
    if !cursor.eat(">") {
        cursor.expect(":", "or '>' after the type of an array")?;
        loop {
            push(cursor, dtype, &mut elements)?;
            if cursor.eat(">") {
                break;
            }
            cursor.expect(",", "or '>' in an array")?;
        }
    }
    Ok(packed(dtype, &elements, Spelling::Array))
}

fn push(cursor: &mut Cursor<'_>, dtype: DType, elements: &mut Vec<u128>) -> Parsed<()> {
    cursor.skip_space();
    let start = cursor.at;
    if elements.len() >= MAX_ELEMENTS {
        return Err(cursor.error(start..start + 1, "the array is too long"));
    }
    let bits = literal(cursor)?.bits(dtype);
    elements.push(bits.map_err(|message| cursor.error(start..cursor.at, message))?);
    Ok(())
}

fn packed(dtype: DType, elements: &[u128], spelling: Spelling) -> Attribute {
    let mut bytes = vec![0; dtype.bytes_for(elements.len()).unwrap_or(0)];
    for (index, bits) in elements.iter().enumerate() {
        scalar_codec::store(&mut bytes, dtype, index, *bits);
    }
    Attribute::Array(AttributeArray::of(dtype, elements.len(), bytes).spelled(spelling))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Attributes {
        Attributes::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn refuse(text: &str) -> ParseError {
        Attributes::parse(text).expect_err(text)
    }

    #[test]
    fn every_kind_of_value() {
        let text = r#"{eps = 1.0e-5 : f32, n = 3 : i64, names = "x", v = array<i32: 1, 2>,
            d = {a = true, "odd name" = -1 : i8}, u = 0xFF : ui8, plain = 7, real = 2.5,
            z = (1.0, -2.0) : complex<f32>, t = dense<[[1, 2], [3, 4]]> : tensor<2x2xi16>,
            s = dense<1.5> : tensor<3xf32>, e = array<f64>, nan = 0x7FC00000 : f32}"#;
        let attributes = parse(text);
        assert_eq!(attributes.get("eps"), Some(&1.0e-5_f32.into()));
        assert_eq!(attributes.get("n"), Some(&3_i64.into()));
        assert_eq!(attributes.get("names"), Some(&"x".into()));
        assert_eq!(attributes.get("v"), Some(&Attribute::array(&[1_i32, 2])));
        let nested = Attributes::new().with("a", true).with("odd name", -1_i8);
        assert_eq!(attributes.get("d"), Some(&nested.into()));
        assert_eq!(attributes.get("u"), Some(&255_u8.into()));
        assert_eq!(attributes.get("plain"), Some(&7_i64.into()));
        assert_eq!(attributes.get("real"), Some(&2.5_f64.into()));
        assert_eq!(
            attributes.get("t"),
            Some(&Attribute::array(&[1_i16, 2, 3, 4]))
        );
        assert_eq!(attributes.get("s"), Some(&Attribute::array(&[1.5_f32; 3])));
        assert_eq!(attributes.get("e"), Some(&Attribute::array::<f64>(&[])));
        assert_eq!(attributes.get("nan"), Some(&f32::NAN.into()));
        assert_eq!(parse(&attributes.to_string()), attributes, "{attributes}");
    }

    #[test]
    fn escapes() {
        let attributes = parse(r#"{s = "a\n\t\"\\\00\ffü"}"#);
        let bytes = b"a\n\t\"\\\x00\xff\xc3\xbc".to_vec();
        assert_eq!(attributes.get("s"), Some(&Attribute::Str(bytes)));
        assert_eq!(parse(&attributes.to_string()), attributes);
    }

    #[test]
    fn refusals_point_at_the_place() {
        assert_eq!(refuse("{a = }").span().start, 5);
        assert!(refuse("{a = [1, 2]}").message().contains("array<"));
        for text in [
            "{",
            "{a}",
            "{a = 1, a = 2}",
            "{a = \"x",
            "{a = \"\\q\"}",
            "{a = array<i32: 1,>}",
            "{a = dense<[1]> : tensor<2xi32>}",
            "{1 = 2}",
            "{a = 1} x",
            "{a = 1 : token}",
            "{a = dense<0> : tensor<99999999999x9999999999xi8>}",
            "{\"\\ff\" = 1}",
            "{a = 300 : i8}",
            "{a = 1.5 : i32}",
            "{a = true : f32}",
            "{a = 1 : q7}",
            "{a = 1.0e39 : f32}",
            "{a = 1.0e400}",
            "{a = (0, 1.0e39) : complex<f32>}",
            "{a = array<bf16: 1.0e39>}",
        ] {
            assert!(!refuse(text).message().is_empty());
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_stack_overflow() {
        let text = "{a = ".repeat(100_000);
        assert!(refuse(&text).message().contains("deeper"));
    }
}
