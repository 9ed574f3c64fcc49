//! What is recorded of a call, its attributes among it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xla_ffi_sys::{ELEMENT_TYPES, XLA_FFI_DataType};

/// A call as its host made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its place among the calls of the recording, from 1, by the moment at which it began.
    pub number: u64,
    /// The file of the handler's library.
    pub library: String,
    /// The handler's name.
    pub handler: String,
    /// The symbol of each of its stages.
    pub stages: BTreeMap<String, String>,
    /// The stage that is called: `instantiate`, `prepare`, `initialize`, `execute`.
    pub stage: String,
    /// The host's name, `jaxlib 0.12.0` for instance.
    pub host: String,
    /// Its revision of the ABI: 0 for r0.
    pub revision: u8,
    /// Number of the process.
    pub process: u32,
    /// What the host's context says.
    pub context: Context,
    /// The attributes.
    pub attributes: Attributes,
    /// The arguments.
    pub args: Vec<Operand>,
    /// The results.
    pub rets: Vec<Operand>,
}

impl Call {
    /// The call in a few words.
    #[must_use]
    pub fn title(&self) -> String {
        // Names from a file may hold line breaks, of which a reader would take what follows for our own words.
        let (handler, stage) = (self.handler.escape_debug(), self.stage.escape_debug());
        format!("call {}, {handler} ({stage})", self.number)
    }
}

/// What the context of a call says, as far as the host's revision has it and the stage may ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The number of the execution.
    pub run_id: Option<i64>,
    /// The device's global number.
    pub device_ordinal: Option<i32>,
    /// Threads of the pool.
    pub threads: Option<i64>,
    /// The options of the execution.
    pub custom_options: Option<Attributes>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operand {
    /// Of [`XLA_FFI_DataType`].
    pub dtype: u32,
    /// Its dimensions.
    pub dims: Vec<i64>,
    /// For a result: the argument in whose memory it lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<usize>,
    /// Whether its bytes are in the file. Those of results are there if the call ended well.
    pub data: Data,
}

/// Whether the bytes of an operand are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// They are: so many.
    Kept(u64),
    /// They are not: the recording had reached its limit.
    Limit,
    /// They are not: how many there are cannot be told, since the host does not name the element type.
    Untyped,
    /// They are not: the host gives no address.
    Absent,
}

/// The state that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The call whose instantiation left it; none for one from before the recording.
    pub instance: Option<u64>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// What came of it.
    pub outcome: Outcome,
    /// Whether the handler had returned a future, whose completion this is.
    pub later: bool,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It went well.
    Done,
    /// The handler's error.
    Error {
        /// Its code; hosts before r9 do not tell it.
        code: Option<u32>,
        /// Its text.
        message: String,
    },
    /// An exception or a panic left the handler.
    Unwound,
    /// The future is completed by a function of the host that could not be watched: what the results
    /// are is not known.
    Unwatched,
}

/// Bytes of an array; `None` where the type is unknown, a dimension negative, or the product too large.
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
