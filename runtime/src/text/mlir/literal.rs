//! Numbers, booleans and complex numbers in MLIR's syntax.

use super::Parsed;
use crate::value::DType;
use crate::value::dtype::Class;
use crate::value::parse::Cursor;
use crate::value::scalar_codec::{self, Number};

/// A number in MLIR's syntax, before its type is known.
#[derive(Clone, Copy)]
pub(super) enum Literal {
    Bool(bool),
    /// The value, and true if it is written in hexadecimal. A hexadecimal value may be the bits of a float.
    Integer(i128, bool),
    Float(f64),
    Complex(Part, Part),
}

/// The real or the imaginary part of a complex number, before its type is known.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Value(f64),
    Bits(u64),
}

impl Part {
    /// Returns the bits of the part as a value of type `dtype`.
    fn bits(self, dtype: DType) -> Result<u128, String> {
        match self {
            Self::Value(value) => Literal::Float(value).bits(dtype),
            Self::Bits(bits) => Literal::Integer(bits.into(), true).bits(dtype),
        }
    }
}

impl Literal {
    /// Returns true if the value fits a signed integer of the size of `dtype`. Signless types also accept larger
    /// values, as unsigned integers.
    pub(super) fn is_signed(self, dtype: DType) -> bool {
        match self {
            Self::Integer(value, _) => value < 1 << (dtype.bits() - 1),
            _ => true,
        }
    }

    /// Returns the bits of the number as a value of type `dtype`.
    pub(super) fn bits(self, dtype: DType) -> Result<u128, String> {
        let number = match (self, dtype.class()) {
            (Self::Bool(value), Class::Bool) => Number::Bool(value),
            (Self::Bool(_), _) => return Err(format!("a boolean is not a value of {dtype}")),
            (Self::Integer(value @ 0.., true), Class::Float) => {
                let bits = value as u128;
                if bits >> dtype.bits() != 0 {
                    return Err(format!("{value:#X} has more bits than {dtype}"));
                }
                return Ok(bits);
            }
            (Self::Integer(..), Class::Float) => {
                return Err(format!("a number of {dtype} has a point in MLIR: 1.0"));
            }
            (Self::Integer(value, _), Class::Signed) => {
                // MLIR's `i32` has no sign, so both signed and unsigned values are accepted.
                let width = dtype.bits();
                let range = -(1_i128 << (width - 1))..1_i128 << width;
                if !range.contains(&value) {
                    return Err(format!("{value} is out of range for {dtype}"));
                }
                return Ok(value as u128 & ((1 << width) - 1));
            }
            (Self::Integer(value, _), _) => match i64::try_from(value) {
                Ok(value) => Number::Signed(value),
                Err(_) => Number::Unsigned(
                    u64::try_from(value)
                        .map_err(|_| format!("{value} is out of range for {dtype}"))?,
                ),
            },
            (Self::Float(_), Class::Signed | Class::Unsigned | Class::Bool) => {
                return Err(format!("a number with a point is not a value of {dtype}"));
            }
            (Self::Float(value), _) => Number::Float(value),
            (Self::Complex(re, im), Class::Complex) => {
                let part = dtype.part();
                return Ok(re.bits(part)? | im.bits(part)? << part.bits());
            }
            (Self::Complex(..), _) => {
                return Err(format!("a complex number is not a value of {dtype}"));
            }
        };
        let bits =
            scalar_codec::encode(dtype, number).map_err(|error| error.message().to_owned())?;
        // MLIR has no literal for infinity, so an infinite value is an overflow unless its bits are given.
        if number.infinite_parts() > 0 || scalar_codec::overflows(dtype, number, bits) {
            return Err(format!("the number is out of the range of {dtype}"));
        }
        Ok(bits)
    }
}

/// Parses a number, a boolean or a complex number.
pub(super) fn literal(cursor: &mut Cursor<'_>) -> Parsed<Literal> {
    cursor.skip_space();
    if cursor.eat("(") {
        let re = real(cursor)?;
        cursor.expect(",", "between the parts of a complex number")?;
        let im = real(cursor)?;
        cursor.expect(")", "after a complex number")?;
        return Ok(Literal::Complex(re, im));
    }
    word(cursor)
}

/// Parses a literal that is a single word.
fn word(cursor: &mut Cursor<'_>) -> Parsed<Literal> {
    let start = cursor.at;
    let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || "_+-.".contains(c));
    let span = start..cursor.at;
    match word {
        "true" => return Ok(Literal::Bool(true)),
        "false" => return Ok(Literal::Bool(false)),
        "" => return Err(cursor.unexpected("a value")),
        _ => {}
    }
    let negative = word.starts_with('-');
    let digits = word.strip_prefix('-').unwrap_or(word);
    if let Some(hex) = digits.strip_prefix("0x") {
        return match u64::from_str_radix(hex, 16) {
            Ok(value) => {
                let value = i128::from(value);
                Ok(Literal::Integer(
                    if negative { -value } else { value },
                    true,
                ))
            }
            Err(_) => Err(cursor.error(span, format!("'{word}' is not a number of up to 64 bits"))),
        };
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        let message =
            format!("'{word}' is not a value: numbers, true, false, \"text\", array<…>, {{…}}");
        return Err(cursor.error(span, message));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return word
            .parse()
            .map(|value| Literal::Integer(value, false))
            .map_err(|_| cursor.error(span, format!("'{word}' is out of every integer's range")));
    }
    let Ok(value) = word.parse() else {
        return Err(cursor.error(span, format!("'{word}' is not a number")));
    };
    if !digits.contains('.') {
        let (mantissa, power) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
        let message =
            format!("a float has a point in MLIR: write {mantissa}.0e{power} in place of '{word}'");
        return Err(cursor.error(span, message));
    }
    Ok(Literal::Float(value))
}

fn real(cursor: &mut Cursor<'_>) -> Parsed<Part> {
    cursor.skip_space();
    let start = cursor.at;
    match word(cursor)? {
        Literal::Float(value) => Ok(Part::Value(value)),
        Literal::Integer(value, false) => Ok(Part::Value(value as f64)),
        Literal::Integer(value, true) if value >= 0 => Ok(Part::Bits(value as u64)),
        _ => Err(cursor.error(
            start..cursor.at,
            "a part of a complex number is a real number",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::value::Attributes;

    /// Checks that the parser accepts and rejects the same texts as MLIR's parser in jaxlib 0.4.31 and 0.12.0.
    #[test]
    fn what_mlir_reads_and_what_it_does_not() {
        let is_read = |value: &str| Attributes::parse(&format!("{{a = {value}}}")).is_ok();
        for value in [
            "1e5",
            "1 : f32",
            "array<f32: 1>",
            "true : i32",
            "1 : u32",
            "1 : int32",
            "255 : si8",
            "-1 : ui8",
            "+1.0",
            ".5",
            "array<si8: 1>",
        ] {
            assert!(!is_read(value), "{value}");
        }
        for value in [
            "1. : f32",
            "1.0e+5 : f64",
            "255 : i8",
            "127 : si8",
            "0x1 : f32",
        ] {
            assert!(is_read(value), "{value}");
        }
    }
}
