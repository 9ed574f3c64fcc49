//! What is asked for as a result.

use crate::{Shape, Tensor};

/// One result of a call that is being put together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ret {
    /// Memory of its own.
    New(Shape),
    /// The memory of an argument.
    Alias(usize),
    /// Memory of the program's, as it is.
    In(Tensor),
}

impl From<Shape> for Ret {
    fn from(shape: Shape) -> Self {
        Self::New(shape)
    }
}
