//! Conversions between tensors and arrays of the crate `ndarray`, without copies if possible.

use super::{Element, Tensor};
use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension, IxDyn};
use xla_ffi_sys::{Error, Result};

fn dims(tensor: &Tensor) -> IxDyn {
    // The cast is lossless because the dimensions of a shape are never negative.
    let dims = tensor.shape().dims().iter();
    IxDyn(&dims.map(|dim| *dim as usize).collect::<Vec<_>>())
}

impl Tensor {
    /// Returns a view of the elements as an `ndarray` array, or `None` if the element type is not `T`. Requires the
    /// feature `ndarray`.
    ///
    /// ```
    /// use ndarray::array;
    /// use xla_ffi_runtime::Tensor;
    ///
    /// let mut x = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]])?;
    /// if let Some(mut x) = x.view_mut::<f32>() {
    ///     x[[0, 1]] = 0.5;
    /// }
    /// assert_eq!(x.view(), Some(array![[1.0_f32, 0.5], [3.0, 4.0]].view().into_dyn()));
    /// assert!(x.view::<i32>().is_none());
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        ArrayViewD::from_shape(dims(self), self.as_slice()?).ok()
    }

    /// Returns a mutable view of the elements as an `ndarray` array. Returns `None` if the element type is not `T` or
    /// if a clone of the tensor shares the elements. Requires the feature `ndarray`.
    #[must_use]
    pub fn view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        let dims = dims(self);
        ArrayViewMutD::from_shape(dims, self.as_mut_slice()?).ok()
    }

    /// Returns a tensor with the elements of an `ndarray` array. Requires the feature `ndarray`.
    ///
    /// A row-major array is not copied, unless [`Tensor::from_vec`] copies its vector.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if [`Shape`](crate::Shape) rejects the dimensions.
    pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>) -> Result<Self> {
        let dims = array.shape().iter().map(|dim| i64::try_from(*dim));
        let dims: Vec<i64> = dims
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| Error::invalid_argument("a dimension is too large"))?;
        if !array.is_standard_layout() {
            return Self::from_vec(dims, array.iter().copied().collect());
        }
        let count = array.len();
        let (mut elements, offset) = array.into_raw_vec_and_offset();
        // The array may be a part of a larger vector, so the elements before the part are removed.
        elements.drain(..offset.unwrap_or(0));
        elements.truncate(count);
        Self::from_vec(dims, elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, Axis, s};

    #[test]
    fn arrays_are_taken_in_place_and_others_in_order() {
        let large = Array2::<f64>::from_shape_fn((300, 200), |(i, j)| (200 * i + j) as f64);
        let start = large.as_ptr();
        let same = large.clone();
        let tensor = Tensor::from_array(large).unwrap();
        assert_eq!(tensor.as_slice::<f64>().map(<[f64]>::as_ptr), Some(start));
        assert_eq!(tensor.view::<f64>().unwrap(), same.view().into_dyn());
        let turned = same.clone().reversed_axes();
        let tensor = Tensor::from_array(turned.clone()).unwrap();
        assert_eq!(tensor.view::<f64>().unwrap(), turned.view().into_dyn());
        let mut part = same.clone();
        part.slice_collapse(s![10..20, ..]);
        let tensor = Tensor::from_array(part.clone()).unwrap();
        assert_eq!(tensor.view::<f64>().unwrap(), part.view().into_dyn());
        let empty = Tensor::from_array(Array2::<f32>::zeros((0, 3))).unwrap();
        assert_eq!(empty.view::<f32>().unwrap().len_of(Axis(1)), 3);
    }
}
