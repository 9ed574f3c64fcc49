//! Shapes of arrays: an element type, and dimensions whose product cannot overflow.

use super::DType;
use smallvec::SmallVec;
use std::fmt;
use xla_ffi_sys::{Error, Result};

/// Dimensions, stored without an allocation for up to six dimensions.
type Dims = SmallVec<[i64; 6]>;

/// The element type and the dimensions of a dense row-major array.
///
/// ```
/// use xla_ffi_runtime::{DType, Shape};
///
/// let shape = Shape::new(DType::BF16, [2, 3])?;
/// assert_eq!((shape.elements(), shape.bytes()), (6, 12));
/// assert_eq!(shape.to_string(), "bf16[2,3]");
/// assert!(Shape::new(DType::F32, [-1]).is_err());
/// assert!(Shape::new(DType::F32, [i64::MAX, 2]).is_err());
/// assert_eq!(Shape::token().dtype(), DType::Token);
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    dtype: DType,
    dims: Dims,
    elements: usize,
    bytes: usize,
}

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            // `from_slice` copies all dimensions together; the derived `Clone` would copy them one by one.
            dims: Dims::from_slice(&self.dims),
            ..*self
        }
    }
}

impl Shape {
    /// The maximum number of dimensions of an array. NumPy's limit is 64. Shapes with thousands of dimensions are
    /// mistakes and would make all later operations slow.
    pub const MAX_RANK: usize = 1024;

    /// Returns a shape with the given element type and dimensions.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative dimension, more than [`Shape::MAX_RANK`] dimensions, a token with
    /// dimensions, or an array that is larger than the address space.
    pub fn new(dtype: DType, dims: impl Into<Vec<i64>>) -> Result<Self> {
        let dims = Dims::from_vec(dims.into());
        if dims.len() > Self::MAX_RANK {
            return Err(Error::invalid_argument(format!(
                "{} dimensions; an array has {} at most",
                dims.len(),
                Self::MAX_RANK
            )));
        }
        if dtype == DType::Token && !dims.is_empty() {
            return Err(Error::invalid_argument("a token has no dimensions"));
        }
        let too_large = || {
            Error::invalid_argument(format!(
                "{} is too large: its size overflows",
                Text(dtype, &dims)
            ))
        };
        let mut elements = 1_usize;
        let mut has_zero = false;
        for (axis, &dim) in dims.iter().enumerate() {
            let dim = usize::try_from(dim).map_err(|_| {
                Error::invalid_argument(format!(
                    "dimension {axis} is {dim}; dimensions are not negative"
                ))
            })?;
            has_zero |= dim == 0;
            // A dimension of 0 counts as 1, because the strides of the other dimensions must not overflow.
            elements = elements.checked_mul(dim.max(1)).ok_or_else(too_large)?;
        }
        if has_zero {
            elements = 0;
        }
        let bytes = dtype.bytes_for(elements).ok_or_else(too_large)?;
        if bytes > isize::MAX as usize - 4096 {
            return Err(too_large());
        }
        Ok(Self {
            dtype,
            dims,
            elements,
            bytes,
        })
    }

    /// Returns the shape of a token.
    #[must_use]
    pub fn token() -> Self {
        Self {
            dtype: DType::Token,
            dims: Dims::new(),
            elements: 1,
            bytes: 0,
        }
    }

    /// Returns the element type.
    #[inline]
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions.
    #[inline]
    #[must_use]
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Returns the number of elements of the array.
    #[inline]
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the size of the array in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

struct Text<'a>(DType, &'a [i64]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())?;
        if self.0 == DType::Token {
            return Ok(());
        }
        f.write_str("[")?;
        for (index, dim) in self.1.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text(self.dtype, &self.dims).fmt(f)
    }
}
