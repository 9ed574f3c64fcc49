//! Shapes of values in programs: arrays, tokens, and nested tuples of them.

use super::{DType, Shape, Tree};
use crate::value::array_shape::ArrayShape;
use crate::value::parse::{Cursor, ParseError};
use xla_ffi_sys::Result;

/// The shape of a value of a program: an array, a token, or a tuple of shapes.
///
/// ```
/// use xla_ffi_runtime::{DType, Tree, ValueShape};
///
/// let shape = Tree::tuple([
///     ValueShape::array(DType::F32, [2, 3])?,
///     Tree::tuple([ValueShape::array(DType::S32, [])?, ValueShape::token()]),
/// ]);
/// assert_eq!(shape.to_string(), "(f32[2,3]{1,0}, (s32[], token[]))");
/// assert_eq!(ValueShape::parse("(f32[2,3], (s32[], token[]))")?, shape);
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
pub type ValueShape = Tree<ArrayShape>;

/// The maximum nesting depth of tuples. Programs nest tuples far less; at this depth, recursive parsers do not
/// exhaust the stack.
pub const MAX_DEPTH: usize = 256;

/// The maximum number of nodes of a shape. Without a limit, the size of nested tuples grows exponentially.
pub const MAX_NODES: usize = 1 << 16;

impl Tree<ArrayShape> {
    /// Returns the shape of a row-major array.
    ///
    /// # Errors
    /// The errors of [`Shape::new`].
    pub fn array(dtype: DType, dims: impl Into<Vec<i64>>) -> Result<Self> {
        Ok(Self::Leaf(ArrayShape::new(Shape::new(dtype, dims)?)))
    }

    /// Returns the shape of an array with the given layout, from minor to major dimension.
    ///
    /// # Errors
    /// The errors of [`Shape::new`] and [`ArrayShape::with_layout`].
    pub fn array_with_layout(
        dtype: DType,
        dims: impl Into<Vec<i64>>,
        minor_to_major: impl Into<Vec<usize>>,
    ) -> Result<Self> {
        let shape = Shape::new(dtype, dims)?;
        ArrayShape::with_layout(shape, minor_to_major).map(Self::Leaf)
    }

    /// Returns the shape of a token.
    #[must_use]
    pub fn token() -> Self {
        Self::Leaf(ArrayShape::new(Shape::token()))
    }

    /// Parses a shape in HLO syntax: `f32[2,3]{1,0}`, `(f32[2], (s32[], token[]))`. Arrays without a layout are
    /// row-major. Comments `/*…*/` are skipped.
    ///
    /// # Errors
    /// Syntax errors, unknown element types, layouts that are not a permutation of the dimensions, sizes that
    /// overflow, and tuples that are nested deeper than [`MAX_DEPTH`].
    pub fn parse(text: &str) -> std::result::Result<Self, ParseError> {
        let mut cursor = Cursor::new(text);
        let shape = read(&mut cursor, 0)?;
        blank(&mut cursor)?;
        match cursor.peek() {
            None => Ok(shape),
            Some(_) => Err(cursor.unexpected("the end of the shape")),
        }
    }

    /// Returns true if both shapes are equal except for layouts.
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        self.same_structure(other)
            && self
                .leaves()
                .zip(other.leaves())
                .all(|(a, b)| a.shape() == b.shape())
    }

    /// Returns true if every array is row-major.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.leaves().all(ArrayShape::is_row_major)
    }

    /// Returns the total size of all densely packed arrays in bytes, or `None` on overflow.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        self.leaves()
            .try_fold(0_usize, |sum, leaf| sum.checked_add(leaf.shape().bytes()))
    }

    /// Returns the shape with a row-major layout for every array.
    #[must_use]
    pub fn row_major(&self) -> Self {
        self.map(|leaf| ArrayShape::new(leaf.shape().clone()))
    }

    /// Returns the text of the shape without layouts, in HLO syntax.
    #[must_use]
    pub fn without_layouts(&self) -> String {
        self.map(|leaf| leaf.without_layout().to_string())
            .to_string()
    }
}

fn read(cursor: &mut Cursor<'_>, depth: usize) -> std::result::Result<ValueShape, ParseError> {
    blank(cursor)?;
    if !cursor.rest().starts_with('(') {
        return ArrayShape::read(cursor).map(Tree::Leaf);
    }
    if depth == MAX_DEPTH {
        let message = format!("tuples nest deeper than {MAX_DEPTH}");
        return Err(cursor.error(cursor.at..cursor.at + 1, message));
    }
    cursor.expect("(", "before a tuple's elements")?;
    let mut elements = vec![];
    blank(cursor)?;
    if cursor.eat(")") {
        return Ok(Tree::tuple(elements));
    }
    loop {
        elements.push(read(cursor, depth + 1)?);
        blank(cursor)?;
        if cursor.eat(")") {
            return Ok(Tree::tuple(elements));
        }
        cursor.expect(",", "or ')' after an element of a tuple")?;
    }
}

/// Skips white space and comments.
fn blank(cursor: &mut Cursor<'_>) -> std::result::Result<(), ParseError> {
    cursor.skip_space();
    while cursor.rest().starts_with("/*") {
        let Some(length) = cursor.rest().find("*/") else {
            return Err(cursor.error(cursor.at..cursor.at + 2, "the comment has no end"));
        };
        cursor.at += length + 2;
        cursor.skip_space();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "f32[2,3]{1,0}",
            "f32[2,3]{0,1}",
            "pred[]",
            "token[]",
            "()",
            "(f32[2]{0}, (s32[], token[]))",
            "((()), s4[3]{0}, c128[0,2,1]{1,2,0})",
        ] {
            let shape = ValueShape::parse(text).unwrap();
            assert_eq!(shape.to_string(), text);
        }
        for (text, same) in [
            (" ( f32[2] , /*index=1*/ token )", "(f32[2]{0}, token[])"),
            ("f32[2,3]", "f32[2,3]{1,0}"),
            ("bf16[1]{0}/**/", "bf16[1]{0}"),
        ] {
            assert_eq!(ValueShape::parse(text).unwrap().to_string(), same);
        }
    }

    #[test]
    fn texts_are_refused() {
        let deep = "(".repeat(1_000_000);
        for text in [
            "",
            "f33[2]",
            "f32",
            "f32[2",
            "f32[-1]",
            "f32[99999999999999999999]",
            "f32[2,3]{1,1}",
            "f32[2]{0:T(8)}",
            "token[1]",
            "f32[2])",
            "/*",
            deep.as_str(),
        ] {
            assert!(ValueShape::parse(text).is_err());
        }
    }
}
