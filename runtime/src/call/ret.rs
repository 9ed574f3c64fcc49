//! What is asked for as a result.

use crate::{Error, Result, Shape, Tensor};

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

/// The bytes of a tensor in whose memory result `number` is to lie, refused where others would see them change.
pub(super) fn bytes_to_write(tensor: &mut Tensor, number: usize) -> Result<&mut [u8]> {
    tensor.bytes_mut().ok_or_else(|| {
        Error::invalid(format!(
            "result {number} is to lie in a tensor that has clones or is read-only; only another can be written"
        ))
    })
}
