//! Attributes as a real XLA's MLIR parser takes them.

use super::literal::{element_type, mlir_number};
use xla_ffi_runtime::scalar_codec;
use xla_ffi_runtime::{Attribute, Attributes, DType};

/// An attribute dictionary in MLIR's text.
///
/// # Errors
/// The name of an attribute for which MLIR has no text that XLA reads, and why.
pub(super) fn dictionary(attributes: &Attributes) -> Result<String, String> {
    let entries = attributes
        .iter()
        .map(|(name, value)| {
            let key = if xla_ffi_runtime::__programs::is_bare(name) {
                name.to_owned()
            } else {
                string(name.as_bytes())
            };
            let value = attribute(value).map_err(|why| format!("attribute '{name}': {why}"))?;
            Ok(format!("{key} = {value}"))
        })
        .collect::<Result<Vec<_>, String>>()?;
    Ok(format!("{{{}}}", entries.join(", ")))
}

/// A string in quotes, with MLIR's escapes.
pub(super) fn string(bytes: &[u8]) -> String {
    Attribute::Str(bytes.to_vec()).to_string()
}

fn attribute(value: &Attribute) -> Result<String, String> {
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
        Attribute::Str(bytes) => string(bytes),
        Attribute::Dict(attributes) => dictionary(attributes)?,
        other => return Err(format!("MLIR has no attribute {other}")),
    })
}

/// Whether MLIR's `array<…>` holds this type: signless integers of whole bytes, and IEEE floats.
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
