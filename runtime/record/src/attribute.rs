//! Attributes as they are recorded.

use serde::{Deserialize, Serialize};

/// Names and values, in the host's order.
pub type Attributes = Vec<(String, Value)>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// One value: the number of its type, its bytes.
    Scalar {
        /// Of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// Little-endian.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// Several of them.
    Array {
        /// Of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// Elements.
        size: usize,
        /// Little-endian, one after the other.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// A string that is UTF-8.
    Text(String),
    /// Any other string.
    #[serde(with = "hex")]
    Bytes(Vec<u8>),
    /// A dictionary.
    Dictionary(Attributes),
    /// Something of a kind, or of an element type, that this crate does not know.
    Unknown(u32),
}

/// Bytes as two hexadecimal digits each.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        bytes.ok_or_else(|| D::Error::custom("bytes are not hexadecimal digits in pairs"))
    }
}
