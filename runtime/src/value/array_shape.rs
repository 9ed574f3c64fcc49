//! Array shapes with a layout: element type, dimensions, and the order of the dimensions in memory.

use super::{DType, Shape};
use crate::value::parse::{Cursor, ParseError};
use std::fmt;
use xla_ffi_sys::{Error, Result};

/// The shape of an array with a layout, or of a token: element type, dimensions and layout.
///
/// The layout lists the dimensions from minor to major, that is, the most contiguous dimension first: A row-major
/// matrix has the layout `{1,0}`, a column-major matrix `{0,1}`. The layout describes the order of the elements in
/// memory and does not change the dimensions.
///
/// ```
/// use xla_ffi_runtime::ArrayShape;
/// use xla_ffi_runtime::{DType, Shape};
///
/// let columns = ArrayShape::with_layout(Shape::new(DType::F32, [2, 3])?, [0, 1])?;
/// assert_eq!(columns.to_string(), "f32[2,3]{0,1}");
/// assert!(!columns.is_row_major());
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    shape: Shape,
    minor_to_major: Vec<usize>,
}

impl ArrayShape {
    /// Returns the shape of an array in row-major order.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let minor_to_major = (0..shape.dims().len()).rev().collect();
        Self {
            shape,
            minor_to_major,
        }
    }

    /// Returns the shape of an array with the given layout, from minor to major dimension.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `minor_to_major` does not contain each dimension exactly once.
    pub fn with_layout(shape: Shape, minor_to_major: impl Into<Vec<usize>>) -> Result<Self> {
        let minor_to_major = minor_to_major.into();
        let mut seen = minor_to_major.clone();
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..shape.dims().len()) {
            return Err(Error::invalid_argument(format!(
                "layout {} does not name each of the {} dimensions of {shape} once",
                Indices(&minor_to_major),
                shape.dims().len()
            )));
        }
        Ok(Self {
            shape,
            minor_to_major,
        })
    }

    /// Returns the element type and the dimensions.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.shape.dtype()
    }

    /// Returns the dimensions.
    #[must_use]
    pub fn dims(&self) -> &[i64] {
        self.shape.dims()
    }

    /// Returns the layout, from minor to major dimension.
    #[must_use]
    pub fn minor_to_major(&self) -> &[usize] {
        &self.minor_to_major
    }

    /// Returns true if the layout is row-major: the last dimension is the most minor, then the dimension
    /// before it, and so on.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.minor_to_major
            .iter()
            .copied()
            .eq((0..self.minor_to_major.len()).rev())
    }

    /// Returns true if the shape is that of a token.
    #[must_use]
    pub fn is_token(&self) -> bool {
        self.dtype() == DType::Token
    }

    /// Returns true if the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.elements() == 0
    }

    /// Displays the element type and the dimensions without the layout, as in HLO text.
    pub(crate) fn without_layout(&self) -> impl fmt::Display + '_ {
        struct Bare<'a>(&'a Shape);
        impl fmt::Display for Bare<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)?;
                if self.0.dtype() == DType::Token {
                    f.write_str("[]")?;
                }
                Ok(())
            }
        }
        Bare(&self.shape)
    }

    /// Parses a shape such as `f32[2,3]{1,0}`. An array without a layout is row-major.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> std::result::Result<Self, ParseError> {
        let start = cursor.at;
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric());
        let Some(dtype) = DType::from_name(name).filter(|dtype| dtype.name() == name) else {
            cursor.at = start;
            return Err(match name {
                "" => cursor.unexpected("a shape, f32[2,3] or (f32[2], s32[]) for instance"),
                _ => cursor.error(
                    start..start + name.len(),
                    format!("'{name}' is not an element type"),
                ),
            });
        };
        let dims = if cursor.rest().starts_with('[') {
            list(cursor, "[", "]", "a dimension")?
        } else if dtype == DType::Token {
            vec![]
        } else {
            return Err(cursor.unexpected("'[' after an element type"));
        };
        let named = start..cursor.at;
        let shape = Shape::new(dtype, dims)
            .map_err(|error| cursor.error(named, error.message().to_owned()))?;
        if !cursor.rest().starts_with('{') {
            return Ok(Self::new(shape));
        }
        let at = cursor.at;
        let order = list(cursor, "{", "}", "a dimension's number")?;
        let order: Vec<_> = order.into_iter().map(|n| n as usize).collect();
        Self::with_layout(shape, order)
            .map_err(|error| cursor.error(at..cursor.at, error.message().to_owned()))
    }
}

/// Parses a list of natural numbers in brackets.
fn list(
    cursor: &mut Cursor<'_>,
    open: &str,
    close: &str,
    what: &str,
) -> std::result::Result<Vec<i64>, ParseError> {
    cursor.expect(open, "before a list")?;
    let mut numbers = vec![];
    if cursor.eat(close) {
        return Ok(numbers);
    }
    loop {
        cursor.skip_space();
        let start = cursor.at;
        let digits = cursor.take_while(|c| c.is_ascii_digit());
        let number = digits.parse().map_err(|_| match digits {
            "" => cursor.unexpected(&format!("{what}, which is not a bound")),
            _ => cursor.error(start..cursor.at, format!("{digits} is too large")),
        })?;
        numbers.push(number);
        if cursor.eat(close) {
            return Ok(numbers);
        }
        if cursor.peek() == Some(':') {
            let what = "tiles, element sizes and memory spaces are not understood";
            return Err(cursor.error(cursor.at..cursor.at + 1, what));
        }
        cursor.expect(",", &format!("or '{close}' after {what}"))?;
    }
}

/// Displays indices as HLO text does in layouts and in paths through tuples: `{}`, `{1,0}`.
pub struct Indices<'a>(pub &'a [usize]);

impl fmt::Display for Indices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, dim) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for ArrayShape {
    /// Formats the shape as in HLO text: `f32[2,3]{1,0}`, `pred[]`, `token[]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.without_layout().fmt(f)?;
        if self.minor_to_major.is_empty() {
            return Ok(());
        }
        Indices(&self.minor_to_major).fmt(f)
    }
}

impl From<Shape> for ArrayShape {
    fn from(shape: Shape) -> Self {
        Self::new(shape)
    }
}
