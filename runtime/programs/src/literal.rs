//! Prints literals as exact text, which is parsed to the same bits, and attributes for XLA's MLIR parser.

use std::fmt::Write;
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::scalar_codec::{self, Number};
use xla_ffi_runtime::{Attribute, Attributes, DType, Tensor};

/// Returns an array as HLO text, as after `literal=` and in `constant(…)`: `{{1, 2}, {3, 4}}`.
///
/// HLO's parser computes a complex number as `re + im * i`. If one part is not finite, the other may become
/// NaN. StableHLO does not have this problem.
///
/// # Errors
/// An error for an empty array whose text would have too many brackets.
pub(super) fn hlo(tensor: &Tensor) -> Result<String, String> {
    let (dtype, dims) = (tensor.shape().dtype(), tensor.shape().dims());
    let rows = dims.iter().take_while(|dim| **dim > 0).product::<i64>();
    if tensor.shape().elements() == 0 && rows > MAX_EMPTY_ROWS {
        return Err(format!(
            "{} has {rows} empty rows, {MAX_EMPTY_ROWS} is the limit",
            tensor.shape()
        ));
    }
    let element = |index| hlo_element(dtype, scalar_codec::load(tensor.bytes(), dtype, index));
    Ok(nest(dims, ["{", "}"], &element))
}

/// The maximum number of bracket pairs in the text of an array without elements.
const MAX_EMPTY_ROWS: i64 = 1 << 16;

/// Returns an array as MLIR text: `dense<[1, 2]> : tensor<2xi32>`. Returns `None` for element types that StableHLO
/// lacks.
pub(super) fn mlir(tensor: &Tensor) -> Option<String> {
    let shape = tensor.shape();
    let kind = tensor_type(shape.dtype(), shape.dims())?;
    if shape.elements() == 0 {
        return Some(format!("dense<> : {kind}"));
    }
    let dtype = shape.dtype();
    let element = |index| mlir_element(dtype, scalar_codec::load(tensor.bytes(), dtype, index));
    let values = nest(shape.dims(), ["[", "]"], &element);
    Some(format!("dense<{values}> : {kind}"))
}

/// Returns elements in nested brackets, row by row. An array without elements has the brackets of its rows.
fn nest(dims: &[i64], brackets: [&str; 2], element: &dyn Fn(usize) -> String) -> String {
    fn write(
        text: &mut String,
        dims: &[i64],
        [open, close]: [&str; 2],
        next: &mut usize,
        element: &dyn Fn(usize) -> String,
    ) {
        let Some((&dim, rest)) = dims.split_first() else {
            *text += &element(*next);
            *next += 1;
            return;
        };
        *text += open;
        for index in 0..dim {
            if index > 0 {
                *text += ", ";
            }
            write(text, rest, [open, close], next, element);
        }
        *text += close;
    }
    let mut text = String::new();
    write(&mut text, dims, brackets, &mut 0, element);
    text
}

/// Returns MLIR's tensor type; `None` for element types that StableHLO lacks.
pub(super) fn tensor_type(dtype: DType, dims: &[i64]) -> Option<String> {
    let mut text = "tensor<".to_owned();
    for dim in dims {
        let _ = write!(text, "{dim}x");
    }
    Some(text + element_type(dtype)? + ">")
}

/// Returns MLIR's name of an element type, as StableHLO uses it; `None` for element types that StableHLO lacks.
pub(super) fn element_type(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Pred => "i1",
        DType::S2 => "i2",
        DType::S4 => "i4",
        DType::S8 => "i8",
        DType::S16 => "i16",
        DType::S32 => "i32",
        DType::S64 => "i64",
        DType::U2 => "ui2",
        DType::U4 => "ui4",
        DType::U8 => "ui8",
        DType::U16 => "ui16",
        DType::U32 => "ui32",
        DType::U64 => "ui64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::C64 => "complex<f32>",
        DType::C128 => "complex<f64>",
        DType::F8E5M2 => "f8E5M2",
        DType::F8E3M4 => "f8E3M4",
        DType::F8E4M3 => "f8E4M3",
        DType::F8E4M3FN => "f8E4M3FN",
        DType::F8E4M3B11FNUZ => "f8E4M3B11FNUZ",
        DType::F8E5M2FNUZ => "f8E5M2FNUZ",
        DType::F8E4M3FNUZ => "f8E4M3FNUZ",
        DType::F4E2M1FN => "f4E2M1FN",
        DType::F8E8M0FNU => "f8E8M0FNU",
        // StableHLO lacks one-bit types and tokens; other types may be added later.
        _ => return None,
    })
}

/// Returns the real and imaginary parts of a complex number; for other types, the number.
fn parts(dtype: DType, bits: u128) -> Vec<(DType, u128)> {
    match dtype {
        DType::C64 => vec![
            (DType::F32, bits & 0xFFFF_FFFF),
            (DType::F32, bits >> 32 & 0xFFFF_FFFF),
        ],
        DType::C128 => vec![
            (DType::F64, bits & u128::from(u64::MAX)),
            (DType::F64, bits >> 64),
        ],
        _ => vec![(dtype, bits)],
    }
}

fn hlo_element(dtype: DType, bits: u128) -> String {
    let texts: Vec<_> = parts(dtype, bits)
        .into_iter()
        .map(|(dtype, bits)| match scalar_codec::decode(dtype, bits) {
            Some(Number::Float(value)) if value.is_nan() => hlo_nan(dtype, bits),
            Some(Number::Float(value)) if value.is_infinite() => {
                if value > 0.0 { "inf" } else { "-inf" }.to_owned()
            }
            Some(Number::Float(value)) => finite(dtype, bits, value),
            Some(Number::Bool(value)) => value.to_string(),
            Some(value) => value.to_string(),
            None => String::new(),
        })
        .collect();
    joined(dtype, &texts)
}

/// Returns the number of mantissa bits, for types with more than one NaN per sign; otherwise `None`.
pub(super) fn mantissa_bits(dtype: DType) -> Option<usize> {
    Some(match dtype {
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F32 => 23,
        DType::F64 => 52,
        DType::F8E5M2 => 2,
        DType::F8E4M3 => 3,
        DType::F8E3M4 => 4,
        _ => return None,
    })
}

/// Returns `nan` or `-nan`. If the mantissa differs from the default NaN, returns it in hexadecimal, as in
/// `nan(0x1)`.
fn hlo_nan(dtype: DType, bits: u128) -> String {
    let Some(mantissa_bits) = mantissa_bits(dtype) else {
        // The remaining types have only one NaN, or one NaN per sign.
        let negative = dtype == DType::F8E4M3FN && bits >> 7 == 1;
        return if negative { "-nan" } else { "nan" }.to_owned();
    };
    let sign = if bits >> (dtype.bits() - 1) & 1 == 1 {
        "-"
    } else {
        ""
    };
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    if mantissa == 1 << (mantissa_bits - 1) {
        format!("{sign}nan")
    } else {
        format!("{sign}nan({mantissa:#x})")
    }
}

fn mlir_element(dtype: DType, bits: u128) -> String {
    let texts: Vec<_> = parts(dtype, bits)
        .into_iter()
        .map(|(dtype, bits)| mlir_number(dtype, bits))
        .collect();
    joined(dtype, &texts)
}

/// Returns a number as MLIR text, for use inside `dense` or before the type of an attribute. Infinity and NaN are
/// printed as their bits.
pub(super) fn mlir_number(dtype: DType, bits: u128) -> String {
    match scalar_codec::decode(dtype, bits) {
        Some(Number::Float(value)) if value.is_finite() => finite(dtype, bits, value),
        Some(Number::Float(_)) => {
            format!("0x{bits:0width$X}", width = dtype.bits().div_ceil(4))
        }
        Some(Number::Bool(value)) => value.to_string(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn joined(dtype: DType, texts: &[String]) -> String {
    if dtype.class() == Class::Complex {
        format!("({})", texts.join(", "))
    } else {
        texts.concat()
    }
}

/// Returns the shortest decimal number that becomes `value` if it is parsed as a double and rounded to the type.
fn finite(dtype: DType, bits: u128, value: f64) -> String {
    // XLA does not always round correctly in conversions to F8E8M0FNU, so its number is printed exactly.
    let short = if matches!(dtype, DType::F64 | DType::F8E8M0FNU) {
        value
    } else {
        // The digits of the single-precision number often suffice, and are fewer.
        let short: f64 = format!("{:e}", value as f32).parse().unwrap_or(value);
        match scalar_codec::encode(dtype, Number::Float(short)) {
            Ok(same) if same == bits => short,
            _ => value,
        }
    };
    let text = format!("{short:e}");
    match text.split_once('e') {
        Some((mantissa, "0")) if mantissa.contains('.') => mantissa.to_owned(),
        Some((mantissa, "0")) => format!("{mantissa}.0"),
        Some((mantissa, power)) if !mantissa.contains('.') => format!("{mantissa}.0e{power}"),
        _ => text,
    }
}

/// Returns an attribute dictionary as MLIR text.
///
/// # Errors
/// An error with the name of an attribute that MLIR cannot express, and the reason.
pub(super) fn mlir_dictionary(attributes: &Attributes) -> Result<String, String> {
    let entries = attributes
        .iter()
        .map(|(name, value)| {
            let key = if xla_ffi_runtime::__programs::is_bare(name) {
                name.to_owned()
            } else {
                mlir_string(name.as_bytes())
            };
            let value =
                mlir_attribute(value).map_err(|why| format!("attribute '{name}': {why}"))?;
            Ok(format!("{key} = {value}"))
        })
        .collect::<Result<Vec<_>, String>>()?;
    Ok(format!("{{{}}}", entries.join(", ")))
}

/// Returns a quoted string with MLIR's escapes.
pub(super) fn mlir_string(bytes: &[u8]) -> String {
    Attribute::Str(bytes.to_vec()).to_string()
}

fn mlir_attribute(value: &Attribute) -> Result<String, String> {
    let text = |dtype: DType| {
        element_type(dtype)
            .filter(|_| dtype.bits() > 0 && !matches!(dtype, DType::C64 | DType::C128))
            .ok_or_else(|| format!("MLIR has no {dtype} attributes"))
    };
    Ok(match value {
        Attribute::Scalar(DType::Pred, bits) => (*bits != 0).to_string(),
        Attribute::Scalar(dtype, bits) => {
            format!("{} : {}", mlir_number(*dtype, *bits), text(*dtype)?)
        }
        Attribute::Array(array) => {
            let (dtype, size) = (array.dtype(), array.len());
            let name = text(dtype)?;
            let elements: Vec<_> = (0..size)
                .map(|index| mlir_number(dtype, scalar_codec::load(array.bytes(), dtype, index)))
                .collect();
            match (is_dense_array(dtype), elements.is_empty()) {
                (true, true) => format!("array<{name}>"),
                (true, false) => format!("array<{name}: {}>", elements.join(", ")),
                (false, true) => format!("dense<> : tensor<0x{name}>"),
                (false, false) => {
                    format!("dense<[{}]> : tensor<{size}x{name}>", elements.join(", "))
                }
            }
        }
        Attribute::Str(bytes) => mlir_string(bytes),
        Attribute::Dict(attributes) => mlir_dictionary(attributes)?,
        other => return Err(format!("MLIR has no attribute {other}")),
    })
}

/// Returns true if MLIR's `array<…>` supports this type: signless integers of whole bytes, and IEEE floats.
fn is_dense_array(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Pred
            | DType::S8
            | DType::S16
            | DType::S32
            | DType::S64
            | DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_small_types_has_its_own_text() {
        for dtype in DType::all().filter(|dtype| (1..=16).contains(&dtype.bits())) {
            let patterns = 1_u32 << dtype.bits();
            let mut texts = std::collections::BTreeSet::new();
            for bits in 0..patterns {
                texts.insert(mlir_element(dtype, bits.into()));
            }
            let expected = if dtype == DType::Pred {
                2
            } else {
                patterns as usize
            };
            assert_eq!(texts.len(), expected, "{dtype}");
        }
    }
}
