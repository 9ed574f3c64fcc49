//! Methods that return operands as arrays of the crate `ndarray`.

use std::mem::MaybeUninit;

use crate::error::{Error, Result};
use crate::frame::element::Element;
use crate::operand::buffer::Buffer;
use crate::operand::inout::InOut;
use crate::operand::out::Out;
use ndarray::{
    ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Dim, Dimension, IntoDimension, Ix, IxDyn,
};

fn too_large(error: ndarray::ShapeError) -> Error {
    Error::out_of_range(format!("the shape is too large for `ndarray`: {error}"))
}

fn fixed<const RANK: usize>(dims: &[usize]) -> [usize; RANK] {
    const {
        assert!(
            RANK != crate::frame::element::ANY_RANK,
            "`view` needs a fixed rank; `view_dyn` takes any"
        );
    };
    let mut shape = [0; RANK];
    shape.copy_from_slice(dims);
    shape
}

impl<'f, T: Element, const RANK: usize> Buffer<'f, T, RANK> {
    /// Returns the elements as an array of the buffer's rank, up to 6. Requires the feature
    /// `ndarray`.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler(shape = "n k, k m -> n m")]
    /// fn product(a: Buffer<f64, 2>, b: Buffer<f64, 2>, mut y: Out<f64, 2>) -> Result<()> {
    ///     let product = a.view()?.dot(&b.view()?);
    ///     y.write_iter(product)
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<product>("{}")?
    ///     .arg(Tensor::from_slice([1, 2], &[1.0, 2.0])?)
    ///     .arg(Tensor::from_slice([2, 1], &[3.0, 4.0])?)
    ///     .ret(Shape::new(DType::F64, [1, 1])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![11.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view(&self) -> Result<ArrayView<'f, T, Dim<[Ix; RANK]>>>
    where
        [Ix; RANK]: IntoDimension<Dim = Dim<[Ix; RANK]>>,
        Dim<[Ix; RANK]>: Dimension,
    {
        ArrayView::from_shape(fixed::<RANK>(self.dims()).into_dimension(), self.as_slice())
            .map_err(too_large)
    }

    /// Returns the elements as an array of any rank. Requires the feature `ndarray`.
    ///
    /// ```
    /// use ndarray::Axis;
    /// use xla_ffi::prelude::*;
    ///
    /// /// Sums over the first dimension.
    /// #[xla_ffi::handler(shape = "_ ... -> ...")]
    /// fn sum_first(x: Buffer<f64>, mut y: Out<f64>) -> Result<()> {
    ///     let sums = x.view_dyn()?.sum_axis(Axis(0));
    ///     for (index, y) in y.view_uninit_dyn()?.indexed_iter_mut() {
    ///         y.write(sums[index]);
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<sum_first>("{}")?
    ///     .arg(Tensor::from_slice([2, 2], &[1.0, 2.0, 3.0, 4.0])?)
    ///     .ret(Shape::new(DType::F64, [2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![4.0, 6.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view_dyn(&self) -> Result<ArrayViewD<'f, T>> {
        ArrayView::from_shape(IxDyn(self.dims()), self.as_slice()).map_err(too_large)
    }
}

impl<T: Element, const RANK: usize> Out<'_, T, RANK> {
    /// Returns the uninitialized elements as an array of the result's rank, up to 6. Requires the
    /// feature `ndarray`.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler(shape = "n m -> m n")]
    /// fn transpose(x: Buffer<f32, 2>, mut y: Out<f32, 2>) -> Result<()> {
    ///     let x = x.view()?;
    ///     for ((row, column), y) in y.view_uninit()?.indexed_iter_mut() {
    ///         y.write(x[[column, row]]);
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape, Tensor};
    /// let call = embed::call::<transpose>("{}")?
    ///     .arg(Tensor::from_slice([1, 2], &[1.0_f32, 2.0])?)
    ///     .ret(Shape::new(DType::F32, [2, 1])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![1.0_f32, 2.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view_uninit(&mut self) -> Result<ArrayViewMut<'_, MaybeUninit<T>, Dim<[Ix; RANK]>>>
    where
        [Ix; RANK]: IntoDimension<Dim = Dim<[Ix; RANK]>>,
        Dim<[Ix; RANK]>: Dimension,
    {
        let shape = fixed::<RANK>(self.dims()).into_dimension();
        ArrayViewMut::from_shape(shape, self.as_uninit()).map_err(too_large)
    }

    /// Returns the uninitialized elements as an array of any rank. Requires the feature `ndarray`.
    ///
    /// ```
    /// use ndarray::Dimension;
    /// use xla_ffi::prelude::*;
    ///
    /// /// Each element is the sum of its indices.
    /// #[xla_ffi::handler]
    /// fn indices(mut y: Out<u64>) -> Result<()> {
    ///     for (index, y) in y.view_uninit_dyn()?.indexed_iter_mut() {
    ///         y.write(index.as_array_view().sum() as u64);
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// let call = embed::call::<indices>("{}")?.ret(Shape::new(DType::U64, [2, 2])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0_u64, 1, 1, 2]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view_uninit_dyn(&mut self) -> Result<ArrayViewMutD<'_, MaybeUninit<T>>> {
        let shape = IxDyn(self.dims());
        ArrayViewMut::from_shape(shape, self.as_uninit()).map_err(too_large)
    }
}

impl<T: Element, const RANK: usize> InOut<'_, T, RANK> {
    /// Returns the elements as a mutable array of the operand's rank, up to 6. Requires the feature
    /// `ndarray`.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// #[xla_ffi::handler]
    /// fn clear(mut matrix: InOut<f32, 2>, mut rest: InOut<f32>) -> Result<()> {
    ///     matrix.view_mut()?.diag_mut().fill(0.0);
    ///     rest.view_mut_dyn()?.fill(0.0); // any rank
    ///     Ok(())
    /// }
    ///
    /// # use xla_ffi::embed::{self, Tensor};
    /// let call = embed::call::<clear>("{}")?
    ///     .arg(Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?)
    ///     .arg(Tensor::from_slice([1], &[5.0_f32])?)
    ///     .ret_alias(0)
    ///     .ret_alias(1);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![0.0_f32, 2.0, 3.0, 0.0]));
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view_mut(&mut self) -> Result<ArrayViewMut<'_, T, Dim<[Ix; RANK]>>>
    where
        [Ix; RANK]: IntoDimension<Dim = Dim<[Ix; RANK]>>,
        Dim<[Ix; RANK]>: Dimension,
    {
        let shape = fixed::<RANK>(self.dims()).into_dimension();
        ArrayViewMut::from_shape(shape, self).map_err(too_large)
    }

    /// Returns the elements as a mutable array of any rank. Requires the feature `ndarray`.
    ///
    /// # Errors
    /// [`ErrorCode::OutOfRange`](crate::ErrorCode::OutOfRange) if the product of the nonzero
    /// dimensions exceeds the address space.
    pub fn view_mut_dyn(&mut self) -> Result<ArrayViewMutD<'_, T>> {
        let shape = IxDyn(self.dims());
        ArrayViewMut::from_shape(shape, self).map_err(too_large)
    }
}
