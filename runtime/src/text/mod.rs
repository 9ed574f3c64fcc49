//! Values as text and as files. This module also formats arrays as text, and abbreviates long arrays.

mod mlir;
pub mod npy;
pub mod spec;

use crate::value::{DType, Tensor};
use std::fmt;

/// The maximum number of elements of an array that is not abbreviated.
const WHOLE: usize = 64;
/// The number of elements at each end of an abbreviated dimension.
const EDGE: usize = 3;
/// The maximum number of elements in a text, for any number of dimensions: both ends of four dimensions.
const MOST: usize = 1296;

impl fmt::Display for Tensor {
    /// Formats the shape and the values, for example `f32[2,2] [[1, 2], [3, 4]]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape().fmt(f)?;
        if self.shape().dtype() == DType::Token {
            return Ok(());
        }
        f.write_str(" ")?;
        let dims: Vec<usize> = self
            .shape()
            .dims()
            .iter()
            .map(|dim| *dim as usize)
            .collect();
        // The shape of an empty array already describes the array completely.
        if self.shape().elements() == 0 {
            return f.write_str("[]");
        }
        let mut left = MOST;
        self.write(f, &dims, 0, &mut left)
    }
}

impl Tensor {
    /// Writes the elements from index `at` with these dimensions, and at most `left` elements.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        dims: &[usize],
        at: usize,
        left: &mut usize,
    ) -> fmt::Result {
        let Some((&size, inner)) = dims.split_first() else {
            *left -= 1;
            return f.write_str(&self.text(at).unwrap_or_default());
        };
        let stride: usize = inner.iter().product();
        let short = self.shape().elements() > WHOLE && size > 2 * EDGE;
        f.write_str("[")?;
        let mut index = 0;
        while index < size {
            if index > 0 {
                f.write_str(", ")?;
            }
            if *left == 0 {
                f.write_str("…")?;
                break;
            }
            if short && index == EDGE {
                f.write_str("…")?;
                index = size - EDGE;
                continue;
            }
            self.write(f, inner, at + index * stride, left)?;
            index += 1;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::spec::Spec;

    fn text(spec: &str) -> String {
        Spec::parse(spec).unwrap().tensor().unwrap().to_string()
    }

    #[test]
    fn short_long_and_empty() {
        assert_eq!(text("f32[2,2]=1,2.5,3,4"), "f32[2,2] [[1, 2.5], [3, 4]]");
        assert_eq!(text("s32[]=7"), "s32[] 7");
        assert_eq!(text("u8[100]=iota"), "u8[100] [0, 1, 2, …, 97, 98, 99]");
        assert_eq!(text("f32[0]="), "f32[0] []");
        assert_eq!(text("f32[2,0]="), "f32[2,0] []");
        assert_eq!(text("f32[1000000000,0]="), "f32[1000000000,0] []");
        assert_eq!(text("token"), "token");
    }
}
