//! The data of a recorded call, with its attributes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xla_ffi_sys::{ELEMENT_TYPES, XLA_FFI_DataType};

/// A call, as its host made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The number of the call in the recording, from 1, in the order in which calls started.
    pub number: u64,
    /// The path of the handler's library.
    pub library: String,
    /// The handler's name.
    pub handler: String,
    /// The symbols of the handler's stages, by stage.
    pub stages: BTreeMap<String, String>,
    /// The stage of the call: `instantiate`, `prepare`, `initialize`, `execute`.
    pub stage: String,
    /// The host's name, for example `jaxlib 0.12.0`.
    pub host: String,
    /// The host's revision of the ABI, for example 0 for r0.
    pub revision: u8,
    /// The id of the host's process.
    pub process: u32,
    /// The values in the context of the call.
    pub context: Context,
    /// The attributes of the call.
    pub attributes: Attributes,
    /// The arguments of the call.
    pub args: Vec<Operand>,
    /// The results of the call.
    pub rets: Vec<Operand>,
}

impl Call {
    /// Returns a short description of the call: number, handler and stage.
    #[must_use]
    pub fn title(&self) -> String {
        // A name in a file may contain line breaks, which could make the rest of the name look like output of the
        // program.
        let (handler, stage) = (self.handler.escape_debug(), self.stage.escape_debug());
        format!("call {}, {handler} ({stage})", self.number)
    }
}

/// The values in the context of a call that the host's revision supports and the stage may request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The run id of the execution.
    pub run_id: Option<i64>,
    /// The device ordinal, the device's global number.
    pub device_ordinal: Option<i32>,
    /// The number of threads in the thread pool.
    pub threads: Option<i64>,
    /// The custom options of the execution.
    pub custom_options: Option<Attributes>,
}

/// An argument or a result of a recorded call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// The element type, as a number of [`XLA_FFI_DataType`].
    pub dtype: u32,
    /// The dimensions of the operand.
    pub dims: Vec<i64>,
    /// For a result, the index of the argument whose memory it shares; `None` for arguments and for results with
    /// different memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<usize>,
    /// Whether the file contains the operand's bytes. The bytes of results are only kept if the call succeeded.
    pub data: Data,
}

/// Whether a file contains the bytes of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// The file contains the operand's bytes. The value is their number.
    Kept(u64),
    /// The bytes are omitted because the recording reached its limit.
    Limit,
    /// The bytes are omitted because the host reports no element type, so that their number is unknown.
    Untyped,
    /// The bytes are omitted because the host passes no address.
    Absent,
}

/// The state of an instantiate stage that a later call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The number of the call whose instantiate stage set the state; `None` if this call was before the recording.
    pub instance: Option<u64>,
}

/// The end of a call, with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The outcome of the call.
    pub outcome: Outcome,
    /// Whether the call ended when the future that the handler returned was completed.
    pub later: bool,
}

/// The outcome of a recorded call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler succeeded.
    Done,
    /// The handler returned an error.
    Error {
        /// The error code. Hosts before r9 do not report the code to handlers.
        code: Option<u32>,
        /// The error message.
        message: String,
    },
    /// An exception or a panic left the handler.
    Unwound,
    /// The outcome and the results are unknown, because the host function that completes the future could not be
    /// watched.
    Unwatched,
}

/// Returns the size of an array in bytes. Returns `None` if the element type is unknown, a dimension is negative, or
/// the size overflows.
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

/// The names and values of attributes, in the host's order.
pub type Attributes = Vec<(String, Value)>;

/// The value of an attribute of a recorded call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A scalar, as the number of its type and its bytes.
    Scalar {
        /// The element type, as a number of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// The bytes of the value, little-endian.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// An array of scalars.
    Array {
        /// The element type, as a number of [`XLA_FFI_DataType`](xla_ffi_sys::XLA_FFI_DataType).
        dtype: u32,
        /// The number of elements.
        size: usize,
        /// The bytes of all elements, little-endian.
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    },
    /// A string that is valid UTF-8.
    Text(String),
    /// A string that is not valid UTF-8.
    #[serde(with = "hex")]
    Bytes(Vec<u8>),
    /// A nested dictionary.
    Dictionary(Attributes),
    /// A value of a kind or element type that this crate does not support.
    Unknown(u32),
}

/// Serialises bytes as text, with two hexadecimal digits per byte.
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
