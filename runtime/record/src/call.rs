//! The recorded data of a call, including its attributes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xla_ffi_sys::{ELEMENT_TYPES, XLA_FFI_DataType};

/// A call as its host made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call's index in the recording, from 1, in the order in which calls began.
    pub number: u64,
    /// The file of the handler's library.
    pub library: String,
    /// The handler's name.
    pub handler: String,
    /// The symbol of each of the handler's stages.
    pub stages: BTreeMap<String, String>,
    /// The stage of the call: `instantiate`, `prepare`, `initialize`, `execute`.
    pub stage: String,
    /// The host's name, for example `jaxlib 0.12.0`.
    pub host: String,
    /// The host's revision of the ABI: 0 for r0.
    pub revision: u8,
    /// The number of the process.
    pub process: u32,
    /// The values of the host's context.
    pub context: Context,
    /// The attributes.
    pub attributes: Attributes,
    /// The arguments.
    pub args: Vec<Operand>,
    /// The results.
    pub rets: Vec<Operand>,
}

impl Call {
    /// Returns a short description of the call.
    #[must_use]
    pub fn title(&self) -> String {
        // Names from a file may contain line breaks. The text after a line break could be mistaken for output
        // of this program.
        let (handler, stage) = (self.handler.escape_debug(), self.stage.escape_debug());
        format!("call {}, {handler} ({stage})", self.number)
    }
}

/// The values of a call's context that the host's revision supports and the stage may request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The run id of the execution.
    pub run_id: Option<i64>,
    /// The device's global number.
    pub device_ordinal: Option<i32>,
    /// The number of threads in the pool.
    pub threads: Option<i64>,
    /// The options of the execution.
    pub custom_options: Option<Attributes>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// The element type, a number of [`XLA_FFI_DataType`].
    pub dtype: u32,
    /// The dimensions of the array.
    pub dims: Vec<i64>,
    /// For a result: the argument whose memory it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<usize>,
    /// Whether the operand's bytes are in the file. A result's bytes are only kept if the call succeeded.
    pub data: Data,
}

/// Whether an operand's bytes are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// The file contains the operand's bytes, of this number.
    Kept(u64),
    /// The bytes are omitted because the recording had reached its limit.
    Limit,
    /// The bytes are omitted because the host does not name the element type, so their number is unknown.
    Untyped,
    /// The bytes are omitted because the host gives no address.
    Absent,
}

/// The state that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The call whose instantiate stage set the state; `None` if that call was before the recording.
    pub instance: Option<u64>,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The outcome of the call.
    pub outcome: Outcome,
    /// Whether the handler returned a future, whose completion ended the call.
    pub later: bool,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call succeeded.
    Done,
    /// The handler returned an error.
    Error {
        /// The error's code; hosts before r9 do not report it.
        code: Option<u32>,
        /// The error's text.
        message: String,
    },
    /// An exception or a panic left the handler.
    Unwound,
    /// The future is completed by a host function that could not be watched, so the results are unknown.
    Unwatched,
}

/// Returns the bytes of an array; `None` if the type is unknown, a dimension is negative, or the product
/// overflows.
#[must_use]
pub fn bytes_of(dtype: u32, dims: &[i64]) -> Option<usize> {
    let row = ELEMENT_TYPES
        .iter()
        .find(|row| row.dtype == XLA_FFI_DataType(dtype))?;
    let elements = dims.iter().try_fold(1_usize, |all, dim| {
        all.checked_mul(usize::try_from(*dim).ok()?)
    })?;
    let bits = elements.checked_mul(row.bits)?;
    Some(bits.div_ceil(8)).filter(|bytes| *bytes <= isize::MAX as usize)
}

/// Names and values of attributes, in the host's order.
pub type Attributes = Vec<(String, Value)>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A single value: the number of its type, and its bytes.
    Scalar {
        /// The element type, a number of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// The bytes, little-endian.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// An array of values.
    Array {
        /// The element type, a number of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// The number of elements.
        size: usize,
        /// The bytes of all elements, little-endian.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// A string that is valid UTF-8.
    Text(String),
    /// Any other string.
    #[serde(with = "hex")]
    Bytes(Vec<u8>),
    /// A dictionary.
    Dictionary(Attributes),
    /// A value whose kind or element type this crate does not know.
    Unknown(u32),
}

/// Serialises bytes as two hexadecimal digits each.
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
