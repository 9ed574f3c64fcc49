//! Array attributes. The buffer of each array has exactly the size of its elements, because handlers receive slices
//! of it.

use super::DType;
use xla_ffi_sys::{Error, Result};

/// The MLIR syntax of an array. Handlers receive the same array in both cases, but some hosts reject one of the
/// forms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spelling {
    /// The array was not parsed from text. It is written in the form that hosts accept for its type.
    Either,
    /// The form `array<i32: 1, 2>`.
    Array,
    /// The form `dense<[1, 2]> : tensor<2xi32>`.
    Dense,
}

/// The value of an attribute that is a dense, one-dimensional array.
#[derive(Clone, Debug)]
pub struct AttributeArray {
    dtype: DType,
    len: usize,
    bytes: Vec<u8>,
    spelling: Spelling,
}

impl PartialEq for AttributeArray {
    /// Returns true if handlers receive the same array. The MLIR syntax of the arrays may differ.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.len == other.len && self.bytes == other.bytes
    }
}

impl AttributeArray {
    /// Returns an array of `len` elements. Elements of less than a byte are packed.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `bytes` does not have the size of `len` elements, and for tokens, which have no
    /// elements.
    pub fn new(dtype: DType, len: usize, bytes: Vec<u8>) -> Result<Self> {
        if dtype.bits() == 0 || dtype.bytes_for(len) != Some(bytes.len()) {
            return Err(Error::invalid_argument(format!(
                "{} bytes are not an array of {len} {dtype}",
                bytes.len()
            )));
        }
        Ok(Self::of(dtype, len, bytes))
    }

    /// Returns an array without a check of the number of bytes, which the caller must have checked.
    pub(crate) fn of(dtype: DType, len: usize, bytes: Vec<u8>) -> Self {
        debug_assert_eq!(dtype.bytes_for(len), Some(bytes.len()));
        Self {
            dtype,
            len,
            bytes,
            spelling: Spelling::Either,
        }
    }

    /// Returns the array with the MLIR syntax from which it was parsed.
    pub(crate) fn spelled(mut self, spelling: Spelling) -> Self {
        self.spelling = spelling;
        self
    }

    /// Returns the MLIR syntax from which the array was parsed.
    pub(crate) fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of all elements, in native byte order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
