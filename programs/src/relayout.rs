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

#[cfg(test)]
mod tests {
    use super::*;
    use xla_ffi_runtime::spec::Spec;

    #[test]
    fn there_and_back() {
        for (text, order) in [
            ("s32[2,3]=iota", vec![0, 1]),
            ("s4[2,3]=0,1,2,3,4,5", vec![0, 1]),
            ("c128[2,2,3]=iota", vec![1, 2, 0]),
            ("u8[2,3,4]=iota", vec![0, 2, 1]),
        ] {
            let tensor = Spec::parse(text).unwrap().tensor().unwrap();
            let layout = ArrayShape::with_layout(tensor.shape().clone(), order).unwrap();
            let laid_out = lay_out(&tensor, &layout).unwrap();
            assert_ne!(laid_out.bytes(), tensor.bytes(), "{text}");
            let back = row_major(&laid_out, &layout).unwrap();
            assert_eq!(back.bytes(), tensor.bytes(), "{text}");
        }
        let tensor = Spec::parse("u8[2,3]=iota").unwrap().tensor().unwrap();
        let columns = ArrayShape::with_layout(tensor.shape().clone(), [0, 1]).unwrap();
        assert_eq!(
            lay_out(&tensor, &columns).unwrap().bytes(),
            [0, 3, 1, 4, 2, 5]
        );
    }
}
