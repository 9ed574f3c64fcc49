//! Operands in the syntax of the command line. Arguments have values: `f32[2,3]=1,2,3,4,5,6`, `f32[1024]=iota`,
//! `f32[2,3]=@x.npy`, `token`. Results are shapes: `f32[2,3]`.

use super::npy;
use crate::value::dtype::Class;
use crate::value::memory::physical_memory;
use crate::value::parse::{Cursor, ParseError};
use crate::value::scalar_codec::{Number, encode, overflows};
use crate::value::{DType, Shape, Tensor};
use std::path::{Path, PathBuf};
use xla_ffi_sys::Result;

/// The source of the elements of an argument in the syntax of the command line.
#[derive(Clone, Debug, PartialEq)]
enum Fill {
    /// A list with one number per element.
    Values(Vec<Number>),
    /// The numbers 0, 1, 2 and so on. Integer types wrap around at the end of their range.
    Iota,
    Zeros,
    Ones,
    /// Pseudorandom numbers, the same in every run: uniform in [0, 1), or over the whole range of an integer type.
    Random,
    File(PathBuf),
}

/// An operand of a call, parsed from the syntax of the command line.
///
/// ```
/// use xla_ffi_runtime::spec::{Spec, parse_result};
///
/// let x = Spec::parse("f32[2,2]=1,2,3,4")?.tensor()?;
/// assert_eq!(x.to_vec(), Some(vec![1.0_f32, 2.0, 3.0, 4.0]));
/// assert_eq!(parse_result("s32[3]")?.bytes(), 12);
/// assert!(Spec::parse("f32[2]=1,2,3").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    shape: Shape,
    fill: Fill,
}

impl Spec {
    /// Parses an argument such as `f32[2]=1,2`.
    ///
    /// # Errors
    /// Syntax errors, and errors for unknown element types, negative dimensions, and sizes that exceed the machine's
    /// memory. Errors for too few or too many values, and for values that are out of range.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text);
        let shape = shape(&mut cursor)?;
        if shape.dtype() == DType::Token {
            end(&mut cursor)?;
            return Ok(Self {
                shape,
                fill: Fill::Zeros,
            });
        }
        if !cursor.eat("=") {
            let message = "and a value: numbers, iota, zeros, ones, random or @FILE.npy";
            return Err(cursor.unexpected(&format!("'=' {message}")));
        }
        cursor.skip_space();
        let at = cursor.at;
        let fill = match cursor.rest().trim_end() {
            "iota" => Fill::Iota,
            "zeros" => Fill::Zeros,
            "ones" => Fill::Ones,
            "random" => Fill::Random,
            "@" => return Err(cursor.error(at..at + 1, "'@' names no file")),
            path if path.starts_with('@') => Fill::File(PathBuf::from(&path[1..])),
            _ => Fill::Values(values(&mut cursor, &shape)?),
        };
        Ok(Self { shape, fill })
    }

    /// Returns the shape of the argument.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the path of the file with the elements; `None` if the elements are not in a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.fill {
            Fill::File(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the argument as an array.
    ///
    /// # Errors
    /// Errors for files that are missing or contain an array of a different shape, and for memory that cannot be
    /// allocated.
    pub fn tensor(&self) -> Result<Tensor> {
        let dtype = self.shape.dtype();
        let shape = self.shape.clone();
        match &self.fill {
            Fill::Zeros => Tensor::zeros(shape),
            Fill::Ones => Tensor::from_fn(shape, |_| number(dtype, 1)),
            Fill::Iota => Tensor::from_fn(shape, |index| number(dtype, index as u64)),
            Fill::Random => {
                let mut state = 0x9E37_79B9_7F4A_7C15;
                Tensor::from_fn(shape, |_| random(dtype, &mut state))
            }
            Fill::Values(values) => Tensor::from_fn(shape, |index| values[index]),
            Fill::File(path) => npy::read(path, shape),
        }
    }
}

/// Parses a result, which is a shape without values, for example `f32[2,3]`.
///
/// # Errors
/// The errors of [`Spec::parse`].
pub fn parse_result(text: &str) -> Result<Shape, ParseError> {
    let mut cursor = Cursor::new(text);
    let shape = shape(&mut cursor)?;
    cursor.skip_space();
    if cursor.peek() == Some('=') {
        return Err(cursor.unexpected("the end: a result has no value"));
    }
    end(&mut cursor)?;
    Ok(shape)
}

fn end(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    cursor.skip_space();
    match cursor.peek() {
        None => Ok(()),
        Some(_) => Err(cursor.unexpected("the end")),
    }
}

fn shape(cursor: &mut Cursor<'_>) -> Result<Shape, ParseError> {
    cursor.skip_space();
    let start = cursor.at;
    let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
    let Some(dtype) = DType::from_name(name) else {
        if name.is_empty() {
            return Err(cursor.unexpected("an element type, f32 for instance"));
        }
        let known: Vec<_> = DType::all().map(DType::name).collect();
        let message = format!(
            "'{name}' is not an element type; there are {}",
            known.join(", ")
        );
        return Err(cursor.error(start..cursor.at, message));
    };
    let mut dims = vec![];
    if cursor.eat("[") && !cursor.eat("]") {
        loop {
            cursor.skip_space();
            let at = cursor.at;
            let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '-' || c == '+');
            let dim: i64 = match word.parse() {
                Ok(dim) => dim,
                Err(_) if word.is_empty() => return Err(cursor.unexpected("a dimension")),
                Err(_) if word.bytes().all(|byte| byte.is_ascii_digit()) => {
                    return Err(
                        cursor.error(at..cursor.at, format!("dimension {word} is too large"))
                    );
                }
                Err(_) => {
                    return Err(cursor.error(at..cursor.at, format!("'{word}' is not a dimension")));
                }
            };
            dims.push(dim);
            if cursor.eat("]") {
                break;
            }
            cursor.expect(",", "or ']' after a dimension")?;
        }
    }
    let span = start..cursor.at;
    let shape = Shape::new(dtype, dims)
        .map_err(|error| cursor.error(span.clone(), error.message().to_owned()))?;
    if let Some(limit) = physical_memory() {
        if shape.bytes() > limit {
            let message = format!(
                "{shape} is too large: {} bytes, this machine has {limit}",
                shape.bytes()
            );
            return Err(cursor.error(span, message));
        }
    }
    Ok(shape)
}

fn values(cursor: &mut Cursor<'_>, shape: &Shape) -> Result<Vec<Number>, ParseError> {
    let mut values = vec![];
    let start = cursor.at;
    cursor.skip_space();
    while cursor.peek().is_some() {
        if !values.is_empty() {
            cursor.expect(",", "between values")?;
        }
        cursor.skip_space();
        let at = cursor.at;
        let word = cursor.take_while(|c| c != ',').trim_end();
        let value = parse_number(shape.dtype(), word).ok_or_else(|| {
            let message = format!("'{word}' is not a value of {}", shape.dtype());
            cursor.error(at..at + word.len().max(1), message)
        })?;
        let bits = encode(shape.dtype(), value)
            .map_err(|error| cursor.error(at..at + word.len(), error.message().to_owned()))?;
        // A number that is too large for `f64` is infinite after parsing, although its text does not contain `inf`.
        let said = word.to_ascii_lowercase().matches("inf").count();
        if value.infinite_parts() > said || overflows(shape.dtype(), value, bits) {
            let message = format!("{word} is out of the range of {}", shape.dtype());
            return Err(cursor.error(at..at + word.len(), message));
        }
        values.push(value);
        cursor.skip_space();
    }
    if values.len() != shape.elements() {
        let message = format!(
            "{shape} has {} elements, {} are given",
            shape.elements(),
            values.len()
        );
        return Err(cursor.error(start..cursor.at, message));
    }
    Ok(values)
}

fn parse_number(dtype: DType, word: &str) -> Option<Number> {
    let integer = |word: &str| {
        let (negative, digits) = match word.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, word.strip_prefix('+').unwrap_or(word)),
        };
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        };
        if !negative {
            return Some(Number::Unsigned(value));
        }
        i64::try_from(-i128::from(value)).ok().map(Number::Signed)
    };
    match dtype.class() {
        Class::Bool => match word {
            "true" | "1" => Some(Number::Bool(true)),
            "false" | "0" => Some(Number::Bool(false)),
            _ => None,
        },
        Class::Signed | Class::Unsigned => integer(word),
        Class::Float => word.parse().ok().map(Number::Float),
        Class::Complex => parse_complex(word),
        Class::Token => None,
    }
}

/// Parses a complex number such as `1`, `2i`, `1+2i` or `1e-3-2.5e4j`.
fn parse_complex(word: &str) -> Option<Number> {
    let Some(body) = word.strip_suffix(['i', 'j']) else {
        return word.parse().ok().map(|re| Number::Complex(re, 0.0));
    };
    let bytes = body.as_bytes();
    let split = (1..bytes.len())
        .rev()
        .find(|&at| matches!(bytes[at], b'+' | b'-') && !matches!(bytes[at - 1], b'e' | b'E'));
    match split {
        Some(at) => Some(Number::Complex(
            body[..at].parse().ok()?,
            body[at..].parse().ok()?,
        )),
        None => Some(Number::Complex(0.0, body.parse().ok()?)),
    }
}

/// Returns `value` as a number of type `dtype`. Values past the range of the type wrap around.
fn number(dtype: DType, value: u64) -> Number {
    match dtype.class() {
        Class::Bool => Number::Bool(value % 2 != 0),
        Class::Signed => {
            let unused = 64 - dtype.bits() as u32;
            Number::Signed((value as i64) << unused >> unused)
        }
        Class::Unsigned => Number::Unsigned(value << (64 - dtype.bits()) >> (64 - dtype.bits())),
        Class::Complex => Number::Complex(value as f64, 0.0),
        Class::Float | Class::Token => Number::Float(value as f64),
    }
}

fn random(dtype: DType, state: &mut u64) -> Number {
    // The random numbers are those of the generator SplitMix64.
    let mut next = || {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    let unit = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
    match dtype.class() {
        Class::Float | Class::Token => Number::Float(unit(next())),
        Class::Complex => Number::Complex(unit(next()), unit(next())),
        _ => number(dtype, next() >> 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(text: &str) -> Tensor {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{error}"));
        spec.tensor().unwrap()
    }

    #[test]
    fn values_and_fills() {
        for (text, bytes) in [
            (
                "s32[3]= -1, 0x10 , 7",
                &[255, 255, 255, 255, 16, 0, 0, 0, 7, 0, 0, 0][..],
            ),
            ("u8[4]=iota", &[0, 1, 2, 3]),
            ("half=2049.0001", &[1, 0x68]),
            ("f16=65519.999999999", &[0xFF, 0x7B]),
            ("bfloat16[1]=1.00390625000001", &[0x81, 0x3F]),
            ("f8e4m3fn[3]=448,464,nan", &[0x7E, 0x7E, 0x7F]),
            ("float8_e8m0fnu[4]=iota", &[0, 127, 128, 129]),
            ("pred[2]=true,0", &[1, 0]),
            ("int4[3]=-8,7,1", &[0x78, 1]),
            ("f32[]=inf", &[0, 0, 0x80, 0x7F]),
            ("f32[0,4]=", &[]),
        ] {
            assert_eq!(tensor(text).bytes(), bytes, "{text}");
        }
        let complex = tensor("complex64[2]=1e-3-2.5e4j,-3e-1j");
        assert_eq!(complex.get(1).unwrap().to_string().get(..4), Some("0-0."));
        assert_eq!(tensor("token").shape(), &Shape::token());
        for dtype in DType::all().filter(|dtype| *dtype != DType::Token) {
            for fill in ["zeros", "ones", "iota", "random"] {
                let text = format!("{dtype}[300]={fill}");
                let bytes = dtype.bytes_for(300).unwrap();
                assert_eq!(tensor(&text).bytes().len(), bytes, "{text}");
            }
        }
    }

    #[test]
    fn refusals() {
        for text in [
            "",
            "f33[2]=1,2",
            "f32[2=1",
            "f32[1]=",
            "f32[2]=1,,2",
            "f32[1]=@",
            "token=1",
            "pred[1]=2",
            "c64[1]=1+i2",
            "f32[2]",
            "f32[2]=1,2,3",
            "f32[99999999999999999999]=ones",
            "f32[1099511627776,64]=zeros",
            "s8[1]=200",
            "s32[1]=1.5",
            "f4e2m1fn[1]=nan",
            "f32[1]=1e39",
            "f16[]=65520",
            "c64[]=1e39+1i",
            "f8e4m3fn[]=464.00001",
            "f64[]=1e400",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
        assert!(parse_result("f32[2]=1").is_err());
        assert_eq!(parse_result(" f32[2,3] ").unwrap().dims(), [2, 3]);
    }
}
