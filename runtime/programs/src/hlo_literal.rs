//! Parses arrays from HLO text to exactly the bits from which the module `literal` prints them.

use super::hlo_cursor::Cursor;
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::scalar_codec::{self, Number};
use xla_ffi_runtime::{DType, Result, Shape, Tensor};

/// Reads the values of an array.
///
/// # Errors
/// Values that do not fit the element type, or too few or too many values for the dimensions.
pub(super) fn read(cursor: &mut Cursor<'_>, shape: &Shape) -> Result<Tensor> {
    let mut elements = vec![];
    nested(cursor, shape.dtype(), shape.dims(), &mut elements)?;
    let mut tensor = Tensor::zeros(shape.clone())?;
    let Some(bytes) = tensor.bytes_mut() else {
        return Err(cursor.wrong("the array is shared"));
    };
    for (index, bits) in elements.into_iter().enumerate() {
        scalar_codec::store(bytes, shape.dtype(), index, bits);
    }
    Ok(tensor)
}

fn nested(
    cursor: &mut Cursor<'_>,
    dtype: DType,
    dims: &[i64],
    elements: &mut Vec<u128>,
) -> Result<()> {
    let Some((&dim, rest)) = dims.split_first() else {
        elements.push(element(cursor, dtype)?);
        return Ok(());
    };
    cursor.expect("{")?;
    if cursor.peek("...") {
        return Err(cursor.wrong("the values were left out where the text was printed"));
    }
    for index in 0..dim {
        if index > 0 {
            cursor.expect(",")?;
        }
        nested(cursor, dtype, rest, elements)?;
    }
    cursor.expect("}")
}

fn element(cursor: &mut Cursor<'_>, dtype: DType) -> Result<u128> {
    let part = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        _ => return number(cursor, dtype),
    };
    cursor.expect("(")?;
    let re = number(cursor, part)?;
    cursor.expect(",")?;
    let im = number(cursor, part)?;
    cursor.expect(")")?;
    Ok(re | im << part.bits())
}

fn number(cursor: &mut Cursor<'_>, dtype: DType) -> Result<u128> {
    let word = cursor.element()?;
    let refuse = || cursor.wrong(format!("'{word}' is not a value of {dtype}"));
    let value = match dtype.class() {
        Class::Bool => match word {
            "true" | "1" => Number::Bool(true),
            "false" | "0" => Number::Bool(false),
            _ => return Err(refuse()),
        },
        Class::Signed => Number::Signed(word.parse().map_err(|_| refuse())?),
        Class::Unsigned => Number::Unsigned(word.parse().map_err(|_| refuse())?),
        Class::Float => match word.strip_prefix('-').unwrap_or(word) {
            "nan" => return not_a_number(cursor, dtype, word.starts_with('-')),
            _ => Number::Float(word.parse().map_err(|_| refuse())?),
        },
        Class::Complex | Class::Token => return Err(refuse()),
    };
    scalar_codec::encode(dtype, value).map_err(|_| refuse())
}

/// Reads `nan`, optionally with a mantissa as in `nan(0x1)`, and returns its bits as an element of `dtype`.
fn not_a_number(cursor: &mut Cursor<'_>, dtype: DType, negative: bool) -> Result<u128> {
    let refuse = |cursor: &Cursor<'_>| cursor.wrong(format!("this is not a NaN of {dtype}"));
    let sign = u128::from(negative) << (dtype.bits() - 1);
    let Some(mantissa_bits) = super::literal::mantissa_bits(dtype) else {
        let usual = scalar_codec::encode(dtype, Number::Float(f64::NAN));
        let usual = usual.map_err(|_| refuse(cursor))?;
        return Ok(if dtype == DType::F8E4M3FN {
            0x7F | sign
        } else {
            usual
        });
    };
    let mantissa = if cursor.eat("(") {
        let word = cursor.element()?;
        let digits = word.strip_prefix("0x").ok_or_else(|| refuse(cursor))?;
        let mantissa = u128::from_str_radix(digits, 16).map_err(|_| refuse(cursor))?;
        cursor.expect(")")?;
        mantissa
    } else {
        1 << (mantissa_bits - 1)
    };
    if mantissa == 0 || mantissa >> mantissa_bits != 0 {
        return Err(refuse(cursor));
    }
    let exponent_bits = dtype.bits() - 1 - mantissa_bits;
    let exponent = ((1_u128 << exponent_bits) - 1) << mantissa_bits;
    Ok(sign | exponent | mantissa)
}
