//! Shapes: an element type and dimensions, with sizes that cannot overflow.

use super::DType;
use smallvec::SmallVec;
use std::fmt;
use xla_ffi_sys::{Error, Result};

/// As many as most arrays have, in place.
type Dims = SmallVec<[i64; 6]>;

/// Element type and dimensions of a dense row-major array.
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
            // A copy of the whole, where a derived one goes from number to number.
            dims: Dims::from_slice(&self.dims),
            ..*self
        }
    }
}

impl Shape {
    /// As many dimensions as an array may have here. Numpy's arrays have 64 at most; shapes of
    /// thousands come from mistakes alone, and every later step would take long over them.
    pub const MAX_RANK: usize = 1024;

    /// A shape.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative dimension, more than [`Shape::MAX_RANK`] of them, a token
    /// with dimensions, and a size that does not fit into memory addresses.
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
            // A zero elsewhere does not excuse an overflow: strides would overflow all the same.
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

    /// The shape of a token.
    #[must_use]
    pub fn token() -> Self {
        Self {
            dtype: DType::Token,
            dims: Dims::new(),
            elements: 1,
            bytes: 0,
        }
    }

    /// The element type.
    #[inline]
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    #[inline]
    #[must_use]
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// How many elements there are.
    #[inline]
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// How many bytes they take.
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
