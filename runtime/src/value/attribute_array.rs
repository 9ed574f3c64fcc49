//! Arrays as attributes, whose bytes are as many as their elements take: handlers are given slices of them.

use super::DType;
use xla_ffi_sys::{Error, Result};

/// How a text writes an array. It is the same array for a handler, but hosts do not read both in all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spelling {
    /// No text has it: what fits its type.
    Either,
    /// `array<i32: 1, 2>`
    Array,
    /// `dense<[1, 2]> : tensor<2xi32>`
    Dense,
}

/// The value of an attribute that is a dense array of one dimension.
#[derive(Clone, Debug)]
pub struct AttributeArray {
    dtype: DType,
    len: usize,
    bytes: Vec<u8>,
    spelling: Spelling,
}

impl PartialEq for AttributeArray {
    /// Whether a handler is given the same.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.len == other.len && self.bytes == other.bytes
    }
}

impl AttributeArray {
    /// An array of `len` elements, of which packed ones share bytes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` where the bytes are not those of so many elements, and for tokens, which have none.
    pub fn new(dtype: DType, len: usize, bytes: Vec<u8>) -> Result<Self> {
        if dtype.bits() == 0 || dtype.bytes_for(len) != Some(bytes.len()) {
            return Err(Error::invalid_argument(format!(
                "{} bytes are not an array of {len} {dtype}",
                bytes.len()
            )));
        }
        Ok(Self::of(dtype, len, bytes))
    }

    /// The same of what is one.
    pub(crate) fn of(dtype: DType, len: usize, bytes: Vec<u8>) -> Self {
        debug_assert_eq!(dtype.bytes_for(len), Some(bytes.len()));
        Self {
            dtype,
            len,
            bytes,
            spelling: Spelling::Either,
        }
    }

    /// The same as a text has it.
    pub(crate) fn spelled(mut self, spelling: Spelling) -> Self {
        self.spelling = spelling;
        self
    }

    /// How the text has it that it comes from.
    pub(crate) fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements' bytes, in the machine's order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
