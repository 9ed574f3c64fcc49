//! Arrays in another order of dimensions.

use super::ArrayShape;
use xla_ffi_runtime::scalar_codec::{load, store};
use xla_ffi_runtime::{Result, Shape, Tensor};

/// The bytes of a row-major array in the order of `layout`; the dimensions stay what they are.
pub(super) fn lay_out(tensor: &Tensor, layout: &ArrayShape) -> Result<Tensor> {
    permuted(tensor, layout, |row_major, laid_out| (row_major, laid_out))
}

/// The row-major array whose bytes lie in the order of `layout`.
pub(super) fn row_major(tensor: &Tensor, layout: &ArrayShape) -> Result<Tensor> {
    permuted(tensor, layout, |row_major, laid_out| (laid_out, row_major))
}

/// Copies elements between their places in both orders; `way` gives (from, to).
fn permuted(
    tensor: &Tensor,
    layout: &ArrayShape,
    way: impl Fn(usize, usize) -> (usize, usize),
) -> Result<Tensor> {
    if layout.is_row_major() || tensor.shape().elements() == 0 {
        return Ok(tensor.clone());
    }
    let shape: &Shape = tensor.shape();
    let mut strides = vec![1; shape.dims().len()];
    let mut stride = 1;
    for &dim in layout.minor_to_major() {
        strides[dim] = stride;
        stride *= shape.dims()[dim] as usize;
    }
    let mut bytes = vec![0; shape.bytes()];
    let mut index = vec![0_usize; strides.len()];
    for row_major in 0..shape.elements() {
        let laid_out = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        let (from, to) = way(row_major, laid_out);
        let element = load(tensor.bytes(), shape.dtype(), from);
        store(&mut bytes, shape.dtype(), to, element);
        for (i, &dim) in index.iter_mut().zip(shape.dims()).rev() {
            *i += 1;
            if *i < dim as usize {
                break;
            }
            *i = 0;
        }
    }
    Tensor::from_bytes(shape.clone(), &bytes)
}
