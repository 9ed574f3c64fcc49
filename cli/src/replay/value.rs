//! What was recorded, as the embedded runtime takes it.

use anyhow::{Context, Result, anyhow, bail};
use xla_ffi_record::{Operand, Value};
use xla_ffi_runtime::{Attribute, AttributeArray, Attributes, DType, Shape, Tensor};

fn dtype(number: u32) -> Result<DType> {
    DType::all()
        .find(|dtype| dtype.raw().0 == number)
        .ok_or_else(|| anyhow!("element type {number} is not known"))
}

/// The shape of an operand.
pub(super) fn shape(operand: &Operand) -> Result<Shape> {
    Ok(Shape::new(dtype(operand.dtype)?, operand.dims.clone())?)
}

/// The arrays of the arguments.
pub(super) fn tensors(operands: &[Operand], bytes: &[Option<Vec<u8>>]) -> Result<Vec<Tensor>> {
    let tensor = |(index, (operand, bytes)): (usize, (&Operand, &Option<Vec<u8>>))| {
        let bytes = bytes.as_ref().context("its bytes are missing")?;
        let tensor = Tensor::from_bytes(shape(operand)?, bytes);
        tensor.with_context(|| format!("argument {index}"))
    };
    operands.iter().zip(bytes).enumerate().map(tensor).collect()
}

/// Attributes.
pub(super) fn attributes(recorded: &xla_ffi_record::Attributes) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in recorded {
        let value = attribute(value).with_context(|| format!("attribute '{name}'"))?;
        attributes.insert(name.clone(), value)?;
    }
    Ok(attributes)
}

fn attribute(value: &Value) -> Result<Attribute> {
    Ok(match value {
        Value::Scalar { dtype: of, bytes } => {
            let of = dtype(*of)?;
            let mut bits = [0; 16];
            match bits.get_mut(..bytes.len()) {
                Some(place) if of.bytes_for(1) == Some(bytes.len()) => place.copy_from_slice(bytes),
                _ => bail!("{} bytes for one {of}", bytes.len()),
            }
            Attribute::Scalar(of, u128::from_le_bytes(bits))
        }
        Value::Array {
            dtype: of,
            size,
            bytes,
        } => Attribute::Array(AttributeArray::new(dtype(*of)?, *size, bytes.clone())?),
        Value::Text(text) => Attribute::Str(text.clone().into_bytes()),
        Value::Bytes(bytes) => Attribute::Str(bytes.clone()),
        Value::Dictionary(inner) => Attribute::Dict(attributes(inner)?),
        Value::Unknown(kind) => bail!("it is of a kind that could not be recorded ({kind})"),
    })
}
